//! The witnesses of a call side by side: what each says of it, how it was joined, and where they disagree.

use std::collections::{HashMap, HashSet};

use super::shown::{Shown, When, WhenExact, count};
use super::story::{self, Changed, Sentence, Speech};
use super::timeline::class_word;
use crate::model::{
    ArgValue, ArgView, Args, CANDIDATES_MAX, Call, CallId, CandidateView, Certainty, Discrepancy,
    JoinedBy, OutcomeClass, RecordId, RecordView, Sighting, Step, Text, Witness, bare_tool,
};

/// Columns of the table; of a call made more often the last are left out.
const COLUMNS_MAX: usize = 12;
/// Arguments shown in one cell.
const ARGS_MAX: usize = 12;
/// Times that one witness can show other arguments than before.
const VIEWS_MAX: usize = 3;
/// Longest value shown in a cell, in characters.
const VALUE_CHARS_MAX: usize = 160;

/// One column a witness, one row a question.
pub(super) struct WitnessTable {
    pub(super) columns: Vec<Column>,
    pub(super) left_out: usize,
    pub(super) names: Vec<NameRow>,
    /// Every disagreement in words.
    pub(super) disagreements: Vec<Sentence>,
    /// True where a cell is marked.
    pub(super) is_marked: bool,
}

pub(super) struct Column {
    pub(super) witness: &'static str,
    /// Where there are several.
    pub(super) attempt: Option<u32>,
    pub(super) stream: Shown,
    pub(super) first: WhenExact,
    pub(super) last: WhenExact,
    pub(super) class: &'static str,
    pub(super) class_words: &'static str,
    pub(super) code: Shown,
    pub(super) outcome_differs: bool,
    pub(super) args: Vec<ArgsBlock>,
    pub(super) args_differ: bool,
    pub(super) joined: Shown,
    pub(super) sure: &'static str,
    pub(super) candidates: Vec<CandidateLink>,
}

/// The arguments as some records of one witness show them.
pub(super) struct ArgsBlock {
    /// Which records, where they differ.
    pub(super) when: &'static str,
    pub(super) view: &'static str,
    pub(super) lines: Vec<ArgLine>,
    pub(super) left_out: usize,
}

pub(super) struct ArgLine {
    pub(super) name: Shown,
    /// None where the log has the name alone.
    pub(super) value: Option<Shown>,
    pub(super) differs: bool,
}

/// What each witness calls something.
pub(super) struct NameRow {
    pub(super) label: &'static str,
    pub(super) cells: Vec<Option<Shown>>,
    pub(super) differs: bool,
}

/// What else would fit.
pub(super) struct CandidateLink {
    pub(super) call: Option<(CallId, When, Shown)>,
    pub(super) place: Shown,
}

/// A name that records carry.
type NameOf = fn(&RecordView) -> Option<&String>;

/// Names as (label, plural, getter, whether different ones contradict each other). A server, a client and a session may
/// well go by several names.
const NAMES: [(&str, &str, NameOf, bool); 6] = [
    ("Tool", "tools", |record| record.tool.as_ref(), true),
    ("Server", "servers", |record| record.server.as_ref(), false),
    ("Principal", "principals", |record| record.principal.as_ref(), true),
    ("Client", "clients", |record| record.client.as_ref(), false),
    ("Tenant", "tenants", |record| record.tenant.as_ref(), true),
    ("Session", "sessions", |record| record.session.as_ref(), false),
];

/// The call with the records of its witnesses at hand.
struct Hearing<'a> {
    call: &'a Call,
    records: HashMap<RecordId, &'a RecordView>,
}

impl WitnessTable {
    /// One witness that agrees with itself says nothing that the call's facts do not say.
    pub(super) fn is_worth_showing(&self) -> bool {
        self.columns.len() > 1 || self.is_marked
    }

    pub(super) fn new(call: &Call, records: &[RecordView], candidates: &[CandidateView]) -> Self {
        let records = records.iter().map(|record| (record.id, record)).collect();
        let hearing = Hearing { call, records };
        let shown = call.sightings.get(..COLUMNS_MAX).unwrap_or(&call.sightings);
        let columns: Vec<Column> =
            shown.iter().map(|sighting| hearing.column(sighting, candidates)).collect();
        let rows: Vec<_> = NAMES.iter().filter_map(|name| hearing.names(shown, name)).collect();
        let told = call
            .discrepancies
            .iter()
            .map(|what| story::contradiction(&call.tool, what, &hearing.changed(what)));
        let named = NAMES.iter().filter_map(|name| hearing.names_in_words(name));
        let is_marked = |column: &Column| column.args_differ || column.outcome_differs;
        Self {
            left_out: call.sightings.len().saturating_sub(columns.len()),
            disagreements: told.chain(named).collect(),
            is_marked: columns.iter().any(is_marked) || rows.iter().any(|row| row.differs),
            columns,
            names: rows,
        }
    }
}

