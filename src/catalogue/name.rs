//! Tool names as logs write them: namespace and bare name, and the wildcards that entries match
//! them with.

/// Splits a logged tool name into its namespace and its bare name: `mcp__files__read_file`,
/// `files.read_file`, `files/read_file` and `files:read_file` all give `files` and `read_file`. The
/// bare name is the one that records are joined by; a name that is all namespace stays whole.
pub(super) fn split(tool: &str) -> (Option<&str>, &str) {
    let (prefix, rest) = match tool.strip_prefix("mcp__").and_then(|rest| rest.split_once("__")) {
        Some((server, rest)) => (Some(server), rest),
        None => (None, tool),
    };
    let (inner, bare) = match rest.rsplit_once(['.', '/', ':']) {
        Some((server, bare)) => (Some(server), bare),
        None => (None, rest),
    };
    if bare.is_empty() {
        return (None, tool);
    }
    (prefix.or(inner).filter(|server| !server.is_empty()), bare)
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
}
