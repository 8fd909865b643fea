//! What is wrong with rules that can be read and run: cases that are missing, stages that no call can
//! fill, groups without a bound. Told by `rules check`.

use std::collections::BTreeMap;

use super::bounds::Bounds;
use super::compile::{Compiled, compiled};
use super::field::GroupField;
use super::matcher::Expr;
use super::overrides::{Override, Overrides};
use super::possible::{self, Work, asked};
use super::problem::RuleProblem;
use super::rule::{FirstSeen, Kind, Rule, RuleSet};
use super::stages::{Chain, Slot, Stage};
use super::tally::Counted;

/// How much is done to find what can never happen: where rules are taken over everything else waits for it.
#[derive(Clone, Copy, Debug)]
pub enum Effort {
    /// While rules are taken over.
    Load,
    /// Where people ask for it.
    Check,
}

/// What is doubted of the rules that overrides can make doubtful, before they change them.
#[derive(Debug)]
pub struct Doubted {
    /// By the rule's name; none where there was too much to look at.
    rules: BTreeMap<String, Option<Vec<RuleProblem>>>,
    work_max: usize,
}

/// Looks for what can never happen in rules of a set, one after the other.
struct Inquiry<'a> {
    detections: &'a [Expr],
    /// How many values each of them compares with.
    asked: Vec<usize>,
    work: Work,
}

impl RuleSet {
    /// Everything that is wrong with the files, given as (name, text): also with those that can be
    /// read where others cannot.
    pub fn inspect(files: &[(&str, &str)]) -> Vec<RuleProblem> {
        let Compiled { set, mut problems, .. } = compiled(files);
        problems.extend(set.lacking_cases());
        problems.extend(set.doubts());
        problems.sort();
        problems.dedup();
        problems
    }

    /// The rules of the files that can be read, everything wrong with the others, and the names of these.
    pub fn readable<'f>(files: &[(&'f str, &'f str)]) -> (Self, Vec<RuleProblem>, Vec<&'f str>) {
        let Compiled { set, problems, unreadable } = compiled(files);
        (set, problems, unreadable)
    }

    /// What is doubted of the rules now, of those that the overrides can make doubtful. To be asked before they change
    /// them, for [`Self::doubted_since`].
    pub fn doubted(&self, overrides: &Overrides, effort: Effort) -> Doubted {
        self.doubted_within(overrides, effort.work_max())
    }

    fn doubted_within(&self, overrides: &Overrides, work_max: usize) -> Doubted {
        let rules = self.changed_by(overrides);
        let inquiry = Inquiry::new(&self.detections, work_max, rules.clone().count());
        let rules = rules.map(|(rule, _)| (rule.name.to_string(), inquiry.of_rule(rule))).collect();
        Doubted { rules, work_max }
    }

    /// What is doubted of rules only since overrides changed them, by the rule's name: as much is done to find it as
    /// was before.
    pub fn doubted_since(
        &self,
        before: &Doubted,
        overrides: &Overrides,
    ) -> BTreeMap<String, Vec<RuleProblem>> {
        let changed = self.changed_by(overrides);
        let inquiry = Inquiry::new(&self.detections, before.work_max, changed.clone().count());
        let mut found = BTreeMap::new();
        for (rule, change) in changed {
            let name = &*rule.name;
            // What is compared with is the likeliest reason; where nothing is, the whole table is named.
            let mark = change.numbers.first().map_or(change.mark, |number| number.mark);
            let problem = |message| RuleProblem::at(&overrides.file, mark, message);
            let known = before.rules.get(name).and_then(Option::as_ref);
            // Also where it is known not to be enough: it has to have its turn.
            let told = match known.zip(inquiry.of_rule(rule)) {
                Some((known, doubts)) => {
                    let new = doubts.iter().filter(|doubt| !known.contains(doubt));
                    let told = |message| format!("with this, `{name}` is in doubt: {message}");
                    let mut new: Vec<_> = new.map(|doubt| problem(told(&doubt.message))).collect();
                    new.dedup();
                    new
                }
                None => vec![problem(format!(
                    "whether `{name}` can still be what is meant was not looked at: it asks for too much, or all \
                     changed rules together do"
                ))],
            };
            if !told.is_empty() {
                found.insert(name.to_owned(), told);
            }
        }
        found
    }

    /// The rules that overrides can make doubtful, and how they are changed.
    fn changed_by<'a>(
        &'a self,
        overrides: &'a Overrides,
    ) -> impl Iterator<Item = (&'a Rule, &'a Override)> + Clone {
        let change = |rule: &Rule| overrides.rules.get(&*rule.name);
        let changed = self.rules.iter().filter_map(move |rule| Some((rule, change(rule)?)));
        changed.filter(|(_, change)| change.can_be_doubted())
    }

    /// What can never happen, and what would be remembered without end.
    fn doubts(&self) -> Vec<RuleProblem> {
        self.doubts_within(Effort::Check.work_max())
    }

    fn doubts_within(&self, work_max: usize) -> Vec<RuleProblem> {
        let inquiry = Inquiry::new(&self.detections, work_max, self.rules.len());
        let (mut found, mut passed_over) = (Vec::new(), Vec::new());
        for rule in &self.rules {
            match inquiry.of_rule(rule) {
                Some(doubts) => found.extend(doubts),
                None => passed_over.push(rule),
            }
        }
        if let Some(first) = passed_over.first() {
            let message = format!(
                "whether this rule can find anything was not looked at, as with {} others: they ask for too much; \
                 check them in folders of their own",
                passed_over.len() - 1
            );
            found.push(RuleProblem::at(&first.file, first.mark, message));
        }
        found
    }
}

