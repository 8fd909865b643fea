//! Counting calls, values and shares in a window that ends at a call.

use std::borrow::Cow;
use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::bounds::Bounds;
use super::chain::Event;
use super::field::ValueField;
use super::stages::Chain;
use crate::model::Micros;

/// A stage that is filled by every call with which a count in the timespan before it fits.
#[derive(Clone, Debug)]
pub(super) struct Count {
    pub(super) timespan_micros: i64,
    /// The slots whose calls are counted, as bits; of a share, the one of those whose share is asked for.
    pub(super) slots: u32,
    pub(super) what: Counted,
}

/// What is counted, and what fits.
#[derive(Clone, Debug)]
pub(super) enum Counted {
    /// Calls. The number is the least that fits.
    Events(Bounds, u64),
    /// Different values of a field. The number is the least that fits.
    Values { field: ValueField, bounds: Bounds, min: u64 },
    /// Of the calls of the slot `per`, of which there are at least so many, the share that fit the
    /// count's slot, too.
    Share { per: usize, bounds: Bounds, minimum: u64 },
}

impl Count {
    /// The slots whose calls are looked at, as bits.
    pub(super) const fn base(&self) -> u32 {
        match self.what {
            Counted::Share { per, .. } => 1 << per,
            _ => self.slots,
        }
    }

    /// The least that can fit: calls, or values.
    pub(super) const fn least(&self) -> u64 {
        match self.what {
            Counted::Events(_, min) | Counted::Values { min, .. } => min,
            Counted::Share { minimum, .. } => minimum,
        }
    }

    /// The fewest calls that can fit: one call may show an argument many times.
    pub(super) const fn least_calls(&self) -> u64 {
        match self.what {
            Counted::Values { field: ValueField::Arg(_), min, .. } if min > 1 => 1,
            _ => self.least(),
        }
    }

    /// What is asked for: calls, values, or percent.
    pub(super) fn threshold(&self) -> u64 {
        match &self.what {
            Counted::Events(_, min) | Counted::Values { min, .. } => *min,
            Counted::Share { bounds, .. } => percent(bounds.first().unwrap_or_default()),
        }
    }

    /// True where fewer calls never fit when more do not.
    pub(super) fn only_grows(&self) -> bool {
        match &self.what {
            Counted::Events(bounds, _) | Counted::Values { bounds, .. } => !bounds.has_ceiling(),
            Counted::Share { .. } => false,
        }
    }

    /// The slots in which a call of the window can be shown, as bits; none for a call that is not counted.
    pub(super) fn shown_in(&self, event: &Event) -> u32 {
        let own = event.stages() & self.slots;
        let is_counted = match &self.what {
            Counted::Events(..) => true,
            Counted::Values { field, .. } => {
                own != 0 && event.call().is_some_and(|call| field.is_in(call))
            }
            Counted::Share { per, .. } => {
                let rest = event.stages() & (1 << per);
                return if rest != 0 && own != 0 { own } else { rest };
            }
        };
        if is_counted { own } else { 0 }
    }
}

fn percent(share: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share is from 0 to 1"
    )]
    let percent = (share.clamp(0.0, 1.0) * 100.0).round() as u64;
    percent
}

/// The window of one counted stage, moved from call to call.
pub(super) struct Tally<'a> {
    count: &'a Count,
    window: VecDeque<&'a Event>,
    values: FxHashMap<Cow<'a, str>, u64>,
    /// Calls of the window that fit the count's own slots.
    own_count: u64,
    /// Nothing before a longer gap than this, in microseconds, is counted.
    gap_micros: Option<i64>,
    before: Option<Micros>,
}

impl<'a> Tally<'a> {
    pub(super) fn new(count: &'a Count) -> Self {
        let (window, values) = (VecDeque::new(), FxHashMap::default());
        Self { count, window, values, own_count: 0, gap_micros: None, before: None }
    }

    /// Counts within a session where the rule asks for one.
    pub(super) fn within(self, chain: &Chain) -> Self {
        Self { gap_micros: chain.gap_micros(), ..self }
    }

    /// Takes the next call in order; true if the stage is filled by it.
    pub(super) fn take(&mut self, event: &'a Event) -> bool {
        if let Some(gap) = self.gap_micros {
            let is_apart = self.before.is_some_and(|before| event.at().since(before) > gap);
            if is_apart {
                self.window.clear();
                self.values.clear();
                self.own_count = 0;
            }
            self.before = Some(event.at());
        }
        if self.count.shown_in(event) == 0 {
            return false;
        }
        self.add(event);
        while let Some(first) = self.window.front().copied()
            && event.at().since(first.at()) > self.count.timespan_micros
        {
            self.window.pop_front();
            self.drop(first);
        }
        let calls = self.window.len() as u64;
        match &self.count.what {
            Counted::Events(bounds, _) => bounds.hold(calls as f64),
            Counted::Values { bounds, .. } => bounds.hold(self.values.len() as f64),
            Counted::Share { bounds, minimum, .. } => {
                calls >= *minimum && bounds.hold(self.own_count as f64 / calls as f64)
            }
        }
    }

    /// What the window comes to: calls, values, or percent.
    pub(super) fn figure(&self) -> u64 {
        let calls = self.window.len() as u64;
        match &self.count.what {
            Counted::Events(..) => calls,
            Counted::Values { .. } => self.values.len() as u64,
            Counted::Share { .. } => (self.own_count * 100).checked_div(calls).unwrap_or(0),
        }
    }

    fn add(&mut self, event: &'a Event) {
        self.window.push_back(event);
        self.own_count += u64::from(event.stages() & self.count.slots != 0);
        if let (Counted::Values { field, .. }, Some(call)) = (&self.count.what, event.call()) {
            field.each(call, &mut |value| *self.values.entry(value).or_insert(0) += 1);
        }
    }

    fn drop(&mut self, event: &'a Event) {
        self.own_count -= u64::from(event.stages() & self.count.slots != 0);
        if let (Counted::Values { field, .. }, Some(call)) = (&self.count.what, event.call()) {
            field.each(call, &mut |value| {
                let left = self.values.get_mut(&value).map_or(0, |count| {
                    *count -= 1;
                    *count
                });
                if left == 0 {
                    self.values.remove(&value);
                }
            });
        }
    }
}
