//! Judges joins: how many of those that are claimed are right, and how many of those that are true
//! are found.
//!
//! A *sighting* is what one witness wrote of one try of a call. A *link* is a pair of sightings of
//! different witnesses. The true links are those of one try, both of whose sightings have a record
//! that was written; a link is found if the first of these records of the one and of the other
//! belong to one found call. The claimed links are the pairs of one attempt of a found call, told by
//! the first record of each; a claim is right if both are of one try. Claims of which the finder says
//! that others fit as well are counted apart ([`Tally::unsure`]): who is told so is not misled. How
//! well the tries of a call are put together is told apart, too ([`Score::tries`]).
//!
//! # What can be known
//!
//! A true link of sightings `x` and `y` is *decidable* unless it has a rival. A rival is another
//! try, of any call of the same tool (its bare name), that was under way at some moment at which
//! the link's try was ([`super::Span`], true time, both ends included), with a written sighting
//! `y'` of `y`'s witness that `x` could not tell from `y`, or a written sighting `x'` of `x`'s
//! witness that `y` could not tell from `x`. `x` cannot tell `y'` from `y` if all of this holds:
//!
//! - the arguments of the two tries are equal in what both `x` and `y'` show of them (all values;
//!   all, the long ones as their length; the allow-listed ones; nothing where one shows names or
//!   nothing);
//! - `x` and `y'` do not both name a principal, or name the same;
//! - `x` and `y` do not both name a trace, or `y'` names the same one.
//!
//! It is not decidable either where what was written cannot show it:
//!
//! - Of one of them only replies were written, which name neither the tool nor the call.
//! - The clocks of the two logs were more than five seconds apart: who reads such logs has to be told.
//! - One refused the call and the other saw it run, and the two share neither a value nor a trace. What was refused and
//!   ran all the same is an alarm; that something ran at about the time is no ground for it.
//! - The two share neither a value nor a trace, and more than five seconds lie between what was written of the one and
//!   of the other: records that would show how long the call took are lost.
//!
//! That one try *repeats* another is decidable where the witness farthest from the work wrote of both in one log with
//! all arguments, the second within ten seconds of the end of the first, somebody says that the first failed, and
//! nobody that it went well, since then it ran twice, or was refused.
//!
//! A link is *decidable by streams* unless it has a rival whose `y'` (or `x'`) stands in the very
//! stream of `y` (or `x`): the measure for a reader who knows which logs belong together. Neither
//! counts on clocks: what only order in time could tell apart is not decidable while it overlaps,
//! and is decidable when it does not.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};

use super::truth::{ArgKeys, ArgsShown, CallTruth, RecordPlace, Says, Shows, Span};
use crate::model::{Micros, Text, Witness};

/// Where a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// The stream's number, as the caller counts them.
    pub stream: u32,
    /// Line in the stream, counted from 1.
    pub line: u64,
}

/// A call as somebody put it together.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Lead first; each with at least one record.
    pub sightings: Vec<FoundSighting>,
}

/// One witness's records of a found call.
#[derive(Clone, Debug)]
pub struct FoundSighting {
    /// How it was tied to the lead, and how surely.
    pub how: Text,
    /// False where the finder names others that fit as well.
    pub is_sure: bool,
    /// Counted from 0, each attempt's sightings together.
    pub attempt: u32,
    pub places: Vec<Place>,
}

/// What kind of link it is: the two witnesses, the one farther from the work first, and what they
/// show of the arguments.
pub type LinkKind = (Witness, Witness, ArgsShown, ArgsShown);

/// How many, and how many of them are right or found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    pub all: u64,
    pub good: u64,
}

/// What is known of one kind of link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Claimed for sure, and right: precision.
    pub claimed: Rates,
    /// The same of claims of which the finder says that others fit as well.
    pub unsure: Rates,
    /// Wrong claims between streams that share no call at all.
    pub foreign: u64,
    /// Other wrong claims of which neither side has a true partner that was written.
    pub orphaned: u64,
    /// True, and found: recall.
    pub true_links: Rates,
    /// The same of those that can be decided.
    pub decidable: Rates,
    /// The same of those that can be decided by one who knows which streams belong together.
    pub by_streams: Rates,
}

