//! One labels file, indexed for lookup by server and tool.

use rustc_hash::FxHashMap;

use super::file::Entry;
use super::name;
use crate::model::{Label, Tri};

/// The entries of one file.
#[derive(Debug, Default)]
pub(super) struct Layer {
    pub(super) file: String,
    entries: Vec<Entry>,
    /// Entries that name their server, by it.
    servers: FxHashMap<String, Names>,
    /// The same entries whatever their server: for calls whose log names none.
    any_server: Names,
    /// Entries that name no server.
    bare: Names,
}

/// Places in the list of entries, by the tool's bare name.
#[derive(Debug, Default)]
struct Names {
    exact: FxHashMap<String, Vec<usize>>,
    wild: Vec<usize>,
}

/// What one file says about one tool, per label: the places of the entries that count.
#[derive(Debug, Default)]
pub(super) struct Saying {
    /// The most particular entry for this tool of this server.
    pub(super) qualified: [Option<usize>; Label::ALL.len()],
    /// An entry by the tool's name alone that adds risk.
    pub(super) risky_by_name: [Option<usize>; Label::ALL.len()],
    /// An entry by the tool's name alone that denies it.
    pub(super) safe_by_name: [Option<usize>; Label::ALL.len()],
}

impl Layer {
    pub(super) fn new(file: &str, entries: Vec<Entry>) -> Self {
        let mut layer = Self { file: file.to_string(), ..Self::default() };
        for (place, entry) in entries.iter().enumerate() {
            match &entry.server {
                None => layer.bare.insert(&entry.name, place),
                Some(server) => {
                    layer.any_server.insert(&entry.name, place);
                    layer.servers.entry(server.clone()).or_default().insert(&entry.name, place);
                }
            }
        }
        layer.entries = entries;
        layer
    }

    pub(super) fn entry(&self, place: usize) -> Option<&Entry> {
        self.entries.get(place)
    }

    /// What the entry at `place` says of the label.
    pub(super) fn value(&self, place: usize, label: Label) -> Tri {
        self.entry(place).map_or(Tri::Unknown, |entry| entry.labels.get(label))
    }

    /// `server` is in lower case.
    pub(super) fn say(&self, server: Option<&str>, bare: &str) -> Saying {
        let mut saying = Saying::default();
        match server {
            Some(server) => {
                if let Some(names) = self.servers.get(server) {
                    self.each(names, bare, |label, place| {
                        self.keep_better(slot(&mut saying.qualified, label), label, place);
                    });
                }
            }
            None => self.each(&self.any_server, bare, |label, place| {
                if self.value(place, label) == risky(label) {
                    slot(&mut saying.risky_by_name, label).get_or_insert(place);
                }
            }),
        }
        self.each(&self.bare, bare, |label, place| {
            let by_name = if self.value(place, label) == risky(label) {
                &mut saying.risky_by_name
            } else {
                &mut saying.safe_by_name
            };
            slot(by_name, label).get_or_insert(place);
        });
        saying
    }

    /// Calls `f` for every label that an entry for the tool sets.
    fn each(&self, names: &Names, bare: &str, mut f: impl FnMut(Label, usize)) {
        let exact = names.exact.get(bare).into_iter().flatten();
        for &place in exact.chain(&names.wild) {
            let Some(entry) = self.entry(place) else { continue };
            if !name::matches(&entry.name, bare) {
                continue;
            }
            for label in Label::ALL {
                if entry.labels.get(label) != Tri::Unknown {
                    f(label, place);
                }
            }
        }
    }

    /// The entry with more of the name spelled out holds; between equals the one that adds risk.
    fn keep_better(&self, slot: &mut Option<usize>, label: Label, place: usize) {
        let rank = |place: usize| {
            let name = self.entry(place).map_or("", |entry| entry.name.as_str());
            let stars = name.matches('*').count();
            let is_risky = self.value(place, label) == risky(label);
            (stars == 0, name.len() - stars, is_risky)
        };
        if slot.is_none_or(|held| rank(place) > rank(held)) {
            *slot = Some(place);
        }
    }
}

impl Names {
    fn insert(&mut self, name: &str, place: usize) {
        if name.contains('*') {
            self.wild.push(place);
        } else {
            self.exact.entry(name.to_string()).or_default().push(place);
        }
    }
}

/// The value of a label that makes detection look closer.
pub(super) const fn risky(label: Label) -> Tri {
    match label {
        Label::ReadOnly => Tri::No,
        Label::OpenWorld | Label::Sensitive | Label::Outbound | Label::Destructive => Tri::Yes,
    }
}

/// The label's place in a row of slots.
pub(super) const fn slot<T>(row: &mut [T; Label::ALL.len()], label: Label) -> &mut T {
    let [open_world, sensitive, outbound, destructive, read_only] = row;
    match label {
        Label::OpenWorld => open_world,
        Label::Sensitive => sensitive,
        Label::Outbound => outbound,
        Label::Destructive => destructive,
        Label::ReadOnly => read_only,
    }
}
