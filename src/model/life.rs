//! The life of a call: from the question to the client's end, what each witness tells of it, and what never came.
//!
//! Steps are in the order of causes, whatever the clocks say: each witness has its own.

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use super::{Call, Discrepancy, Micros, OutcomeClass, Sighting, Step, Text, Witness};

/// What part a step plays in the life of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// A person was asked.
    Asked,
    /// The question was answered, or policy decided without one.
    Decided,
    /// A person answered a question that the server put during the call.
    Input,
    /// A gateway or proxy let it pass.
    Sent,
    /// The server's word.
    Ran,
    /// The word of a gateway or proxy on the reply.
    Result,
    /// The client's word on the end.
    Completed,
}

/// Why a step has no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gap<'a> {
    /// A person was asked and no answer is there; `went_on` where a later step is.
    Unanswered { went_on: bool },
    /// It was let pass, and no witness tells of anything after that.
    NothingShowsRun,
    /// `by` let it pass and saw no reply.
    NoReply { by: Witness },
    /// The log of `by` tells of the call and not of its end; `ran` where another shows that it ran.
    NoEnd { by: Witness, ran: bool },
    /// It ran, and this log of a witness of that kind went on without a record of it.
    Unwitnessed { by: Witness, stream: &'a Text },
    /// No log of a client tells of the call: there may be none.
    NoClientLog,
    /// No log of a server tells of the call: there may be none.
    NoServerLog,
}

impl Gap<'_> {
    /// True where the witnesses of this call make the step expected. Else no log here would tell of it, and nobody is
    /// to be accused.
    pub const fn never_came(self) -> bool {
        !matches!(self, Self::NoClientLog | Self::NoServerLog)
    }
}

/// What there is of a step.
#[derive(Clone, Copy, Debug)]
pub enum Word<'a> {
    Told { sighting: &'a Sighting, step: &'a Step },
    Gap(Gap<'a>),
}

/// The time since the step before that has one.
#[derive(Clone, Copy, Debug)]
pub struct Wait<'a> {
    /// Negative where this step, by its witness's clock, comes before its cause.
    pub micros: i64,
    /// The stream whose clock gave the other time.
    pub since: &'a Text,
}

/// One step.
#[derive(Clone, Debug)]
pub struct LifeStep<'a> {
    pub phase: Phase,
    pub word: Word<'a>,
    pub wait: Option<Wait<'a>>,
    /// Where another witness spoke in between: microseconds since this witness's own word before, by its own clock.
    pub own_wait: Option<i64>,
    /// On an answer: microseconds since the question, by the clock of the witness that tells of both. Meanwhile what a
    /// person saw may have been changed.
    pub window: Option<i64>,
}

impl LifeStep<'_> {
    pub fn at(&self) -> Option<Micros> {
        self.word.at()
    }
}

/// One time that the call was made.
#[derive(Clone, Debug)]
pub struct Attempt<'a> {
    /// Counted from 1.
    pub number: u32,
    /// The last word of the witness nearest to the work.
    pub class: OutcomeClass,
    pub code: &'a Text,
    pub steps: Vec<LifeStep<'a>>,
}

/// The call's attempts in order, each with its steps. Empty only for an ingest event that no line shows.
pub fn life(call: &Call) -> Vec<Attempt<'_>> {
    call.sightings
        .chunk_by(|one, next| one.attempt == next.attempt)
        .filter_map(|sightings| {
            let nearest = sightings.last()?;
            Some(Attempt {
                number: nearest.attempt.saturating_add(1),
                class: nearest.class,
                code: &nearest.code,
                steps: steps(sightings, &call.discrepancies),
            })
        })
        .collect()
}

/// A step with its place in the order of causes.
struct Placed<'a> {
    place: u8,
    rank: usize,
    phase: Phase,
    word: Word<'a>,
}

fn steps<'a>(sightings: &'a [Sighting], discrepancies: &'a [Discrepancy]) -> Vec<LifeStep<'a>> {
    let mut placed = told(sightings);
    let gaps = gaps(&Story { sightings, discrepancies, placed: &placed });
    placed.extend(gaps.into_iter().map(|(phase, gap)| Placed {
        place: place(phase),
        rank: usize::MAX,
        phase,
        word: Word::Gap(gap),
    }));
    placed.sort_by_key(|placed| (placed.place, placed.rank));
    timed(&placed)
}