/// How good the found calls are.
#[derive(Clone, Debug, Default)]
pub struct Score {
    pub kinds: BTreeMap<LinkKind, Tally>,
    /// Ties of a sighting to its call's lead by how they were made, and how many of them are right.
    pub methods: BTreeMap<Text, Rates>,
    /// Pairs of tries of one call that follow each other, by their first records.
    pub tries: Tally,
    /// True calls and true tries with a written record.
    pub true_calls: u64,
    pub true_tries: u64,
    pub found_calls: u64,
    /// Found calls with records of several true calls.
    pub merged: u64,
    /// True tries whose records are spread over several found calls.
    pub split: u64,
    /// Found sightings with records of several true sightings.
    pub mixed: u64,
    /// A few wrong and missed links of each kind, to look at.
    pub examples: Vec<Example>,
}

/// A link that went wrong.
#[derive(Clone, Debug)]
pub struct Example {
    pub kind: LinkKind,
    pub fault: Fault,
    /// The first records of the two.
    pub places: (Place, Place),
}

/// What is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It was claimed; the true partner's first record, where one was written.
    Claimed { how: Text, partner: Option<Place> },
    /// It can be decided and was not found.
    Missed,
}

/// How far the clocks of two logs, and their records of a call that show neither values nor a trace, may lie apart: a
/// reader of logs whose clocks are farther apart is to be told so.
const APART_MICROS_MAX: i64 = 5 * Micros::SECOND;
/// How soon a call that failed has to be made again to be known as the same.
const REPEATED_MICROS_MAX: i64 = 10 * Micros::SECOND;

/// Examples of one kind and fault.
const EXAMPLES_MAX: u64 = 6;

/// Judges the found calls. `stream` gives the number of a stream by its name.
pub fn score<'a>(
    calls: impl IntoIterator<Item = &'a CallTruth>,
    found: &[Found],
    stream: &dyn Fn(&str) -> u32,
) -> Score {
    let truth = Truth::new(calls, stream);
    let mut score = Score { found_calls: found.len() as u64, ..Score::default() };
    let mut whereabouts: Vec<Option<u32>> = vec![None; truth.sightings.len()];
    for (number, call) in (0_u32..).zip(found) {
        truth.locate(call, number, &mut whereabouts, &mut score);
    }
    for call in found {
        truth.judge_claims(call, &mut score);
    }
    truth.judge_links(&whereabouts, &mut score);
    truth.judge_tries(&whereabouts, &mut score);
    score
}

struct Truth<'a> {
    tries: Vec<Try<'a>>,
    sightings: Vec<Sighting>,
    owners: FxHashMap<Place, usize>,
    /// Pairs of streams that truly share a call, both ways round.
    akin: FxHashSet<(u32, u32)>,
}

/// One try of a call.
struct Try<'a> {
    call: u64,
    tool: &'static str,
    span: Span,
    principal: Option<&'a str>,
    trace: Option<&'a str>,
    args: ArgKeys,
    sightings: std::ops::Range<usize>,
}

struct Sighting {
    of_try: usize,
    witness: Witness,
    /// What its first record shows.
    shows: Shows,
    first: Place,
    /// When its first and its last written record were made, by the true clock.
    span: Span,
    ahead: i64,
    is_refused: bool,
    has_failed: bool,
    went_well: bool,
}

impl<'a> Truth<'a> {
    fn new(calls: impl IntoIterator<Item = &'a CallTruth>, stream: &dyn Fn(&str) -> u32) -> Self {
        let mut truth = Self {
            tries: Vec::new(),
            sightings: Vec::new(),
            owners: FxHashMap::default(),
            akin: FxHashSet::default(),
        };
        // A call is known when its last record is written: lateness decides the order in which they come.
        let mut calls: Vec<&CallTruth> = calls.into_iter().collect();
        calls.sort_by_key(|call| call.call);
        for call in calls {
            for (attempt, span) in (1..).zip(&call.tries) {
                let began = truth.sightings.len();
                truth.note_records(call, attempt, stream);
                truth.note_kin(began);
                truth.tries.push(Try {
                    call: call.call,
                    tool: call.tool,
                    span: *span,
                    principal: call.principal.as_deref(),
                    trace: call.trace.as_deref(),
                    args: call.args,
                    sightings: began..truth.sightings.len(),
                });
            }
        }
        truth
    }

