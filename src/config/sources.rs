//! Reads keys from the environment and the file, by type, and reports what nobody asked for.

use std::ffi::OsStr;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::document::Document;
use super::environment::{Environment, PREFIX, variable};
use super::problem::{Given, Place, Problems, quote};
use super::suggest::nearest;
use crate::notify::Secret;

/// What was typed for one key.
#[derive(Clone, Debug)]
pub(super) enum Field<T> {
    /// Nothing: the default holds.
    Absent,
    /// Something of the wrong type, which is reported already.
    Bad,
    Set(Given<T>),
}

impl<T> Field<T> {
    pub(super) fn into_given(self) -> Option<Given<T>> {
        match self {
            Self::Set(given) => Some(given),
            Self::Absent | Self::Bad => None,
        }
    }

    pub(super) fn place(&self) -> Option<&Place> {
        match self {
            Self::Set(given) => Some(&given.place),
            Self::Absent | Self::Bad => None,
        }
    }

    pub(super) fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }
}

/// A value before its type is known.
enum Typed<'a> {
    Variable(&'a OsStr),
    InFile(&'a DeValue<'a>),
}

/// The sources a [`super::raw::RawConfig`] is read from, and what was asked of them.
pub(super) struct Sources<'a> {
    document: Option<&'a Document<'a>>,
    environment: &'a Environment,
    /// Section and key of everything asked for, in that order.
    asked: Vec<(&'static str, &'static str)>,
    /// Sections whose keys are the operator's own names.
    free: Vec<&'static str>,
    /// Variables that stand for no key of the file.
    secrets: Vec<String>,
    problems: Problems,
}

impl<'a> Sources<'a> {
    pub(super) fn new(
        document: Option<&'a Document<'a>>,
        environment: &'a Environment,
        problems: Problems,
    ) -> Self {
        let (asked, free, secrets) = Default::default();
        Self { document, environment, asked, free, secrets, problems }
    }

    pub(super) fn text(&mut self, section: &'static str, key: &'static str) -> Field<String> {
        self.read(section, key, "a text in quotes", |typed| match typed {
            Typed::Variable(text) => text.to_str().map(str::to_owned),
            Typed::InFile(DeValue::String(text)) => Some(text.to_string()),
            Typed::InFile(_) => None,
        })
    }

    pub(super) fn number(&mut self, section: &'static str, key: &'static str) -> Field<u64> {
        self.read(section, key, "a whole number", |typed| match typed {
            Typed::Variable(text) => text.to_str()?.trim().parse().ok(),
            Typed::InFile(DeValue::Integer(integer)) => {
                u64::from_str_radix(integer.as_str(), integer.radix()).ok()
            }
            Typed::InFile(_) => None,
        })
    }

    pub(super) fn flag(&mut self, section: &'static str, key: &'static str) -> Field<bool> {
        self.read(section, key, "true or false", |typed| match typed {
            Typed::Variable(text) => text.to_str()?.trim().parse().ok(),
            Typed::InFile(value) => value.as_bool(),
        })
    }

    /// A list of texts; in a variable, with commas between them.
    pub(super) fn texts(
        &mut self,
        section: &'static str,
        key: &'static str,
    ) -> Field<Vec<Given<String>>> {
        let Some((typed, place)) = self.find(section, key) else { return Field::Absent };
        let items = match typed {
            Typed::Variable(text) => text.to_str().map(|text| split_list(text, &place)),
            Typed::InFile(DeValue::Array(items)) => match self.items(key, items) {
                Some(items) => Some(items),
                None => return Field::Bad,
            },
            Typed::InFile(_) => None,
        };
        self.finish(key, "a list of texts, like [\"one\", \"two\"]", items, place)
    }

