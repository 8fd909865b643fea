//! The fields of a call that rules may name, and how their values are read.

use std::borrow::Cow;
use std::cell::OnceCell;

use crate::model::{
    ArgValue, Call, Discrepancy, EventKind, JoinedBy, Label, Labels, OutcomeClass, Ran, Text, Tri,
    Witness,
};

/// Says what a call's tool can do.
pub type LabelsOf = dyn Fn(&Call) -> Labels + Send + Sync;

/// A call under evaluation: its labels are looked up once, and only if a rule asks.
pub(super) struct Subject<'a> {
    pub(super) call: &'a Call,
    labels_of: &'a LabelsOf,
    labels: OnceCell<Labels>,
    bare_tool: OnceCell<&'a str>,
}

impl<'a> Subject<'a> {
    pub(super) fn new(call: &'a Call, labels_of: &'a LabelsOf) -> Self {
        Self { call, labels_of, labels: OnceCell::new(), bare_tool: OnceCell::new() }
    }

    fn label(&self, label: Label) -> Tri {
        self.labels.get_or_init(|| (self.labels_of)(self.call)).get(label)
    }
}

/// One field by its name in the rule language.
#[derive(Clone, Debug)]
pub(super) struct Field {
    name: Text,
    what: What,
}

#[derive(Clone, Debug)]
enum What {
    At,
    Ended,
    DurationMs,
    AskToAnswerMs,
    Attempts,
    Principal,
    Client,
    Actor,
    Tenant,
    Session,
    ToolName,
    ToolServer,
    Label(Label),
    Outcome,
    Code,
    Decision,
    Ran,
    Arg(String),
    ArgNames,
    Flags,
    Witnesses,
    WitnessOutcome(Witness),
    JoinedBy,
    Discrepancy,
    SourceFile,
    Kind,
}

/// Every field but the `args.<name>` ones.
const FIELDS: &[(&str, What)] = &[
    ("at", What::At),
    ("ended", What::Ended),
    ("duration_ms", What::DurationMs),
    ("ask_to_answer_ms", What::AskToAnswerMs),
    ("attempts", What::Attempts),
    ("principal", What::Principal),
    ("client", What::Client),
    ("actor", What::Actor),
    ("tenant", What::Tenant),
    ("session", What::Session),
    ("tool.name", What::ToolName),
    ("tool.server", What::ToolServer),
    ("tool.open_world", What::Label(Label::OpenWorld)),
    ("tool.sensitive", What::Label(Label::Sensitive)),
    ("tool.outbound", What::Label(Label::Outbound)),
    ("tool.destructive", What::Label(Label::Destructive)),
    ("tool.read_only", What::Label(Label::ReadOnly)),
    ("outcome", What::Outcome),
    ("code", What::Code),
    ("decision", What::Decision),
    ("ran", What::Ran),
    ("args.names", What::ArgNames),
    ("flags", What::Flags),
    ("witnesses", What::Witnesses),
    ("witness.transcript.outcome", What::WitnessOutcome(Witness::Transcript)),
    ("witness.client.outcome", What::WitnessOutcome(Witness::Client)),
    ("witness.gateway.outcome", What::WitnessOutcome(Witness::Gateway)),
    ("witness.proxy.outcome", What::WitnessOutcome(Witness::Proxy)),
    ("witness.server.outcome", What::WitnessOutcome(Witness::Server)),
    ("joined_by", What::JoinedBy),
    ("discrepancy", What::Discrepancy),
    ("source.file", What::SourceFile),
    ("kind", What::Kind),
];

impl Field {
    /// Finds a field by name; the error says which one may have been meant.
    pub(super) fn parse(name: &str) -> Result<Self, String> {
        let known = FIELDS.iter().find(|(known, _)| *known == name).map(|(_, what)| what.clone());
        let argument = || {
            let argument = name.strip_prefix("args.").filter(|argument| !argument.is_empty())?;
            Some(What::Arg(argument.to_owned()))
        };
        let what = known.or_else(argument).ok_or_else(|| {
            let names = || FIELDS.iter().map(|(known, _)| *known);
            // One of a family, such as `tool` for `tool.name`, is far from it by its letters.
            let is_of =
                |known: &&str| known.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'));
            let hint = match names().find(is_of) {
                Some(known) => format!("; did you mean `{known}`?"),
                None => did_you_mean(name, names()),
            };
            format!("there is no field `{name}`{hint}")
        })?;
        Ok(Self { name: name.into(), what })
    }

    /// What the witnesses say differently.
    pub(super) fn discrepancy() -> Self {
        Self { name: "discrepancy".into(), what: What::Discrepancy }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) const fn is_kind(&self) -> bool {
        matches!(self.what, What::Kind)
    }

    pub(super) const fn is_number(&self) -> bool {
        matches!(self.what, What::DurationMs | What::AskToAnswerMs | What::Attempts)
    }

    /// True where a call has one value at most, which is one of a few words or a number.
    pub(super) const fn has_one_value(&self) -> bool {
        matches!(
            self.what,
            What::Label(_)
                | What::Outcome
                | What::Decision
                | What::WitnessOutcome(_)
                | What::Ran
                | What::Kind
        ) || self.is_number()
    }