    /// Notes what each witness wrote of a try. What order the witnesses' records were written in says nothing.
    fn note_records(&mut self, call: &CallTruth, attempt: u32, stream: &dyn Fn(&str) -> u32) {
        let mut records: Vec<&RecordPlace> =
            call.records.iter().filter(|record| record.attempt == attempt).collect();
        records.sort_by_key(|record| (record.witness, record.line));
        for of_witness in records.chunk_by(|one, two| one.witness == two.witness) {
            let place =
                |record: &RecordPlace| Place { stream: stream(&record.file), line: record.line };
            let [first, ..] = of_witness else { continue };
            let RecordPlace { witness, shows, ahead, at, .. } = **first;
            let says = |wanted| of_witness.iter().any(|record| record.shows.says == wanted);
            let to = of_witness.iter().map(|record| record.at).max().unwrap_or(at);
            let places = of_witness.iter().map(|record| (place(record), self.sightings.len()));
            self.owners.extend(places);
            let (of_try, first) = (self.tries.len(), place(first));
            self.sightings.push(Sighting {
                of_try,
                witness,
                shows,
                first,
                span: Span { from: at, to },
                ahead,
                is_refused: says(Says::Refused),
                has_failed: says(Says::Failed),
                went_well: says(Says::Ok),
            });
        }
    }

    fn note_kin(&mut self, began: usize) {
        for (one, two) in links(&(began..self.sightings.len())) {
            let (one, two) = (self.sightings[one].first.stream, self.sightings[two].first.stream);
            self.akin.extend([(one, two), (two, one)]);
        }
    }

