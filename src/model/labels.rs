//! What a tool can do.

use serde::{Deserialize, Serialize};

/// Yes, no, or nobody has said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tri {
    Yes,
    No,
    #[default]
    Unknown,
}

/// One of the five things a label can say of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Label {
    /// Brings in content that strangers can write.
    OpenWorld,
    /// Reads data that must not leave.
    Sensitive,
    /// Sends data to where others can read it.
    Outbound,
    /// Destroys or changes what cannot be had back.
    Destructive,
    /// Changes nothing.
    ReadOnly,
}

impl Label {
    pub const ALL: [Self; 5] =
        [Self::OpenWorld, Self::Sensitive, Self::Outbound, Self::Destructive, Self::ReadOnly];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OpenWorld => "open-world",
            Self::Sensitive => "sensitive",
            Self::Outbound => "outbound",
            Self::Destructive => "destructive",
            Self::ReadOnly => "read-only",
        }
    }
}

/// Where a tool's labels come from, from the highest authority to the lowest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LabelSource {
    Operator,
    Shipped,
    /// Guessed from the tool's name.
    Guessed,
    #[default]
    Unknown,
}

/// All labels of one tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Labels {
    pub open_world: Tri,
    pub sensitive: Tri,
    pub outbound: Tri,
    pub destructive: Tri,
    pub read_only: Tri,
    pub source: LabelSource,
}

impl Labels {
    pub const fn get(&self, label: Label) -> Tri {
        match label {
            Label::OpenWorld => self.open_world,
            Label::Sensitive => self.sensitive,
            Label::Outbound => self.outbound,
            Label::Destructive => self.destructive,
            Label::ReadOnly => self.read_only,
        }
    }

    pub const fn set(&mut self, label: Label, value: Tri) {
        match label {
            Label::OpenWorld => self.open_world = value,
            Label::Sensitive => self.sensitive = value,
            Label::Outbound => self.outbound = value,
            Label::Destructive => self.destructive = value,
            Label::ReadOnly => self.read_only = value,
        }
    }
}
