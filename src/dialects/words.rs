//! Outcome words and the classes they map to.

use std::borrow::Cow;

use rustc_hash::FxHashMap;

use crate::model::OutcomeClass;
use crate::model::OutcomeClass::{
    Approved, Asked, Declined, Denied, Error, Input, Limited, Ok, Unknown,
};

/// Every word of every dialect, folded as [`fold`] does.
const WORDS: &[(OutcomeClass, &[&str])] = &[
    (Asked, &["ask", "awaiting_approval"]),
    (Approved, &["allowed", "approved", "allow"]),
    (Declined, &["input_declined", "input_cancelled", "rejected", "cancelled"]),
    (
        Denied,
        &[
            "denied",
            "deny",
            "refused",
            "policy_denied",
            "not_allowed",
            "forbidden",
            "forbidden_task",
            "unauthenticated",
            "insufficient_scope",
            "wrong_audience",
            "bad_origin",
            "401",
            "403",
        ],
    ),
    (Input, &["input_accepted"]),
    (Ok, &["completed", "success", "ok", "200"]),
    (Limited, &["rate_limited", "call_limit", "repeated_call", "429"]),
    (
        Error,
        &[
            "failed",
            "error",
            "timeout",
            "disconnected",
            "tool_error",
            "unknown_tool",
            "tool_unavailable",
            "definition_changed",
            "invalid_arguments",
            "arguments_too_large",
            "malformed_call",
            "malformed_response",
            "protocol_error",
            "version_mismatch",
            "bad_mode",
            "result_too_large",
        ],
    ),
];

/// Outcome word -> class: the common words and those of the configuration.
pub(super) struct Words(FxHashMap<String, OutcomeClass>);

impl Words {
    /// A configured word wins over a common one.
    pub(super) fn new(configured: Vec<(String, OutcomeClass)>) -> Self {
        let common = WORDS
            .iter()
            .flat_map(|(class, words)| words.iter().map(|word| ((*word).to_owned(), *class)));
        let configured = configured.into_iter().map(|(word, class)| (fold(&word).into(), class));
        Self(common.chain(configured).collect())
    }

    /// The class of a word; a word nobody knows is unknown, never ok.
    pub(super) fn class(&self, word: &str) -> OutcomeClass {
        self.0.get(fold(word).as_ref()).copied().unwrap_or(Unknown)
    }

    /// The same, where a detail can say that a person and no policy denied the call.
    pub(super) fn class_with_detail(&self, word: &str, detail: Option<&str>) -> OutcomeClass {
        let class = self.class(word);
        let by_person = class == Denied
            && matches!(fold(word).as_ref(), "denied" | "deny")
            && detail.is_some_and(is_denied_by_person);
        if by_person { Declined } else { class }
    }
}

/// True for the words of a person's answer to the server's question.
pub(super) fn is_answer(word: &str) -> bool {
    fold(word).starts_with("input_")
}

/// Case and the kind of separator do not count: `INPUT ACCEPTED` is `input_accepted`.
fn fold(word: &str) -> Cow<'_, str> {
    let word = word.trim();
    if word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_') {
        return Cow::Borrowed(word);
    }
    let fold_char = |c| if matches!(c, ' ' | '-') { '_' } else { c.to_ascii_lowercase() };
    Cow::Owned(word.chars().map(fold_char).collect())
}

/// True when the detail of a denial says that a person refused. In doubt it was policy: a denial
/// counts as failed authorisation, and an attacker must not be able to talk that away with a word
/// in passing.
fn is_denied_by_person(detail: &str) -> bool {
    const WORDS_MAX: usize = 40;
    let lower = detail.to_ascii_lowercase();
    let words: Vec<&str> = lower
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .take(WORDS_MAX)
        .collect();
    !words.iter().any(|word| speaks_of_policy(word))
        && (0..words.len()).any(|at| words.get(at..).is_some_and(starts_with_refusal))
}

