//! What every page has around it: navigation, the state of ingest, the live banner's starting
//! point.

use super::assets::Assets;
use super::shown::{Shown, When};
use super::state::WebState;

/// The part of the dashboard a page belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    Incidents,
    Calls,
    Rules,
    Sources,
    Other,
}

/// The frame around a page.
pub(crate) struct Frame {
    pub(crate) title: Shown,
    pub(crate) section: Section,
    pub(crate) assets: &'static Assets,
    /// None for pages outside the login, which have neither navigation nor live updates.
    pub(crate) inside: Option<Inside>,
}

/// What only signed-in people see.
pub(crate) struct Inside {
    pub(crate) alarms: Vec<Vec<Shown>>,
    pub(crate) progress: Option<Shown>,
    /// The newest alert when the page was made: the banner counts from it.
    pub(crate) seq: u64,
    pub(crate) made_at: When,
}

impl Frame {
    /// The frame of a page for signed-in people. Call it before reading rows, so that what changes
    /// meanwhile counts as new.
    pub(crate) fn new(state: &WebState, title: &str, section: Section) -> Self {
        let now = (state.clock)();
        let health = state.health.borrow();
        Self {
            title: Shown::short(title, 120),
            section,
            assets: Assets::get(),
            inside: Some(Inside {
                alarms: health.alarms(now),
                progress: health.progress(),
                seq: *state.news.borrow(),
                made_at: When(Some(now)),
            }),
        }
    }

    /// The frame of a page outside the login.
    pub(crate) fn bare(title: &str) -> Self {
        Self {
            title: Shown::short(title, 120),
            section: Section::Other,
            assets: Assets::get(),
            inside: None,
        }
    }

    pub(crate) fn is_incidents(&self) -> bool {
        self.section == Section::Incidents
    }

    pub(crate) fn is_calls(&self) -> bool {
        self.section == Section::Calls
    }

    pub(crate) fn is_rules(&self) -> bool {
        self.section == Section::Rules
    }

    pub(crate) fn is_sources(&self) -> bool {
        self.section == Section::Sources
    }
}