    fn of(&self, sighting: usize) -> &Try<'a> {
        &self.tries[self.of_try(sighting)]
    }

    fn of_try(&self, sighting: usize) -> usize {
        self.sightings[sighting].of_try
    }

    /// Notes in which found call each true sighting's first record is.
    fn locate(
        &self,
        call: &Found,
        number: u32,
        whereabouts: &mut [Option<u32>],
        score: &mut Score,
    ) {
        let mut calls = FxHashSet::default();
        for sighting in &call.sightings {
            let mut owners = FxHashSet::default();
            for place in &sighting.places {
                let Some(owner) = self.owners.get(place) else { continue };
                owners.insert((self.sightings[*owner].of_try, self.sightings[*owner].witness));
                calls.insert(self.of(*owner).call);
                if self.sightings[*owner].first == *place {
                    whereabouts[*owner] = Some(number);
                }
            }
            score.mixed += u64::from(owners.len() > 1);
        }
        score.merged += u64::from(calls.len() > 1);
    }

    fn judge_claims(&self, call: &Found, score: &mut Score) {
        let seen: Vec<(usize, &FoundSighting)> = call
            .sightings
            .iter()
            .filter_map(|sighting| Some((*self.owners.get(sighting.places.first()?)?, sighting)))
            .collect();
        let mut before: Option<usize> = None;
        for attempt in seen.chunk_by(|(_, one), (_, two)| one.attempt == two.attempt) {
            let Some(((lead, _), others)) = attempt.split_first() else { continue };
            if let Some(before) = before.replace(*lead) {
                score.tries.claimed.count(self.of(before).call == self.of(*lead).call);
            }
            for (sighting, found) in others {
                let rates = score.methods.entry(Text::clone(&found.how)).or_default();
                rates.count(self.of_try(*sighting) == self.of_try(*lead));
            }
            for (at, one) in attempt.iter().enumerate() {
                for two in attempt.iter().skip(at + 1) {
                    self.judge_claim(one, two, score);
                }
            }
        }
    }

    fn judge_claim(
        &self,
        (one, one_found): &(usize, &FoundSighting),
        (two, two_found): &(usize, &FoundSighting),
        score: &mut Score,
    ) {
        let is_right = self.of_try(*one) == self.of_try(*two);
        let kind = self.kind(*one, *two);
        let tally = score.kinds.entry(kind).or_default();
        if !(one_found.is_sure && two_found.is_sure) {
            tally.unsure.count(is_right);
            return;
        }
        tally.claimed.count(is_right);
        if is_right {
            return;
        }
        let stream = |at: usize| self.sightings[at].first.stream;
        let partner = self.partner(*one, *two);
        if !self.akin.contains(&(stream(*one), stream(*two))) {
            tally.foreign += 1;
        } else if partner.is_none() && self.partner(*two, *one).is_none() {
            tally.orphaned += 1;
        }
        if tally.claimed.bad() > EXAMPLES_MAX {
            return;
        }
        let fault = Fault::Claimed {
            how: format!("{} + {}", one_found.how, two_found.how).into(),
            partner: partner.map(|at| self.sightings[at].first),
        };
        score.examples.push(self.example(kind, fault, *one, *two));
    }

    /// The sighting of the same try as `one` by the witness of `other`.
    fn partner(&self, one: usize, other: usize) -> Option<usize> {
        let witness = |at: usize| self.sightings[at].witness;
        self.of(one).sightings.clone().find(|at| witness(*at) == witness(other))
    }

    fn judge_links(&self, whereabouts: &[Option<u32>], score: &mut Score) {
        let rivals = self.rivals();
        for (number, of_try) in self.tries.iter().enumerate() {
            for (one, two) in links(&of_try.sightings) {
                let kind = self.kind(one, two);
                let tally = score.kinds.entry(kind).or_default();
                let is_found = whereabouts[one].is_some() && whereabouts[one] == whereabouts[two];
                let place = (one - of_try.sightings.start, two - of_try.sightings.start);
                let rival = |in_stream| rivals.contains(&(number, place, in_stream));
                tally.true_links.count(is_found);
                if !self.is_within_reach(one, two) {
                    continue;
                }
                if !rival(true) {
                    tally.by_streams.count(is_found);
                }
                if !rival(false) && !rival(true) {
                    tally.decidable.count(is_found);
                    if !is_found && tally.decidable.bad() <= EXAMPLES_MAX {
                        score.examples.push(self.example(kind, Fault::Missed, one, two));
                    }
                }
            }
        }
    }

    /// Whether what was written shows of both that they are calls, and of one call.
    fn is_within_reach(&self, one: usize, two: usize) -> bool {
        let (one, two) = (&self.sightings[one], &self.sightings[two]);
        let (upper, lower) = if one.witness <= two.witness { (one, two) } else { (two, one) };
        let is_named = !upper.shows.is_reply && !lower.shows.is_reply;
        let is_near = upper.ahead.abs_diff(lower.ahead) <= APART_MICROS_MAX.unsigned_abs();
        let shows_values = upper.shows.args.min(lower.shows.args) >= ArgsShown::Partial;
        let is_shown = shows_values || upper.shows.trace && lower.shows.trace;
        let silent = upper.span.from.since(lower.span.to).max(lower.span.from.since(upper.span.to));
        let contradicts = upper.is_refused && !lower.is_refused
            || lower.is_refused && !upper.is_refused && upper.went_well;
        is_named && is_near && (is_shown || (!contradicts && silent <= APART_MICROS_MAX))
    }

    /// Whether it is known that the one repeats the other.
    fn is_repeated(&self, before: &std::ops::Range<usize>, after: usize) -> bool {
        let of_before = || self.sightings.get(before.clone()).into_iter().flatten();
        let (Some(lead), after) = (of_before().next(), &self.sightings[after]) else {
            return false;
        };
        let shows_all = |seen: &Sighting| seen.shows.args >= ArgsShown::Summarised;
        let waited = after.span.from.since(lead.span.to);
        lead.first.stream == after.first.stream
            && shows_all(lead)
            && shows_all(after)
            && of_before().any(|seen| seen.has_failed)
            && !of_before().any(|seen| seen.went_well || seen.is_refused)
            && (0..=REPEATED_MICROS_MAX).contains(&waited)
    }

    /// The links that have a rival: (try, the two sightings by their place in it, whether the rival
    /// stands in the very stream).
    fn rivals(&self) -> FxHashSet<(usize, (usize, usize), bool)> {
        let mut order: Vec<usize> = (0..self.tries.len()).collect();
        order.sort_by_key(|at| (self.tries[*at].tool, self.tries[*at].span.from));
        let mut rivals = FxHashSet::default();
        for (place, at) in order.iter().enumerate() {
            let one = &self.tries[*at];
            let overlapping = order[place + 1..].iter().take_while(|other| {
                let other = &self.tries[**other];
                other.tool == one.tool && other.span.from <= one.span.to
            });
            for other in overlapping {
                self.note_rivals(*at, *other, &mut rivals);
                self.note_rivals(*other, *at, &mut rivals);
            }
        }
        rivals
    }

    fn note_rivals(
        &self,
        at: usize,
        other: usize,
        rivals: &mut FxHashSet<(usize, (usize, usize), bool)>,
    ) {
        let start = self.tries[at].sightings.start;
        for (x, y) in links(&self.tries[at].sightings) {
            for (kept, replaced) in [(x, y), (y, x)] {
                let mut by_witness = self.tries[other].sightings.clone().filter(|rival| {
                    self.sightings[*rival].witness == self.sightings[replaced].witness
                });
                if let Some(rival) = by_witness.next()
                    && self.cannot_tell(kept, replaced, rival)
                {
                    let stream = |at: usize| self.sightings[at].first.stream;
                    let in_stream = stream(rival) == stream(replaced);
                    rivals.insert((at, (x - start, y - start), in_stream));
                }
            }
        }
    }

    /// Whether `kept` could belong to `rival` as well as to `true_one`.
    fn cannot_tell(&self, kept: usize, true_one: usize, rival: usize) -> bool {
        let (x, y, z) = (&self.sightings[kept], &self.sightings[true_one], &self.sightings[rival]);
        let (of_x, of_z) = (&self.tries[x.of_try], &self.tries[z.of_try]);
        let key = |of_try: &Try<'_>| of_try.args.at(x.shows.args, z.shows.args);
        let both_named = x.shows.principal && z.shows.principal;
        let is_traced = x.shows.trace && y.shows.trace;
        key(of_x) == key(of_z)
            && (!both_named || of_x.principal == of_z.principal)
            && (!is_traced || (z.shows.trace && of_x.trace == of_z.trace))
    }

    fn judge_tries(&self, whereabouts: &[Option<u32>], score: &mut Score) {
        let mut before: Option<(u64, std::ops::Range<usize>)> = None;
        for of_try in self.tries.iter().filter(|of_try| !of_try.sightings.is_empty()) {
            let first = of_try.sightings.start;
            score.true_tries += 1;
            match before {
                Some((call, previous)) if call == of_try.call => {
                    let is_found = whereabouts[first].is_some()
                        && whereabouts[first] == whereabouts[previous.start];
                    score.tries.true_links.count(is_found);
                    if self.is_repeated(&previous, first) {
                        score.tries.decidable.count(is_found);
                        score.tries.by_streams.count(is_found);
                    }
                }
                _ => score.true_calls += 1,
            }
            before = Some((of_try.call, of_try.sightings.clone()));
            let places: FxHashSet<_> = of_try.sightings.clone().map(|at| whereabouts[at]).collect();
            score.split += u64::from(places.len() > 1);
        }
    }

    /// The one farther from the work comes first.
    fn kind(&self, one: usize, two: usize) -> LinkKind {
        let (one, two) = (&self.sightings[one], &self.sightings[two]);
        let (upper, lower) = if one.witness <= two.witness { (one, two) } else { (two, one) };
        (upper.witness, lower.witness, upper.shows.args, lower.shows.args)
    }

    fn example(&self, kind: LinkKind, fault: Fault, one: usize, two: usize) -> Example {
        Example { kind, fault, places: (self.sightings[one].first, self.sightings[two].first) }
    }
}

/// Every pair.
fn links(sightings: &std::ops::Range<usize>) -> impl Iterator<Item = (usize, usize)> + use<> {
    let end = sightings.end;
    sightings.clone().flat_map(move |one| (one + 1..end).map(move |two| (one, two)))
}

impl Rates {
    fn count(&mut self, is_good: bool) {
        self.all += 1;
        self.good += u64::from(is_good);
    }

    /// Those that are not good.
    pub const fn bad(self) -> u64 {
        self.all - self.good
    }

    /// The good ones among all, from 0 to 1; 1 for none.
    pub fn share(self) -> f64 {
        if self.all == 0 { 1.0 } else { self.good as f64 / self.all as f64 }
    }

    /// Both together.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self { all: self.all + other.all, good: self.good + other.good }
    }
}

impl Tally {
    /// Both together.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            claimed: self.claimed.plus(other.claimed),
            unsure: self.unsure.plus(other.unsure),
            foreign: self.foreign + other.foreign,
            orphaned: self.orphaned + other.orphaned,
            true_links: self.true_links.plus(other.true_links),
            decidable: self.decidable.plus(other.decidable),
            by_streams: self.by_streams.plus(other.by_streams),
        }
    }
}
