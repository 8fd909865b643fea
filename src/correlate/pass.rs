//! How knowledge ties records to calls, from the surest to the least.

use super::arguments::{Agreement, agreement};
use super::pair::Joined;
use super::unit::Unit;
use crate::model::{JoinedBy, Text};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pass {
    ToolUse,
    Trace,
    Agrees(Agreement),
    /// By time, of streams that are known to belong together.
    Near,
    /// By a trace, against the arguments.
    Changed,
}

/// In this order over all witnesses: a join by less must not stand in the way of one by more.
pub(super) const PASSES: [Pass; 7] = [
    Pass::ToolUse,
    Pass::Trace,
    Pass::Agrees(Agreement::All),
    Pass::Agrees(Agreement::Some),
    Pass::Near,
    Pass::Agrees(Agreement::Nothing),
    Pass::Changed,
];

impl Pass {
    pub(super) const fn joined_by(self) -> JoinedBy {
        match self {
            Self::ToolUse => JoinedBy::ToolUse,
            Self::Trace | Self::Changed => JoinedBy::Trace,
            Self::Near | Self::Agrees(Agreement::Nothing) => JoinedBy::Time,
            Self::Agrees(_) => JoinedBy::Arguments,
        }
    }

    /// Whether it goes by time alone: that is not enough to tie a call to a stream that is known to tell of other
    /// streams' calls.
    pub(super) fn is_by_time(self) -> bool {
        matches!(self, Self::Near | Self::Agrees(Agreement::Nothing))
    }

    /// Whether the call shows what the pass goes by.
    pub(super) fn concerns(self, call: &Joined<'_>) -> bool {
        match self {
            Self::ToolUse => call.any(|unit| unit.told.tool_use_id.is_some()),
            Self::Trace | Self::Changed => call.any(|unit| unit.told.trace_id.is_some()),
            Self::Agrees(Agreement::All) => call.lane(self).is_some(),
            Self::Near | Self::Agrees(_) => true,
        }
    }

    /// Whether the two may be one call, by what they show.
    pub(super) fn accepts(self, call: &Joined<'_>, other: &Joined<'_>) -> bool {
        let (tool_use, trace): (IdOf, IdOf) =
            (|unit| unit.told.tool_use_id.as_ref(), |unit| unit.told.trace_id.as_ref());
        match self {
            Self::ToolUse => shares(call, other, tool_use),
            // A trace covers a whole turn, which may call one tool many times.
            Self::Trace => {
                shares(call, other, trace)
                    && !differs(call, other, tool_use)
                    && best_agreement(call, other) != Agreement::Contradicts
            }
            Self::Near => agrees(call, other, Agreement::Nothing),
            Self::Agrees(wanted) => agrees(call, other, wanted),
            Self::Changed => false,
        }
    }
}

/// Whether nothing speaks against it that the two are one call, and so much for it.
fn agrees(call: &Joined<'_>, other: &Joined<'_>, wanted: Agreement) -> bool {
    // A refused call has run only where a value ties the record to it; elsewhere another call of the same tool, a
    // moment later, would be taken for a bypass. Once one that ran is tied to it, others that saw it run may follow.
    let ran = |call: &Joined<'_>| call.any(Unit::shows_run);
    let clash = match (call.is_refused(), other.is_refused()) {
        (true, false) => !ran(call),
        (false, true) => ran(call),
        (true, true) | (false, false) => false,
    };
    (wanted >= Agreement::Some || !clash)
        && !differs(call, other, |unit| unit.told.trace_id.as_ref())
        && !differs(call, other, |unit| unit.told.tool_use_id.as_ref())
        && best_agreement(call, other) >= wanted
}

type IdOf = fn(&Unit) -> Option<&Text>;

fn shares(call: &Joined<'_>, other: &Joined<'_>, id_of: IdOf) -> bool {
    other.any(|unit| id_of(unit).is_some_and(|id| call.any(|known| id_of(known) == Some(id))))
}

fn differs(call: &Joined<'_>, other: &Joined<'_>, id_of: IdOf) -> bool {
    let knows = |joined: &Joined<'_>| joined.any(|unit| id_of(unit).is_some());
    knows(call) && knows(other) && !shares(call, other, id_of)
}

/// The worst news decides: one witness's contradiction rules the join out, else the best agreement counts.
fn best_agreement(call: &Joined<'_>, other: &Joined<'_>) -> Agreement {
    let mut best = Agreement::Nothing;
    for known in &call.units {
        for tied in &other.units {
            match agreement(&known.seen.unit.shown.args, &tied.seen.unit.shown.args) {
                Agreement::Contradicts => return Agreement::Contradicts,
                agreed => best = best.max(agreed),
            }
        }
    }
    best
}
