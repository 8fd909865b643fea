//! How a rule's file groups calls: fields, and names for fields that differ from rule to rule.

use super::document::{Document, texts_of};
use super::field::GroupField;
use super::problem::Problems;
use super::yaml::{Entry, Mark};

/// One of the values that name a group.
pub(super) enum GroupBy {
    Field(GroupField),
    Alias(Alias),
}

/// A name for fields that differ from rule to rule.
pub(super) struct Alias {
    mark: Mark,
    name: String,
    fields: Vec<AliasField>,
}

/// The field that an alias stands for in the calls of one rule, which goes by its name or its id.
struct AliasField {
    mark: Mark,
    rule: String,
    field: GroupField,
}

/// The most aliases of a correlation: there are no more fields to group by.
const ALIASES_MAX: usize = 8;

impl GroupBy {
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Field(field) => field.as_str(),
            Self::Alias(alias) => &alias.name,
        }
    }
}

/// Reads a list of fields and aliases. An empty one means that all calls are one group.
pub(super) fn group_by(
    found: &Entry,
    mut aliases: Vec<Alias>,
    problems: &mut Problems<'_>,
) -> Vec<GroupBy> {
    let Some(nodes) = found.node.list() else {
        problems.push(found.mark, format!("`{}` is a list of fields", found.key));
        return Vec::new();
    };
    let mut fields: Vec<GroupBy> = Vec::new();
    for node in nodes {
        let name = node.text().unwrap_or_default();
        if fields.iter().any(|field| field.name() == name) {
            problems.push(node.mark, format!("`{name}` is named twice"));
            continue;
        }
        if let Some(alias) = aliases.iter().position(|alias| alias.name == name) {
            fields.push(GroupBy::Alias(aliases.swap_remove(alias)));
            continue;
        }
        let parsed = match node.text() {
            Some(name) => GroupField::parse(name),
            None => Err(format!("a field's name is a text, not {}", node.kind())),
        };
        fields.extend(problems.take(node.mark, parsed).map(GroupBy::Field));
    }
    fields
}

/// Reads `aliases: {name: {rule: field}}`, where every alias is one of the names that are grouped by. Whether each has
/// a field for every rule is for [`check_aliases`].
pub(super) fn aliases(
    found: &Entry,
    group_by: Option<&Entry>,
    problems: &mut Problems<'_>,
) -> Vec<Alias> {
    let mut aliases = Vec::new();
    let grouped_by = group_by.map(texts_of).unwrap_or_default();
    if found.node.map().is_some_and(|names| names.len() > ALIASES_MAX) {
        problems.push(found.mark, format!("more than {ALIASES_MAX} aliases"));
        return aliases;
    }
    for alias in found.node.map().unwrap_or_default() {
        let name = &alias.key;
        if !grouped_by.contains(&name.as_str()) {
            problems.push(alias.mark, format!("`group-by` does not name the alias `{name}`"));
        }
        if GroupField::parse(name).is_ok() {
            problems.push(alias.mark, format!("the alias `{name}` has the name of a field"));
        }
        let mut fields = Vec::new();
        for part in alias.node.map().unwrap_or_default() {
            let field = GroupField::parse(part.node.text().unwrap_or_default());
            if let Some(field) = problems.take(part.node.mark, field) {
                fields.push(AliasField { mark: part.mark, rule: part.key.clone(), field });
            }
        }
        aliases.push(Alias { mark: alias.mark, name: name.clone(), fields });
    }
    if aliases.is_empty() {
        problems.push(found.mark, "`aliases` is a map of names, each with a field for every rule");
    }
    aliases
}

/// Tells of aliases that name another rule than those of the correlation, or have no field or two for one of them.
pub(super) fn check_aliases(
    group_by: &[GroupBy],
    rules: &[(Mark, String)],
    documents: &[Document],
    problems: &mut Problems<'_>,
) {
    for group_by in group_by {
        let GroupBy::Alias(alias) = group_by else { continue };
        let name = &alias.name;
        for part in &alias.fields {
            if !rules.iter().any(|(_, rule)| is_same(documents, rule, &part.rule)) {
                problems.push(part.mark, format!("`rules` does not name `{}`", part.rule));
            }
        }
        for (_, rule) in rules {
            let mut own = alias.fields.iter().filter(|part| is_same(documents, rule, &part.rule));
            if own.next().is_none() {
                let message = format!("the alias `{name}` names no field for the rule `{rule}`");
                problems.push(alias.mark, message);
            }
            if let Some(second) = own.next() {
                let message = format!("the alias `{name}` names a second field for `{rule}`");
                problems.push(second.mark, message);
            }
        }
    }
}

/// The fields to group the calls of one rule by.
pub(super) fn fields(group_by: &[GroupBy], rule: &str, documents: &[Document]) -> Vec<GroupField> {
    let field = |group_by: &GroupBy| match group_by {
        GroupBy::Field(field) => Some(*field),
        GroupBy::Alias(alias) => {
            let mut fields = alias.fields.iter();
            let own = fields.find(|part| is_same(documents, rule, &part.rule));
            own.map(|part| part.field)
        }
    };
    group_by.iter().filter_map(field).collect()
}

/// True if both are names or ids of one document.
fn is_same(documents: &[Document], one: &str, other: &str) -> bool {
    one == other
        || documents.iter().any(|document| document.is_called(one) && document.is_called(other))
}
