//! Which reply of a stdio proxy answers which request, read forward.
//!
//! A request line shows no id, but a client numbers its requests one after the other, so the order of the replies' ids
//! is the order of the requests: a reply's id less the place of its request is the same number for long, the offset.
//! It grows where a request line was lost, and begins anew with the client. Which offset is right shows only later
//! where several requests wait, so a few guesses are carried along, each with what it costs to believe it, and what a
//! reply is given to is settled [`LAG_MICROS`] after it. What is settled never changes by what comes later.

use std::collections::{BTreeMap, VecDeque};

use rustc_hash::FxHashMap;

use crate::model::{Micros, OutcomeClass, Record, RecordId, RecordKind, Text};

/// A request without a reply for so long is given up: its reply was lost.
pub(super) const WAIT_MICROS_MAX: i64 = 20 * Micros::MINUTE;
/// For so long after a reply later ones may still show that another request was meant.
pub(super) const LAG_MICROS: i64 = 5 * Micros::SECOND;
/// And for so many replies at most.
const LAG_REPLIES: usize = 32;
/// Requests that wait at most; with more the oldest are given up.
const WAITING_MAX: usize = 4096;
/// Guesses carried along.
const GUESSES_MAX: usize = 10;
/// Requests that a reply with an unexpected id is tried on.
const TRIED_MAX: usize = 6;
/// Offsets that a guess remembers.
const SEGMENTS_MAX: usize = 8;
/// Ids beyond what a double tells apart are no counters.
const NUMBER_MAX: i64 = 1 << 53;

/// What it costs to believe that ids were skipped before a request, that the client began to count anew, that a reply
/// is for a request whose line was lost (it has the next id, or one that was skipped), and that it is for none.
/// A wait costs the logarithm of its milliseconds.
///
/// Whichever of several requests in a row is taken for the lost one, its reply shows one lost line: to skip it and then
/// see its reply costs as much as to see the reply with the next id.
const SKIP_COST: u32 = 18;
const SKIPPED_COST: u32 = 8;
const LOST_COST: u32 = SKIP_COST + SKIPPED_COST;
const RESTART_COST: u32 = 26;
const STRAY_COST: u32 = 40;
/// A guess by so much dearer than the best counts no more as a doubt.
const DOUBT_COST: u32 = 5;
/// And one by so much dearer is dropped.
const DROP_COST: u32 = 40;

/// What a record of a proxy means to the numbering.
#[derive(Clone, Debug)]
pub(super) struct Event {
    pub(super) at: Option<Micros>,
    pub(super) id: RecordId,
    turn: Turn,
    /// The id of the message, where it is shown.
    name: Option<Text>,
    /// That id as a number.
    number: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Request,
    /// The client numbered it, but the proxy answers it itself.
    Refused,
    Reply,
    /// The proxy's own answer.
    Refusal,
}

/// A reply and the request that it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) reply: (Option<Micros>, RecordId),
    pub(super) request: RecordId,
    /// False where another request may have been meant.
    pub(super) is_sure: bool,
}

/// The requests that wait, and what the replies of the last moments may belong to.
#[derive(Clone)]
pub(super) struct Numbering {
    /// The place of the next request.
    next: i64,
    /// Requests by place, without those that were given up or whose answer is settled.
    waiting: BTreeMap<i64, Event>,
    refused: BTreeMap<i64, Event>,
    /// Places of those among them that show their id.
    named: FxHashMap<Text, Vec<i64>>,
    /// Replies that are not settled.
    replies: VecDeque<(Option<Micros>, RecordId)>,
    /// Cheapest first; never empty.
    guesses: Vec<Guess>,
}

#[derive(Clone, Default)]
struct Guess {
    cost: u32,
    /// By place.
    segments: Vec<Segment>,
    /// The last place that an id was given to.
    top: Option<i64>,
    /// What the replies that are not settled belong to.
    choices: VecDeque<Choice>,
}

/// From this place on, a request's id is its place and the offset.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Segment {
    from: i64,
    offset: i64,
}

#[derive(Clone, Copy)]
struct Choice {
    request: Option<(i64, RecordId)>,
    by: By,
    /// Another guess that was about as likely gave the reply to another request, and was dropped since.
    is_doubted: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    /// The request shows the same id, or was the only one that waited.
    Itself,
    Number,
    /// Of several that wait: their ids may tell.
    Doubted,
    /// First in, first out.
    Turn,
}

