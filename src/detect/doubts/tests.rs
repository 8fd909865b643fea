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
    // Half of it is shared out among those that are to come: where it is not enough for all, most are looked at.
    let cut = told(change, 10 * of_rule + 1);
    assert_eq!(cut.len(), 4, "{cut:#?}");
    assert!(cut.iter().all(|told| told.contains("was not looked at")), "{cut:#?}");
    // What cannot raise a doubt is not looked at.
    assert_eq!(told("level = \"low\"", 0), Vec::<String>::new());
    assert_eq!(told("disabled = true", 0), Vec::<String>::new());
    let rules = RuleSet::compile(&files).unwrap();
    assert_eq!(rules.doubts_within(12 * of_rule), []);
    let cut = rules.doubts_within(10 * of_rule);
    assert!(matches!(&*cut, [only] if only.file == "big08.yml"), "{cut:#?}");
    assert!(cut[0].message.contains("as with 3 others"), "{cut:#?}");
}

#[test]
fn a_rule_that_asks_for_much_leaves_those_after_it_their_share() {
    // Three values of each of ten fields: all of their combinations have to be tried, and none fits.
    let items: Vec<String> = (0..10).map(|item| format!("args.x{item}: x")).collect();
    let greedy = detection(&format!("a: {{{}}}", items.join(", ")), "a and not a");
    let modest = detection("a: {duration_ms|lt: 5}", "a");
    let files = [("a.yml", &*greedy), ("b.yml", &*modest), ("c.yml", &*modest)];
    let text = "[[a.except]]\nprincipal = \"ann\"\n[b.numbers]\n\"duration_ms|lt\" = 0\n\
                [c.numbers]\n\"duration_ms|lt\" = 1\n";
    let (overrides, problems) = Overrides::parse("o.toml", text);
    let mut rules = RuleSet::compile(&files).unwrap();
    let before = rules.doubted_within(&overrides, 1_000);
    assert_eq!((problems, rules.tune(&overrides, &[])), (Vec::new(), Vec::new()));
    let found = rules.doubted_since(&before, &overrides);
    let told: Vec<(&str, &str)> = found
        .iter()
        .flat_map(|(rule, doubts)| doubts.iter().map(|doubt| (&**rule, &*doubt.message)))
        .collect();
    let [("a", passed_over), ("b", doubt)] = *told else { panic!("{told:#?}") };
    assert!(passed_over.contains("not looked at: it asks for too much"), "{passed_over}");
    assert!(doubt.contains("no call can fit this"), "{doubt}");
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
    assert!(doubts(&sequence("principal", "principal: ann", "principal: [ann, bob]")).is_empty());
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
