//! `POST /incidents/{id}/decide`: what a person decides about an incident, put down alert by alert.
//!
//! A form acts on the alerts its page showed and on no other: one that joined the incident since is
//! not closed unseen.

use axum::Form;
use axum::extract::{Path, Query, State};
use axum::response::Redirect;
use serde::Deserialize;

use super::error::WebError;
use super::filter::Filter;
use super::incident::Incident;
use super::incident_page::find_incident;
use super::state::Shared;
use crate::model::{AlertId, AlertState, CloseReason};
use crate::store::Decision;

const NOTE_CHARS_MAX: usize = 4000;
const WHO_CHARS_MAX: usize = 80;

/// The form as it was sent.
#[derive(Deserialize)]
pub(crate) struct DecideForm {
    action: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    note: String,
    #[serde(default)]
    who: String,
    /// Ids of the alerts that the page showed, with commas between.
    #[serde(default)]
    alerts: String,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Acknowledge,
    Close(CloseReason),
    Reopen,
    Note,
}

impl Action {
    fn read(form: &DecideForm) -> Result<Self, WebError> {
        match form.action.as_str() {
            "acknowledge" => Ok(Self::Acknowledge),
            "reopen" => Ok(Self::Reopen),
            "note" if form.note.trim().is_empty() => Err(WebError::Bad("Write the note first.")),
            "note" => Ok(Self::Note),
            "close" => CloseReason::from_word(&form.reason)
                .map(Self::Close)
                .ok_or(WebError::Bad("Choose a reason to close the incident with.")),
            _ => Err(WebError::Bad("Use the buttons on the incident's page.")),
        }
    }

    /// The alert's state afterwards; none where the action does not touch it.
    fn state_after(self, state: AlertState) -> Option<AlertState> {
        match (self, state) {
            (Self::Acknowledge, AlertState::Open) => Some(AlertState::Acknowledged),
            (Self::Close(_), AlertState::Open | AlertState::Acknowledged) => {
                Some(AlertState::Closed)
            }
            (Self::Reopen, AlertState::Acknowledged | AlertState::Closed) => Some(AlertState::Open),
            _ => None,
        }
    }
}

pub(crate) async fn submit(
    State(state): State<Shared>,
    Path(id): Path<String>,
    Query(pairs): Query<Vec<(String, String)>>,
    Form(form): Form<DecideForm>,
) -> Result<Redirect, WebError> {
    let id: AlertId = id.parse().map_err(|_| WebError::NoSuchIncident)?;
    let action = Action::read(&form)?;
    let incident = state
        .reading
        .read(move |rows| find_incident(rows, id))
        .await?
        .ok_or(WebError::NoSuchIncident)?;
    let template = Decision {
        alert_id: incident.id(),
        at: (state.clock)(),
        who: text_or(&form.who, WHO_CHARS_MAX, "dashboard"),
        state: AlertState::Open,
        close_reason: None,
        note: text_or(&form.note, NOTE_CHARS_MAX, ""),
    };
    for decision in decisions(&incident, action, &form.alerts, &template) {
        state.writing.decide(decision).await?;
    }
    let page = Filter::read(&pairs).address_of_incident(id, None);
    Ok(Redirect::to(&format!("{page}#decisions")))
}

fn decisions(
    incident: &Incident,
    action: Action,
    seen: &str,
    template: &Decision,
) -> Vec<Decision> {
    if action == Action::Note {
        // A note is about the incident; its leading alert keeps it.
        let lead = incident.lead();
        let (state, close_reason) = (lead.state, lead.close_reason);
        return vec![Decision { alert_id: lead.id, state, close_reason, ..template.clone() }];
    }
    let seen: Vec<AlertId> = seen.split(',').filter_map(|id| id.trim().parse().ok()).collect();
    let close_reason = if let Action::Close(reason) = action { Some(reason) } else { None };
    incident
        .alerts()
        .iter()
        .filter(|alert| seen.contains(&alert.id))
        .filter_map(|alert| Some((alert.id, action.state_after(alert.state)?)))
        .map(|(alert_id, state)| Decision { alert_id, state, close_reason, ..template.clone() })
        .collect()
}

/// The text without surrounding space, at most so many characters, or `otherwise` when nothing is
/// left.
fn text_or(text: &str, chars_max: usize, otherwise: &str) -> String {
    let text: String = text.trim().chars().take(chars_max).collect();
    if text.is_empty() { otherwise.to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::alert;
    use super::super::incident::group;
    use super::*;
    use crate::model::{Level, Micros};

    fn decide(action: Action, seen: &str) -> Vec<(u8, AlertState)> {
        let mut alerts = vec![alert(1, "a", Level::High), alert(2, "a", Level::Low)];
        alerts[1].state = AlertState::Acknowledged;
        let incident = group(alerts).remove(0);
        let template = Decision {
            alert_id: incident.id(),
            at: Micros(0),
            who: "x".to_owned(),
            state: AlertState::Open,
            close_reason: None,
            note: String::new(),
        };
        decisions(&incident, action, seen, &template)
            .into_iter()
            .map(|decision| (decision.alert_id.0[0], decision.state))
            .collect()
    }

    #[test]
    fn only_alerts_that_were_seen_and_change_are_decided() {
        let id = |id: u8| alert(id, "a", Level::Low).id.to_string();
        let both = format!("{},{}", id(1), id(2));
        let closing = Action::Close(CloseReason::Benign);
        assert_eq!(decide(Action::Acknowledge, &both), [(1, AlertState::Acknowledged)]);
        assert_eq!(decide(closing, &both), [(1, AlertState::Closed), (2, AlertState::Closed)]);
        assert_eq!(decide(closing, &id(2)), [(2, AlertState::Closed)]);
        assert_eq!(decide(Action::Reopen, &both), [(2, AlertState::Open)]);
        assert_eq!(decide(Action::Note, ""), [(1, AlertState::Open)]);
        assert_eq!(decide(closing, "nonsense"), []);
    }
}
