//! What becomes of the alerts of a batch: their evidence, and the mails that are owed for them.

use rustc_hash::FxHashSet;

use super::Pipeline;
use crate::daemon::evidence::{Paths, Plan};
use crate::daemon::facts;
use crate::journal::Fact;
use crate::model::{Alert, AlertChange, AlertId, Call, EventKind, IngestCode, Micros, OutboxItem};
use crate::notify::message_id;
use crate::store::{AlertRow, Batch, StoreError};

/// Alerts whose evidence is made ready at a time: the lines of their calls are in memory.
const ALERTS_AT_A_TIME: usize = 1_000;

/// An alert that is new or changed.
struct Changed {
    alert: Alert,
    replaces: Vec<AlertId>,
    /// Ids under which its lines may be stored already.
    stored: Vec<AlertId>,
}

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
        // Whether an alert is news is not the same: one that parts from another is none, and has an id of its own.
        let ids: Vec<AlertId> = changes.iter().filter_map(set_id).collect();
        let known = self.store.known_alerts(&ids)?;
        let merged = self.store.alias_ids(&ids)?;
        let mailed = self.mailed(&changes)?;
        let mut changes = changes.into_iter();
        loop {
            let mut part = Vec::new();
            for change in changes.by_ref().take(ALERTS_AT_A_TIME) {
                match change {
                    AlertChange::Set { alert, replaces, .. } => {
                        let owed = batch.outbox.len();
                        if self.is_mail_wanted(&alert) && !mailed.contains(&alert.id) {
                            self.owe_mail(&alert, now, batch);
                        }
                        let mails = batch.outbox.get(owed..).unwrap_or_default();
                        // What the database has, the journal has had before it; but of one that leads to another
                        // alert it says that, until it is told that it stands again.
                        let is_stored = known.contains(&alert.id);
                        let stands = is_stored && !merged.contains(&alert.id);
                        let is_told = stands || self.remembered.stands(alert.id);
                        if !(is_told && replaces.is_empty() && mails.is_empty()) {
                            facts.push(Fact::Alert(facts::raised(&alert, &replaces, mails)));
                        }
                        let mut stored = replaces.clone();
                        // One that was retracted and comes again has its lines, which the logs may have lost.
                        stored.extend(is_stored.then_some(alert.id));
                        part.push(Changed { alert: *alert, replaces, stored });
                    }
                    AlertChange::Retracted { id, reason } => batch.retracted.push((id, reason)),
                }
            }
            self.put_evidence(part, &paths, batch)?;
            if changes.len() == 0 {
                break;
            }
        }
        self.kept.end_batch();
        Ok(facts)
    }

    /// Adds alerts with what of their evidence is not stored yet.
    fn put_evidence(
        &mut self,
        changed: Vec<Changed>,
        paths: &Paths,
        batch: &mut Batch,
    ) -> Result<(), StoreError> {
        self.lines.make_room();
        let mut ready = Vec::new();
        let mut asked = Vec::new();
        for Changed { alert, replaces, stored } in changed {
            let plan = self.kept.plan(&alert);
            let mut is_found = true;
            for call in plan.calls(&alert) {
                is_found &= self.lines.look(call, paths, &mut self.intake);
            }
            if !is_found {
                asked.extend(self.lines.not_asked(&stored));
            }
            ready.push((alert, replaces, plan));
            if self.lines.are_many() {
                self.put_ready(std::mem::take(&mut ready), &std::mem::take(&mut asked), batch)?;
                self.lines.make_room();
            }
        }
        self.put_ready(ready, &asked, batch)
    }

    /// Adds alerts whose lines were looked for; those that no file holds may be stored with the alerts that are asked.
    fn put_ready(
        &mut self,
        ready: Vec<(Alert, Vec<AlertId>, Plan)>,
        asked: &[AlertId],
        batch: &mut Batch,
    ) -> Result<(), StoreError> {
        if !asked.is_empty() {
            self.lines.recall(self.reader.lines_of(asked)?);
        }
        let seq = self.store.seq() + 1;
        for (mut alert, replaces, plan) in ready {
            let texts = &mut batch.evidence_texts;
            let evidence = self.kept.put(plan, &alert, &self.lines, texts, seq);
            // The rows say it all.
            alert.evidence = Vec::new();
            batch.alerts.push(AlertRow { alert, evidence, replaces });
        }
        Ok(())
    }

    /// The alerts among those that are to be mailed for which mails were owed before, under this or a former id.
    fn mailed(&self, changes: &[AlertChange]) -> Result<FxHashSet<AlertId>, StoreError> {
        let mut asked: Vec<(AlertId, AlertId)> = Vec::new();
        for change in changes {
            if let AlertChange::Set { alert, is_new: false, replaces } = change
                && self.is_mail_wanted(alert)
            {
                let ids = replaces.iter().copied().chain([alert.id]);
                asked.extend(ids.map(|id| (id, alert.id)));
            }
        }
        let ids: Vec<AlertId> = asked.iter().map(|(id, _)| *id).collect();
        let owed = self.store.mailed_alerts(&ids)?;
        asked.retain(|(id, _)| owed.contains(id));
        Ok(asked.into_iter().map(|(_, alert)| alert).collect())
    }

    /// Whether an alert is grave enough to be mailed and rests on at least one line that is news. An alert on history
    /// is mailed when news comes to it.
    fn is_mail_wanted(&self, alert: &Alert) -> bool {
        let mail = self.mail.as_ref().filter(|mail| !self.is_again && mail.wants(alert.level));
        mail.is_some() && !alert.evidence.iter().all(|evidence| self.is_history(&evidence.call))
    }

    /// A mail for every recipient.
    fn owe_mail(&self, alert: &Alert, now: Micros, batch: &mut Batch) {
        let Some(mail) = &self.mail else { return };
        batch.outbox.extend(mail.recipients().map(|recipient| OutboxItem {
            id: 0,
            alert_id: alert.id,
            recipient: recipient.to_owned(),
            message_id: message_id(alert.id, recipient, mail.domain()),
            created_at: now,
            attempts: 0,
        }));
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

fn set_id(change: &AlertChange) -> Option<AlertId> {
    match change {
        AlertChange::Set { alert, .. } => Some(alert.id),
        AlertChange::Retracted { .. } => None,
    }
}

#[cfg(test)]
mod tests;
