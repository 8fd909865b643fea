//! What becomes of the alerts of a batch: their evidence, and the mails that are owed for them.

use super::Pipeline;
use crate::daemon::evidence::Paths;
use crate::daemon::facts;
use crate::journal::Fact;
use crate::model::{Alert, AlertChange, AlertId, Call, EventKind, IngestCode, Micros, OutboxItem};
use crate::notify::message_id;
use crate::store::{AlertRow, Batch, StoreError};

impl Pipeline {
    /// Adds the alerts, and tells what of them has to be in the journal.
    pub(super) fn put_alerts(
        &mut self,
        changes: Vec<AlertChange>,
        now: Micros,
        batch: &mut Batch,
    ) -> Result<Vec<Fact>, StoreError> {
        let mut facts = Vec::new();
        if changes.is_empty() {
            return Ok(facts);
        }
        let paths = Paths::of_now(&self.intake);
        let news: Vec<AlertId> = changes.iter().filter_map(new_id).collect();
        let known = self.store.known_alerts(&news)?;
        for change in changes {
            match change {
                AlertChange::Set { alert, is_new, replaces } => {
                    let owed = batch.outbox.len();
                    self.owe_mail(&alert, is_new, &replaces, now, batch)?;
                    let mails = batch.outbox.get(owed..).unwrap_or_default();
                    let is_told = !is_new || self.remembered.knows(alert.id);
                    if !(is_told && replaces.is_empty() && mails.is_empty()) {
                        facts.push(Fact::Alert(facts::raised(&alert, &replaces, mails)));
                    }
                    let mut stored = replaces.clone();
                    // One that was retracted and comes again has its lines, which the logs may have lost.
                    stored.extend((!is_new || known.contains(&alert.id)).then_some(alert.id));
                    let (intake, reader) = (&mut self.intake, &self.reader);
                    let evidence = self.lines.views(&alert, &stored, &paths, intake, reader)?;
                    batch.alerts.push(AlertRow { alert: *alert, evidence, replaces });
                }
                AlertChange::Retracted { id, reason } => batch.retracted.push((id, reason)),
            }
        }
        Ok(facts)
    }

    /// A mail for every recipient, where the alert is grave enough, rests on at least one line that is news, and was
    /// not mailed under this or a former id. An alert on history is mailed when news comes to it.
    fn owe_mail(
        &self,
        alert: &Alert,
        is_new: bool,
        former: &[AlertId],
        now: Micros,
        batch: &mut Batch,
    ) -> Result<(), StoreError> {
        let mail = self.mail.as_ref().filter(|mail| !self.is_again && mail.wants(alert.level));
        let Some(mail) = mail else {
            return Ok(());
        };
        if alert.evidence.iter().all(|evidence| self.is_history(&evidence.call)) {
            return Ok(());
        }
        if !is_new {
            let ids: Vec<AlertId> = former.iter().copied().chain([alert.id]).collect();
            if self.store.is_mail_owed(&ids)? {
                return Ok(());
            }
        }
        batch.outbox.extend(mail.recipients().map(|recipient| OutboxItem {
            id: 0,
            alert_id: alert.id,
            recipient: recipient.to_owned(),
            message_id: message_id(alert.id, recipient, mail.domain()),
            created_at: now,
            attempts: 0,
        }));
        Ok(())
    }

    /// Whether all of a call was there when the database was made. What happens to a file happens now.
    fn is_history(&self, call: &Call) -> bool {
        let code = IngestCode::from_word(&call.code).filter(|_| call.kind == EventKind::Ingest);
        if let Some(code) = code {
            if code.is_of_records() {
                return self.is_history_pending;
            }
            return code.is_of_content() && self.intake.is_history(call.position);
        }
        let mut steps = call.sightings.iter().flat_map(|sighting| &sighting.steps);
        steps.all(|step| self.intake.is_history(step.record))
    }
}

fn new_id(change: &AlertChange) -> Option<AlertId> {
    match change {
        AlertChange::Set { alert, is_new: true, .. } => Some(alert.id),
        AlertChange::Set { .. } | AlertChange::Retracted { .. } => None,
    }
}
