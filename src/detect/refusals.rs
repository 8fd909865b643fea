//! What the compiler refuses, and what it says.

use super::RuleSet;

/// The problems of a file, as `line: message` texts.
fn problems(text: &str) -> Vec<String> {
    match RuleSet::compile(&[("x.yml", text)]) {
        Ok(_) => Vec::new(),
        Err(found) => found.into_iter().map(|p| format!("{}: {}", p.line, p.message)).collect(),
    }
}

fn refused(text: &str, expected: &str) {
    let found = problems(text);
    let is_told = found.iter().any(|problem| problem.contains(expected));
    assert!(is_told, "expected `{expected}`, found {found:?} in\n{text}");
}

fn detection(body: &str) -> String {
    format!("title: t\nlogsource: {{product: mcp}}\ndetection:\n{body}")
}

fn correlation(body: &str) -> String {
    let helper = "{title: t, name: a, logsource: {product: mcp}, detection: {s: {ran: no}, \
                  condition: s}}";
    format!("title: t\ncorrelation:\n{body}---\n{helper}\n")
}

const PLAIN: &str = "  s: {ran: no}\n  condition: s\n";
const COUNT: &str = "  type: event_count\n  rules: [a]\n  timespan: 1m\n  group-by: [actor]\n";

#[test]
fn items_that_are_not_supported_are_refused_with_line_and_reason() {
    for (item, expected) in [
        ("{toool.name: x}", "there is no field `toool.name`"),
        ("{tool.name|base64: x}", "the modifier `base64`"),
        ("{outcome: sucess}", "`outcome` is never `sucess`"),
        ("{code|re: '('}", "`code|re`: "),
        ("{args.h|cidr: '10.0.0.1/8'}", "`args.h|cidr` takes"),
        ("{code|i: x}", "the modifier `i`"),
        ("{code|exists|all: true}", "`all` means nothing"),
        ("{code|exists: [true, false]}", "`code|exists` takes true or false, and not several"),
        ("{code|exists: []}", "`code|exists` has an empty list"),
        ("{code: 1.10}", "`code` cannot be compared"),
        ("{code: []}", "`code` has an empty list"),
        ("{code|lt: 5}", "`code` is no number"),
        ("{at: '2026'}", "`at` is a time"),
        ("{duration_ms|gt: long}", "`duration_ms` is compared"),
        ("[word]", "keywords are not supported"),
    ] {
        let text = detection(&format!("  s: {item}\n  condition: s\n"));
        refused(&text, &format!("4: {expected}"));
    }
}

#[test]
fn files_that_are_not_supported_are_refused_with_line_and_reason() {
    let plain = || detection(PLAIN);
    for (text, expected) in [
        (detection("  s: {ran: no}\n  condition: s or t\n"), "5: the condition names `t`"),
        (detection("  s: {ran: no}\n"), "3: `detection` has no `condition`"),
        (plain() + "levle: high\n", "6: the key `levle` is not known; did you mean `level`"),
        (plain() + "level: severe\n", "6: `level: severe` is none of"),
        (plain() + "group-by: [flags]\n", "6: calls cannot be grouped by `flags`"),
        (plain() + "---\n" + &plain(), "7: a second rule that fires"),
        (plain() + "---\naction: repeat\n", "7: `action` (global, reset, repeat) is not supported"),
        (plain().replace("  s:", "  timeframe: 5m\n  s:"), "4: `timeframe` is not supported"),
        (plain().replace("mcp", "windows"), "2: logsource `product`"),
        (plain().replace("title: t", "name: t"), "1: `title` is missing"),
        ("a: [".to_owned(), ": this is not YAML"),
        ("- a\n".to_owned(), "1: a rule is a map of keys, not a list"),
        (String::new(), "1: the file is empty"),
        ("---\n# nothing\n".to_owned(), "1: the file is empty"),
    ] {
        refused(&text, expected);
    }
}

#[test]
fn correlations_that_are_not_supported_are_refused_with_line_and_reason() {
    let values = COUNT.replace("event_count", "value_count");
    let alias = COUNT.replace("[actor]", "[who]").replace("event_count", "temporal");
    let ratio = "  type: ratio\n  of: a\n  per: a\n  group-by: [actor]\n  timespan: 1m\n";
    for (body, expected) in [
        ("  type: absent\n".to_owned(), "3: the type `absent` is not supported"),
        (COUNT.to_owned(), "2: `condition` is missing"),
        (COUNT.replace("1m", "1y"), "5: `timespan` is a whole number"),
        (COUNT.replace("[a]", "[b]") + "  condition: {gte: 3}\n", "4: no rule in this file is"),
        (COUNT.replace("event_count", "temporal_ordered"), "1: this type takes"),
        ("  type: first_seen\n  rules: [a]\n".to_owned(), "2: `fields` is missing"),
        (values.clone() + "  condition: {gte: 3}\n", "7: `condition` has no `field`"),
        (values + "  condition: {gte: 3, field: flags}\n", "7: values of `flags` cannot"),
        (alias + "  aliases: {who: {b: actor}}\n", "7: the alias `who` names no field for the"),
        (format!("{ratio}  condition: {{gte: 2}}\n  minimum: 1\n"), "8: `condition` compares a"),
        (
            format!("{ratio}  condition: {{gte: 0.2, lt: 50}}\n  minimum: 1\n"),
            "8: `condition` compares a",
        ),
        (format!("{ratio}  condition: {{gte: 0.5}}\n"), "2: `minimum` is the least number"),
        ("  type: taint\n  source: a\n  group-by: [actor]\n".to_owned(), "2: `sink` is missing"),
        ("  type: taint\n  source: a\n  sink: a\n".to_owned(), "2: `group-by` is missing"),
        (
            "  type: first_seen\n  rules: [a]\n  fields: []\n".to_owned(),
            "5: `fields` names no field",
        ),
        (
            "  type: first_seen\n  rules: [a, a]\n  fields: [actor]\n".to_owned(),
            "4: this type takes one",
        ),
    ] {
        refused(&correlation(&body), expected);
    }
}

