//! Rule files of somebody careless or hostile: each is refused for what it is, and costs little until then.

use super::{Overrides, RuleSet, shipped};

fn detection(selections: &str, condition: &str) -> String {
    format!(
        "title: t\nlogsource: {{product: mcp}}\ndetection:\n{selections}  condition: {condition}\n"
    )
}

/// A list of values of one field.
fn values(key: &str, values: impl Iterator<Item = String>) -> String {
    let values: Vec<String> = values.collect();
    detection(&format!("  s:\n    {key}: [{}]\n", values.join(", ")), "s")
}

fn count(timespan: &str, condition: &str) -> String {
    format!(
        "title: t\ncorrelation:\n  type: event_count\n  rules: [a]\n  group-by: [actor]\n  timespan: {timespan}\n  \
         condition: {condition}\n---\ntitle: a\nname: a\nlogsource: {{product: mcp}}\ndetection: {{s: {{ran: no}}, \
         condition: s}}\n"
    )
}

fn cases(cases: &str) -> String {
    detection("  s: {ran: no}\n", "s") + "tests:\n" + cases
}

fn repeated(times: usize, line: impl Fn(usize) -> String) -> String {
    (0..times).map(line).collect::<Vec<_>>().concat()
}

fn told(text: &str) -> String {
    let lines = RuleSet::inspect(&[("x.yml", text)]);
    assert!(lines.len() <= 1001, "{} lines", lines.len());
    let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

fn refused(attacks: &[(String, &str)]) {
    for (text, expected) in attacks {
        let told = told(text);
        let start: String = text.chars().take(300).collect();
        assert!(told.contains(expected), "expected `{expected}`, told\n{told}\nof\n{start}");
        assert!(told.lines().all(|line| line.chars().count() < 600), "{told}");
    }
}

#[test]
fn regular_expressions_and_wildcards_have_a_bound_in_sum() {
    let wide = |number: usize| format!(r"'\w{{20}}x{number}'");
    refused(&[
        (
            values("args.x|re", (0..300).map(|number| format!(r"'(?i)\w{{200}}x{number}'"))),
            "x.yml:5:5: `args.x|re`: this is too large: compiled",
        ),
        (
            values("args.x|re", (0..300).map(wide)),
            "what is made of this file is too large: more than 16 MiB",
        ),
        (
            values("args.x", (0..9000).map(|number| format!("'*evil*{number}*'"))),
            "is too large: more than 16 MiB",
        ),
        (
            values("args.x", (0..90_000).map(|number| format!("'*{number}*'"))),
            "tens of thousands of texts with `contains`",
        ),
        (values("args.x|contains", std::iter::once("a".repeat(5000))), "has 4096 bytes at most"),
        (
            values("args.x|re", std::iter::once(format!("'{}'", "a".repeat(100_000)))),
            "has 4096 bytes at most",
        ),
        (
            values("args.x|re", std::iter::once("'(((a{1000}){1000}){1000})'".to_owned())),
            "this is too large: compiled",
        ),
        (
            values(
                "args.x|re",
                std::iter::once(format!("'{}'", "(".repeat(2000) + &")".repeat(2000))),
            ),
            "nest",
        ),
        (
            values("args.x", std::iter::once(format!("'{}'", "*a".repeat(10_000)))),
            "has 4096 bytes at most",
        ),
    ]);
    // Stars in a row are one.
    assert!(
        !told(&values("args.x", std::iter::once(format!("'{}'", "*".repeat(10_000)))))
            .contains("x.yml:5")
    );
    // So has the whole set: files that are good one by one are refused from where it is too much.
    let files: Vec<(String, String)> = (0..40)
        .map(|file| {
            let some = (0..5).map(|number| wide(file * 100 + number));
            (format!("{file:02}.yml"), values("args.x|re", some))
        })
        .collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (&**name, &**text)).collect();
    assert!(RuleSet::compile(&files[..1]).is_ok());
    let found = RuleSet::compile(&files).unwrap_err();
    assert!(
        found[0].message.contains("all rule files together is too large: more than 64 MiB"),
        "{}",
        found[0]
    );
}