/// What the witnesses tell: those far from the work first on its way there, the near ones first on its way back.
fn told(sightings: &[Sighting]) -> Vec<Placed<'_>> {
    let mut placed = Vec::new();
    for (index, sighting) in sightings.iter().enumerate() {
        for (number, step) in sighting.steps.iter().enumerate() {
            let before = sighting.steps.get(..number).unwrap_or_default();
            let phase = phase(sighting.witness, before, step.class);
            let is_back = matches!(phase, Phase::Result | Phase::Completed);
            let rank = if is_back { sightings.len() - index } else { index };
            let word = Word::Told { sighting, step };
            placed.push(Placed { place: place(phase), rank, phase, word });
        }
    }
    // The server may ask before the call is sent again, or after it was sent: either may be the cause of the other.
    let sent = placed.iter().filter(|placed| placed.phase == Phase::Sent);
    let sent = sent.filter_map(|placed| placed.word.at()).min();
    for placed in placed.iter_mut().filter(|placed| placed.phase == Phase::Input) {
        if placed.word.at().zip(sent).is_some_and(|(at, sent)| at >= sent) {
            placed.place = place(Phase::Sent) + 1;
        }
    }
    placed
}

/// Even numbers leave room for an answer that came after the call was sent.
const fn place(phase: Phase) -> u8 {
    match phase {
        Phase::Asked => 0,
        Phase::Decided => 2,
        Phase::Input => 4,
        Phase::Sent => 6,
        Phase::Ran => 8,
        Phase::Result => 10,
        Phase::Completed => 12,
    }
}

/// What a word of that class is in the mouth of that witness, after what it said before.
fn phase(witness: Witness, before: &[Step], class: OutcomeClass) -> Phase {
    let said = |class| before.iter().any(|step| step.class == class);
    let is_between = matches!(witness, Witness::Gateway | Witness::Proxy);
    match class {
        OutcomeClass::Asked => Phase::Asked,
        OutcomeClass::Approved if is_between && !said(OutcomeClass::Asked) => Phase::Sent,
        OutcomeClass::Approved => Phase::Decided,
        OutcomeClass::Input => Phase::Input,
        _ if witness == Witness::Server => Phase::Ran,
        OutcomeClass::Declined if said(OutcomeClass::Approved) => Phase::Input,
        _ if class.is_refusal() && !said(OutcomeClass::Approved) => Phase::Decided,
        _ if is_between => Phase::Result,
        _ => Phase::Completed,
    }
}

impl Word<'_> {
    const fn at(&self) -> Option<Micros> {
        match self {
            Self::Told { step, .. } => step.at,
            Self::Gap(_) => None,
        }
    }
}

/// What the gaps of one attempt are judged by.
struct Story<'a, 'b> {
    sightings: &'a [Sighting],
    discrepancies: &'a [Discrepancy],
    placed: &'b [Placed<'a>],
}

impl<'a> Story<'a, '_> {
    fn has(&self, kinds: &[Witness]) -> bool {
        self.sightings.iter().any(|sighting| kinds.contains(&sighting.witness))
    }

    fn tells(&self, phases: &[Phase]) -> bool {
        self.placed.iter().any(|placed| phases.contains(&placed.phase))
    }

    /// True where this witness tells of such a step.
    fn tells_by(&self, wanted: &Sighting, phases: &[Phase]) -> bool {
        self.placed.iter().any(|placed| {
            let is_of = matches!(placed.word, Word::Told { sighting, .. }
                if std::ptr::eq(sighting, wanted));
            is_of && phases.contains(&placed.phase)
        })
    }

    fn shows_run(&self) -> bool {
        self.placed.iter().any(|placed| match placed.word {
            Word::Told { step, .. } => match placed.phase {
                Phase::Ran => !step.class.is_refusal(),
                Phase::Result | Phase::Completed => step.class == OutcomeClass::Ok,
                _ => false,
            },
            Word::Gap(_) => false,
        })
    }

    fn is_refused(&self) -> bool {
        self.sightings.iter().any(|sighting| sighting.class.is_refusal())
    }

    /// The log of such a witness that went on without a record of what ran.
    fn unwitnessed(&self, kinds: &[Witness]) -> Option<Gap<'a>> {
        if self.has(kinds) || !self.shows_run() {
            return None;
        }
        self.discrepancies.iter().find_map(|what| match what {
            Discrepancy::Unwitnessed { by, stream } if kinds.contains(by) => {
                Some(Gap::Unwitnessed { by: *by, stream })
            }
            _ => None,
        })
    }
}