fn speaks_of_policy(word: &str) -> bool {
    const STEMS: [&str; 20] = [
        "policy",
        "policies",
        "rule",
        "role",
        "scope",
        "permission",
        "authori",
        "unauthori",
        "forbid",
        "allowlist",
        "denylist",
        "blocklist",
        "whitelist",
        "blacklist",
        "quota",
        "setting",
        "config",
        "access",
        "group",
        "audience",
    ];
    STEMS.iter().any(|stem| word.starts_with(stem))
}

/// `user denied`, `user has rejected`, `denied by the user`, `user said no`, `user did not
/// approve`.
fn starts_with_refusal(words: &[&str]) -> bool {
    let rest = |from: usize| words.get(from..).unwrap_or_default();
    match words {
        [verb, "by", person, ..] if is_refusal(verb) && is_person(person) => true,
        [verb, "by", "the" | "a" | "an", person, ..] if is_refusal(verb) && is_person(person) => {
            true
        }
        [person, ..] if is_person(person) => match rest(1) {
            [verb, ..] | ["has" | "have" | "explicitly" | "just", verb, ..] if is_refusal(verb) => {
                true
            }
            ["said" | "answered" | "chose" | "pressed" | "clicked", no, ..] => {
                matches!(*no, "no" | "n" | "deny" | "decline" | "reject" | "cancel")
            }
            ["no", ..] => true,
            ["did", "not", verb, ..] | ["didn", "t", verb, ..] => {
                matches!(*verb, "approve" | "allow" | "confirm" | "consent" | "accept" | "agree")
            }
            _ => false,
        },
        _ => false,
    }
}

fn is_person(word: &str) -> bool {
    matches!(word, "user" | "human" | "operator" | "person" | "approver" | "reviewer")
}

fn is_refusal(word: &str) -> bool {
    matches!(
        word,
        "denied"
            | "declined"
            | "rejected"
            | "refused"
            | "cancelled"
            | "canceled"
            | "disallowed"
            | "dismissed"
            | "aborted"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_fold_case_and_separators() {
        let words = Words::new(Vec::new());
        for (word, class) in [
            ("ASK", Asked),
            ("awaiting approval", Asked),
            ("Allow", Approved),
            ("INPUT DECLINED", Declined),
            ("INPUT_CANCELLED", Declined),
            ("input accepted", Input),
            ("COMPLETED", Ok),
            ("200", Ok),
            ("429", Limited),
            ("TIMEOUT", Error),
            ("", Unknown),
            ("okay", Unknown),
            ("unknown", Unknown),
        ] {
            assert_eq!(words.class(word), class, "{word}");
        }
    }

    #[test]
    fn configured_words_are_added_and_win() {
        let words = Words::new(vec![("Fine Then".into(), Ok), ("cancelled".into(), Error)]);
        assert_eq!(words.class("fine then"), Ok);
        assert_eq!(words.class("CANCELLED"), Error);
    }

    #[test]
    fn a_denial_by_a_person_is_declined() {
        let words = Words::new(Vec::new());
        for detail in [
            "user denied",
            "denied by user",
            "Denied by the user.",
            "user declined",
            "The user has rejected this call",
            "rejected by user bob",
            "user said no",
            "user: no",
            "user did not approve",
            "User didn't allow it",
            "approval prompt cancelled by operator",
        ] {
            assert_eq!(words.class_with_detail("DENIED", Some(detail)), Declined, "{detail}");
        }
    }

    #[test]
    fn a_denial_by_policy_stays_denied() {
        let words = Words::new(Vec::new());
        for detail in [
            "policy",
            "",
            "user denied by policy",
            "denied by user policy",
            "user was denied",
            "user denied access to /etc",
            "denied by user group rules",
            "user is not allowed",
            "user bob lacks a grant; denied",
            "users denied",
            "not listed for user",
        ] {
            assert_eq!(words.class_with_detail("DENIED", Some(detail)), Denied, "{detail}");
        }
        assert_eq!(words.class_with_detail("DENIED", None), Denied);
        assert_eq!(words.class_with_detail("forbidden", Some("user denied")), Denied);
        assert_eq!(words.class_with_detail("FAILED", Some("user denied")), Error);
    }
}
