//! The table of calls that several pages show.

use super::incident_page::ran_words;
use super::shown::{Severity, Shown, When, brief_duration};
use super::timeline::class_word;
use crate::model::{AlertId, CallId, CallView, Micros};

/// Calls on one page.
pub(crate) const PAGE_ROWS: usize = 200;

/// The rows, and which of the columns that not every page needs it has.
#[derive(Default)]
pub(crate) struct CallTable {
    pub(crate) rows: Vec<CallRow>,
    pub(crate) has_actors: bool,
    pub(crate) has_gaps: bool,
}

impl CallTable {
    /// Where no row names a tenant, there is no column for it.
    pub(crate) fn has_tenants(&self) -> bool {
        self.rows.iter().any(|row| row.tenant.is_some())
    }
}

pub(crate) struct CallRow {
    pub(crate) id: CallId,
    pub(crate) at: When,
    pub(crate) tool: Shown,
    pub(crate) server: Option<Shown>,
    pub(crate) actor: Shown,
    pub(crate) tenant: Option<Shown>,
    pub(crate) class: &'static str,
    pub(crate) code: Shown,
    pub(crate) ran: &'static str,
    pub(crate) witnesses: Shown,
    pub(crate) gap: Shown,
    /// The worst alert that rests on it, where that is asked for.
    pub(crate) alert: Option<(Severity, AlertId)>,
    /// The call that people came from.
    pub(crate) is_origin: bool,
}

impl CallRow {
    pub(crate) fn new(call: &CallView) -> Self {
        Self {
            id: call.id,
            at: When(Some(call.at)),
            tool: Shown::short(&call.tool, 120),
            server: call.server.as_deref().map(|server| Shown::short(server, 80)),
            actor: Shown::short(&call.actor, 80),
            tenant: call.tenant.as_deref().map(|tenant| Shown::short(tenant, 80)),
            class: class_word(call.class),
            code: Shown::short(&call.code, 60),
            ran: ran_words(call.ran),
            witnesses: Shown::new(&call.witnesses.replace(',', ", ")),
            gap: Shown::default(),
            alert: None,
            is_origin: false,
        }
    }

    /// Sets the gap between what went on before, until `busy_until`, and this call.
    pub(crate) fn set_gap(&mut self, busy_until: Option<Micros>, call: &CallView) {
        let gap = busy_until.map(|until| call.at.since(until));
        self.gap = Shown::new(&match gap {
            None => "first".to_owned(),
            Some(gap) if gap < 0 => "overlaps".to_owned(),
            Some(gap) => format!("+{}", brief_duration(gap)),
        });
    }
}