const CLIENTS: [Witness; 2] = [Witness::Transcript, Witness::Client];
const BETWEEN: [Witness; 2] = [Witness::Gateway, Witness::Proxy];
const SERVERS: [Witness; 1] = [Witness::Server];
const ENDS: [Phase; 3] = [Phase::Ran, Phase::Result, Phase::Completed];

fn gaps<'a>(story: &Story<'a, '_>) -> Vec<(Phase, Gap<'a>)> {
    let mut gaps = Vec::new();
    if let Some(gap) = story.unwitnessed(&CLIENTS) {
        gaps.push((Phase::Asked, gap));
    } else if !story.has(&CLIENTS) && !story.tells(&[Phase::Asked]) {
        gaps.push((Phase::Asked, Gap::NoClientLog));
    }
    gaps.extend(story.unwitnessed(&BETWEEN).map(|gap| (Phase::Sent, gap)));
    gaps.extend(run_gap(story).map(|gap| (Phase::Ran, gap)));
    for sighting in story.sightings {
        gaps.extend(own_gaps(story, sighting));
    }
    gaps
}

/// Why no server tells that it ran, where none does.
fn run_gap<'a>(story: &Story<'a, '_>) -> Option<Gap<'a>> {
    if story.tells(&[Phase::Ran]) {
        return None;
    }
    if story.has(&SERVERS) {
        return Some(Gap::NoEnd { by: Witness::Server, ran: story.shows_run() });
    }
    if let Some(gap) = story.unwitnessed(&SERVERS) {
        return Some(gap);
    }
    if story.is_refused() {
        None
    } else if story.tells(&ENDS) {
        Some(Gap::NoServerLog)
    } else if story.tells(&[Phase::Decided, Phase::Input, Phase::Sent]) {
        Some(Gap::NothingShowsRun)
    } else {
        None
    }
}

/// What one witness began to tell and did not end.
fn own_gaps<'a>(story: &Story<'a, '_>, sighting: &Sighting) -> Vec<(Phase, Gap<'a>)> {
    let by = sighting.witness;
    let tells = |phases: &[Phase]| story.tells_by(sighting, phases);
    let mut gaps = Vec::new();
    if tells(&[Phase::Asked]) && !tells(&[Phase::Decided]) {
        let went_on = story.tells(&[Phase::Input, Phase::Sent]) || story.tells(&ENDS);
        gaps.push((Phase::Decided, Gap::Unanswered { went_on }));
    }
    if tells(&[Phase::Sent]) && !tells(&[Phase::Result]) {
        gaps.push((Phase::Result, Gap::NoReply { by }));
    }
    let is_open =
        CLIENTS.contains(&by) && !sighting.steps.iter().any(|step| step.class.is_terminal());
    let is_expected = story.tells(&ENDS) || tells(&[Phase::Decided, Phase::Input]);
    if is_open && is_expected {
        gaps.push((Phase::Completed, Gap::NoEnd { by, ran: story.shows_run() }));
    }
    gaps
}

/// Measures the waits.
fn timed<'a>(placed: &[Placed<'a>]) -> Vec<LifeStep<'a>> {
    let mut last: Option<(Micros, &'a Sighting)> = None;
    let mut own: HashMap<*const Sighting, Micros> = HashMap::new();
    let mut asked: HashMap<*const Sighting, Micros> = HashMap::new();
    let mut steps = Vec::with_capacity(placed.len());
    for placed in placed {
        let mut step = LifeStep {
            phase: placed.phase,
            word: placed.word,
            wait: None,
            own_wait: None,
            window: None,
        };
        if let Word::Told { sighting, step: Step { at: Some(at), .. } } = placed.word {
            let key = std::ptr::from_ref(sighting);
            step.wait = last.map(|(last, by)| Wait { micros: at.since(last), since: &by.stream });
            if last.is_some_and(|(_, by)| !std::ptr::eq(by, sighting)) {
                step.own_wait = own.get(&key).map(|own| at.since(*own));
            }
            match placed.phase {
                Phase::Asked => _ = asked.insert(key, *at),
                Phase::Decided => step.window = asked.remove(&key).map(|asked| at.since(asked)),
                _ => {}
            }
            last = Some((*at, sighting));
            own.insert(key, *at);
        }
        steps.push(step);
    }
    steps
}
