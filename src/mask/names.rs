//! Which names say that their value is a secret.

/// Anywhere in a name, once case and separators are gone.
const PARTS: [&str; 17] = [
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "secret",
    "token",
    "authorization",
    "apikey",
    "cookie",
    "credential",
    "privatekey",
    "accesskey",
    "signingkey",
    "encryptionkey",
    "amzsignature",
    "dbpass",
    "userpass",
];

/// Only as the whole name: as a part they are too common (`bypass`, `author`).
const WHOLES: [&str; 8] = ["pwd", "pass", "auth", "jwt", "bearer", "otp", "creds", "pat"];

/// Names around language models speak of tokens and mean a number or a kind.
const HARMLESS: [&str; 20] = [
    "maxtokens",
    "mintokens",
    "totaltokens",
    "prompttokens",
    "completiontokens",
    "inputtokens",
    "outputtokens",
    "cachedtokens",
    "reasoningtokens",
    "thinkingtokens",
    "newtokens",
    "numtokens",
    "ntokens",
    "tokenscount",
    "tokensused",
    "tokencount",
    "tokenlimit",
    "tokenusage",
    "tokenbudget",
    "tokeniz",
];

/// A longer text is no name; nor is the rest of it looked at.
const NAME_VALUE_BYTES_MAX: usize = 128;

/// True for names such as `password`, `X-Api-Key` or `clientSecret`; case, `-`, `_` and other
/// separators do not count.
pub fn is_secret_name(name: &str) -> bool {
    let mut squashed: String =
        name.chars().filter(|c| c.is_alphanumeric()).map(|c| c.to_ascii_lowercase()).collect();
    if WHOLES.contains(&squashed.as_str()) {
        return true;
    }
    if squashed.contains("token") {
        for harmless in HARMLESS {
            if squashed.contains(harmless) {
                squashed = squashed.replace(harmless, " ");
            }
        }
    }
    PARTS.iter().any(|part| squashed.contains(part))
}

/// Keys under which the name of a setting, header or variable stands beside its value.
const NAME_KEYS: [&str; 12] = [
    "name",
    "key",
    "field",
    "header",
    "variable",
    "var",
    "env",
    "param",
    "parameter",
    "property",
    "setting",
    "option",
];

/// Keys under which such a value stands.
const VALUE_KEYS: [&str; 3] = ["value", "values", "val"];

/// True for a pair such as `"name":"API_KEY"`: a value beside it is a secret.
pub(crate) fn names_secret(key: &str, value: &str) -> bool {
    NAME_KEYS.iter().any(|name| key.eq_ignore_ascii_case(name))
        && is_secret_name(
            value.get(..value.floor_char_boundary(NAME_VALUE_BYTES_MAX)).unwrap_or(value),
        )
}

/// True for a key whose value may be that of a name beside it.
pub(crate) fn is_value_key(key: &str) -> bool {
    VALUE_KEYS.iter().any(|name| key.eq_ignore_ascii_case(name))
}

/// True for an option of a command, without its value, that is followed by a secret.
pub(crate) fn is_secret_option(text: &str) -> bool {
    text.strip_prefix("--").is_some_and(|name| {
        name.len() <= NAME_VALUE_BYTES_MAX
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
            && is_secret_name(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_names_in_every_spelling() {
        for name in [
            "password",
            "Password",
            "pass-word",
            "api_key",
            "apiKey",
            "X-API-KEY",
            "token",
            "refresh_token",
            "tokens",
            "Authorization",
            "client_secret",
            "set-cookie",
            "aws_credentials",
            "private key",
            "pwd",
            "max_tokens_secret",
        ] {
            assert!(is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn innocent_names() {
        for name in ["path", "query", "max_tokens", "token_count", "tokenizer", "author", "bypass"]
        {
            assert!(!is_secret_name(name), "{name}");
        }
    }
}