    /// True where a call can be without a value.
    pub(super) const fn may_be_missing(&self) -> bool {
        !matches!(
            self.what,
            What::Label(_)
                | What::Outcome
                | What::Ran
                | What::Kind
                | What::Attempts
                | What::Actor
                | What::Session
                | What::ToolName
                | What::Code
        )
    }

    /// Whether a field that is a number can be this one.
    pub(super) fn can_be(&self, number: f64) -> bool {
        match self.what {
            What::Attempts => number >= 1.0 && number.fract().total_cmp(&0.0).is_eq(),
            _ => number >= 0.0,
        }
    }

    /// An argument may be a number or a text; all other fields are one or the other.
    pub(super) const fn is_argument(&self) -> bool {
        matches!(self.what, What::Arg(_))
    }

    pub(super) const fn is_time(&self) -> bool {
        matches!(self.what, What::At | What::Ended)
    }

    /// True where YAML's true and false stand for `yes` and `no`.
    pub(super) const fn is_yes_no(&self) -> bool {
        matches!(self.what, What::Label(_) | What::Ran)
    }

    /// All words the field can hold, where it holds one of a few.
    pub(super) fn words(&self) -> Option<Vec<&'static str>> {
        let words: Vec<&'static str> = match self.what {
            What::Label(_) => [Tri::Yes, Tri::No, Tri::Unknown].map(tri_word).into(),
            What::Outcome | What::Decision | What::WitnessOutcome(_) => {
                OutcomeClass::ALL.map(OutcomeClass::as_str).into()
            }
            What::Ran => [Ran::Yes, Ran::No, Ran::Maybe].map(Ran::as_str).into(),
            What::Witnesses => Witness::ALL.map(Witness::as_str).into(),
            What::JoinedBy => JoinedBy::ALL.map(JoinedBy::as_str).into(),
            What::Discrepancy => Discrepancy::WORDS.into(),
            What::Kind => EventKind::ALL.map(EventKind::as_str).into(),
            _ => return None,
        };
        Some(words)
    }

    /// True if the test holds for any value the field has in the call.
    pub(super) fn any(&self, subject: &Subject<'_>, test: &mut dyn FnMut(&str) -> bool) -> bool {
        let call = subject.call;
        let own = match &self.what {
            What::At => call.at.is_some_and(|at| test(&at.to_rfc3339())),
            What::Ended => call.ended.is_some_and(|ended| test(&ended.to_rfc3339())),
            What::DurationMs => call.duration_ms.is_some_and(|ms| test(&ms.to_string())),
            What::AskToAnswerMs => call.ask_to_answer_ms.is_some_and(|ms| test(&ms.to_string())),
            What::Attempts => test(&call.attempts().to_string()),
            What::Principal => call.principal.as_deref().is_some_and(&mut *test),
            What::Client => call.client.as_deref().is_some_and(&mut *test),
            What::Actor => test(&call.actor),
            What::Tenant => call.tenant.as_deref().is_some_and(&mut *test),
            What::Session => test(&call.session),
            What::ToolName => {
                let bare = *subject.bare_tool.get_or_init(|| call.bare_tool());
                test(&call.tool) || (bare.len() < call.tool.len() && test(bare))
            }
            What::ToolServer => call.server.as_deref().is_some_and(&mut *test),
            What::Label(label) => test(tri_word(subject.label(*label))),
            What::Outcome => test(call.class.as_str()),
            What::Code => test(&call.code),
            What::Decision => call.decision.is_some_and(|decision| test(decision.as_str())),
            What::Ran => test(call.ran.as_str()),
            What::Arg(name) => {
                call.args.values.iter().any(|arg| *arg.name == **name && test(&plain(arg)))
            }
            What::ArgNames => {
                let shown = call.args.values.iter().map(|arg| &arg.name);
                shown.chain(&call.args.dropped).any(|name| test(name))
            }
            What::Flags => call.flags.iter().any(|flag| test(flag)),
            What::Witnesses => call.sightings.iter().any(|seen| test(seen.witness.as_str())),
            What::WitnessOutcome(witness) => {
                call.sighting(*witness).is_some_and(|sighting| test(sighting.class.as_str()))
            }
            What::JoinedBy => call.sightings.iter().any(|seen| test(seen.joined_by.as_str())),
            What::Discrepancy => call.discrepancies.iter().any(|found| test(found.word())),
            What::SourceFile => {
                let is_log = call.kind == EventKind::Ingest;
                (is_log && test(&call.stream))
                    || call.sightings.iter().any(|seen| test(&seen.stream))
            }
            What::Kind => test(call.kind.as_str()),
        };
        own || call.also.iter().any(|(name, value)| *name == self.name && test(value))
    }
}

/// The fields that calls can be grouped by: those with one value each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GroupField {
    Principal,
    Client,
    Actor,
    Tenant,
    Session,
    ToolName,
    ToolServer,
    Code,
}

