//! What tools can do: the operator's labels over the shipped ones over guesses from names. Pure:
//! the text of the operator's file is an argument, and reading it is somebody else's work.
//!
//! Audit logs are often written by, or at the wish of, the party being watched, and a tool's bare
//! name is the easiest thing of all to choose. So every label has a risky value (yes, but no for
//! read-only) and the order is, per label:
//!
//! 1. the operator's entry for this tool *of this server*: it may say yes or no;
//! 2. the operator's entry by the tool's name alone, if it adds risk;
//! 3. the shipped entry for this tool of this server: yes or no;
//! 4. the shipped entry by name alone, if it adds risk;
//! 5. an entry by name alone that denies risk, the operator's before the shipped one;
//! 6. a guess from the name, which only ever adds risk;
//! 7. unknown.
//!
//! An entry by name alone can therefore never take away what another entry says, only what a guess
//! says: a guess knows nothing but the same name. To deny a risk that another entry states, an
//! entry has to name the server. Where a log names no server at all, the entries of every server
//! add their risk by name, and none of them takes any away.

mod file;
mod guess;
mod layer;
mod name;

pub use file::CatalogueProblem;

use layer::{Layer, Saying, risky, slot};

use crate::model::{Label, LabelSource, Labels, Tri};

/// The labels that come with Calltrail, as text: also the example of the form.
pub const SHIPPED: &str = include_str!("shipped.toml");

/// The labels of all tools anybody has said something about.
#[derive(Debug)]
pub struct Catalogue {
    operator: Layer,
    shipped: Layer,
}

/// Where one label of a tool comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelOrigin {
    pub label: Label,
    pub value: Tri,
    pub source: LabelSource,
    /// The entry it comes from, where it comes from one.
    pub entry: Option<EntryPlace>,
    /// The operator's entry that denies the risk by name alone and so has no effect.
    pub overruled: Option<EntryPlace>,
}

/// An entry of a labels file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryPlace {
    pub file: String,
    /// Line of its `[[tool]]` table, counted from 1.
    pub line: usize,
    /// The server it is for; none for an entry by name alone.
    pub server: Option<String>,
    /// The name or pattern it is for.
    pub name: String,
}

impl Catalogue {
    /// The labels that come with Calltrail, without any of an operator's.
    pub fn shipped() -> Self {
        let (entries, problems) = file::parse(SHIPPED, "shipped.toml");
        debug_assert!(problems.is_empty(), "{problems:?}");
        Self { operator: Layer::default(), shipped: Layer::new("shipped.toml", entries) }
    }

    /// The operator's labels over the shipped ones. `file` is what problems call the text; all of
    /// them are returned, in the order of their lines.
    pub fn with_operator(text: &str, file: &str) -> Result<Self, Vec<CatalogueProblem>> {
        let (entries, problems) = file::parse(text, file);
        if !problems.is_empty() {
            return Err(problems);
        }
        Ok(Self { operator: Layer::new(file, entries), ..Self::shipped() })
    }

    /// What the tool can do. `tool` is the name as logged, namespace and all; `server` is what the
    /// log says besides, and comes before the namespace. The labels' source is the highest
    /// authority that said anything.
    pub fn labels(&self, server: Option<&str>, tool: &str) -> Labels {
        let mut labels = Labels::default();
        self.decide(server, tool, |label, verdict| {
            labels.set(label, verdict.value);
            labels.source = labels.source.min(verdict.source);
        });
        labels
    }

    /// The same labels, and where each comes from.
    pub fn explain(&self, server: Option<&str>, tool: &str) -> (Labels, Vec<LabelOrigin>) {
        let mut origins = Vec::with_capacity(Label::ALL.len());
        self.decide(server, tool, |label, verdict| {
            origins.push(LabelOrigin {
                label,
                value: verdict.value,
                source: verdict.source,
                entry: verdict.entry.and_then(|(layer, place)| place_of(layer, place)),
                overruled: verdict.overruled.and_then(|place| place_of(&self.operator, place)),
            });
        });
        (self.labels(server, tool), origins)
    }

    fn decide(&self, server: Option<&str>, tool: &str, mut f: impl FnMut(Label, Verdict<'_>)) {
        let (namespace, bare) = name::split(tool);
        let server = server.filter(|server| !server.is_empty()).or(namespace);
        // Servers are named by whoever configures a client, who may write GitHub or github.
        let lower = server
            .filter(|server| server.bytes().any(|byte| byte.is_ascii_uppercase()))
            .map(str::to_ascii_lowercase);
        let server = lower.as_deref().or(server);
        let mut operator = self.operator.say(server, bare);
        let mut shipped = self.shipped.say(server, bare);
        let guessed = guess::guess(server, bare);
        for label in Label::ALL {
            f(label, self.verdict(label, &mut operator, &mut shipped, guessed.get(label)));
        }
    }

    fn verdict(
        &self,
        label: Label,
        operator: &mut Saying,
        shipped: &mut Saying,
        guessed: Tri,
    ) -> Verdict<'_> {
        let (ours, theirs) = (&self.operator, &self.shipped);
        let operator_safe = *slot(&mut operator.safe_by_name, label);
        let first = [
            (ours, *slot(&mut operator.qualified, label)),
            (ours, *slot(&mut operator.risky_by_name, label)),
            (theirs, *slot(&mut shipped.qualified, label)),
            (theirs, *slot(&mut shipped.risky_by_name, label)),
            (ours, operator_safe),
            (theirs, *slot(&mut shipped.safe_by_name, label)),
        ]
        .into_iter()
        .find_map(|(layer, place)| place.map(|place| (layer, place)));
        let Some((layer, place)) = first else {
            let source =
                if guessed == Tri::Unknown { LabelSource::Unknown } else { LabelSource::Guessed };
            return Verdict { value: guessed, source, entry: None, overruled: None };
        };
        let value = layer.value(place, label);
        let is_operators = std::ptr::eq(layer, ours);
        Verdict {
            value,
            source: if is_operators { LabelSource::Operator } else { LabelSource::Shipped },
            entry: Some((layer, place)),
            overruled: operator_safe.filter(|_| value == risky(label)),
        }
    }
}

/// What holds for one label, and why.
struct Verdict<'a> {
    value: Tri,
    source: LabelSource,
    entry: Option<(&'a Layer, usize)>,
    overruled: Option<usize>,
}

fn place_of(layer: &Layer, place: usize) -> Option<EntryPlace> {
    layer.entry(place).map(|entry| EntryPlace {
        file: layer.file.clone(),
        line: entry.line,
        server: entry.server.clone(),
        name: entry.name.clone(),
    })
}

#[cfg(test)]
mod tests;
