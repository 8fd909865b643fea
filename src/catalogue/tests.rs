//! The order of authority, and the labels the shipped file promises.

use super::*;

use proptest::prelude::*;

/// Labels as a word: o, s, b, d, r for open-world, sensitive, outbound, destructive, read-only
/// where the answer is yes, `-` where it is no, `?` where it is unknown.
fn word(labels: Labels) -> String {
    Label::ALL
        .into_iter()
        .zip("osbdr".chars())
        .map(|(label, initial)| match labels.get(label) {
            Tri::Yes => initial,
            Tri::No => '-',
            Tri::Unknown => '?',
        })
        .collect()
}

fn check(catalogue: &Catalogue, server: Option<&str>, tool: &str, expected: &str) {
    assert_eq!(word(catalogue.labels(server, tool)), expected, "{server:?} {tool}");
}

fn operator(text: &str) -> Catalogue {
    Catalogue::with_operator(text, "labels.toml").unwrap()
}

#[test]
fn the_shipped_file_has_no_problems() {
    assert_eq!(file::parse(SHIPPED, "shipped.toml").1, []);
}

#[test]
fn the_tools_of_the_known_formats_have_their_labels() {
    let shipped = Catalogue::shipped();
    for (tool, expected) in [
        ("fetch_url", "o---r"),
        ("get_ticket", "-s--r"),
        ("search_tickets", "-s--r"),
        ("read_file", "-s--r"),
        ("post_comment", "--b--"),
        ("send_email", "--b--"),
        ("delete_file", "---d-"),
        ("delete_deployment", "---d-"),
        ("lookup_document", "----r"),
        ("search_help", "----r"),
        ("list_dir", "----r"),
    ] {
        for name in [
            tool.to_string(),
            format!("mcp__any__{tool}"),
            format!("any.{tool}"),
            format!("any/{tool}"),
        ] {
            check(&shipped, None, &name, expected);
        }
        assert_eq!(shipped.labels(None, tool).source, LabelSource::Shipped);
    }
}

#[test]
fn well_known_servers_have_their_labels() {
    let shipped = Catalogue::shipped();
    check(&shipped, Some("github"), "create_issue", "--b--");
    check(&shipped, None, "mcp__github__get_issue", "os--r");
    check(&shipped, Some("GitHub"), "list_branches", "----r");
    check(&shipped, Some("filesystem"), "search_files", "----r");
    check(&shipped, Some("fetch"), "fetch", "o---r");
    check(&shipped, Some("brave-search"), "brave_web_search", "o---r");
    check(&shipped, Some("postgres"), "execute_sql", "-s-d-");
    check(&shipped, Some("slack"), "slack_post_message", "--b--");
}

#[test]
fn a_log_that_names_no_server_gets_the_risks_of_all_and_the_harmlessness_of_none() {
    let shipped = Catalogue::shipped();
    check(&shipped, None, "create_issue", "??b?-");
    check(&shipped, None, "browser_evaluate", "osb?-");
    // Of the filesystem server it is no sensitive read; of a server unknown it may be.
    check(&shipped, None, "search_files", "?s???");
    check(&shipped, Some("elsewhere"), "create_issue", "????-");
}

#[test]
fn guesses_come_last_and_are_marked() {
    let shipped = Catalogue::shipped();
    let labels = shipped.labels(None, "get_customer");
    assert_eq!((labels.sensitive, labels.source), (Tri::Yes, LabelSource::Guessed));
    let labels = shipped.labels(None, "reticulate");
    assert_eq!((word(labels).as_str(), labels.source), ("?????", LabelSource::Unknown));
}

#[test]
fn the_operator_comes_before_what_is_shipped() {
    let catalogue = operator(
        "[[tool]]\nserver = \"github\"\nname = \"create_issue\"\n\
         outbound = false\nsensitive = true",
    );
    check(&catalogue, Some("github"), "create_issue", "-s---");
    assert_eq!(catalogue.labels(Some("github"), "create_issue").source, LabelSource::Operator);
    // Without a server the shipped yes stands: nobody said which server's tool it is.
    check(&catalogue, None, "create_issue", "?sb?-");
}