#[test]
fn ordinary_lists_of_texts_have_room() {
    let list = |key: &str, of: usize, many: usize, chars: usize| {
        let text = |number: usize| format!("'Ü{of:09}x{number:0width$}'", width = chars - 11);
        values(key, (0..many).map(text))
    };
    let starred = values("args.x", (0..5000).map(|number| format!("'*evil{number:036}*'")));
    let keys = ["args.x|contains", "args.x|startswith", "args.x|endswith|cased", "args.x"];
    for text in keys.map(|key| list(key, 0, 5000, 40)).into_iter().chain([starred]) {
        RuleSet::compile(&[("x.yml", &text)]).unwrap();
    }
    // A library of rules, beside those that come with the program.
    let files: Vec<(String, String)> = (0..2000)
        .map(|file| (format!("{file:04}.yml"), list("args.x|contains", file, 12, 64)))
        .collect();
    let mut files: Vec<(&str, &str)> =
        files.iter().map(|(name, text)| (&**name, &**text)).collect();
    files.extend(shipped());
    assert_eq!(RuleSet::compile(&files).unwrap().rules().len(), 2000 + shipped().len());
}

#[test]
fn conditions_lists_and_cases_have_a_bound() {
    let selections = |number: usize| -> String {
        repeated(number, |number| format!("  s{number}: {{args.x: y{number}}}\n"))
    };
    let often = vec!["all of s*"; 10_000].join(" and ");
    let stars = format!("1 of {}b", "a*".repeat(25));
    let one = format!("  {}: {{args.x: y}}\n", "a".repeat(60));
    let case = |events: &str, fires: &str| {
        format!("  - name: c\n    events: [{events}]\n    fires: {fires}\n")
    };
    let indices = format!("[{{calls: [{}]}}]", "0-4999, ".repeat(5000));
    let counted = |from: &str, to: &str| count("1m", "{gte: 3}").replace(from, to);
    let times = "{at: 1e300, repeat: 5, every: -1e300}, {at: -1}";
    let long = format!("title: {}", "x".repeat(1000));
    refused(&[
        (detection(&selections(1000), &often), "is too large: more than 16 MiB"),
        (detection(&one, &stars), "no selection fits"),
        (detection("  s: {ran: no}\n", &("not ".repeat(3000) + "s")), "nested more than 64 deep"),
        (
            cases(&case("{at: 0, repeat: 9000}, {at: 0, repeat: 9000}", "false")),
            "a case has 10000 events at most",
        ),
        (
            cases(&case("{at: 0, repeat: 10000}", "false").repeat(20)),
            "is too large: more than 16 MiB",
        ),
        (cases(&case("{at: 0, ran: no, repeat: 5000}", &indices)), "`calls` names 0 twice"),
        (cases(&case(times, "false")), "`at` is from 0"),
        (
            counted("[a]", &format!("[{}]", "a, ".repeat(20_000))),
            "`rules` names 20000 rules; 16 are the most",
        ),
        (counted("title: t", &long), "`title` has 1000 characters; 256 are the most"),
        (
            counted("title: t", &format!("title: t\ntags: [{}]", "a, ".repeat(1000))),
            "`tags` is a list of 100 texts at most",
        ),
        (repeated(60_000, |number| format!("kez{number}: v\n")), "more problems in this file"),
    ]);
    // What is large and not too large is looked at, and not for ever.
    for text in [
        values("args.x", (0..100_000).map(|number| format!("v{number}"))),
        values("duration_ms", (0..25_000).map(|number| number.to_string())),
        detection(&selections(5000), "all of them"),
    ] {
        RuleSet::compile(&[("x.yml", &text)]).unwrap();
        assert_eq!(told(&text).lines().count(), 1, "only the cases are missing: {}", told(&text));
    }
}

#[test]
fn yaml_that_grows_or_nests_is_refused_in_words() {
    let laughs: String = ('b'..='i')
        .scan('a', |before, name| {
            let line = format!("{name}: &{name} [{}]\n", vec![format!("*{before}"); 9].join(", "));
            *before = name;
            Some(line)
        })
        .collect();
    let nested: String = repeated(200, |depth| format!("{}a:\n", " ".repeat(depth)));
    refused(&[
        (
            format!("a: &a [x, x, x, x, x, x, x, x, x]\n{laughs}"),
            "this is too much for one rule file",
        ),
        (
            format!("title: t\nx: &x {}\nz: [{}]\n", "y".repeat(100_000), "*x, ".repeat(1000)),
            "this is too much for one rule file",
        ),
        ("a: &a [*a]\n".to_owned(), "x.yml:1:8: this repeats itself"),
        (nested, "this is nested more than 32 deep"),
        (format!("title: {}{}\n", "[".repeat(5000), "]".repeat(5000)), "x.yml:1:"),
        ("title: t\n---\n".repeat(100), "a file has 64 documents at most"),
        ("title: a\ntitle: b\n".to_owned(), "x.yml:2:1: the key `title` is there twice"),
        (count("1m", "{gte: 3, gte: 4}"), "the key `gte` is there twice"),
        ("title: !strange t\n".to_owned(), "x.yml:1:"),
        ("a: [1, 2\nb: 3\n".to_owned(), "this is not YAML that can be read: "),
    ]);
    assert!(!told("a: [1, 2\nb: 3\n").contains("error: line"));
}

