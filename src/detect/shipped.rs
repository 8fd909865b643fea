//! The rule files that come with the program, embedded.

use std::collections::BTreeSet;

use super::compile::stem;

/// Files as (name, text), by name.
const FILES: [(&str, &str); 18] = [
    ("arguments-changed.yml", include_str!("../../rules/arguments-changed.yml")),
    ("call-burst.yml", include_str!("../../rules/call-burst.yml")),
    ("definition-changed.yml", include_str!("../../rules/definition-changed.yml")),
    ("denials-then-success.yml", include_str!("../../rules/denials-then-success.yml")),
    ("destructive-burst.yml", include_str!("../../rules/destructive-burst.yml")),
    ("error-rate.yml", include_str!("../../rules/error-rate.yml")),
    ("first-cross-tenant.yml", include_str!("../../rules/first-cross-tenant.yml")),
    ("injection-then-write.yml", include_str!("../../rules/injection-then-write.yml")),
    ("log-tampering.yml", include_str!("../../rules/log-tampering.yml")),
    ("policy-bypass.yml", include_str!("../../rules/policy-bypass.yml")),
    ("rate-limit-ignored.yml", include_str!("../../rules/rate-limit-ignored.yml")),
    ("rubber-stamp.yml", include_str!("../../rules/rubber-stamp.yml")),
    ("secret-in-result.yml", include_str!("../../rules/secret-in-result.yml")),
    ("trifecta-attempt.yml", include_str!("../../rules/trifecta-attempt.yml")),
    ("trifecta-session.yml", include_str!("../../rules/trifecta-session.yml")),
    ("trifecta-signature.yml", include_str!("../../rules/trifecta-signature.yml")),
    ("unapproved-execution.yml", include_str!("../../rules/unapproved-execution.yml")),
    ("unlisted-tool.yml", include_str!("../../rules/unlisted-tool.yml")),
];

/// The shipped rule files as (name, text).
pub fn shipped() -> Vec<(&'static str, &'static str)> {
    FILES.to_vec()
}

/// Lays a user's files over the shipped ones: a file with a rule of the same name replaces the shipped one.
pub fn merge<'a>(
    shipped: &[(&'a str, &'a str)],
    user: &[(&'a str, &'a str)],
) -> Vec<(&'a str, &'a str)> {
    let own: BTreeSet<&str> = user.iter().map(|(name, _)| stem(name)).collect();
    let kept = shipped.iter().filter(|(name, _)| !own.contains(stem(name)));
    let mut files: Vec<_> = kept.chain(user).copied().collect();
    files.sort_unstable();
    files
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::detect::RuleSet;

    #[test]
    fn every_file_of_the_folder_is_embedded() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/rules");
        let names: BTreeSet<String> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name != "README.md")
            .collect();
        let embedded: BTreeSet<String> =
            shipped().iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(names, embedded);
    }

    #[test]
    fn every_shipped_rule_has_what_people_need() {
        let files = shipped();
        assert_eq!(RuleSet::inspect(&files), []);
        for rule in RuleSet::compile(&files).unwrap().rules() {
            let name = &rule.name;
            assert!(rule.id.as_ref().is_some_and(|id| id.len() == 36), "{name}: id");
            assert!(!rule.description.is_empty() && rule.why != rule.title, "{name}: words");
            let has = |kind: &str| rule.tags.iter().any(|tag| tag.starts_with(kind));
            assert!(has("atlas.aml.t") && has("owasp.mcp"), "{name}: tags");
            assert!(!rule.falsepositives.is_empty(), "{name}: false positives");
            let (_, text) = files.iter().find(|(file, _)| *file == rule.file).unwrap();
            assert!(text.lines().any(|line| line.starts_with("level: ")), "{name}: level");
            let firing = rule.cases.iter().filter(|case| !case.fires.is_empty()).count();
            assert!(firing >= 3 && rule.cases.len() - firing >= 3, "{name}: cases");
        }
    }

    #[test]
    fn a_user_file_replaces_the_shipped_one_of_its_name() {
        let merged = merge(&[("a.yml", "1"), ("b.yml", "2")], &[("b.yaml", "3"), ("c.yml", "4")]);
        assert_eq!(merged, [("a.yml", "1"), ("b.yaml", "3"), ("c.yml", "4")]);
    }
}