impl Event {
    /// None for what neither asks nor answers.
    pub(super) fn of(record: &Record) -> Option<Self> {
        let turn = match record.kind {
            RecordKind::Request => Turn::Request,
            RecordKind::Call if record.class == OutcomeClass::Approved => Turn::Request,
            RecordKind::Call => Turn::Refused,
            RecordKind::Reply if &*record.code == "policy_denied" => Turn::Refusal,
            RecordKind::Reply => Turn::Reply,
            RecordKind::Context => return None,
        };
        let name = record.request_id.clone();
        let number = name.as_ref().and_then(|name| name.parse::<i64>().ok());
        let number = number.filter(|number| (-NUMBER_MAX..=NUMBER_MAX).contains(number));
        Some(Self { at: record.at, id: record.id, turn, name, number })
    }

    pub(super) fn order(&self) -> (Micros, RecordId) {
        (self.at.unwrap_or(Micros(i64::MAX)), self.id)
    }

    pub(super) fn is_reply(&self) -> bool {
        matches!(self.turn, Turn::Reply | Turn::Refusal)
    }
}

impl Default for Numbering {
    fn default() -> Self {
        Self {
            next: 0,
            waiting: BTreeMap::new(),
            refused: BTreeMap::new(),
            named: FxHashMap::default(),
            replies: VecDeque::new(),
            guesses: vec![Guess::default()],
        }
    }
}

impl Numbering {
    /// Takes the next record in and adds what is settled by it to `settled`.
    pub(super) fn read(&mut self, event: &Event, settled: &mut Vec<Answer>) {
        self.settle(event.at, settled);
        self.give_up(event.at);
        if event.is_reply() {
            self.reply(event);
            if event.at.is_none() {
                // Nothing tells how long ago it was.
                self.settle(None, settled);
            }
        } else {
            self.request(event);
        }
    }

    /// What the replies that are not settled belong to as far as can be told by now.
    pub(super) fn open(&self) -> impl Iterator<Item = Answer> {
        (0..self.replies.len()).filter_map(|place| self.answer(place))
    }

    /// The requests that may still be answered, and the replies that may still be for another request.
    pub(super) fn awaited(&self) -> impl Iterator<Item = RecordId> {
        let waiting = self.waiting.values().chain(self.refused.values()).map(|event| event.id);
        let choices = self.guesses.iter().flat_map(|guess| &guess.choices);
        let chosen = choices.filter_map(|choice| choice.request.map(|(_, request)| request));
        waiting.chain(chosen).chain(self.replies.iter().map(|(_, reply)| *reply))
    }

    fn request(&mut self, event: &Event) {
        let place = self.next;
        self.next += 1;
        if let Some(name) = &event.name {
            self.named.entry(Text::clone(name)).or_default().push(place);
        }
        let of_kind =
            if event.turn == Turn::Refused { &mut self.refused } else { &mut self.waiting };
        of_kind.insert(place, event.clone());
    }

    fn give_up(&mut self, now: Option<Micros>) {
        for refused in [false, true] {
            let of_kind = |all: &Self| {
                let waiting = if refused { &all.refused } else { &all.waiting };
                let (place, event) = waiting.first_key_value()?;
                let waited = event.at.zip(now).map_or(0, |(asked, now)| now.since(asked));
                (waited > WAIT_MICROS_MAX || waiting.len() > WAITING_MAX).then_some(*place)
            };
            while let Some(place) = of_kind(self) {
                self.remove(place);
            }
        }
    }

    fn remove(&mut self, place: i64) {
        let event = self.waiting.remove(&place).or_else(|| self.refused.remove(&place));
        let Some(name) = event.and_then(|event| event.name) else { return };
        if let Some(places) = self.named.get_mut(&name) {
            places.retain(|named| *named != place);
            if places.is_empty() {
                self.named.remove(&name);
            }
        }
    }

    /// Settles the replies that are old enough by now.
    fn settle(&mut self, now: Option<Micros>, settled: &mut Vec<Answer>) {
        while let Some((at, _)) = self.replies.front() {
            let is_old = at.zip(now).is_none_or(|(at, now)| now.since(at) > LAG_MICROS);
            if !is_old && self.replies.len() < LAG_REPLIES {
                break;
            }
            settled.extend(self.answer(0));
            let place_of = |guess: &Guess| guess.choices.front().map(Choice::place);
            let settled = self.guesses.first().and_then(place_of);
            self.keep_doubts(|guess| place_of(guess) != settled);
            self.guesses.retain(|guess| place_of(guess) == settled);
            for guess in &mut self.guesses {
                guess.choices.pop_front();
            }
            self.replies.pop_front();
            if let Some(place) = settled.flatten() {
                self.remove(place);
            }
        }
    }