impl<'a> Hearing<'a> {
    fn records_of(
        &self,
        sighting: &'a Sighting,
    ) -> impl Iterator<Item = (&'a Step, &'a RecordView)> {
        sighting.steps.iter().filter_map(|step| Some((step, *self.records.get(&step.record)?)))
    }

    fn name(&self, sighting: &'a Sighting, of: NameOf) -> Option<&'a str> {
        self.records_of(sighting).find_map(|(_, record)| of(record)).map(String::as_str)
    }

    fn column(&self, sighting: &'a Sighting, candidates: &[CandidateView]) -> Column {
        let times = || sighting.steps.iter().filter_map(|step| step.at);
        let witness = sighting.witness;
        let differing = self.differing_args(sighting);
        let is_only = self.of_attempt(sighting).count() == 1;
        Column {
            witness: witness.as_str(),
            attempt: (self.call.attempts() > 1).then_some(sighting.attempt.saturating_add(1)),
            stream: Shown::short(&sighting.stream, 200),
            first: WhenExact(times().min()),
            last: WhenExact(times().max()),
            class: class_word(sighting.class),
            class_words: class_words(sighting.class),
            code: Shown::short(&sighting.code, 80),
            outcome_differs: self.outcome_differs(sighting),
            args: self.args_blocks(sighting, &differing),
            args_differ: !differing.is_empty(),
            joined: Shown::new(&joined_words(sighting, is_only, self.call.attempts() > 1)),
            sure: certainty_words(sighting),
            candidates: sighting
                .candidates
                .iter()
                .take(CANDIDATES_MAX)
                .map(|record| link(*record, candidates))
                .collect(),
        }
    }

    /// All witnesses of the same attempt.
    fn of_attempt(&self, sighting: &Sighting) -> impl Iterator<Item = &'a Sighting> {
        let attempt = sighting.attempt;
        self.call.sightings.iter().filter(move |other| other.attempt == attempt)
    }

    fn outcome_differs(&self, sighting: &Sighting) -> bool {
        let is =
            |witness: &Witness, code: &Text| sighting.witness == *witness && sighting.code == *code;
        let is_refusal = sighting.class.is_refusal();
        self.call.discrepancies.iter().any(|what| match what {
            Discrepancy::Outcome { upper, upper_code, lower, lower_code } => {
                is(upper, upper_code) || is(lower, lower_code)
            }
            Discrepancy::RanThoughDenied { denied_by, ran_by } => {
                sighting.witness == if is_refusal { *denied_by } else { *ran_by }
            }
            _ => false,
        })
    }

