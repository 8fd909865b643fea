//! One call on its way through a stack, from witness to witness.

use super::act::{Fate, Tool};
use super::actor::Actor;
use super::line::{Draft, Message, Object, TimeStyle};
use super::proxy;
use super::stack::{Middle, Stack};
use super::truth::{Says, Shows};
use crate::model::{Micros, Witness};

/// How long a client waits for a reply.
const PATIENCE: i64 = 30 * Micros::SECOND;

pub(super) struct Journey<'a> {
    actor: &'a mut Actor,
    stack: &'a Stack,
    out: &'a mut Vec<Draft>,
    tool: Tool,
    call: u64,
    attempt: u32,
    request_id: String,
    /// True time.
    now: Micros,
    sent: Option<Micros>,
}

impl<'a> Journey<'a> {
    pub(super) fn new(
        actor: &'a mut Actor,
        stack: &'a Stack,
        tool: Tool,
        call: u64,
        at: Micros,
        out: &'a mut Vec<Draft>,
    ) -> Self {
        let request_id = format!("{:08x}", actor.dice.below(1 << 32));
        Self { actor, stack, out, tool, call, attempt: 1, request_id, now: at, sent: None }
    }

    pub(super) const fn now(&self) -> Micros {
        self.now
    }

    /// Gets ready for the same call under a new request id, after a moment.
    pub(super) fn try_again(&mut self) {
        self.attempt += 1;
        self.actor.serial += 1;
        self.request_id = format!("{:08x}", self.actor.dice.below(1 << 32));
        self.sent = None;
        self.wait(400_000, 8_000_000);
    }

    /// Plays one try.
    pub(super) fn make(&mut self, fate: Fate) {
        match fate {
            Fate::Declined => {
                self.ask();
                self.client("DENIED", Some("denied by user"));
            }
            Fate::Bypassed => {
                self.client("DENIED", Some("policy"));
                self.sent = Some(self.now);
                self.pass(Reply::Ok);
            }
            Fate::Denied => self.refuse(),
            Fate::Asked | Fate::Elicited => {
                self.ask();
                self.send(true);
                self.pass(if fate == Fate::Elicited { Reply::Elicits } else { Reply::Ok });
                self.client("COMPLETED", None);
            }
            Fate::Timeout => self.time_out(),
            Fate::Error => {
                self.send(false);
                self.pass(Reply::Error);
                self.client("FAILED", Some("the tool gave an error"));
            }
            _ => {
                self.send(false);
                self.pass(Reply::Ok);
                self.client("COMPLETED", None);
            }
        }
    }

    fn ask(&mut self) {
        self.client("ASK", Some("awaiting approval"));
        self.wait(1_800_000, 40_000_000);
    }

    /// The client lets the call go out.
    fn send(&mut self, was_asked: bool) {
        self.sent = Some(self.now);
        if was_asked {
            self.client("ALLOWED", Some("user approved"));
        } else if self.actor.dice.chance(700) {
            self.client("ALLOWED", Some("policy"));
        }
        self.wait(500, 30_000);
    }

    /// Policy says no: the client's, or that of who stands behind it.
    fn refuse(&mut self) {
        if self.stack.client.is_some() && self.actor.dice.chance(400) {
            self.client("DENIED", Some("policy"));
            return;
        }
        self.send(false);
        match self.stack.middle {
            Some(Middle::Proxy(file)) => {
                let names = self.stack.paper.names;
                let draft = proxy::denial(file, self.call, self.now, self.tool.name(), names);
                self.push(draft.of(self.asks()));
            }
            Some(Middle::Gate(file)) => {
                self.wait(100, 3_000);
                self.gate(file, "forbidden_task", self.now);
            }
            None => {
                self.wait(500, 20_000);
                self.server("refused", None);
            }
        }
        self.wait(500, 9_000);
        self.client("FAILED", Some("policy_denied"));
    }

    /// The client gives up; the server may not, and come to an end after that.
    fn time_out(&mut self) {
        self.send(false);
        let began = self.now;
        self.enter();
        let given_up = began.plus(PATIENCE);
        if self.actor.dice.chance(500) {
            self.now = given_up;
            self.wait(300_000, 4_000_000);
            self.server("success", None);
        }
        self.now = given_up;
        if let Some(Middle::Gate(file)) = self.stack.middle {
            self.gate(file, "timeout", began);
        }
        self.wait(500, 9_000);
        self.client("FAILED", Some("no reply within 30 s"));
    }

    /// What the one in the middle logs when the call comes in.
    fn enter(&mut self) {
        if let Some(Middle::Proxy(file)) = self.stack.middle {
            let name = self.tool.name();
            let draft = proxy::request(file, Some(self.call), self.now, "tools/call", Some(name));
            self.push(draft.of(self.asks()));
        }
    }

    const fn asks(&self) -> Message {
        Message::Asks { key: self.actor.serial, is_first: false }
    }