    /// A section of the file whose keys are the operator's own names, each with a text.
    pub(super) fn free_texts(
        &mut self,
        section: &'static str,
    ) -> Vec<(Given<String>, Given<String>)> {
        self.free.push(section);
        let Some(document) = self.document else { return Vec::new() };
        let table = document.section(section).into_iter().flat_map(DeTable::iter);
        let mut pairs = Vec::new();
        for (key, value) in table {
            let place = document.place(&value.span());
            let name = Given { value: key.get_ref().to_string(), place: place.clone() };
            match value.get_ref().as_str() {
                Some(text) => pairs.push((name, Given { value: text.to_owned(), place })),
                None => self
                    .problems
                    .push(&place, format!("{} must be a text in quotes", quote(key.get_ref()))),
            }
        }
        pairs
    }

    /// A secret, which the environment alone may hold; the file is told what to do instead.
    pub(super) fn secret(
        &mut self,
        section: &'static str,
        key: &'static str,
        advice: &str,
    ) -> Field<Secret> {
        let variable = variable(section, key);
        self.secrets.push(variable.clone());
        if let Some(document) = self.document
            && let Some((name, _)) =
                document.section(section).and_then(|table| table.get_key_value(key))
        {
            self.problems.push(&document.place(&name.span()), advice);
            return Field::Bad;
        }
        let Some(value) = self.environment.get(&variable) else { return Field::Absent };
        let place = Place::named(&variable);
        let Some(value) = value.to_str() else {
            self.problems.push(&place, "is not UTF-8");
            return Field::Bad;
        };
        Field::Set(Given { value: Secret::new(value.to_owned()), place })
    }

    /// Where a section is begun: in the file, or by the variable of a key asked for so far.
    pub(super) fn begun(&self, section: &str) -> Option<Place> {
        if let Some(place) = self.document.and_then(|document| document.section_place(section)) {
            return Some(place);
        }
        let prefix = variable(section, "");
        let mut variables = self.asked.iter().map(|&(section, key)| variable(section, key));
        let is_set =
            |name: &String| name.starts_with(&prefix) && self.environment.get(name).is_some();
        variables.find(is_set).map(|name| Place::named(&name))
    }

    /// Everything asked for, as section and key.
    #[cfg(test)]
    pub(super) fn asked(&self) -> &[(&'static str, &'static str)] {
        &self.asked
    }

    /// Reports keys, sections and variables that nobody asked for, and hands over all problems.
    pub(super) fn into_problems(mut self) -> Problems {
        if let Some(document) = self.document {
            self.report_unknown_keys(document, "");
        }
        self.report_unknown_variables();
        self.problems
    }

    fn report_unknown_variables(&mut self) {
        let mut known: Vec<String> =
            self.asked.iter().map(|&(section, key)| variable(section, key)).collect();
        known.extend(self.secrets.iter().cloned());
        // Without the beginning they share, which would make all of them alike.
        let distinct: Vec<&str> =
            known.iter().filter_map(|name| name.strip_prefix(PREFIX)).collect();
        for name in self.environment.names().filter(|name| !known.contains(name)) {
            let of_file = |section: &&&str| name.starts_with(&variable(section, ""));
            let message = if let Some(section) = self.free.iter().find(of_file) {
                format!("the file alone can set [{section}]")
            } else {
                let typed = name.strip_prefix(PREFIX).unwrap_or(&name);
                let near = nearest(typed, distinct.iter().copied());
                let near = near.map(|near| format!("{PREFIX}{near}"));
                format!("there is no such variable{}", did_you_mean(near.as_deref()))
            };
            self.problems.push(&Place::named(&name), message);
        }
    }

    fn report_unknown_keys(&mut self, document: &Document<'_>, section: &str) {
        for (key, value) in document.section(section).into_iter().flat_map(DeTable::iter) {
            let name = key.get_ref().as_ref();
            let path =
                if section.is_empty() { name.to_owned() } else { format!("{section}.{name}") };
            let place = document.place(&key.span());
            let is_section = self.sections().any(|known| known == path);
            match value.get_ref() {
                DeValue::Table(_) if self.free.contains(&path.as_str()) => {}
                DeValue::Table(_) if is_section => self.report_unknown_keys(document, &path),
                _ if is_section => {
                    self.problems.push(&place, format!("`{path}` is a section: write [{path}]"));
                }
                _ if self.is_known(section, name) => {}
                DeValue::Table(_) => {
                    let near = nearest(&path, self.sections());
                    let near = near.map(|near| format!("[{near}]"));
                    let message = format!(
                        "there is no section {}{}",
                        quote(&path),
                        did_you_mean(near.as_deref())
                    );
                    self.problems.push(&place, message);
                }
                _ => self.problems.push(&place, self.explain_unknown(section, name)),
            }
        }
    }

