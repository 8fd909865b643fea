//! Labels guessed from a tool's name. A guess only ever adds risk: a name is the claim of whoever
//! wrote the tool, so nothing is believed harmless because of it.

use crate::model::{Label, Labels, Tri};

/// Verbs that bring in strangers' text.
const OPEN_WORLD: &[&str] = &["fetch", "browse", "crawl", "scrape"];
/// Verbs that read data.
const SENSITIVE: &[&str] = &["get", "search", "read", "query"];
/// What a reading verb may be followed by without any data being read that must not leave.
const PUBLIC: &[&str] =
    &["time", "current_time", "date", "weather", "version", "help", "status", "health"];
/// What makes a search one of the open web.
const WEB: &[&str] = &["web", "internet", "news"];
/// Verbs that send data out.
const OUTBOUND: &[&str] =
    &["send", "post", "upload", "publish", "reply", "forward", "share", "tweet"];
/// Verbs after which something is gone.
const DESTRUCTIVE: &[&str] =
    &["delete", "drop", "remove", "destroy", "purge", "erase", "wipe", "truncate"];
/// Other verbs that change something.
const WRITING: &[&str] =
    &["create", "update", "write", "edit", "set", "add", "insert", "append", "move", "put"];

/// What the bare name suggests. The verb is the first word, or the second where the first is the
/// server's own name (`jira_get_issue`); a verb with nothing after it says too little.
pub(super) fn guess(server: Option<&str>, bare: &str) -> Labels {
    let (first, after) = first_word(bare);
    let (verb, object) = match server {
        Some(server) if first.eq_ignore_ascii_case(server) => first_word(after),
        _ => (first, after),
    };
    let mut labels = Labels::default();
    if object.is_empty() {
        return labels;
    }
    let is =
        |words: &[&str], word: &str| words.iter().any(|known| known.eq_ignore_ascii_case(word));
    let of_the_web = is(WEB, first_word(object).0);
    if is(OPEN_WORLD, verb) || (is(SENSITIVE, verb) && of_the_web) {
        labels.open_world = Tri::Yes;
    } else if is(SENSITIVE, verb) && !is(PUBLIC, object) {
        labels.sensitive = Tri::Yes;
    }
    if is(OUTBOUND, verb) {
        labels.outbound = Tri::Yes;
    }
    if is(DESTRUCTIVE, verb) {
        labels.destructive = Tri::Yes;
    }
    if is(OUTBOUND, verb) || is(DESTRUCTIVE, verb) || is(WRITING, verb) {
        labels.set(Label::ReadOnly, Tri::No);
    }
    labels
}

/// The first word of `get_ticket`, `get-ticket` or `getTicket`, and what follows it.
fn first_word(name: &str) -> (&str, &str) {
    let bytes = name.as_bytes();
    for (at, pair) in bytes.windows(2).enumerate() {
        let [before, byte] = *pair else { break };
        if byte == b'_' || byte == b'-' {
            let (word, rest) = name.split_at_checked(at + 1).unwrap_or((name, ""));
            return (word, rest.trim_start_matches(['_', '-']));
        }
        if before.is_ascii_lowercase() && byte.is_ascii_uppercase() {
            return name.split_at_checked(at + 1).unwrap_or((name, ""));
        }
    }
    (name, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(server: Option<&str>, name: &str, expected: &[Label]) {
        let labels = guess(server, name);
        let risky: Vec<Label> = Label::ALL
            .into_iter()
            .filter(|&label| {
                labels.get(label) == if label == Label::ReadOnly { Tri::No } else { Tri::Yes }
            })
            .collect();
        assert_eq!(risky, expected, "{name}");
        let harmless = Label::ALL.into_iter().any(|label| {
            labels.get(label) == if label == Label::ReadOnly { Tri::Yes } else { Tri::No }
        });
        assert!(!harmless, "a guess said {name} is harmless");
    }

    #[test]
    fn the_verb_suggests_what_the_tool_can_do() {
        check(None, "fetch_feed", &[Label::OpenWorld]);
        check(None, "get_customer", &[Label::Sensitive]);
        check(None, "getCustomer", &[Label::Sensitive]);
        check(None, "search-orders", &[Label::Sensitive]);
        check(None, "search_web", &[Label::OpenWorld]);
        check(None, "post_message", &[Label::Outbound, Label::ReadOnly]);
        check(None, "SendEmail", &[Label::Outbound, Label::ReadOnly]);
        check(None, "drop_table", &[Label::Destructive, Label::ReadOnly]);
        check(None, "create_issue", &[Label::ReadOnly]);
    }

    #[test]
    fn a_name_that_says_too_little_is_not_guessed() {
        for name in ["get", "search", "list_files", "getter", "posture_check", "get_time", "", "_"]
        {
            check(None, name, &[]);
        }
    }

    #[test]
    fn the_servers_own_name_in_front_is_skipped() {
        check(Some("jira"), "jira_get_issue", &[Label::Sensitive]);
        check(Some("tickets"), "jira_get_issue", &[]);
    }
}