#[test]
fn an_entry_by_name_alone_adds_risk_and_never_takes_it_away() {
    let catalogue = operator(
        "[[tool]]\nname = \"post_comment\"\noutbound = false\nsensitive = true\nread-only = true",
    );
    check(&catalogue, None, "post_comment", "-sb--");
    let (_, origins) = catalogue.explain(None, "post_comment");
    let outbound = origins.iter().find(|origin| origin.label == Label::Outbound).unwrap();
    assert_eq!(outbound.source, LabelSource::Shipped);
    assert_eq!(outbound.overruled.as_ref().unwrap().line, 1);

    let mine = "[[tool]]\nname = \"list_tags\"\nsensitive = true\n\
                [[tool]]\nname = \"list_*\"\nsensitive = false";
    check(&operator(mine), Some("github"), "list_tags", "-s--r");
}

#[test]
fn an_entry_by_name_alone_overrides_a_guess() {
    let catalogue = operator("[[tool]]\nname = \"get_colours\"\nsensitive = false");
    check(&catalogue, None, "get_colours", "?-???");
    assert_eq!(catalogue.labels(None, "get_colours").source, LabelSource::Operator);
}

#[test]
fn the_entry_that_spells_out_more_of_the_name_holds() {
    let catalogue = operator(
        "[[tool]]\nserver = \"crm\"\nname = \"*\"\nsensitive = true\noutbound = true\n\
         [[tool]]\nserver = \"crm\"\nname = \"list_*\"\nsensitive = false\n\
         [[tool]]\nserver = \"crm\"\nname = \"list_keys\"\nsensitive = true",
    );
    check(&catalogue, Some("crm"), "list_names", "?-b??");
    check(&catalogue, Some("crm"), "list_keys", "?sb??");
    check(&catalogue, Some("crm"), "anything", "?sb??");
}

#[test]
fn the_servers_name_in_the_log_comes_before_the_namespace() {
    let catalogue = operator(
        "[[tool]]\nserver = \"a\"\nname = \"x\"\noutbound = true\n\
                  [[tool]]\nserver = \"b\"\nname = \"x\"\noutbound = false",
    );
    check(&catalogue, Some("a"), "b.x", "??b??");
    check(&catalogue, Some(""), "b.x", "??-??");
}

#[test]
fn problems_of_the_operators_file_are_all_returned() {
    let problems = Catalogue::with_operator("[[tool]]\n[[tool]]\nname = 1", "l.toml").unwrap_err();
    let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert!(told[0].starts_with("l.toml:1: ") && told[1].starts_with("l.toml:3: "), "{told:?}");
}

proptest! {
    /// Whatever a bare-name entry says, no label of any tool loses the risk another entry gave it.
    #[test]
    fn bare_names_never_remove_risk(
        tool in prop::sample::select(vec!["fetch_url", "read_file", "delete_file", "send_email",
            "create_issue", "browser_type", "mcp__github__push_files", "list_dir"]),
        server in prop::sample::select(vec![None, Some("github"), Some("filesystem")]),
        star in any::<bool>(),
        says in prop::array::uniform5(any::<Option<bool>>()),
    ) {
        prop_assume!(says.iter().any(Option::is_some));
        let bare = name::split(tool).1;
        let mut text = format!("[[tool]]\nname = \"{}\"\n", if star { "*" } else { bare });
        for (label, value) in Label::ALL.into_iter().zip(says) {
            if let Some(value) = value {
                text.extend([label.as_str(), " = ", if value { "true\n" } else { "false\n" }]);
            }
        }
        let shipped = Catalogue::shipped();
        let before = shipped.explain(server, tool).1;
        let after = operator(&text).labels(server, tool);
        for origin in before {
            if origin.value == risky(origin.label) && origin.source == LabelSource::Shipped {
                prop_assert_eq!(after.get(origin.label), origin.value);
            }
        }
    }

    #[test]
    fn any_name_gets_labels(server in prop::option::of(".{0,12}"), tool in ".{0,40}") {
        let catalogue = Catalogue::shipped();
        let (labels, origins) = catalogue.explain(server.as_deref(), &tool);
        prop_assert_eq!(origins.len(), Label::ALL.len());
        prop_assert_eq!(labels, catalogue.labels(server.as_deref(), &tool));
    }
}