    /// The names of arguments in which this witness differs from another of its attempt, or from itself.
    fn differing_args(&self, sighting: &'a Sighting) -> HashSet<&'a str> {
        let is_there =
            |witness: Witness| self.of_attempt(sighting).any(|other| other.witness == witness);
        let is_changed = self.views(sighting).len() > 1;
        let mut differing = HashSet::new();
        for what in &self.call.discrepancies {
            let Discrepancy::Arguments { upper, lower, names } = what else { continue };
            let is_its = [*upper, *lower].contains(&sighting.witness);
            let shows =
                if upper == lower { is_changed } else { is_there(*upper) && is_there(*lower) };
            if is_its && shows {
                differing.extend(names.iter().map(|name| &**name));
            }
        }
        differing
    }

    /// What the witness shows of the arguments: the fullest view, and each later one that contradicts the one before.
    fn views(&self, sighting: &'a Sighting) -> Vec<(&'a Step, &'a Args)> {
        let mut views: Vec<(&Step, &Args)> = Vec::new();
        for (step, record) in self.records_of(sighting) {
            let args = &record.args;
            if args.view == ArgView::Nothing {
                continue;
            }
            let is_full = views.len() >= VIEWS_MAX;
            match views.last_mut() {
                Some((_, before)) if !contradict(before, args) => {
                    if args.view > before.view {
                        *before = args;
                    }
                }
                // Of many changes the last one counts.
                Some(last) if is_full => *last = (step, args),
                _ => views.push((step, args)),
            }
        }
        views
    }

    fn args_blocks(&self, sighting: &'a Sighting, differing: &HashSet<&str>) -> Vec<ArgsBlock> {
        let views = self.views(sighting);
        let is_changed = views.len() > 1;
        let block = |(step, args): &(&Step, &Args)| {
            let value = |arg: &ArgValue| ArgLine {
                name: Shown::short(&arg.name, 80),
                value: Some(Shown::short(&arg.text, VALUE_CHARS_MAX)),
                differs: differing.contains(&*arg.name),
            };
            let name = |name: &Text| ArgLine {
                name: Shown::short(name, 80),
                value: None,
                differs: differing.contains(&**name),
            };
            let lines: Vec<ArgLine> =
                args.values.iter().map(value).chain(args.dropped.iter().map(name)).collect();
            ArgsBlock {
                when: match (is_changed, step.class) {
                    (false, _) => "",
                    (true, OutcomeClass::Asked) => "in the question:",
                    (true, OutcomeClass::Approved) => "in the approval:",
                    (true, _) => "at the end:",
                },
                view: view_words(args),
                left_out: lines.len().saturating_sub(ARGS_MAX),
                lines: lines.into_iter().take(ARGS_MAX).collect(),
            }
        };
        views.iter().map(block).collect()
    }

    /// The values on both sides of a disagreement about arguments, where the records show them.
    fn changed(&self, what: &'a Discrepancy) -> Vec<Changed> {
        let Discrepancy::Arguments { upper, lower, names } = what else { return Vec::new() };
        let views = |witness: Witness| {
            self.call.sighting(witness).map(|sighting| self.views(sighting)).unwrap_or_default()
        };
        let (above, below) = (views(*upper), views(*lower));
        let value = |args: &Args, name: &Text| {
            args.values.iter().find(|arg| arg.name == *name).map(|arg| Text::clone(&arg.text))
        };
        names
            .iter()
            .map(|name| Changed {
                name: Text::clone(name),
                // Of one witness it is what it asked about, and what it then did.
                upper: if upper == lower { above.first() } else { above.last() }
                    .and_then(|(_, args)| value(args, name)),
                lower: below.last().and_then(|(_, args)| value(args, name)),
            })
            .collect()
    }

    fn names(
        &self,
        shown: &'a [Sighting],
        name: &(&'static str, &str, NameOf, bool),
    ) -> Option<NameRow> {
        let (label, _, of, _) = name;
        let cells: Vec<_> = shown.iter().map(|sighting| self.name(sighting, *of)).collect();
        cells.iter().any(Option::is_some).then(|| NameRow {
            label,
            differs: self.said(name).len() > 1,
            cells: cells.into_iter().map(|cell| cell.map(|name| Shown::short(name, 160))).collect(),
        })
    }

    /// The different values and who says each first; none where different ones do not contradict each other.
    fn said(&self, name: &(&str, &str, NameOf, bool)) -> Vec<(Witness, &'a str)> {
        let (label, _, of, contradicts) = *name;
        let key = |name: &'a str| if label == "Tool" { bare_tool(name) } else { name };
        let mut said: Vec<(Witness, &str)> = Vec::new();
        for sighting in self.call.sightings.iter().filter(|_| contradicts) {
            if let Some(name) = self.name(sighting, of)
                && said.iter().all(|(_, other)| key(other) != key(name))
            {
                said.push((sighting.witness, name));
            }
        }
        said
    }

    fn names_in_words(&self, name: &(&str, &str, NameOf, bool)) -> Option<Sentence> {
        let said = self.said(name);
        if said.len() < 2 {
            return None;
        }
        let mut speech =
            Speech::default().say(&format!("The witnesses name different {}: ", name.1));
        for (index, (witness, value)) in said.iter().take(VIEWS_MAX).enumerate() {
            let before = if index == 0 { "" } else { ", " };
            speech = speech.say(&format!("{before}the {} says ", witness.as_str())).quote(value);
        }
        Some(speech.say(".").end())
    }
}

/// True where an argument that both show has another value.
fn contradict(one: &Args, other: &Args) -> bool {
    one.values.iter().any(|arg| {
        other.values.iter().filter(|same| same.name == arg.name).any(|same| {
            if arg.summarised || same.summarised {
                arg.chars.zip(same.chars).is_some_and(|(one, other)| one != other)
            } else {
                arg.hash != same.hash
            }
        })
    })
}

fn link(record: RecordId, candidates: &[CandidateView]) -> CandidateLink {
    let known = candidates.iter().find(|candidate| candidate.record == record);
    let path = known.and_then(|known| known.path.as_deref());
    let file = path.map_or_else(|| format!("generation {}", record.generation), str::to_owned);
    CandidateLink {
        call: known
            .and_then(|known| known.call.as_ref())
            .map(|call| (call.id, When(call.at), Shown::short(&call.actor, 80))),
        place: Shown::short(&format!("{file} byte {}", count(record.offset)), 240),
    }
}

const fn view_words(args: &Args) -> &'static str {
    match args.view {
        ArgView::Nothing => "nothing is said of them",
        ArgView::Names => "names alone",
        ArgView::Partial if args.values.is_empty() => "names alone",
        ArgView::Partial => "some values",
        ArgView::Full => "all values",
    }
}

/// How a witness's records were tied to the call.
fn joined_words(sighting: &Sighting, is_only: bool, is_one_of_several: bool) -> String {
    let of_attempt = if is_one_of_several { " of this attempt" } else { "" };
    let by = match sighting.joined_by {
        JoinedBy::Alone if is_only => return format!("the only witness{of_attempt}"),
        JoinedBy::Alone => {
            return format!("first witness{of_attempt}: the others are joined to it");
        }
        JoinedBy::ToolUse => "joined by the id of the tool use",
        JoinedBy::Trace => "joined by a trace id that both logs carry",
        JoinedBy::Arguments => "joined by tool, arguments and time",
        JoinedBy::Time => "joined by tool and time alone",
    };
    let others = match sighting.candidates.len() {
        0 => "nothing else fits, but the clocks or the logs speak against it".to_owned(),
        1 => "1 other call fits as well".to_owned(),
        CANDIDATES_MAX.. => format!("{CANDIDATES_MAX} other calls and maybe more fit as well"),
        number => format!("{number} other calls fit as well"),
    };
    match sighting.certainty {
        Certainty::Exact => by.to_owned(),
        Certainty::Unambiguous => format!("{by}; nothing else fits"),
        Certainty::Ambiguous => format!("{by}; {others}"),
    }
}

const fn certainty_words(sighting: &Sighting) -> &'static str {
    match (sighting.joined_by, sighting.certainty) {
        (JoinedBy::Alone, _) => "",
        (_, Certainty::Exact) => "exact",
        (_, Certainty::Unambiguous) => "unambiguous",
        (_, Certainty::Ambiguous) => "ambiguous",
    }
}

