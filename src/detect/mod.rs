//! Rule text to compiled rules to findings. Rules are Sigma files with a few keys of our own
//! (`rules/README.md` is their reference); the engine takes batches of call changes and tells what
//! became of the alerts.
//!
//! What it finds is a function of the set of calls, never of the order in which they came: see
//! [`Engine`].

mod about;
mod allowance;
mod board;
mod bounds;
mod cases;
mod chain;
mod cidr;
mod cold;
mod compile;
mod condition;
mod correlation;
mod distinct;
mod document;
mod doubts;
mod engine;
mod episode;
mod explain;
mod field;
mod figures;
mod firing;
mod glance;
mod group;
mod group_by;
mod history;
mod key;
mod known;
mod ledger;
mod limits;
mod literal;
mod logs;
mod matcher;
mod meter;
mod outcome;
mod overrides;
mod pace;
mod pairing;
mod passed;
mod possible;
mod problem;
mod rule;
mod seen;
mod shelf;
mod shipped;
mod sip;
mod stages;
mod tally;
mod told;
mod touch;
mod trial;
mod tuning;
mod yaml;

#[cfg(test)]
mod absorbed;
#[cfg(test)]
mod attacks;
#[cfg(test)]
mod edges;
#[cfg(test)]
mod failures;
#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod memory;
#[cfg(test)]
mod naive;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod property_rules;
#[cfg(test)]
mod refusals;
#[cfg(test)]
mod scenarios;

pub use about::CaseTold;
pub use compile::stem as rule_name;
pub use doubts::{Doubted, Effort};
pub use engine::{Engine, evaluate};
pub use explain::{Asked, Explanation, Neighbours, StageTold};
pub use field::LabelsOf;
pub use history::{History, HistoryNeed, KnownAlert};
pub use limits::STATE_SATURATED;
pub use logs::{CaseCall, CaseLog, ReadLogs};
pub use meter::RuleCost;
pub use overrides::Overrides;
pub use problem::RuleProblem;
pub use rule::{Rule, RuleSet};
pub use shipped::{merge, shipped};
pub use trial::{TestResult, run_tests};