/// A count over the rules, with an alias, of a helper that has a name and an id.
fn aliased(rules: &str, fields: &str) -> String {
    format!(
        "title: t\ncorrelation:\n  {{type: event_count, rules: [{rules}], group-by: [who], timespan: 1m,\n   \
         aliases: {{who: {{{fields}}}}}, condition: {{gte: 3}}}}\n---\n\
         {{title: t, name: a, id: 0a, logsource: {{product: mcp}}, detection: {{s: {{ran: no}}, condition: s}}}}\n"
    )
}

#[test]
fn an_alias_may_give_the_name_of_a_rule_where_rules_gives_its_id_and_the_other_way_round() {
    for (rules, named) in [("a", "a"), ("a", "0a"), ("0a", "a"), ("0a", "0a")] {
        let text = aliased(rules, &format!("{named}: principal"));
        let set = RuleSet::compile(&[("x.yml", &text)]).unwrap();
        let [grouping] = set.rules[0].groupings.as_slice() else { panic!("{rules}, {named}") };
        assert_eq!(grouping.fields, [super::field::GroupField::Principal], "{rules}, {named}");
    }
    refused(&aliased("a", "b: principal"), "4: `rules` does not name `b`");
    refused(&aliased("a", "b: principal"), "4: the alias `who` names no field for the rule `a`");
    let twice = aliased("a", "0a: principal, a: client");
    refused(&twice, "4: the alias `who` names a second field for `a`");
}

#[test]
fn a_name_or_an_id_means_one_document() {
    let count = "title: t\ncorrelation: {type: event_count, rules: [a], group-by: [actor], \
                 timespan: 1m, condition: {gte: 2}}\n";
    let helper = |called: &str| format!("---\n{called}\n{}", detection(PLAIN));
    let with = |one: &str, other: &str| format!("{count}{}{}", helper(one), helper(other));
    for (text, expected) in [
        (with("name: a", "name: a"), "11: the name `a` is used twice"),
        (with("id: a", "id: a"), "11: the id `a` is used twice"),
        (with("id: a", "name: a"), "11: the name `a` is another document's id"),
        (format!("id: x\n{count}{}", helper("id: x\nname: a")), "5: the id `x` is used twice"),
    ] {
        refused(&text, expected);
    }
    let both = format!("{count}{}", helper("id: a\nname: a"));
    assert_eq!(problems(&both), Vec::<String>::new());
}

#[test]
fn what_sigma_files_tell_people_and_other_programs_is_read_and_kept_out_of_the_way() {
    let told = "related:\n  - {id: a, type: derived}\nfields: [principal]\ntaxonomy: sigma\nscope: [server]\n\
                license: MIT\ndate: 2026-01-02\nmodified: 2026/01/02\nauthor: Ann\n";
    assert_eq!(problems(&(detection(PLAIN) + told)), Vec::<String>::new());
    // They take no other key's place.
    let first = "  type: first_seen\n  rules: [a]\n";
    refused(&(format!("fields: [actor]\n{}", correlation(first))), "3: `fields` is missing");
}

#[test]
fn conditions_that_no_call_decides_are_refused() {
    for (condition, expected) in [
        ("{lte: 3}", "7: `condition` needs a lower bound"),
        ("{neq: 3}", "7: `condition` needs a lower bound"),
        ("{eq: 0}", "7: `condition` fits no whole number"),
        ("{gte: 2.5}", "7: counts are whole numbers, and 2.5 is none"),
        ("{gte: 5, lt: 5}", "7: `condition` fits no whole number"),
        ("{gtee: 5}", "7: `condition` knows eq, neq"),
        ("{gte: 3}\n  aliases: {}", "8: `aliases` is a map"),
        ("{gte: 3}\n  fields: [actor]", "8: this type"),
        ("{gte: 3}\n  generate: true", "8: only `gen"),
    ] {
        refused(&correlation(&format!("{COUNT}  condition: {condition}\n")), expected);
    }
}