#[test]
fn numbers_and_spans_are_what_they_say_or_refused() {
    let mut attacks = Vec::new();
    for span in [
        "999999999d",
        "99999999999999999999d",
        "-5m",
        "1e3s",
        "60",
        "60.5s",
        "",
        "'5 m'",
        "[5m]",
        "0s",
    ] {
        attacks.push((count(span, "{gte: 3}"), "`timespan` is a whole number"));
    }
    for (condition, expected) in [
        ("{gte: -3}", "`gte: -3` is below 0"),
        ("{gte: .nan}", "`.nan` is no number"),
        ("{gte: -.inf}", "`-.inf` is no number"),
        ("{gte: 1e400}", "`1e400` is no number"),
        ("{gte: 1e300}", "fits no whole number from 1 to 100000"),
        ("{gte: 99999999999999999999999}", "fits no whole number from 1 to 100000"),
        ("{gte: '3'}", "`gte` takes a number, not a text"),
        ("[3]", "`condition` is a map such as `{gte: 20}`, not a list"),
        ("3", "`condition` is a map such as `{gte: 20}`, not a number"),
    ] {
        attacks.push((count("1m", condition), expected));
    }
    refused(&attacks);
    for condition in ["{gte: 1e1}", "{gte: 10.0}", "{gte: 0x10}"] {
        assert_eq!(told(&count("1m", condition)).lines().count(), 1, "{condition}");
    }
}

#[test]
fn overrides_are_bounded_as_rules_are() {
    let told = |text: &str| {
        let (overrides, mut found) = Overrides::parse("overrides.toml", text);
        let mut rules = RuleSet::compile(&shipped()).unwrap();
        found.extend(rules.tune(&overrides, &[]));
        let lines: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert!(lines.len() <= 1001, "{} lines", lines.len());
        lines.join("\n")
    };
    let wild: Vec<String> = (0..9000).map(|number| format!("\"*p*{number}*\"")).collect();
    let many: String = repeated(5000, |number| format!("[rule{number}]\ncount = 1\n"));
    for (text, expected) in [
        (
            format!("[[call-burst.except]]\nprincipal = [{}]\n", wild.join(", ")),
            "2:13: `principal`: what is made of this file is too large",
        ),
        (format!("a = {}{}\n", "[".repeat(5000), "]".repeat(5000)), "1:85: cannot recurse further"),
        (many, "and 4000 more problems in this file"),
        ("[call-burst]\ncount = 1e3\n".to_owned(), "2:9: `count` is a whole number"),
        (
            "[call-burst]\ncount = 99999999999999999999999\n".to_owned(),
            "2:9: `count` is a whole number",
        ),
        ("[error-rate]\ncondition = {gte = nan}\n".to_owned(), "2:20: `gte` takes a number"),
        ("[error-rate]\ncondition = {gte = -0.5}\n".to_owned(), "2:14: `gte: -0.5` is below 0"),
        (
            "[call-burst]\ntimespan = \"999999999d\"\n".to_owned(),
            "2:12: `timespan` is a whole number",
        ),
    ] {
        let told = told(&text);
        assert!(told.contains(expected), "{expected}: {told}");
    }
}

#[test]
fn the_alerts_that_a_case_expects_are_bounded_in_number_and_in_sum() {
    let firing = |_| "{calls: [0-9999]}, ".to_owned();
    let of = |times: usize| {
        let fires = repeated(times, firing);
        cases(&format!("- {{name: a, events: [{{at: 0, repeat: 10000}}], fires: [{fires}]}}\n"))
    };
    refused(&[
        (of(12_000), "this list is too large: a case expects 1000 alerts at most"),
        (of(1_000), "what is made of this file is too large: more than 16 MiB"),
    ]);
    assert!(RuleSet::compile(&[("x.yml", &of(10))]).is_ok());
}

#[test]
fn two_files_of_one_name_are_two_rules_of_it_and_refused() {
    let text = detection("  s: {ran: no}\n", "s");
    for second in ["mine.yml", "mine.yaml"] {
        let files = [("mine.yml", text.as_str()), (second, text.as_str())];
        let problems = RuleSet::compile(&files).unwrap_err();
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].message.starts_with("there is another rule `mine`, in mine.y"));
    }
}
