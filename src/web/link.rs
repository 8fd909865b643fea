//! Links: paths of our own with percent-encoded query values, and what a link back may be.

const HEX_DIGITS: [u8; 16] = *b"0123456789ABCDEF";

/// `?a=1&b=2`, or nothing without pairs. Every value is percent-encoded, whatever it holds.
pub(crate) fn query<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut text = String::new();
    for (key, value) in pairs {
        text.push(if text.is_empty() { '?' } else { '&' });
        text.push_str(key);
        text.push('=');
        encode_into(&mut text, value);
    }
    text
}

/// One part of a path, percent-encoded, slashes among the rest.
pub(crate) fn segment(value: &str) -> String {
    let mut text = String::new();
    encode_into(&mut text, value);
    text
}

fn encode_into(text: &mut String, value: &str) {
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            text.push('%');
            for digit in [byte >> 4, byte & 15] {
                text.push(char::from(HEX_DIGITS[usize::from(digit)]));
            }
        }
    }
}

/// The path to go on to after login, where it is one of ours: never another host's.
pub(crate) fn local_path(next: &str) -> Option<&str> {
    let ours = next.starts_with('/')
        && !next.starts_with("//")
        && next.len() <= 2048
        && next.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    ours.then_some(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_encoded() {
        assert_eq!(query([("q", "a b&c=\"<é"), ("r", "x")]), "?q=a%20b%26c%3D%22%3C%C3%A9&r=x");
        assert_eq!(query([]), "");
    }

    #[test]
    fn only_paths_of_ours_are_followed() {
        assert_eq!(local_path("/incidents/ab?context=5"), Some("/incidents/ab?context=5"));
        for bad in
            ["", "//evil.example", "https://evil.example", "/\\evil", "/a\r\nb", "javascript:x"]
        {
            assert_eq!(local_path(bad), None, "{bad}");
        }
    }
}