    /// Marks what those guesses that are to be dropped doubt: that one of two replies is settled, by whichever of them
    /// is older, makes the other no surer.
    fn keep_doubts(&mut self, is_dropped: impl Fn(&Guess) -> bool) {
        let dear = self.guesses.first().map_or(0, |best| best.cost) + DOUBT_COST;
        let (kept, dropped): (Vec<&mut Guess>, Vec<&mut Guess>) =
            self.guesses.iter_mut().partition(|guess| !is_dropped(guess));
        let near: Vec<&mut Guess> =
            dropped.into_iter().filter(|guess| guess.cost <= dear).collect();
        for guess in kept {
            for (reply, choice) in guess.choices.iter_mut().enumerate() {
                let place = choice.place();
                let mut others = near.iter().filter_map(|other| other.choices.get(reply));
                choice.is_doubted |= others.any(|other| other.place() != place);
            }
        }
    }

    /// What the cheapest guess gives a reply to.
    fn answer(&self, place: usize) -> Option<Answer> {
        let reply = *self.replies.get(place)?;
        let best = self.guesses.first()?;
        let choice = best.choices.get(place)?;
        let (_, request) = choice.request?;
        let doubts = || {
            let near = self.guesses.iter().take_while(|guess| guess.cost <= best.cost + DOUBT_COST);
            let mut places = near.filter_map(|guess| guess.choices.get(place)).map(Choice::place);
            places.any(|other| other != choice.place())
        };
        let is_sure = match choice.by {
            By::Itself => true,
            By::Number | By::Doubted => !choice.is_doubted && !doubts(),
            By::Turn => false,
        };
        Some(Answer { reply, request, is_sure })
    }

    fn reply(&mut self, event: &Event) {
        let mut guesses = Vec::with_capacity(GUESSES_MAX);
        for guess in std::mem::take(&mut self.guesses) {
            self.extend(guess, event, &mut guesses);
        }
        guesses.sort_by_key(|guess: &Guess| guess.cost);
        let least = guesses.first().map_or(0, |guess| guess.cost);
        for mut guess in guesses {
            guess.cost -= least;
            if self.guesses.len() >= GUESSES_MAX || guess.cost > DROP_COST {
                break;
            }
            if !self.guesses.iter().any(|known| known.is_like(&guess)) {
                self.guesses.push(guess);
            }
        }
        self.replies.push_back((event.at, event.id));
    }

    /// Adds what the guess can become by the reply.
    fn extend(&self, guess: Guess, reply: &Event, guesses: &mut Vec<Guess>) {
        let named = reply.name.as_ref().and_then(|name| self.named.get(name)).and_then(|places| {
            places.iter().find(|place| self.fits(**place, reply) && !guess.has(**place))
        });
        if let Some(place) = named.copied() {
            guesses.push(self.given(guess, reply, place, By::Itself, 0));
        } else if let Some(number) = reply.number {
            self.by_number(guess, reply, number, guesses);
        } else {
            self.by_turn(guess, reply, guesses);
        }
    }

    /// Gives a reply without an id to the request that has waited longest. One that a later one was answered before
    /// has mostly lost its reply, so it comes last. Where the others show ids, those may tell that it was another's.
    fn by_turn(&self, guess: Guess, reply: &Event, guesses: &mut Vec<Guess>) {
        let mut fresh = self.fresh(&guess, reply);
        let Some(first) = fresh.next_back() else {
            drop(fresh);
            let mut all = self.waiting_for(reply).keys().filter(|place| !guess.has(**place));
            let Some(first) = all.next().copied() else {
                guesses.push(guess.without(SKIPPED_COST));
                return;
            };
            let by = if all.next().is_none() { By::Itself } else { By::Turn };
            guesses.push(self.given(guess, reply, first, by, 0));
            return;
        };
        let others: Vec<i64> = fresh.rev().take(TRIED_MAX - 1).collect();
        if others.is_empty() {
            guesses.push(self.given(guess, reply, first, By::Itself, 0));
        } else if guess.segments.is_empty() {
            guesses.push(self.given(guess, reply, first, By::Turn, 0));
        } else {
            for place in others {
                guesses.push(self.given(guess.clone(), reply, place, By::Doubted, 0));
            }
            guesses.push(self.given(guess, reply, first, By::Doubted, 0));
        }
    }

