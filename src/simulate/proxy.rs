//! A proxy on standard input and output: requests with a decision, and replies as the first
//! characters of what went by (dialect `stdio-proxy`).

use super::act::{Act, Fate, Tool};
use super::actor::Actor;
use super::line::{Draft, Message, Object, TimeStyle};
use super::truth::{ArgsShown, Says, Shows};
use crate::model::{Micros, Text, Witness};

const HELLO: &str =
    r#""result":{"protocolVersion":"2025-11-25","serverInfo":{"name":"notes","version":"2.1.0"}}"#;

const TOOLS: &str =
    r#""result":{"tools":[{"name":"read_note"},{"name":"list_notes"},{"name":"delete_note"}]}"#;

/// JSON text as it stands in a reply.
const TEXTS: [&str; 4] = [
    "Minutes of Tuesday: the migration is done but for the archive, which Lars moves next week. \
     Open points are the invoice run, the new phone list and whoever has the \\\"blue\\\" \
     folder.\\nNext meeting on Thursday.",
    "Shopping list for the offsite: projector, two extension leads, badges.",
    "Retro: shorter stand-ups, fewer pages, one owner for each alert. The pager went off eleven \
     times in October; nine of them were the same disk, which has been replaced since.",
    "ok",
];

/// Gives the proxy its log. The proxy knows neither users nor sessions.
pub(super) fn settle(actor: &mut Actor, place: u64, files: &mut Vec<Text>) {
    actor.file = files.len();
    files.push(format!("proxy-{place}/mcp-audit/tool-calls.jsonl").into());
    actor.session = None;
}

/// The handshake of a new connection: context, not calls.
pub(super) fn open(actor: &mut Actor, at: Micros, out: &mut Vec<Draft>) -> Micros {
    let mut now = at;
    if actor.dice.chance(60) {
        let object = Object::new()
            .text("direction", "client->server")
            .json("parse_error", "true")
            .text("raw", "starting up \u{1b}[32mok")
            .time("ts", TimeStyle::Rfc3339);
        out.push(Draft::new(None, actor.file, now, object).by(Witness::Proxy));
        now = now.plus(actor.dice.between(1_000, 9_000));
    }
    for (method, result) in [("initialize", HELLO), ("tools/list", TOOLS)] {
        actor.serial += 1;
        let key = actor.serial;
        let is_first = method == "initialize";
        let asks = Message::Asks { key, is_first };
        out.push(request(actor.file, None, now, method, None).of(asks));
        now = now.plus(actor.dice.between(2_000, 60_000));
        out.push(from_server(actor.file, None, now, answer(key, result)));
        now = now.plus(actor.dice.between(1_000, 20_000));
    }
    now
}

/// Writes the request and, where it is let through, the reply.
pub(super) fn write(
    actor: &mut Actor,
    act: &Act,
    call: u64,
    at: Micros,
    out: &mut Vec<Draft>,
) -> Micros {
    let key = actor.serial;
    let asks = Message::Asks { key, is_first: false };
    if act.fate == Fate::Denied {
        let denial = denial(actor.file, call, at, act.tool.name(), argument_names(act.tool));
        out.push(denial.of(asks));
        return at;
    }
    let request = request(actor.file, Some(call), at, "tools/call", Some(act.tool.name()));
    out.push(request.of(asks));
    let mut now = at.plus(actor.dice.skewed(4_000, 350_000));
    if actor.dice.chance(15) {
        let head =
            r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"#;
        let text = [head.to_owned(), "}}".to_owned()];
        out.push(from_server(actor.file, None, now, Message::Answers { key, text }));
        now = now.plus(actor.dice.between(500, 90_000));
    }
    let reply = reply(actor, act.fate, key);
    out.push(from_server(actor.file, Some(call), now, reply));
    now
}

/// The reply to the request of that key.
pub(super) fn reply(actor: &mut Actor, fate: Fate, key: u64) -> Message {
    if fate == Fate::Error && actor.dice.chance(500) {
        return answer(key, r#""error":{"code":-32602,"message":"unknown note"}"#);
    }
    let (failed, text) = match fate {
        Fate::Error => (r#""isError":true,"#, "disk full"),
        _ => ("", actor.dice.pick(&TEXTS)),
    };
    let content = format!(r#"[{{"type":"text","text":"{text}"}}]"#);
    answer(key, &format!(r#""result":{{{failed}"content":{content}}}"#))
}

/// A reply of the protocol.
fn answer(key: u64, body: &str) -> Message {
    Message::Answers { key, text: [r#"{"jsonrpc":"2.0","id":"#.to_owned(), format!(",{body}}}")] }
}

/// A request that the proxy does not let through: of its arguments only the names are logged.
pub(super) fn denial(file: usize, call: u64, at: Micros, tool: &str, names: &[&str]) -> Draft {
    let object = Object::new()
        .text("direction", "client->server")
        .text("decision", "deny")
        .text("tool", tool)
        .list("args", names)
        .time("ts", TimeStyle::Rfc3339);
    let shows = Shows { args: ArgsShown::Names, says: Says::Refused, ..Shows::default() };
    Draft::new(Some(call), file, at, object).by(Witness::Proxy).showing(shows)
}

/// A request that the proxy lets through.
pub(super) fn request(
    file: usize,
    call: Option<u64>,
    at: Micros,
    method: &str,
    tool: Option<&str>,
) -> Draft {
    let object = Object::new()
        .text("direction", "client->server")
        .text("decision", "allow")
        .text("method", method);
    let object = match tool {
        Some(tool) => object.text("tool", tool),
        None => object.json("tool", "null"),
    };
    Draft::new(call, file, at, object.time("ts", TimeStyle::Rfc3339)).by(Witness::Proxy)
}

/// What comes back, as far as the proxy keeps it.
pub(super) fn from_server(file: usize, call: Option<u64>, at: Micros, message: Message) -> Draft {
    let object = Object::new()
        .text("direction", "server->client")
        .quote("raw")
        .time("ts", TimeStyle::Rfc3339);
    Draft::new(call, file, at, object).by(Witness::Proxy).of(message)
}

fn argument_names(tool: Tool) -> &'static [&'static str] {
    match tool {
        Tool::ListNotes => &["folder"],
        Tool::AppendNote => &["note", "text"],
        _ => &["note"],
    }
}
