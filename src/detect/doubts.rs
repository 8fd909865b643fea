//! What is wrong with rules that can be read and run: cases that are missing, stages that no call can
//! fill, groups without a bound. Told by `rules check`.

use std::collections::BTreeMap;

use super::bounds::Bounds;
use super::compile::{Compiled, compiled};
use super::field::GroupField;
use super::matcher::{Expr, Item};
use super::overrides::Overrides;
use super::problem::RuleProblem;
use super::rule::{FirstSeen, Kind, Rule, RuleSet};
use super::stages::{Chain, Slot, Stage};
use super::tally::Counted;

/// Combinations of values that are tried, times what is asked of each; with more, a detection is taken to be possible.
const TRIED_MAX: usize = 2_000_000;
/// Values that are compared with; with more, too.
const ASKED_MAX: usize = 1000;

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

    /// What is doubted of rules only since overrides changed them, by the rule's name; `written` are the rules without
    /// the overrides.
    pub fn inspect_tuned(
        &self,
        written: &Self,
        overrides: &Overrides,
    ) -> BTreeMap<String, Vec<RuleProblem>> {
        let mut found = BTreeMap::new();
        for (name, change) in &overrides.rules {
            let of = |set: &Self| {
                let rule = set.rules.iter().find(|rule| *rule.name == **name);
                rule.map_or_else(Vec::new, |rule| set.doubts_of(rule))
            };
            let doubts = of(self);
            if doubts.is_empty() {
                continue;
            }
            let known = of(written);
            // What is compared with is the likeliest reason; where nothing is, the whole table is named.
            let mark = change.numbers.first().map_or(change.mark, |number| number.mark);
            let told = |doubt: &RuleProblem| {
                let message = format!("with this, `{name}` is in doubt: {}", doubt.message);
                RuleProblem::at(&overrides.file, mark, message)
            };
            let new = doubts.iter().filter(|doubt| !known.contains(doubt));
            let mut new: Vec<RuleProblem> = new.map(told).collect();
            new.dedup();
            if !new.is_empty() {
                found.insert(name.clone(), new);
            }
        }
        found
    }

    /// What can never happen, and what would be remembered without end.
    fn doubts(&self) -> Vec<RuleProblem> {
        self.rules.iter().flat_map(|rule| self.doubts_of(rule)).collect()
    }

    fn doubts_of(&self, rule: &Rule) -> Vec<RuleProblem> {
        let mut found = Vec::new();
        match &rule.kind {
            Kind::Chain(chain) => self.of_chain(rule, chain, &mut found),
            Kind::FirstSeen(first) => self.of_first_seen(rule, first, &mut found),
        }
        found
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
        let expr = |slot: Option<&Slot>| slot.and_then(|slot| self.detections.get(slot.detection));
        let exprs: Vec<&Expr> = [expr(one), expr(other)].into_iter().flatten().collect();
        if asked(&exprs) > ASKED_MAX {
            return true;
        }
        Trial::of(&exprs, shared).is_possible(&exprs)
    }
}

/// How many values the detections compare with.
fn asked(exprs: &[&Expr]) -> usize {
    let mut asked = 0_usize;
    for expr in exprs {
        expr.each_item(&mut |item| asked = asked.saturating_add(item.tests_len()));
    }
    asked
}

fn name(slot: Option<&Slot>) -> &str {
    slot.map_or("", |slot| &*slot.name)
}

/// What the items of some detections look at, and the values that tell all of it apart.
struct Trial<'a> {
    variables: Vec<Variable>,
    shared: Option<&'a [GroupField]>,
}

struct Variable {
    name: String,
    /// None: the call has no value. Of a variable that stands for a question, whether it is so.
    values: Vec<Option<String>>,
}

/// A detection as truth tables over the variables.
enum Table {
    Item { variable: usize, holds: Vec<bool> },
    And(Vec<Table>),
    Or(Vec<Table>),
    Not(Box<Table>),
}

impl<'a> Trial<'a> {
    fn of(exprs: &[&Expr], shared: Option<&'a [GroupField]>) -> Self {
        let mut items = Vec::new();
        for (number, expr) in exprs.iter().enumerate() {
            expr.each_item(&mut |item| items.push((number, item)));
        }
        let mut trial = Self { variables: Vec::new(), shared };
        for (number, item) in &items {
            let name = trial.name_of(*number, item);
            if trial.variables.iter().any(|known| known.name == name) {
                continue;
            }
            let same: Vec<&Item> = items
                .iter()
                .filter(|(number, other)| trial.name_of(*number, other) == name)
                .map(|(_, item)| *item)
                .collect();
            let values = if trial.is_question(item) { yes_no() } else { values(&same) };
            trial.variables.push(Variable { name, values });
        }
        trial
    }

    /// Questions whose answers are not told apart by values: they may be answered either way.
    fn is_question(&self, item: &Item) -> bool {
        !(item.has_one_value() || self.is_shared(item) && item.texts().is_some())
    }

