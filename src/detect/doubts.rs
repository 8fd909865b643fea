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

/// Looks for what can never happen in rules of a set.
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
        let inquiry = Inquiry::new(&self.detections, work_max);
        let rules = self.changed_by(overrides);
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
        let inquiry = Inquiry::new(&self.detections, before.work_max);
        let mut found = BTreeMap::new();
        for (rule, change) in self.changed_by(overrides) {
            let name = &*rule.name;
            // What is compared with is the likeliest reason; where nothing is, the whole table is named.
            let mark = change.numbers.first().map_or(change.mark, |number| number.mark);
            let problem = |message| RuleProblem::at(&overrides.file, mark, message);
            let known = before.rules.get(name).and_then(Option::as_ref);
            let told = match known.zip(inquiry.of_rule(rule)) {
                Some((known, doubts)) => {
                    let new = doubts.iter().filter(|doubt| !known.contains(doubt));
                    let told = |message| format!("with this, `{name}` is in doubt: {message}");
                    let mut new: Vec<_> = new.map(|doubt| problem(told(&doubt.message))).collect();
                    new.dedup();
                    new
                }
                None => vec![problem(format!(
                    "whether `{name}` can still be what is meant was not looked at: the changed rules ask for too much"
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
    ) -> impl Iterator<Item = (&'a Rule, &'a Override)> {
        let change = |rule: &Rule| overrides.rules.get(&*rule.name);
        let changed = self.rules.iter().filter_map(move |rule| Some((rule, change(rule)?)));
        changed.filter(|(_, change)| change.can_be_doubted())
    }

    /// What can never happen, and what would be remembered without end.
    fn doubts(&self) -> Vec<RuleProblem> {
        self.doubts_within(Effort::Check.work_max())
    }

    fn doubts_within(&self, work_max: usize) -> Vec<RuleProblem> {
        let inquiry = Inquiry::new(&self.detections, work_max);
        let (mut found, mut passed_over) = (Vec::new(), Vec::new());
        for rule in &self.rules {
            match inquiry.of_rule(rule) {
                Some(doubts) => found.extend(doubts),
                None => passed_over.push(rule),
            }
        }
        if let Some(first) = passed_over.first() {
            let message = format!(
                "whether this rule can find anything was not looked at, as with {} others: the rules ask for too much; \
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
    fn new(detections: &'a [Expr], work_max: usize) -> Self {
        let asked = detections.iter().map(asked).collect();
        Self { detections, asked, work: Work::new(work_max) }
    }

    /// What is doubted of one rule; none where there was too much to look at.
    fn of_rule(&self, rule: &Rule) -> Option<Vec<RuleProblem>> {
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
mod tests {
    use super::*;
    use crate::detect::shipped;

    #[test]
    fn overrides_are_doubted_as_rules_are() {
        let doubts = |text: &str| {
            let mut tuned = RuleSet::compile(&shipped()).unwrap();
            let (overrides, problems) = Overrides::parse("overrides.toml", text);
            let before = tuned.doubted(&overrides, Effort::Load);
            assert_eq!((problems, tuned.tune(&overrides, &[])), (Vec::new(), Vec::new()), "{text}");
            let found = tuned.doubted_since(&before, &overrides);
            found.values().flatten().map(ToString::to_string).collect::<Vec<_>>()
        };
        let never = doubts("[rubber-stamp.numbers]\n\"ask_to_answer_ms|lt\" = 0\n");
        let expected =
            "overrides.toml:2:1: with this, `rubber-stamp` is in doubt: no call can fit this";
        assert!(matches!(&*never, [only] if only.starts_with(expected)), "{never:#?}");
        for good in [
            "[rubber-stamp.numbers]\n\"ask_to_answer_ms|lt\" = 1\n",
            "[call-burst]\ncount = 3\n[[call-burst.except]]\nprincipal = \"*\"\n",
            "[call-burst]\ndisabled = true\n",
        ] {
            assert_eq!(doubts(good), Vec::<String>::new(), "{good}");
        }
    }

    /// `number` stages, each of which asks `asked` fields of the calls.
    fn large(number: usize, asked: usize) -> String {
        let names: Vec<String> = (0..number).map(|stage| format!("s{stage}")).collect();
        let items = |name: &str| {
            let items = (0..asked).map(|item| format!("args.{name}x{item}: x"));
            helper(name, &items.collect::<Vec<_>>().join(", "))
        };
        format!(
            "title: t\ncorrelation: {{type: temporal, rules: [{}], group-by: [actor], timespan: 1m}}\n{}",
            names.join(", "),
            names.iter().map(|name| items(name)).collect::<String>()
        )
    }

    #[test]
    fn what_is_done_to_doubt_overrides_is_bounded_over_all_rules_and_told_where_it_ends() {
        let large = large(4, 100);
        let names: Vec<String> = (0..12).map(|rule| format!("big{rule:02}")).collect();
        let files: Vec<String> = names.iter().map(|name| format!("{name}.yml")).collect();
        let files: Vec<(&str, &str)> = files.iter().map(|name| (&**name, &*large)).collect();
        let told = |change: &str, work_max| {
            let text = names.iter().map(|name| format!("[{name}]\n{change}\n"));
            let (overrides, problems) = Overrides::parse("o.toml", &text.collect::<String>());
            let mut rules = RuleSet::compile(&files).unwrap();
            let before = rules.doubted_within(&overrides, work_max);
            assert_eq!((problems, rules.tune(&overrides, &[])), (Vec::new(), Vec::new()));
            let found = rules.doubted_since(&before, &overrides);
            found.into_values().flatten().map(|problem| problem.message).collect::<Vec<_>>()
        };
        // A rule has 4 stages and 6 pairs of them, which ask for 4 times 100 and 6 times 200.
        let of_rule = 1600;
        let change = "timespan = \"5m\"";
        assert_eq!(told(change, 12 * of_rule), Vec::<String>::new());
        let cut = told(change, 10 * of_rule + 1);
        assert_eq!(cut.len(), 2, "{cut:#?}");
        assert!(cut.iter().all(|told| told.contains("was not looked at")), "{cut:#?}");
        // What cannot raise a doubt is not looked at.
        assert_eq!(told("level = \"low\"", 0), Vec::<String>::new());
        assert_eq!(told("disabled = true", 0), Vec::<String>::new());
        let rules = RuleSet::compile(&files).unwrap();
        assert_eq!(rules.doubts_within(12 * of_rule), []);
        let cut = rules.doubts_within(10 * of_rule);
        assert!(matches!(&*cut, [only] if only.file == "big10.yml"), "{cut:#?}");
        assert!(cut[0].message.contains("as with 1 others"), "{cut:#?}");
    }

    /// What is doubted of a file that has all the cases it needs, as `line: message`.
    fn doubts(text: &str) -> Vec<String> {
        let rules = RuleSet::compile(&[("x.yml", text)]).unwrap();
        rules.doubts().into_iter().map(|p| format!("{}: {}", p.line, p.message)).collect()
    }

    fn detection(selections: &str, condition: &str) -> String {
        format!(
            "title: t\nlogsource: {{product: mcp}}\ndetection: {{{selections}, condition: {condition}}}\n"
        )
    }

    fn helper(name: &str, item: &str) -> String {
        format!(
            "---\ntitle: t\nname: {name}\nlogsource: {{product: mcp}}\n\
             detection: {{s: {{{item}}}, condition: s}}\n"
        )
    }

    fn sequence(group_by: &str, one: &str, other: &str) -> String {
        format!(
            "title: t\ncorrelation: {{type: temporal_ordered, rules: [a, b], group-by: [{group_by}], \
             timespan: 1m}}\n{}{}",
            helper("a", one),
            helper("b", other)
        )
    }

    #[test]
    fn a_stage_that_no_call_can_fill_is_told() {
        for (selections, condition) in [
            ("a: {outcome: ok}, b: {outcome: denied}", "a and b"),
            ("a: {outcome: ok, ran: no}, b: {ran: no}", "a and not b"),
            ("a: {args.x: y}", "a and not a"),
            ("a: {duration_ms|gt: 10}, b: {duration_ms|lt: 5}", "a and b"),
            ("a: {attempts|lt: 1}", "a"),
            ("a: {decision: approved}, b: {decision|exists: true}", "a and not b"),
            ("a: {tool.sensitive: [yes, unknown]}, b: {tool.sensitive: no}", "1 of a and b"),
        ] {
            let found = doubts(&detection(selections, condition));
            assert_eq!(found.len(), 1, "{selections}, {condition}: {found:?}");
            assert!(found[0].contains("contradicts itself"), "{found:?}");
        }
    }

    #[test]
    fn what_can_be_is_not_doubted() {
        for (selections, condition) in [
            ("a: {outcome: ok}, b: {outcome: denied}", "a or b"),
            ("a: {flags: x}, b: {flags: y}", "a and b"),
            ("a: {witnesses: client}, b: {witnesses: server}", "a and b"),
            ("a: {tool.name: x}, b: {tool.name: y}", "a and b"),
            ("a: {duration_ms|gt: 5}, b: {duration_ms|lt: 5.5}", "a and b"),
            ("a: {decision: approved}, b: {outcome: denied}", "a and b"),
            ("a: {duration_ms|exists: true}", "a"),
            ("a: {attempts|exists: true}", "a"),
            ("a: {duration_ms|lt: 0.5}", "a"),
            ("a: {attempts|gt: 1.5}", "a"),
            ("a: {kind: ingest, code: gap}", "a"),
        ] {
            let found = doubts(&detection(selections, condition));
            assert!(found.is_empty(), "{selections}, {condition}: {found:?}");
        }
        assert!(
            doubts(&sequence("principal", "principal: ann", "principal: [ann, bob]")).is_empty()
        );
        assert!(doubts(&sequence("tenant", "principal: ann", "principal: bob")).is_empty());
        assert!(doubts(&sequence("tenant", "outcome: ok", "outcome: denied")).is_empty());
        assert!(doubts(&sequence("principal", "principal: ann", "principal: 'a*'")).is_empty());
    }

    #[test]
    fn stages_that_are_never_in_one_group_are_told() {
        let found = doubts(&sequence("principal", "principal: ann", "principal: bob"));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("9: this can never be in one group with `a`"), "{found:?}");
        let found = doubts(&sequence("actor, tenant", "tenant: acme", "tenant: null"));
        assert_eq!(found.len(), 1, "{found:?}");
    }

    #[test]
    fn counts_that_never_fit_are_told() {
        let count = |body: &str| {
            format!(
                "title: t\ncorrelation: {{{body}, timespan: 1m}}\n{}{}",
                helper("a", "outcome: ok"),
                ""
            )
        };
        let values = "type: value_count, rules: [a], group-by: [tenant], \
                      condition: {field: tenant, gte: 2}";
        assert!(doubts(&count(values))[0].contains("never more than one"));
        let ratio = |condition: &str, per: &str| {
            format!(
                "title: t\ncorrelation: {{type: ratio, of: a, per: b, group-by: [actor], timespan: 1m, \
                 condition: {condition}, minimum: 3}}\n{}{}",
                helper("a", "outcome: ok"),
                helper("b", per)
            )
        };
        assert!(doubts(&ratio("{gt: 0.5, lt: 0.2}", "ran: yes"))[0].contains("no share"));
        assert!(doubts(&ratio("{gt: 1}", "ran: yes"))[0].contains("no share"));
        assert!(doubts(&ratio("{gte: 0.5}", "outcome: denied"))[0].contains("always 0"));
        assert!(doubts(&ratio("{gte: 0.5}", "ran: yes")).is_empty());
        let same = ratio("{gte: 0.5}", "ran: yes").replace("per: b", "per: a");
        let same = same.split("---\ntitle: t\nname: b").next().unwrap();
        assert!(doubts(same)[0].contains("share is always 1"), "{:?}", doubts(same));
        // Whatever they are called.
        assert!(doubts(&ratio("{gte: 0.5}", "outcome: ok"))[0].contains("share is always 1"));
    }

    #[test]
    fn one_group_of_everything_is_told_unless_the_rule_says_that_it_is_meant() {
        let count = |group_by: &str| {
            let body = "type: event_count, rules: [a], timespan: 1m, condition: {gte: 3}";
            format!("title: t\ncorrelation: {{{body}{group_by}}}\n{}", helper("a", "outcome: ok"))
        };
        let found = doubts(&count(""));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("1: there is no `group-by`, so that all"), "{found:?}");
        assert_eq!(doubts(&count(", group-by: []")), Vec::<String>::new());
        assert_eq!(doubts(&count(", group-by: [actor]")), Vec::<String>::new());
    }

    #[test]
    fn a_count_of_several_rules_is_apart_from_a_stage_where_all_of_them_are() {
        let text = |one: &str, other: &str| {
            format!(
                "title: t\ncorrelation: {{type: temporal_ordered, rules: [n, c], group-by: [principal], \
                 timespan: 1m}}\n---\ntitle: n\nname: n\ncorrelation: {{type: event_count, rules: [a, b], \
                 group-by: [principal], timespan: 1m, condition: {{gte: 2}}}}\n{}{}{}",
                helper("a", one),
                helper("b", other),
                helper("c", "principal: eve")
            )
        };
        assert_eq!(doubts(&text("principal: ann", "outcome: ok")), Vec::<String>::new());
        let found = doubts(&text("principal: ann", "principal: bob"));
        assert!(found[0].contains("can never be in one group with `a`"), "{found:?}");
    }

    #[test]
    fn groups_that_are_remembered_without_end_are_told() {
        let first = |fields: &str| {
            format!(
                "title: t\ncorrelation: {{type: first_seen, rules: [a], fields: [{fields}]}}\n{}",
                helper("a", "outcome: ok")
            )
        };
        assert!(doubts(&first("session, tenant"))[0].contains("no bound"));
        assert!(doubts(&first("principal, tenant")).is_empty());
    }

    #[test]
    fn all_that_is_wrong_is_told_of_good_and_bad_files_at_once() {
        let never = detection("a: {outcome: ok}, b: {outcome: denied}", "a and b");
        let found = RuleSet::inspect(&[("bad.yml", "title: t\n"), ("never.yml", &never)]);
        let told: Vec<(&str, &str)> =
            found.iter().map(|problem| (&*problem.file, &*problem.message)).collect();
        assert_eq!(told.len(), 3, "{told:?}");
        assert_eq!((told[0].0, told[1].0, told[2].0), ("bad.yml", "never.yml", "never.yml"));
        assert!(told.iter().any(|(_, message)| message.starts_with("`tests:` needs")));
    }
}