    fn explain_unknown(&self, section: &str, name: &str) -> String {
        let quoted = quote(name);
        let here = self.asked.iter().filter(|(of, _)| *of == section).map(|&(_, key)| key);
        let home = self.asked.iter().find(|(_, key)| *key == name).map(|&(section, _)| section);
        let whole = if section.is_empty() {
            "at the top of the file".to_owned()
        } else {
            format!("in [{section}]")
        };
        match (nearest(name, here.clone()), home) {
            (Some(near), _) => {
                format!("there is no key {quoted} {whole}; did you mean `{near}`?")
            }
            (None, Some("")) => {
                format!("there is no key {quoted} {whole}; it belongs above the first section")
            }
            (None, Some(home)) => {
                format!("there is no key {quoted} {whole}; it belongs in [{home}]")
            }
            (None, None) => {
                let keys: Vec<String> = here.map(|key| format!("`{key}`")).collect();
                format!("there is no key {quoted} {whole}; there are {}", keys.join(", "))
            }
        }
    }

    fn is_known(&self, section: &str, name: &str) -> bool {
        self.asked.contains(&(section, name)) || self.secrets.contains(&variable(section, name))
    }

    /// The names of all sections, some more than once.
    fn sections(&self) -> impl Iterator<Item = &'static str> {
        let of_keys = self.asked.iter().map(|&(section, _)| section);
        of_keys.chain(self.free.iter().copied()).filter(|section| !section.is_empty())
    }

    /// The texts of a list; none after reporting items that are no texts.
    fn items(&mut self, key: &str, items: &[Spanned<DeValue<'_>>]) -> Option<Vec<Given<String>>> {
        let document = self.document?;
        let mut texts = Vec::with_capacity(items.len());
        for item in items {
            let place = document.place(&item.span());
            if let Some(text) = item.get_ref().as_str() {
                texts.push(Given { value: text.to_owned(), place });
            } else {
                let message = format!("`{key}` holds something that is no text");
                self.problems.push(&place, message);
            }
        }
        (texts.len() == items.len()).then_some(texts)
    }

    fn read<T>(
        &mut self,
        section: &'static str,
        key: &'static str,
        wanted: &str,
        take: impl FnOnce(Typed<'a>) -> Option<T>,
    ) -> Field<T> {
        let Some((typed, place)) = self.find(section, key) else { return Field::Absent };
        self.finish(key, wanted, take(typed), place)
    }

    fn finish<T>(&mut self, key: &str, wanted: &str, value: Option<T>, place: Place) -> Field<T> {
        if let Some(value) = value {
            return Field::Set(Given { value, place });
        }
        let subject = if place.is_in_file() { format!("`{key}` ") } else { String::new() };
        self.problems.push(&place, format!("{subject}must be {wanted}"));
        Field::Bad
    }

    /// What was typed for a key; the environment wins.
    fn find(&mut self, section: &'static str, key: &'static str) -> Option<(Typed<'a>, Place)> {
        self.asked.push((section, key));
        let variable = variable(section, key);
        if let Some(value) = self.environment.get(&variable) {
            return Some((Typed::Variable(value), Place::named(&variable)));
        }
        let document = self.document?;
        let value = document.section(section)?.get(key)?;
        Some((Typed::InFile(value.get_ref()), document.place(&value.span())))
    }
}

fn split_list(text: &str, place: &Place) -> Vec<Given<String>> {
    let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
    items.map(|item| Given { value: item.to_owned(), place: place.clone() }).collect()
}

fn did_you_mean(near: Option<&str>) -> String {
    near.map(|near| format!("; did you mean {near}?")).unwrap_or_default()
}
