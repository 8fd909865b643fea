//! Lays out JSON for reading without changing it: keys keep their order, doubled keys stay doubled,
//! numbers stay as written.

use serde::de::IgnoredAny;

use super::shown::Shown;

/// Longest line that is laid out; longer ones are shown as they are, cut.
const LAID_OUT_BYTES_MAX: usize = 64 * 1024;

/// The lines to show for a raw line: laid out where it is JSON, as it is otherwise.
pub(crate) fn lines(raw: &str) -> Vec<Shown> {
    let is_json =
        raw.len() <= LAID_OUT_BYTES_MAX && serde_json::from_str::<IgnoredAny>(raw).is_ok();
    // The layout's own line breaks part the lines; any other control character in them becomes
    // visible.
    if is_json { Shown::lines(&lay_out(raw)) } else { vec![Shown::new(raw)] }
}

/// Breaks valid JSON after every member and indents it by depth.
fn lay_out(json: &str) -> String {
    let mut out = String::with_capacity(json.len() * 2);
    let mut depth = 0_usize;
    let mut in_string = false;
    let mut escaped = false;
    let mut characters = json.trim().chars().peekable();
    while let Some(character) = characters.next() {
        if in_string {
            out.push(character);
            in_string = escaped || character != '"';
            escaped = !escaped && character == '\\';
            continue;
        }
        match character {
            '"' => {
                in_string = true;
                out.push(character);
            }
            '{' | '[' => {
                out.push(character);
                while characters.next_if(char::is_ascii_whitespace).is_some() {}
                if let Some(close) = characters.next_if(|next| matches!(next, '}' | ']')) {
                    out.push(close);
                } else {
                    depth += 1;
                    break_line(&mut out, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                break_line(&mut out, depth);
                out.push(character);
            }
            ',' => {
                out.push(character);
                break_line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            space if space.is_ascii_whitespace() => {}
            other => out.push(other),
        }
    }
    out
}

/// Indents by depth, but never so far that the text is out of sight.
fn break_line(out: &mut String, depth: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n("  ", depth.min(20)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn doubled_keys_and_numbers_survive() {
        let text = lay_out(r#" {"a":1.0e2, "a":[], "b":{"c":"x,{\"}"} }"#);
        assert_eq!(
            text,
            "{\n  \"a\": 1.0e2,\n  \"a\": [],\n  \"b\": {\n    \"c\": \"x,{\\\"}\"\n  }\n}"
        );
    }

    #[test]
    fn what_is_no_json_stays_one_line() {
        assert_eq!(lines("{\"a\":\nnot").len(), 1);
        assert_eq!(lines("\u{202e}")[0].as_str(), "\\u{202e}");
    }

    proptest! {
        #[test]
        fn nothing_but_white_space_is_added(
            pairs in proptest::collection::vec(("[ -~]{0,8}", "[ -~é]{0,8}"), 0..6),
        ) {
            let quoted = |text: &str| serde_json::json!(text).to_string();
            let members: Vec<_> = pairs
                .iter()
                .map(|(key, value)| format!("{}:[{}]", quoted(key), quoted(value)))
                .collect();
            let json = format!("{{{}}}", members.join(","));
            let bare = |text: &str| text.split_whitespace().collect::<String>();
            prop_assert_eq!(bare(&lay_out(&json)), bare(&json));
        }
    }
}
