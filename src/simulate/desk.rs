//! A desk: a client and a file server that each write their own side of every call, in folders of
//! their own and by clocks of their own (dialect `two-sided`).

use super::act::{Act, Fate, Tool};
use super::actor::Actor;
use super::line::{Draft, Object, TimeStyle};
use super::truth::{ArgsShown, Shows};
use crate::model::{Micros, Text, Witness};

const FOLDERS: [&str; 6] = ["notes", "reports", "drafts", "invoices", "minutes", "plans"];
const REASONS: [&str; 4] = ["old draft", "duplicate", "asked by the owner", "project closed"];

/// Gives the desk its two logs; at every other desk the client says who sits there.
pub(super) fn settle(actor: &mut Actor, name: &str, place: u64, files: &mut Vec<Text>) {
    actor.file = files.len();
    actor.server_file = files.len() + 1;
    files.push(format!("desk-{place}/client/audit.jsonl").into());
    files.push(format!("desk-{place}/server/audit.jsonl").into());
    actor.is_human = true;
    if place % 2 == 1 {
        actor.principal = Some(name.into());
    } else {
        actor.session = None;
    }
}

/// Writes both sides of the call.
pub(super) fn write(
    actor: &mut Actor,
    act: &Act,
    call: u64,
    at: Micros,
    out: &mut Vec<Draft>,
) -> Micros {
    let path = path(actor, act.tool);
    let mut desk = Desk {
        request_id: format!("{:08x}", actor.dice.below(1 << 32)),
        args: args(actor, act.tool, &path),
        tool: act.tool,
        call,
        now: at,
        actor,
        out,
    };
    desk.play(act.fate, &path);
    desk.now
}

/// One call at a desk as it unfolds.
struct Desk<'a> {
    actor: &'a mut Actor,
    out: &'a mut Vec<Draft>,
    request_id: String,
    /// The tool's arguments as JSON, as both sides log them.
    args: String,
    tool: Tool,
    call: u64,
    /// True time.
    now: Micros,
}

impl Desk<'_> {
    fn play(&mut self, fate: Fate, path: &str) {
        match fate {
            Fate::Denied => self.client("DENIED", Some("policy")),
            Fate::Bypassed => {
                self.client("DENIED", Some("policy"));
                self.wait(40_000, 300_000);
                self.server("success", None);
            }
            Fate::Declined => {
                self.ask();
                self.client("DENIED", Some("denied by user"));
            }
            Fate::Timeout => {
                self.client("ALLOWED", Some("policy"));
                self.wait(30_000_000, 30_020_000);
                self.client("FAILED", Some("no reply within 30 s"));
            }
            Fate::Asked => {
                self.ask();
                self.client("ALLOWED", Some("user approved"));
                self.done("success", None);
            }
            Fate::Elicited | Fate::Cancelled => self.elicit(fate == Fate::Elicited, path),
            Fate::Error => self.done("error", Some("file not found")),
            _ => {
                if self.actor.dice.chance(700) {
                    self.client("ALLOWED", Some("policy"));
                }
                self.done("success", None);
            }
        }
    }

    /// The question, and the time a person takes over it: never as short as nodding it through.
    fn ask(&mut self) {
        self.client("ASK", Some("awaiting approval"));
        let waited = self.actor.dice.skewed(2_600_000, 40_000_000);
        self.now = self.now.plus(waited);
    }

    /// The server asks back while the call runs.
    fn elicit(&mut self, agrees: bool, path: &str) {
        self.ask();
        self.client("ALLOWED", Some("user approved"));
        self.wait(2_500_000, 9_000_000);
        if !agrees {
            self.client("INPUT DECLINED", None);
            self.wait(5_000, 60_000);
            self.server("cancelled", Some("answer: decline"));
            return;
        }
        let reason = self.actor.dice.pick(&REASONS);
        let keeps = self.actor.dice.chance(500);
        let answer = Object::new()
            .text("confirm_name", path.rsplit('/').next().unwrap_or(path))
            .text("reason", reason)
            .json("keep_backup", if keeps { "true" } else { "false" })
            .finish();
        self.client_with("INPUT ACCEPTED", None, &answer);
        let backup = if keeps { "yes" } else { "no" };
        let detail = format!("answer: accept; reason: {reason}; backup: {backup}");
        self.done("success", Some(&detail));
    }

    /// The server's line, and the client's after it.
    fn done(&mut self, outcome: &str, detail: Option<&str>) {
        self.wait(15_000, 400_000);
        self.server(outcome, detail);
        self.wait(4_000, 40_000);
        let word = if outcome == "success" { "COMPLETED" } else { "FAILED" };
        self.client(word, detail.filter(|_| word == "FAILED"));
    }

    fn wait(&mut self, low: i64, high: i64) {
        let waited = self.actor.dice.skewed(low, high);
        self.now = self.now.plus(waited);
    }

    fn client(&mut self, outcome: &str, detail: Option<&str>) {
        let args = std::mem::take(&mut self.args);
        self.client_with(outcome, detail, &args);
        self.args = args;
    }

    fn client_with(&mut self, outcome: &str, detail: Option<&str>, args: &str) {
        let object = Object::new()
            .time("ts", TimeStyle::Rfc3339)
            .text("actor", "client")
            .text("tool", self.tool.name())
            .json("args", args)
            .text("outcome", outcome)
            .optional("detail", detail)
            .text("request_id", &self.request_id)
            .optional("user", self.actor.principal.as_deref())
            .optional("session", self.actor.session.as_deref());
        let shows = Shows {
            args: ArgsShown::Full,
            principal: self.actor.principal.is_some(),
            ..Shows::default()
        };
        let draft = Draft::new(Some(self.call), self.actor.file, self.now, object);
        self.out.push(draft.by(Witness::Client).showing(shows));
    }

    /// The server neither knows the client's request id nor who sits there, and its clock is its
    /// own.
    fn server(&mut self, outcome: &str, detail: Option<&str>) {
        let object = Object::new()
            .time("ts", TimeStyle::Rfc3339)
            .text("actor", "server")
            .text("tool", self.tool.name())
            .json("args", &self.args)
            .text("outcome", outcome)
            .optional("detail", detail);
        let delay = self.actor.writing_delay();
        let draft = Draft::new(Some(self.call), self.actor.server_file, self.now, object);
        let shows = Shows { args: ArgsShown::Full, ..Shows::default() };
        self.out.push(draft.delayed(delay).by_clock(self.actor.clock_offset).showing(shows));
    }
}

/// A path that no other desk has, and that this one does not come back to for a long while: calls
/// are told apart by it, as they mostly are in life.
fn path(actor: &mut Actor, tool: Tool) -> String {
    let folder = actor.dice.pick(&FOLDERS);
    let (desk, serial) = (actor.number, actor.serial % 20_011);
    match tool {
        Tool::ListDir => format!("{folder}/d{desk}-{serial}"),
        _ => format!("{folder}/d{desk}/{serial:05}.md"),
    }
}

fn args(actor: &mut Actor, tool: Tool, path: &str) -> String {
    let object = Object::new();
    match tool {
        Tool::ListDir => object.text("path", path).finish(),
        Tool::WriteFile => {
            let length = actor.dice.skewed(12, 9_000);
            // Strings over a hundred characters are logged as their length.
            let content = if length > 100 {
                format!("<{length} chars>")
            } else {
                "- agreed with the team\n- \"done\" by Friday".to_string()
            };
            object.text("filepath", path).text("content", &content).finish()
        }
        _ => object.text("filepath", path).finish(),
    }
}