#[test]
fn a_problem_is_told_with_its_column() {
    let text = detection("  s: {ran: no, outcome: sucess}\n  condition: s\n");
    let found = RuleSet::compile(&[("x.yml", &text)]).unwrap_err();
    assert!(found[0].to_string().starts_with("x.yml:4:16: `outcome` is never"), "{}", found[0]);
    let text = detection("  s: {ran: no}\n  condition: s or t\n");
    let found = RuleSet::compile(&[("x.yml", &text)]).unwrap_err();
    assert!(
        found[0].to_string().starts_with("x.yml:5:14: the condition names `t`"),
        "{}",
        found[0]
    );
}

#[test]
fn all_problems_of_all_files_are_reported_at_once() {
    let bad = detection("  s: {a: x, b: y}\n  condition: s\n") + "levle: high\n";
    let found = RuleSet::compile(&[("b.yml", &bad), ("a.yml", &bad)]).unwrap_err();
    let files: Vec<&str> = found.iter().map(|problem| problem.file.as_str()).collect();
    assert_eq!(files, ["a.yml", "a.yml", "a.yml", "b.yml", "b.yml", "b.yml"]);
}

#[test]
fn equal_detections_are_evaluated_once() {
    let plain = detection(PLAIN);
    let set = RuleSet::compile(&[("a.yml", &plain), ("b.yml", &plain)]).unwrap();
    assert_eq!((set.rules.len(), set.detections.len()), (2, 1));
}

/// A correlation of that body over another one, of that body as well.
fn nested(outer: &str, inner: &str) -> String {
    let helper = |name: &str| {
        format!(
            "---\n{{title: t, name: {name}, logsource: {{product: mcp}}, \
             detection: {{s: {{ran: no}}, condition: s}}}}\n"
        )
    };
    let (a, b) = (helper("a"), helper("b"));
    format!(
        "title: t\ncorrelation: {{{outer}}}\n---\ntitle: t\nname: i\ncorrelation: {{{inner}}}\n{a}{b}"
    )
}

#[test]
fn correlations_of_correlations_are_refused_where_they_cannot_be() {
    let sequence = "type: temporal_ordered, rules: [a, b], group-by: [actor], timespan: 1m";
    let of = |kind: &str| {
        format!(
            "type: {kind}, rules: [i, a], group-by: [actor], timespan: 1m, condition: {{gte: 2}}"
        )
    };
    let counting = of("event_count");
    assert_eq!(problems(&nested(&counting, sequence)), Vec::<String>::new());
    let ratio = "type: ratio, of: i, per: a, group-by: [actor], timespan: 1m, condition: {gte: 0.5}, minimum: 1";
    let taint = "type: taint, source: a, sink: b, group-by: [actor]";
    let others = "type: temporal_ordered, rules: [a, b], group-by: [tenant], timespan: 1m";
    for (text, expected) in [
        (
            nested(ratio, sequence),
            "2: `i` is a correlation, and this type looks at detections alone",
        ),
        (
            nested("type: taint, source: i, sink: a, group-by: [actor]", sequence),
            "2: `i` is a correlation, and this type looks at detections alone",
        ),
        (
            nested("type: first_seen, rules: [i], fields: [actor]", sequence),
            "2: `i` is a correlation, and this type looks at detections alone",
        ),
        (nested(&counting, taint), "2: `i` is no event_count, value_count, ratio, temporal"),
        (nested(&counting, others), "2: this stage has another `group-by`"),
        (
            nested(&counting, &of("event_count")),
            "6: correlations are inside one another more than 3",
        ),
    ] {
        refused(&text, expected);
    }
    // Three deep is fine, and four are too many.
    let deep = |depth: usize| {
        let level = |number: usize| {
            format!(
                "---\ntitle: t\nname: n{number}\ncorrelation: {{type: temporal, rules: [n{}, a], group-by: [actor], \
                 timespan: 1m}}\n",
                number + 1
            )
        };
        let levels: String = (1..depth).map(level).collect();
        let text =
            nested("type: temporal, rules: [n1, a], group-by: [actor], timespan: 1m", sequence);
        text.replacen("---\n", &format!("{levels}---\n"), 1)
            .replace("name: i", &format!("name: n{depth}"))
    };
    assert_eq!(problems(&deep(2)), Vec::<String>::new());
    refused(&deep(3), "correlations are inside one another more than 3 deep");
}

#[test]
fn what_correlations_rest_on_has_a_bound_in_number() {
    // Each of the sixteen stages is a sequence of two: forty-eight slots.
    let names = vec!["i"; 16].join(", ");
    let outer = format!("type: temporal, rules: [{names}], group-by: [actor], timespan: 1m");
    let inner = "type: temporal_ordered, rules: [a, b], group-by: [actor], timespan: 1m";
    refused(&nested(&outer, inner), "the rule looks for more than 31 kinds of calls");
    let outer = "type: temporal, rules: [i, i], group-by: [actor], timespan: 1m";
    assert_eq!(problems(&nested(outer, inner)), Vec::<String>::new());
}