/// A class in words.
pub(super) const fn class_words(class: OutcomeClass) -> &'static str {
    match class {
        OutcomeClass::Asked => "a person was asked",
        OutcomeClass::Approved => "approved",
        OutcomeClass::Declined => "declined by a person",
        OutcomeClass::Denied => "denied",
        OutcomeClass::Input => "a person answered the server",
        OutcomeClass::Ok => "succeeded",
        OutcomeClass::Limited => "stopped by a limit",
        OutcomeClass::Error => "failed",
        OutcomeClass::Unknown => "not known",
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::call;
    use super::*;

    #[test]
    fn every_way_of_joining_is_told_with_how_sure_it_is() {
        let place = RecordId { generation: 1, offset: 0, index: 0 };
        let mut told = Vec::new();
        for joined_by in JoinedBy::ALL {
            for (certainty, candidates) in [
                (Certainty::Exact, 0),
                (Certainty::Unambiguous, 0),
                (Certainty::Ambiguous, 0),
                (Certainty::Ambiguous, 1),
                (Certainty::Ambiguous, 2),
                (Certainty::Ambiguous, CANDIDATES_MAX),
            ] {
                let mut sighting = call(1, "x", 0).sightings.remove(1);
                (sighting.joined_by, sighting.certainty) = (joined_by, certainty);
                sighting.candidates = vec![place; candidates];
                told.push(joined_words(&sighting, false, false));
            }
        }
        assert!(
            told[..6].iter().all(|words| words == "first witness: the others are joined to it")
        );
        for (words, by) in told[6..].chunks(6).zip([
            "joined by the id of the tool use",
            "joined by a trace id that both logs carry",
            "joined by tool, arguments and time",
            "joined by tool and time alone",
        ]) {
            let rest = [
                "",
                "; nothing else fits",
                "; nothing else fits, but the clocks or the logs speak against it",
                "; 1 other call fits as well",
                "; 2 other calls fit as well",
                "; 8 other calls and maybe more fit as well",
            ];
            assert_eq!(words, rest.map(|rest| format!("{by}{rest}")));
        }
    }

    #[test]
    fn a_column_is_marked_only_where_it_is_part_of_a_disagreement() {
        let mut call = call(1, "x", 0);
        call.sightings[0].class = OutcomeClass::Denied;
        call.discrepancies = vec![Discrepancy::RanThoughDenied {
            denied_by: Witness::Client,
            ran_by: Witness::Server,
        }];
        let mut proxy = call.sightings[1].clone();
        proxy.witness = Witness::Proxy;
        call.sightings.insert(1, proxy);
        let marked: Vec<bool> = WitnessTable::new(&call, &[], &[])
            .columns
            .iter()
            .map(|column| column.outcome_differs)
            .collect();
        assert_eq!(marked, [true, false, true]);
    }
}