impl GroupField {
    const ALL: [Self; 8] = [
        Self::Principal,
        Self::Client,
        Self::Actor,
        Self::Tenant,
        Self::Session,
        Self::ToolName,
        Self::ToolServer,
        Self::Code,
    ];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Principal => "principal",
            Self::Client => "client",
            Self::Actor => "actor",
            Self::Tenant => "tenant",
            Self::Session => "session",
            Self::ToolName => "tool.name",
            Self::ToolServer => "tool.server",
            Self::Code => "code",
        }
    }

    pub(super) fn parse(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|field| field.as_str() == name).ok_or_else(|| {
            let hint = did_you_mean(name, Self::ALL.into_iter().map(Self::as_str));
            format!("calls cannot be grouped by `{name}`{hint}")
        })
    }

    /// The call's value; none where the call has none and so takes no part.
    pub(super) fn value(self, call: &Call) -> Option<&Text> {
        match self {
            Self::Principal => call.principal.as_ref(),
            Self::Client => call.client.as_ref(),
            Self::Actor => Some(&call.actor),
            Self::Tenant => call.tenant.as_ref(),
            Self::Session => Some(&call.session),
            Self::ToolName => Some(&call.tool),
            Self::ToolServer => call.server.as_ref(),
            Self::Code => Some(&call.code),
        }
    }
}

/// The fields whose values can be counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ValueField {
    Group(GroupField),
    /// An argument; a call that holds it twice shows two values.
    Arg(String),
}

impl ValueField {
    pub(super) fn parse(name: &str) -> Result<Self, String> {
        if let Some(argument) = name.strip_prefix("args.")
            && !argument.is_empty()
            && name != "args.names"
        {
            return Ok(Self::Arg(argument.to_owned()));
        }
        GroupField::parse(name).map(Self::Group).map_err(|_| {
            let known = GroupField::ALL.into_iter().map(GroupField::as_str);
            let hint = did_you_mean(name, known.chain(["args."]));
            format!("values of `{name}` cannot be counted{hint}")
        })
    }

    /// Calls `each` with every value that the call has.
    pub(super) fn each<'c>(&self, call: &'c Call, each: &mut dyn FnMut(Cow<'c, str>)) {
        match self {
            Self::Group(field) => {
                if let Some(value) = field.value(call) {
                    each(Cow::Borrowed(value));
                }
            }
            Self::Arg(name) => {
                call.args.values.iter().filter(|arg| *arg.name == **name).map(plain).for_each(each);
            }
        }
    }

    /// True if calls that are grouped by that field all have the same value.
    pub(super) fn is_grouped(&self, by: GroupField) -> bool {
        *self == Self::Group(by)
    }

    pub(super) fn is_in(&self, call: &Call) -> bool {
        match self {
            Self::Group(field) => field.value(call).is_some(),
            Self::Arg(name) => call.args.values.iter().any(|arg| *arg.name == **name),
        }
    }
}

const fn tri_word(tri: Tri) -> &'static str {
    match tri {
        Tri::Yes => "yes",
        Tri::No => "no",
        Tri::Unknown => "unknown",
    }
}

/// An argument's value as rules compare it: a JSON string without its quotes, anything else as it
/// stands.
fn plain(arg: &ArgValue) -> Cow<'_, str> {
    if arg.text.starts_with('"')
        && let Ok(text) = serde_json::from_str::<String>(&arg.text)
    {
        return Cow::Owned(text);
    }
    Cow::Borrowed(&arg.text)
}

/// A hint that ends an error message: the known name nearest to a mistyped one.
pub(super) fn did_you_mean<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let edits_max = |known: &str| 1 + known.len() / 4;
    // Texts whose lengths are further apart need more edits, however long they are.
    let nearest = known
        .filter(|known| name.len().abs_diff(known.len()) <= edits_max(known))
        .map(|known| (distance(name, known), known))
        .min();
    match nearest {
        Some((far, known)) if far <= edits_max(known) => format!("; did you mean `{known}`?"),
        _ => String::new(),
    }
}

/// Edits that turn one text into the other (Levenshtein), over bytes.
fn distance(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.bytes().enumerate() {
        let mut diagonal = row.first().copied().unwrap_or_default();
        let mut left = i + 1;
        if let Some(first) = row.first_mut() {
            *first = left;
        }
        for (above, b) in row.iter_mut().skip(1).zip(to.bytes()) {
            let replaced = diagonal + usize::from(a != b);
            diagonal = *above;
            left = replaced.min(*above + 1).min(left + 1);
            *above = left;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_field_is_refused_with_the_nearest_name() {
        let error = Field::parse("tool.nane").unwrap_err();
        assert_eq!(error, "there is no field `tool.nane`; did you mean `tool.name`?");
        let error = Field::parse("tool").unwrap_err();
        assert_eq!(error, "there is no field `tool`; did you mean `tool.name`?");
        assert!(!Field::parse("Image").unwrap_err().contains("did you mean"));
        assert!(GroupField::parse("sesion").unwrap_err().contains("`session`"));
    }

    #[test]
    fn edit_distance_counts_edits() {
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("same", "same"), 0);
    }
}
