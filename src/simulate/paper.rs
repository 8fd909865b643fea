//! The arguments of a stack's call, as each kind of witness writes them down.

use std::hash::{Hash, Hasher};

use rustc_hash::FxHasher;

use super::act::Tool;
use super::actor::Actor;
use super::dice::Dice;
use super::line::Object;
use super::truth::{ArgKeys, ArgsShown};

/// Strings longer than this may be logged as their length.
const LONG_CHARS: usize = 100;
/// What every agent looks at: calls with these are not told apart by their arguments.
const COMMON: [&str; 8] = [
    "README.md",
    "docs/index.md",
    "notes/today.md",
    "plans/roadmap.md",
    "src/main.py",
    "src/config.toml",
    "CHANGELOG.md",
    "tasks/open.md",
];
const FOLDERS: [&str; 6] = ["notes", "docs", "plans", "src", "tasks", "archive"];
const STATUSES: [&str; 4] = ["open", "waiting", "solved", "any"];
const TEMPLATES: [&str; 3] = ["reply", "closing", "reminder"];
const WORDS: [&str; 12] = [
    "invoice", "late", "shipment", "address", "renewal", "password", "meeting", "refund",
    "contract", "printer", "holiday", "update",
];

/// One call's arguments as they are logged.
#[derive(Default)]
pub(super) struct Paper {
    /// As a client logs them.
    pub(super) client: String,
    pub(super) client_shows: ArgsShown,
    /// As the server logs them.
    pub(super) server: String,
    pub(super) server_shows: ArgsShown,
    /// The names whose values the server does not show.
    pub(super) dropped: &'static [&'static str],
    /// All names.
    pub(super) names: &'static [&'static str],
    pub(super) keys: ArgKeys,
}

/// A value, and who sees it.
struct Value {
    name: &'static str,
    text: String,
    /// The server of many tenants shows it.
    is_listed: bool,
}

impl Paper {
    pub(super) fn new(actor: &mut Actor, tool: Tool, client_summarises: bool) -> Self {
        let values = values(actor, tool);
        let names = names(tool);
        let dropped = dropped(tool);
        let is_long = values.iter().any(|value| value.text.chars().count() > LONG_CHARS);
        let shown = |summarised: bool| {
            if summarised && is_long { ArgsShown::Summarised } else { ArgsShown::Full }
        };
        let listed = |value: &&Value| value.is_listed;
        let has_tenants = !dropped.is_empty() || matches!(tool, Tool::OpenCase);
        let (server, server_shows) = if has_tenants {
            let level = if dropped.is_empty() { ArgsShown::Full } else { ArgsShown::Partial };
            (object(values.iter().filter(listed), false), level)
        } else {
            (object(values.iter(), !client_summarises), shown(!client_summarises))
        };
        Self {
            client: object(values.iter(), client_summarises),
            client_shows: shown(client_summarises),
            server,
            server_shows,
            dropped,
            names,
            keys: ArgKeys {
                partial: key(values.iter().filter(listed), false),
                summarised: key(values.iter(), true),
                full: key(values.iter(), false),
            },
        }
    }
}

fn object<'a>(values: impl Iterator<Item = &'a Value>, summarises: bool) -> String {
    values
        .fold(Object::new(), |object, value| {
            object.text(value.name, &shown(&value.text, summarises))
        })
        .finish()
}

fn key<'a>(values: impl Iterator<Item = &'a Value>, summarises: bool) -> u64 {
    let mut hasher = FxHasher::default();
    for value in values {
        shown(&value.text, summarises).hash(&mut hasher);
    }
    hasher.finish()
}

fn shown(text: &str, summarises: bool) -> std::borrow::Cow<'_, str> {
    let chars = text.chars().count();
    if summarises && chars > LONG_CHARS {
        return format!("<{chars} chars>").into();
    }
    text.into()
}

fn values(actor: &mut Actor, tool: Tool) -> Vec<Value> {
    let (number, serial) = (actor.number, actor.serial % 20_011);
    let dice = &mut actor.dice;
    let listed = |name, text: &str| Value { name, text: text.to_owned(), is_listed: true };
    let dropped = |name, text: String| Value { name, text, is_listed: false };
    let path = if dice.chance(250) {
        dice.pick(&COMMON).to_owned()
    } else {
        format!("{}/s{number}/{serial:05}.md", dice.pick(&FOLDERS))
    };
    let case = format!("C-{}", 1000 + (number * 7919 + serial * 37) % 9000);
    match tool {
        Tool::ListDocs => vec![listed("folder", dice.pick(&FOLDERS))],
        Tool::SaveDoc => vec![listed("path", &path), dropped("content", prose(dice))],
        Tool::FindCases => {
            vec![listed("status", dice.pick(&STATUSES)), dropped("query", few_words(dice))]
        }
        Tool::NoteCase => vec![listed("case_id", &case), dropped("body", prose(dice))],
        Tool::MailCase => vec![
            listed("template", dice.pick(&TEMPLATES)),
            dropped("to", format!("{}@example.com", dice.pick(&WORDS))),
            dropped("body", prose(dice)),
        ],
        Tool::OpenCase => vec![listed("case_id", &case)],
        _ => vec![listed("path", &path)],
    }
}

fn names(tool: Tool) -> &'static [&'static str] {
    match tool {
        Tool::ListDocs => &["folder"],
        Tool::SaveDoc => &["path", "content"],
        Tool::FindCases => &["status", "query"],
        Tool::NoteCase => &["case_id", "body"],
        Tool::MailCase => &["template", "to", "body"],
        Tool::OpenCase => &["case_id"],
        _ => &["path"],
    }
}

/// Only the case server drops any.
fn dropped(tool: Tool) -> &'static [&'static str] {
    match tool {
        Tool::FindCases => &["query"],
        Tool::NoteCase => &["body"],
        Tool::MailCase => &["to", "body"],
        _ => &[],
    }
}

fn few_words(dice: &mut Dice) -> String {
    format!("{} {}", dice.pick(&WORDS), dice.pick(&WORDS))
}

/// A text of up to 600 characters, mostly a short one.
fn prose(dice: &mut Dice) -> String {
    let length = usize::try_from(dice.skewed(20, 600)).unwrap_or(20);
    let mut text = String::with_capacity(length + 12);
    while text.len() < length {
        text.push_str(dice.pick(&WORDS));
        text.push(' ');
    }
    text.truncate(length);
    text
}