    fn by_number(&self, guess: Guess, reply: &Event, number: i64, guesses: &mut Vec<Guess>) {
        let expected = self.expected(&guess, reply, number);
        let fresh: Vec<i64> = self.fresh(&guess, reply).take(TRIED_MAX).collect();
        let offset = guess.segments.last().map(|segment| segment.offset);
        for place in fresh.iter().copied() {
            let skipped = offset.map(|offset| number - place - offset);
            let cost = match (skipped, expected) {
                (None, _) => 0,
                (Some(skipped), None) if skipped < 0 => RESTART_COST,
                (Some(skipped), Some(expected)) if skipped < 0 => {
                    // What nobody waits for any more may be the number of a client that began anew.
                    if guess.top.is_none_or(|top| expected > top) {
                        continue;
                    }
                    RESTART_COST
                }
                // The request that is expected is taken below.
                (Some(0), Some(_)) => continue,
                (Some(skipped), _) => SKIP_COST + skipped.max(1).ilog2(),
            };
            let first = guess.top.map_or(i64::MIN, |top| top + 1);
            // The ids were skipped just before it, or before one that waits too.
            let froms = if offset.is_none() || fresh.last() == Some(&place) {
                [Some(first), None]
            } else {
                [Some(first), Some(place)]
            };
            for from in froms.into_iter().flatten() {
                let segment = Segment { from, offset: number - place };
                let other = guess.clone().with(segment);
                guesses.push(self.given(other, reply, place, By::Number, cost));
            }
        }
        match (expected, offset) {
            (Some(place), _) => {
                if fresh.contains(&place) {
                    let offset = number - place + 1;
                    let other = guess.clone().with(Segment { from: place, offset });
                    guesses.push(other.without(LOST_COST));
                }
                guesses.push(self.given(guess, reply, place, By::Number, 0));
            }
            (None, Some(offset)) if number >= self.next + offset => {
                let segment = Segment { from: self.next, offset: number + 1 - self.next };
                guesses.push(guess.with(segment).without(LOST_COST));
            }
            (None, _) if guess.skips(number) => guesses.push(guess.without(SKIPPED_COST)),
            (None, _) => guesses.push(guess.without(STRAY_COST)),
        }
    }

    /// The request that has this number by the guess.
    fn expected(&self, guess: &Guess, reply: &Event, number: i64) -> Option<i64> {
        let mut to = i64::MAX;
        for segment in guess.segments.iter().rev() {
            let place = number - segment.offset;
            if (segment.from..to).contains(&place) && self.fits(place, reply) && !guess.has(place) {
                return Some(place);
            }
            to = segment.from;
        }
        None
    }

    /// The requests that wait and that no later one was answered before, the last first.
    fn fresh<'a>(
        &'a self,
        guess: &'a Guess,
        reply: &Event,
    ) -> impl DoubleEndedIterator<Item = i64> + 'a {
        let from = guess.top.map_or(i64::MIN, |top| top + 1);
        let places = self.waiting_for(reply).range(from..).rev().map(|(place, _)| *place);
        places.filter(|place| !guess.has(*place))
    }

    /// The requests of the kind that a reply answers: the proxy's own are for those that it refused.
    fn waiting_for(&self, reply: &Event) -> &BTreeMap<i64, Event> {
        let is_refusal = reply.turn == Turn::Refusal && !self.refused.is_empty();
        if is_refusal { &self.refused } else { &self.waiting }
    }

    /// A server behind it may refuse too.
    fn fits(&self, place: i64, reply: &Event) -> bool {
        self.waiting.contains_key(&place)
            || (reply.turn == Turn::Refusal && self.refused.contains_key(&place))
    }

    fn given(&self, mut guess: Guess, reply: &Event, place: i64, by: By, cost: u32) -> Guess {
        let request = self.waiting.get(&place).or_else(|| self.refused.get(&place));
        let waited = request.and_then(|request| Some(reply.at?.since(request.at?))).unwrap_or(0);
        guess.cost += cost + u32::try_from(waited / 1000 + 1).map_or(32, u32::ilog2);
        let request = request.map(|request| (place, request.id));
        guess.choices.push_back(Choice { request, by, is_doubted: false });
        if by == By::Number {
            guess.top = guess.top.max(Some(place));
        }
        guess
    }
}

impl Choice {
    fn place(&self) -> Option<i64> {
        self.request.map(|(place, _)| place)
    }
}

impl Guess {
    /// True where it answered the request, and that is not settled.
    fn has(&self, place: i64) -> bool {
        self.choices.iter().rev().any(|choice| choice.place() == Some(place))
    }

    fn with(mut self, segment: Segment) -> Self {
        self.segments.retain(|known| known.from < segment.from);
        self.segments.push(segment);
        if self.segments.len() > SEGMENTS_MAX {
            self.segments.remove(0);
        }
        self
    }

    /// Gives a reply to none.
    fn without(mut self, cost: u32) -> Self {
        self.cost += cost;
        self.choices.push_back(Choice { request: None, by: By::Number, is_doubted: false });
        self
    }

    /// True for an id between those of the last request before a skip and the first after it.
    fn skips(&self, number: i64) -> bool {
        self.segments.windows(2).any(|pair| {
            let [before, after] = pair else { return false };
            (after.from + before.offset..after.from + after.offset).contains(&number)
        })
    }

    /// True where the two will give the next replies to the same requests.
    fn is_like(&self, other: &Self) -> bool {
        self.segments.last().map(|segment| segment.offset)
            == other.segments.last().map(|segment| segment.offset)
            && self.top == other.top
            && self.choices.iter().map(Choice::place).eq(other.choices.iter().map(Choice::place))
    }
}