impl Effort {
    /// The most work, as [`Work`] counts it.
    const fn work_max(self) -> usize {
        match self {
            Self::Load => 2_000_000,
            Self::Check => 50_000_000,
        }
    }
}

impl<'a> Inquiry<'a> {
    fn new(detections: &'a [Expr], work_max: usize, rules: usize) -> Self {
        let asked = detections.iter().map(asked).collect();
        Self { detections, asked, work: Work::new(work_max, rules) }
    }

    /// What is doubted of one rule; none where there was too much to look at.
    fn of_rule(&self, rule: &Rule) -> Option<Vec<RuleProblem>> {
        self.work.next();
        let mut found = Vec::new();
        match &rule.kind {
            Kind::Chain(chain) => self.of_chain(rule, chain, &mut found),
            Kind::FirstSeen(first) => self.of_first_seen(rule, first, &mut found),
        }
        (!self.work.is_spent()).then_some(found)
    }

    fn of_first_seen(&self, rule: &Rule, first: &FirstSeen, found: &mut Vec<RuleProblem>) {
        self.of_slot(rule, &first.slot, found);
        let fields = rule.groupings.iter().flat_map(|grouping| &grouping.fields);
        if fields.clone().any(|field| *field == GroupField::Session) {
            let message = "`session` has ever new values, which a first_seen rule remembers for ever: \
                           its groups have no bound; use `actor`";
            found.push(RuleProblem::at(&rule.file, rule.mark, message.to_owned()));
        }
    }

    fn of_chain(&self, rule: &Rule, chain: &Chain, found: &mut Vec<RuleProblem>) {
        if !rule.is_grouped {
            let message = "there is no `group-by`, so that all calls are one group of everything: its window holds \
                           every call that fits; if that is meant, say so with `group-by: []`";
            found.push(RuleProblem::at(&rule.file, rule.mark, message.to_owned()));
        }
        let before = found.len();
        for slot in &chain.slots {
            self.of_slot(rule, slot, found);
        }
        if found.len() > before {
            return;
        }
        let fields = match rule.groupings.as_slice() {
            [only] => only.fields.as_slice(),
            _ => &[],
        };
        self.of_stages(rule, &chain.slots, chain, fields, found);
    }

