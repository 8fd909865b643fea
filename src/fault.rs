//! Fail-points: places in the write path where a test can have the daemon die, panic or fail.
//!
//! They exist in debug builds alone. In a release build [`at`] is an empty function whose error cannot even be made,
//! the environment is not read, and the compiler leaves nothing of either.
//!
//! `CALLTRAIL_FAULT=before_commit:kill:3` acts at the third passing of a point, once in the life of a process.

#[cfg(debug_assertions)]
pub(crate) use armed::{Fault, at};
#[cfg(not(debug_assertions))]
pub(crate) use std::convert::Infallible as Fault;

/// Where something can be told to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Point {
    /// A batch is read and joined, and nothing of it is written: `in_step`.
    InStep,
    /// An appender holds rows that it has not handed over: `before_flush`.
    BeforeFlush,
    /// The records of a batch are appended, its positions are not: `mid_append`.
    MidAppend,
    /// All of a batch is appended: `before_commit`.
    BeforeCommit,
    /// A batch is committed, and the writer does not know: `after_commit`.
    AfterCommit,
    /// `before_checkpoint`.
    BeforeCheckpoint,
    /// `after_checkpoint`.
    AfterCheckpoint,
    /// A decision is in the journal and not in the database: `after_journal`.
    AfterJournal,
    /// A mail is sent, and its fate is not put down: `before_delivery`.
    BeforeDelivery,
}

/// Does what the environment says about this point.
#[cfg(not(debug_assertions))]
#[inline]
#[expect(clippy::unnecessary_wraps, reason = "in debug builds it can fail")]
pub(crate) const fn at(_point: Point) -> Result<(), Fault> {
    Ok(())
}

#[cfg(debug_assertions)]
mod armed {
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    use crate::fault::Point;

    /// An error that was asked for.
    #[derive(Debug, thiserror::Error)]
    #[error("the fail-point {0:?} was told to fail")]
    pub(crate) struct Fault(Point);

    /// What is to happen, where, and at which passing, counted from one.
    #[derive(Debug, PartialEq, Eq)]
    struct Plan {
        point: Point,
        action: Action,
        passing: u32,
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Action {
        /// Ends the process as kill -9 does: nothing is dropped, flushed or rolled back.
        Kill,
        Panic,
        Error,
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "no part of the configuration, and in no release"
    )]
    static PLAN: LazyLock<Option<Plan>> = LazyLock::new(|| {
        let text = std::env::var("CALLTRAIL_FAULT").ok()?;
        Some(parse(&text).unwrap_or_else(|| panic!("CALLTRAIL_FAULT={text} is no fail-point")))
    });
    static PASSED: AtomicU32 = AtomicU32::new(0);

    /// Does what the environment says about this point.
    pub(crate) fn at(point: Point) -> Result<(), Fault> {
        let Some(plan) = PLAN.as_ref().filter(|plan| plan.point == point) else { return Ok(()) };
        if PASSED.fetch_add(1, Ordering::SeqCst) + 1 != plan.passing {
            return Ok(());
        }
        match plan.action {
            Action::Kill => std::process::abort(),
            Action::Panic => panic!("the fail-point {point:?} was told to panic"),
            Action::Error => Err(Fault(point)),
        }
    }

    fn parse(text: &str) -> Option<Plan> {
        let mut parts = text.split(':');
        let point = match parts.next()? {
            "in_step" => Point::InStep,
            "before_flush" => Point::BeforeFlush,
            "mid_append" => Point::MidAppend,
            "before_commit" => Point::BeforeCommit,
            "after_commit" => Point::AfterCommit,
            "before_checkpoint" => Point::BeforeCheckpoint,
            "after_checkpoint" => Point::AfterCheckpoint,
            "after_journal" => Point::AfterJournal,
            "before_delivery" => Point::BeforeDelivery,
            _ => return None,
        };
        let action = match parts.next()? {
            "kill" => Action::Kill,
            "panic" => Action::Panic,
            "error" => Action::Error,
            _ => return None,
        };
        let passing = parts.next()?.parse().ok()?;
        parts.next().is_none().then_some(Plan { point, action, passing })
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_plan_names_a_point_an_action_and_a_passing() {
            let plan = Plan { point: Point::BeforeCommit, action: Action::Kill, passing: 3 };
            assert_eq!(parse("before_commit:kill:3"), Some(plan));
            for wrong in
                ["", "before_commit", "before_commit:kill", "nowhere:kill:1", "in_step:kill:1:2"]
            {
                assert_eq!(parse(wrong), None, "{wrong}");
            }
        }
    }
}