    /// To the server and back.
    fn pass(&mut self, reply: Reply) {
        let began = self.now;
        self.enter();
        self.wait(300, 8_000);
        if reply == Reply::Elicits {
            self.wait(1_500_000, 9_000_000);
            self.answer();
        }
        if self.actor.dice.chance(40) {
            self.wait(2_000_000, 9_000_000);
        } else {
            self.wait(6_000, 500_000);
        }
        self.server_says(reply);
        self.wait(300, 8_000);
        match self.stack.middle {
            Some(Middle::Proxy(file)) => {
                let fate = if reply == Reply::Error { Fate::Error } else { Fate::Ok };
                let message = proxy::reply(self.actor, fate, self.actor.serial);
                let says = if reply == Reply::Error { Says::Failed } else { Says::Ok };
                let shows = Shows { says, is_reply: true, ..Shows::default() };
                let draft = proxy::from_server(file, Some(self.call), self.now, message);
                self.push(draft.showing(shows));
            }
            Some(Middle::Gate(file)) => {
                self.gate(file, if reply == Reply::Error { "tool_error" } else { "ok" }, began);
            }
            None => {}
        }
        self.wait(500, 30_000);
    }

    /// A person answers what the server asks.
    fn answer(&mut self) {
        let answer = Object::new().text("reason", "as agreed").json("keep_backup", "true").finish();
        self.client_with("INPUT ACCEPTED", None, &answer);
        self.wait(4_000, 60_000);
    }

    fn server_says(&mut self, reply: Reply) {
        match (self.actor.part, reply) {
            (super::actor::Part::Cases, Reply::Error) => self.server("tool_error", None),
            (_, Reply::Error) => self.server("error", Some("not found")),
            (_, Reply::Elicits) => self.server("success", Some("answer: accept")),
            (_, Reply::Ok) => self.server("success", None),
        }
    }

    fn wait(&mut self, low: i64, high: i64) {
        let waited = self.actor.dice.skewed(low, high);
        self.now = self.now.plus(waited);
    }

    fn client(&mut self, outcome: &str, detail: Option<&str>) {
        self.client_with(outcome, detail, &self.stack.paper.client);
    }

    fn client_with(&mut self, outcome: &str, detail: Option<&str>, args: &str) {
        let Some(file) = self.stack.client else { return };
        let user = self.actor.principal.as_deref().filter(|_| self.stack.names_user);
        let object = Object::new()
            .time("ts", TimeStyle::Rfc3339)
            .text("actor", "client")
            .text("tool", &format!("{}{}", self.stack.namespace, self.tool.name()))
            .json("args", args)
            .text("outcome", outcome)
            .optional("detail", detail)
            .text("request_id", &self.request_id)
            .optional("user", user)
            .optional("session", self.actor.session.as_deref())
            .optional("trace_id", self.stack.trace.as_deref());
        let shows = Shows {
            args: self.stack.paper.client_shows,
            principal: user.is_some(),
            trace: self.stack.trace.is_some(),
            says: says(outcome),
            is_reply: false,
        };
        let draft = Draft::new(Some(self.call), file, self.now, object).by(Witness::Client);
        self.push(draft.showing(shows));
    }

    /// The gate knows who calls and how long it took, and nothing of the arguments.
    fn gate(&mut self, file: usize, outcome: &str, began: Micros) {
        let request = format!("r{:x}-{:x}", self.actor.number, self.actor.burst);
        let object = Object::new()
            .time("time", TimeStyle::EpochSeconds)
            .text("request_id", &request)
            .text("caller", self.actor.principal.as_deref().unwrap_or("-"))
            .text("tool", self.tool.name())
            .text("outcome", outcome)
            .number("duration_ms", self.now.since(began) / 1000)
            .text("flags", "");
        let shows = Shows { principal: true, says: says(outcome), ..Shows::default() };
        let draft = Draft::new(Some(self.call), file, self.now, object).by(Witness::Gateway);
        self.push(draft.showing(shows));
    }

    fn server(&mut self, outcome: &str, detail: Option<&str>) {
        let paper = &self.stack.paper;
        let has_tenants = self.actor.part == super::actor::Part::Cases;
        let object = Object::new().time("ts", TimeStyle::Rfc3339);
        let object = if has_tenants {
            object
                .text("subject", self.actor.principal.as_deref().unwrap_or("-"))
                .text("client_id", self.actor.client)
                .optional("tenant", self.actor.tenant.as_deref())
                .text("tool", self.tool.name())
                .json("params", &paper.server)
                .list("dropped", paper.dropped)
                .text("outcome", if outcome == "success" { "ok" } else { outcome })
        } else {
            object
                .text("actor", "server")
                .text("tool", self.tool.name())
                .json("args", &paper.server)
                .text("outcome", outcome)
                .optional("detail", detail)
        };
        let span = format!("{:016x}", self.call);
        let traceparent = self.stack.trace.as_deref().map(|trace| format!("00-{trace}-{span}-01"));
        let object = object.optional("traceparent", traceparent.as_deref());
        let shows = Shows {
            args: paper.server_shows,
            principal: has_tenants,
            trace: traceparent.is_some(),
            says: says(outcome),
            is_reply: false,
        };
        let draft = Draft::new(Some(self.call), self.stack.server, self.now, object);
        self.push(draft.showing(shows));
    }

    fn push(&mut self, mut draft: Draft) {
        draft.attempt = self.attempt;
        draft.sent = self.sent;
        self.out.push(draft);
    }
}

/// What a word says of how the call went.
fn says(outcome: &str) -> Says {
    match outcome {
        "DENIED" | "forbidden_task" | "refused" => Says::Refused,
        "FAILED" | "error" | "tool_error" | "timeout" => Says::Failed,
        "COMPLETED" | "success" | "ok" => Says::Ok,
        _ => Says::Nothing,
    }
}

/// What the server makes of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reply {
    Ok,
    Error,
    /// It asks back first.
    Elicits,
}