    /// Of a chain and those inside it, in which all the kinds of calls are possible.
    fn of_stages(
        &self,
        rule: &Rule,
        slots: &[Slot],
        chain: &Chain,
        fields: &[GroupField],
        found: &mut Vec<RuleProblem>,
    ) {
        for inner in &chain.inner {
            self.of_stages(rule, slots, &inner.chain, fields, found);
        }
        let mut problem = |slot: Option<&Slot>, message: String| {
            let mark = slot.map_or(rule.mark, |slot| slot.mark);
            found.push(RuleProblem::at(&rule.file, mark, message));
        };
        for stage in &chain.stages {
            let slot = slots.get(stage.slot);
            match stage.count.as_ref().map(|count| &count.what) {
                Some(Counted::Values { field, min, .. }) if *min > 1 => {
                    let own = fields.iter().find(|own| field.is_grouped(**own));
                    if let Some(name) = own.map(|own| own.as_str()) {
                        let message = format!(
                            "the calls are grouped by `{name}`, so that there is never more than one value of it to \
                             count"
                        );
                        problem(None, message);
                    }
                }
                Some(Counted::Share { per, bounds, .. }) => {
                    if let Some((slot, message)) = self.of_share(slot, slots.get(*per), bounds) {
                        problem(slot, message);
                    }
                }
                _ => {}
            }
        }
        for (number, stage) in chain.stages.iter().enumerate() {
            // Of what is counted together, or fills a stage together, any can be there.
            let kinds = |stage: &Stage| {
                let bits = chain.kinds(stage.slots());
                let of = move |(slot, _): &(usize, &Slot)| bits & (1 << slot) != 0;
                slots.iter().enumerate().filter(of).map(|(_, slot)| Some(slot))
            };
            let mut others = chain.stages.iter().take(number);
            let apart = others.find(|other| {
                !kinds(other).any(|one| {
                    kinds(stage).any(|other| self.are_possible(one, other, Some(fields)))
                })
            });
            if let Some(other) = apart {
                let message = format!(
                    "this can never be in one group with `{}`: they ask for different values of what the calls are \
                     grouped by",
                    name(kinds(other).next().flatten())
                );
                problem(kinds(stage).next().flatten(), message);
            }
        }
    }

    /// Why a share never fits or always does, and of which calls.
    fn of_share<'s>(
        &self,
        own: Option<&'s Slot>,
        per: Option<&'s Slot>,
        bounds: &Bounds,
    ) -> Option<(Option<&'s Slot>, String)> {
        let detection = |slot: Option<&Slot>| slot.map(|slot| slot.detection);
        let (of, all) = (name(own), name(per));
        if detection(own) == detection(per) {
            let message = format!(
                "`of` and `per` of the ratio are the same calls, those of `{all}`: the share is always 1"
            );
            return Some((per, message));
        }
        if !bounds.can_be_share() {
            return Some((None, "no share from 0 to 1 fits the `condition`".to_owned()));
        }
        (bounds.has_floor() && !self.are_possible(own, per, None))
            .then(|| (own, format!("no call fits both `{of}` and `{all}`: the share is always 0")))
    }

    fn of_slot(&self, rule: &Rule, slot: &Slot, found: &mut Vec<RuleProblem>) {
        if !self.are_possible(Some(slot), None, None) {
            let message = "no call can fit this: what it asks contradicts itself".to_owned();
            found.push(RuleProblem::at(&rule.file, slot.mark, message));
        }
    }

    /// Whether one call can fit both. With `shared`, two calls that have these fields in common.
    fn are_possible(
        &self,
        one: Option<&Slot>,
        other: Option<&Slot>,
        shared: Option<&[GroupField]>,
    ) -> bool {
        let detections = || [one, other].into_iter().flatten().map(|slot| slot.detection);
        let exprs: Vec<&Expr> = detections().filter_map(|it| self.detections.get(it)).collect();
        let asked = detections().filter_map(|detection| self.asked.get(detection));
        let asked = asked.copied().fold(0, usize::saturating_add);
        possible::are_possible(&exprs, asked, shared, &self.work)
    }
}

fn name(slot: Option<&Slot>) -> &str {
    slot.map_or("", |slot| &*slot.name)
}

#[cfg(test)]
mod tests;
