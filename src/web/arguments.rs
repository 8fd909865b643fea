//! What a call was asked to do, in one line: its first few arguments, as masked as the logs are
//! kept.

use super::shown::Shown;
use crate::model::Args;

/// Arguments named in one line.
const ARGS_MAX: usize = 3;
/// Longest value of one argument, in characters.
const VALUE_CHARS_MAX: usize = 80;
/// Longest name of an argument, in characters.
const NAME_CHARS_MAX: usize = 40;
/// Longest line, in characters.
const LINE_CHARS_MAX: usize = 120;

/// `url: https://…, body: not logged`; none where no log says anything about the arguments.
pub(crate) fn summary(args: &Args) -> Option<Shown> {
    let values = args.values.iter().map(|arg| (&*arg.name, value(&arg.text)));
    let dropped = args.dropped.iter().map(|name| (&**name, "not logged".to_owned()));
    let mut parts: Vec<String> = values
        .chain(dropped)
        .take(ARGS_MAX)
        .map(|(name, value)| format!("{}: {value}", cut(name, NAME_CHARS_MAX)))
        .collect();
    let more = (args.values.len() + args.dropped.len()).saturating_sub(ARGS_MAX);
    if more > 0 {
        parts.push(format!("{more} more"));
    }
    (!parts.is_empty()).then(|| Shown::short(&parts.join(", "), LINE_CHARS_MAX))
}

/// A value of one plain word without its quotes. Any other keeps them, so that no value can pass
/// for a second argument or for words of ours.
fn value(json: &str) -> String {
    let word = json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let is_plain =
        |word: &&str| !word.is_empty() && !word.contains(is_parting) && !word.ends_with(':');
    cut(word.filter(is_plain).unwrap_or(json), VALUE_CHARS_MAX)
}

fn is_parting(character: char) -> bool {
    character.is_whitespace() || matches!(character, '"' | '\\' | ',' | '(' | ')')
}

fn cut(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ArgValue;

    fn told(values: &[(&str, &str)], dropped: &[&str]) -> Option<String> {
        let value = |(name, text): &(&str, &str)| ArgValue {
            name: (*name).into(),
            text: (*text).into(),
            hash: 0,
            chars: None,
            summarised: false,
        };
        let args = Args {
            values: values.iter().map(value).collect(),
            dropped: dropped.iter().map(|name| (*name).into()).collect(),
            ..Args::default()
        };
        summary(&args).map(|shown| shown.as_str().to_owned())
    }

    #[test]
    fn values_come_first_and_dropped_names_say_so() {
        let url = "\"https://evil.example/a?b=1\"";
        assert_eq!(
            told(&[("n", "20"), ("url", url)], &["body"]).unwrap(),
            "n: 20, url: https://evil.example/a?b=1, body: not logged"
        );
        assert_eq!(told(&[], &["a", "b", "c", "d"]).unwrap().matches("not logged").count(), 3);
        assert!(told(&[], &["a", "b", "c", "d"]).unwrap().ends_with(", 1 more"));
        assert_eq!(told(&[], &[]), None);
    }

    #[test]
    fn a_value_cannot_pass_for_words_of_ours() {
        for text in ["\"not logged\"", "\"a, body: b\"", "\"a\\nb\"", "\"\"", "{\"a\": 1}"] {
            assert_eq!(told(&[("x", text)], &[]).unwrap(), format!("x: {text}"));
        }
        assert_eq!(told(&[("x", "\"a\u{202e}b\"")], &[]).unwrap(), "x: a\\u{202e}b");
    }

    #[test]
    fn long_ones_are_cut() {
        let long = format!("\"{}\"", "x".repeat(4000));
        let one = told(&[("text", &long)], &[]).unwrap();
        assert_eq!(one, format!("text: {}…", "x".repeat(VALUE_CHARS_MAX)));
        let all = told(&[("a", &long), ("b", &long), ("c", &long)], &[]).unwrap();
        assert_eq!(all.chars().count(), LINE_CHARS_MAX + 1);
    }
}
