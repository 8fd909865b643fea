//! What each rule costs: counted for every batch, and timed for a few calls of it.

use super::rule::RuleSet;

/// One call in this many is timed: looking at the clock for each rule and call would cost as much as a small rule.
const TIMED_EVERY: u64 = 64;

/// A clock that only runs forward, in nanoseconds. The engine has none of its own.
pub(super) type Clock = fn() -> u64;

/// What one rule has cost since the engine was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleCost {
    /// Calls looked at; a call that changed is looked at twice.
    pub looked_at: u64,
    /// Those of them that fit and have a group.
    pub fitting: u64,
    /// Time spent, estimated from the calls that were timed.
    pub nanos: u64,
    /// Groups held in memory.
    pub groups: u64,
    /// What the groups hold: calls, or values of a first-seen rule, and one for each group.
    pub held: u64,
    /// Groups that were let go to make room, to be read again from the store.
    pub let_go: u64,
}

/// Counts and times the rules of one engine.
#[derive(Debug, Default)]
pub(super) struct Meter {
    clock: Option<Clock>,
    costs: Vec<RuleCost>,
    calls: u64,
    /// When what is being timed began.
    began: Option<u64>,
}

impl Meter {
    pub(super) fn new(rules: &RuleSet) -> Self {
        Self { costs: vec![RuleCost::default(); rules.rules.len()], ..Self::default() }
    }

    pub(super) fn set_clock(&mut self, clock: Clock) {
        self.clock = Some(clock);
    }

    pub(super) fn costs(&self) -> &[RuleCost] {
        &self.costs
    }

    /// All rules are about to look at a call.
    pub(super) fn begin_call(&mut self) {
        self.calls += 1;
        // Never the first: it pays for what all others find prepared.
        let is_timed = self.calls.is_multiple_of(TIMED_EVERY);
        self.began = self.clock.filter(|_| is_timed).map(|clock| clock());
    }

    /// A rule has looked at the call.
    pub(super) fn looked(&mut self, rule: usize) {
        let Some(cost) = self.costs.get_mut(rule) else { return };
        cost.looked_at += 1;
        if let (Some(began), Some(clock)) = (self.began, self.clock) {
            let now = clock();
            cost.nanos += now.saturating_sub(began) * TIMED_EVERY;
            self.began = Some(now);
        }
    }

    /// The call fits the rule and has a group.
    pub(super) fn fitted(&mut self, rule: usize) {
        if let Some(cost) = self.costs.get_mut(rule) {
            cost.fitting += 1;
        }
    }

    /// The groups of a rule are about to be settled.
    pub(super) fn begin_rule(&mut self) {
        self.began = self.clock.map(|clock| clock());
    }

    /// They are.
    pub(super) fn settled(&mut self, rule: usize) {
        if let (Some(began), Some(clock), Some(cost)) =
            (self.began, self.clock, self.costs.get_mut(rule))
        {
            cost.nanos += clock().saturating_sub(began);
        }
    }
}