    fn is_shared(&self, item: &Item) -> bool {
        let is_field = |field: &GroupField| {
            // A tool's name is asked with and without its namespace.
            *field != GroupField::ToolName && field.as_str() == item.field_name()
        };
        self.shared.is_some_and(|shared| shared.iter().any(is_field))
    }

    /// Names what an item looks at: of two calls, what they need not have in common is of its own.
    fn name_of(&self, number: usize, item: &Item) -> String {
        let own = if self.shared.is_none() || self.is_shared(item) { 0 } else { number };
        let what = if self.is_question(item) { item.asks() } else { item.field_name() };
        format!("{own} {what}")
    }

    fn is_possible(&self, exprs: &[&Expr]) -> bool {
        let sizes = self.variables.iter().map(|variable| variable.values.len());
        let combinations = sizes.fold(1_usize, usize::saturating_mul);
        if combinations.saturating_mul(asked(exprs)) > TRIED_MAX {
            return true;
        }
        let tables: Vec<Table> =
            exprs.iter().enumerate().map(|(number, expr)| self.table(number, expr)).collect();
        (0..combinations).any(|combination| {
            let mut left = combination;
            let chosen: Vec<usize> = self
                .variables
                .iter()
                .map(|variable| {
                    let size = variable.values.len().max(1);
                    let choice = left % size;
                    left /= size;
                    choice
                })
                .collect();
            tables.iter().all(|table| table.holds(&chosen))
        })
    }

    fn table(&self, number: usize, expr: &Expr) -> Table {
        let all = |parts: &[Expr]| parts.iter().map(|part| self.table(number, part)).collect();
        match expr {
            Expr::And(parts) => Table::And(all(parts)),
            Expr::Or(parts) => Table::Or(all(parts)),
            Expr::Not(part) => Table::Not(Box::new(self.table(number, part))),
            Expr::Item(item) => {
                let name = self.name_of(number, item);
                let found = self.variables.iter().position(|variable| variable.name == name);
                let variable = found.unwrap_or_default();
                let values = self.variables.get(variable).map_or(&[][..], |known| &known.values);
                let holds = |value: &Option<String>| {
                    if self.is_question(item) {
                        value.is_some()
                    } else {
                        item.holds_for(value.as_deref())
                    }
                };
                Table::Item { variable, holds: values.iter().map(holds).collect() }
            }
        }
    }
}

impl Table {
    fn holds(&self, chosen: &[usize]) -> bool {
        match self {
            Self::Item { variable, holds } => {
                let choice = chosen.get(*variable).and_then(|choice| holds.get(*choice));
                choice.copied().unwrap_or(true)
            }
            Self::And(parts) => parts.iter().all(|part| part.holds(chosen)),
            Self::Or(parts) => parts.iter().any(|part| part.holds(chosen)),
            Self::Not(part) => !part.holds(chosen),
        }
    }
}

fn yes_no() -> Vec<Option<String>> {
    vec![None, Some(String::new())]
}

/// Values of one field that tell apart all that these items ask of it.
fn values(items: &[&Item]) -> Vec<Option<String>> {
    let Some(first) = items.first() else { return Vec::new() };
    let mut values = Vec::new();
    if first.may_be_missing() {
        values.push(None);
    }
    if let Some(words) = first.words() {
        values.extend(words.into_iter().map(|word| Some(word.to_owned())));
    } else if first.is_number() {
        // Two that nobody may ask for, and those beside each that is: numbers can be whole ones only.
        let asked = items.iter().flat_map(|item| item.numbers());
        let mut asked: Vec<f64> = asked.chain([0.0, 1.0]).collect();
        asked.sort_by(f64::total_cmp);
        let between: Vec<f64> =
            asked.windows(2).map(|pair| f64::midpoint(pair[0], pair[1])).collect();
        let beside =
            |number: &f64| [number - 1.0, number.floor(), *number, number.ceil(), number + 1.0];
        let around = asked.iter().flat_map(beside);
        let numbers = around.chain(between).filter(|number| first.can_be(*number));
        values.extend(numbers.map(|number| Some(number.to_string())));
    } else {
        let texts = items.iter().filter_map(|item| item.texts()).flatten();
        values.extend(texts.map(|text| Some(text.to_owned())));
        // And one that nobody asks for.
        values.push(Some("\u{0}".to_owned()));
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detect::shipped;

    #[test]
    fn overrides_are_doubted_as_rules_are() {
        let doubts = |text: &str| {
            let written = RuleSet::compile(&shipped()).unwrap();
            let mut tuned = RuleSet::compile(&shipped()).unwrap();
            let (overrides, problems) = Overrides::parse("overrides.toml", text);
            assert_eq!((problems, tuned.tune(&overrides, &[])), (Vec::new(), Vec::new()), "{text}");
            let found = tuned.inspect_tuned(&written, &overrides);
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
