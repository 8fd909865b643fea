//! Tool names as logs write them: namespace and bare name, and the wildcards that entries match
//! them with.

use crate::model::bare_tool;

/// Splits a logged tool name into its namespace and its bare name: `mcp__files__read_file`,
/// `files.read_file`, `files/read_file` and `files:read_file` all give `files` and `read_file`. The
/// bare name is the one that records are joined by; a name that is all namespace stays whole.
pub(super) fn split(tool: &str) -> (Option<&str>, &str) {
    let bare = bare_tool(tool);
    let prefix = tool.strip_suffix(bare).unwrap_or_default();
    let server = match prefix.strip_prefix("mcp__").and_then(|rest| rest.split_once("__")) {
        Some((server, _)) => server,
        None => prefix.strip_suffix(['.', '/', ':']).unwrap_or_default(),
    };
    (Some(server).filter(|server| !server.is_empty()), bare)
}

/// True when `name` fits `pattern`, in which `*` stands for any run of characters, the empty one
/// included.
pub(super) fn matches(pattern: &str, name: &str) -> bool {
    let Some((head, tail)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut rest) = name.strip_prefix(head) else { return false };
    let mut parts = tail.split('*');
    let last = parts.next_back().unwrap_or_default();
    // The leftmost place for each part leaves the most room for those after it, so no other place
    // need be tried.
    for part in parts {
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_is_split_off_in_every_notation() {
        for (tool, expected) in [
            ("read_file", (None, "read_file")),
            ("mcp__files__read_file", (Some("files"), "read_file")),
            ("mcp__my_files__read__file", (Some("my_files"), "read__file")),
            ("files.read_file", (Some("files"), "read_file")),
            ("files/read_file", (Some("files"), "read_file")),
            ("files:read_file", (Some("files"), "read_file")),
            ("mcp__proxy__files.read_file", (Some("proxy"), "read_file")),
            ("a.b.read_file", (Some("a.b"), "read_file")),
            ("mcp__a.b__read_file", (Some("a.b"), "read_file")),
            ("mcp__a.read_file", (Some("mcp__a"), "read_file")),
            ("mcp____files.read_file", (None, "read_file")),
            ("mcp__read_file", (None, "mcp__read_file")),
            ("files.", (None, "files.")),
            ("mcp__files__", (None, "mcp__files__")),
            (".read_file", (None, "read_file")),
            ("", (None, "")),
        ] {
            assert_eq!(split(tool), expected, "{tool}");
        }
    }

    #[test]
    fn a_star_is_any_run_of_characters() {
        for (pattern, name, expected) in [
            ("get_ticket", "get_ticket", true),
            ("get_ticket", "get_tickets", false),
            ("get_*", "get_ticket", true),
            ("get_*", "get_", true),
            ("get_*", "forget_it", false),
            ("*_search", "brave_web_search", true),
            ("brave_*_search", "brave_search", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("a*a", "a", false),
            ("**", "anything", true),
            ("*", "", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} on {name}");
        }
    }

    proptest::proptest! {
        /// A label found for a call has to be one of the tool that the call was joined by.
        #[test]
        fn the_catalogue_and_the_join_agree_on_the_bare_name(tool in "(mcp__)?[a./:_]{0,12}") {
            let (namespace, bare) = split(&tool);
            proptest::prop_assert_eq!(bare, bare_tool(&tool));
            let rest = tool.strip_suffix(bare).unwrap();
            proptest::prop_assert!(namespace.is_none_or(|namespace| rest.contains(namespace)));
        }
    }
}
