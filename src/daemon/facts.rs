//! The journal's part: facts go into it before the database says them, and come back from it into a new database.

use std::path::{Path, PathBuf};

use rustc_hash::{FxHashMap, FxHashSet};

use crate::detect::RuleSet;
use crate::fault::{self, Point};
use crate::journal::{self, Decided, Delivered, Fact, Fate, Journal, Owed, Raised};
use crate::model::{Alert, AlertId, FirstSeen, Micros, OutboxItem, Text, Why};
use crate::store::{
    AlertRow, Alias, Decision, Delivery, DeliveryOutcome, EvidenceRows, Restored, RestoredMail,
    Store, StoreError,
};

/// The journal of a database lies beside it.
pub(crate) fn journal_path(database: &Path) -> PathBuf {
    crate::store::beside(database, ".journal.jsonl")
}

/// Opens the journal of a database and puts into the database what only the journal has: decisions and the fates of
/// mails, and into one that is new what was first seen. `old` is what is known of an older database besides. The rest
/// waits until history is read: see [`Remembered::settle`].
pub(crate) fn open_journal(
    path: &Path,
    store: &mut Store,
    old: Restored,
    now: Micros,
) -> Result<(Journal, Remembered), StoreError> {
    let mark = store.journal_mark()?;
    let known = mark.as_ref().map_or(0, |mark| mark.entries);
    // What the mark covers is in the database already, but for what waits until history is read.
    let is_all_wanted = mark.is_none() || store.is_history_pending()?;
    let mut remembered = Remembered::default();
    let expected = mark.as_ref().or(old.mark.as_ref());
    let mut journal = Journal::open(path, expected, |number, at, fact| {
        if is_all_wanted || number > known {
            remembered.hear(at, fact);
        }
    })
    .map_err(refused)?;
    let mut lacking = Vec::new();
    if journal.is_open() {
        // Said at once, while the database still knows what was removed; and what it knows of it is written again.
        let facts = store.facts(|what, error| tracing::warn!(%error, "{what} cannot be read"))?;
        journal.seal(now).map_err(refused)?;
        remembered = Remembered::default();
        journal::read(path, None, |_, at, fact| remembered.hear(at, fact)).map_err(refused)?;
        lacking.extend(remembered.overlay(facts, now));
    }
    lacking.extend(remembered.overlay(old, now));
    journal.append_timed(&lacking).map_err(refused)?;
    if mark.as_ref() != Some(&journal.mark()) && journal.mark().entries > 0 {
        store.note_journal(journal.mark());
        store.restore(&Restored {
            decisions: remembered.decisions.clone(),
            mails: remembered.settled_mails(),
            first_seen: if mark.is_none() { remembered.first_seen() } else { Vec::new() },
            ..Restored::default()
        })?;
    }
    Ok((journal, remembered))
}

/// First in the journal, then in the database: a decision outlives the database.
pub(crate) fn decide(
    journal: Option<&mut Journal>,
    store: &mut Store,
    decision: &Decision,
) -> Result<(), StoreError> {
    write(journal, store, decision.at, &[decided(decision)])?;
    fault::at(Point::AfterJournal)?;
    store.decide(decision)
}

/// The fate of a mail, once it is settled, is in the journal before the database says so.
pub(super) fn deliver(
    journal: Option<&mut Journal>,
    store: &mut Store,
    delivery: &Delivery,
) -> Result<(), StoreError> {
    let outcome = match delivery.outcome {
        DeliveryOutcome::Sent => Some(Fate::Sent),
        DeliveryOutcome::Dead { .. } => Some(Fate::Dead),
        DeliveryOutcome::Retry { .. } => None,
    };
    if let Some(outcome) = outcome
        && let Some(mail) = store.mail(delivery.outbox_id)?
    {
        let fact = Delivered {
            message_id: mail.message_id,
            recipient: mail.recipient,
            alert_id: mail.alert_id,
            outcome,
        };
        write(journal, store, delivery.at, &[Fact::Delivery(fact)])?;
    }
    store.deliver(delivery)
}

/// Puts facts into the journal, and its new end into the next thing that the database stores.
pub(super) fn write(
    journal: Option<&mut Journal>,
    store: &mut Store,
    at: Micros,
    facts: &[Fact],
) -> Result<(), StoreError> {
    let Some(journal) = journal.filter(|_| !facts.is_empty()) else { return Ok(()) };
    journal.append(at, facts).map_err(refused)?;
    store.note_journal(journal.mark());
    Ok(())
}

/// An alert as the journal keeps it.
pub(super) fn raised(alert: &Alert, replaces: &[AlertId], mails: &[OutboxItem]) -> Raised {
    let owed = |mail: &OutboxItem| Owed {
        message_id: mail.message_id.clone(),
        recipient: mail.recipient.clone(),
    };
    Raised {
        alert_id: alert.id,
        rule: Text::clone(&alert.rule),
        level: alert.level,
        group: alert.group.clone(),
        actor: Text::clone(&alert.actor),
        closing: alert.closing,
        first_seen: alert.first_seen,
        replaces: replaces.to_vec(),
        mails: mails.iter().map(owed).collect(),
    }
}

fn fate_fact(mail: &RestoredMail) -> Option<(Micros, Fact)> {
    let (at, outcome) = mail.fate.as_ref()?;
    let outcome = if *outcome == DeliveryOutcome::Sent { Fate::Sent } else { Fate::Dead };
    let fact = Delivered {
        message_id: mail.message_id.clone(),
        recipient: mail.recipient.clone(),
        alert_id: mail.alert_id,
        outcome,
    };
    Some((*at, Fact::Delivery(fact)))
}

fn decided(decision: &Decision) -> Fact {
    Fact::Decision(Decided {
        alert_id: decision.alert_id,
        who: decision.who.clone(),
        state: decision.state,
        close_reason: decision.close_reason,
        note: decision.note.clone(),
    })
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
pub(super) fn refused(error: journal::JournalError) -> StoreError {
    StoreError::Journal { reason: error.to_string() }
}

/// Everything that a journal tells.
#[derive(Debug, Default)]
pub(crate) struct Remembered {
    pub(super) decisions: Vec<Decision>,
    /// Every alert as it was last told.
    alerts: FxHashMap<AlertId, Raised>,
    /// The ids of alerts in the order in which they came.
    order: Vec<AlertId>,
    /// Ids that were alerts of their own before any other led to them.
    own: FxHashSet<AlertId>,
    aliases: FxHashMap<AlertId, AlertId>,
    mails: FxHashMap<String, RestoredMail>,
    first_seen: FxHashMap<(Text, Vec<(Text, Text)>), FirstSeen>,
}

impl Remembered {
    pub(super) fn hear(&mut self, at: Micros, fact: Fact) {
        match fact {
            Fact::Decision(decided) => self.decisions.push(Decision {
                alert_id: decided.alert_id,
                at,
                who: decided.who,
                state: decided.state,
                close_reason: decided.close_reason,
                note: decided.note,
            }),
            Fact::Alert(raised) => self.raise(at, raised),
            Fact::Delivery(delivered) => {
                let outcome = match delivered.outcome {
                    Fate::Sent => DeliveryOutcome::Sent,
                    Fate::Dead => DeliveryOutcome::Dead { error: GIVEN_UP.to_owned() },
                };
                let mail =
                    self.owe(at, delivered.alert_id, delivered.message_id, delivered.recipient);
                mail.fate.get_or_insert((at, outcome));
            }
            Fact::FirstSeen(fact) => {
                let key = (Text::clone(&fact.rule), fact.group.clone());
                if fact.is_gone {
                    self.first_seen.remove(&key);
                } else {
                    self.first_seen.insert(key, fact);
                }
            }
            Fact::Segment { .. } => {}
        }
    }

    /// Adds what a database knows, and knows better where both tell of the same. Returns what of it the journal lacks,
    /// with the time of each.
    fn overlay(&mut self, known: Restored, now: Micros) -> Vec<(Micros, Fact)> {
        let mut lacking = Vec::new();
        let key = |decision: &Decision| {
            (decision.alert_id, decision.at, decision.who.clone(), decision.state)
        };
        let told: FxHashSet<_> = self.decisions.iter().map(key).collect();
        for decision in known.decisions {
            if !told.contains(&key(&decision)) {
                lacking.push((decision.at, decided(&decision)));
                self.decisions.push(decision);
            }
        }
        self.decisions.sort_by_key(|decision| decision.at);
        for alias in &known.aliases {
            self.aliases.remove(&alias.new);
            self.aliases.insert(alias.old, alias.new);
            if alias.is_own {
                self.own.insert(alias.new);
            }
        }
        for alert in &known.alerts {
            if self.alerts.contains_key(&alert.id) {
                continue;
            }
            let former = known.aliases.iter().filter(|alias| alias.new == alert.id);
            let former: Vec<AlertId> = former.map(|alias| alias.old).collect();
            let raised = raised(alert, &former, &[]);
            self.order.push(alert.id);
            self.alerts.insert(alert.id, raised.clone());
            lacking.push((now, Fact::Alert(raised)));
        }
        for mail in known.mails {
            self.overlay_mail(mail, now, &mut lacking);
        }
        for fact in known.first_seen {
            let key = (Text::clone(&fact.rule), fact.group.clone());
            if self.first_seen.get(&key).is_none_or(|told| told.call_id != fact.call_id) {
                lacking.push((now, Fact::FirstSeen(fact.clone())));
            }
            self.first_seen.insert(key, fact);
        }
        lacking
    }

    fn overlay_mail(&mut self, mail: RestoredMail, now: Micros, lacking: &mut Vec<(Micros, Fact)>) {
        let unsettled = || RestoredMail { fate: None, ..mail.clone() };
        if !self.mails.contains_key(&mail.message_id)
            && let Some(raised) = self.alerts.get(&mail.alert_id)
        {
            let owed =
                Owed { message_id: mail.message_id.clone(), recipient: mail.recipient.clone() };
            lacking.push((now, Fact::Alert(Raised { mails: vec![owed], ..raised.clone() })));
        }
        let told = self.mails.entry(mail.message_id.clone()).or_insert_with(unsettled);
        if told.fate.is_none() {
            lacking.extend(fate_fact(&mail));
            told.fate = mail.fate;
        }
    }

    fn raise(&mut self, at: Micros, raised: Raised) {
        let id = raised.alert_id;
        for mail in &raised.mails {
            self.owe(at, id, mail.message_id.clone(), mail.recipient.clone());
        }
        // An id that stands again is no alias any more.
        self.aliases.remove(&id);
        for old in raised.replaces.iter().filter(|old| **old != id) {
            self.aliases.insert(*old, id);
        }
        if !self.alerts.contains_key(&id) {
            self.order.push(id);
            if raised.replaces.is_empty() {
                self.own.insert(id);
            }
        }
        self.alerts.insert(id, raised);
    }

    fn owe(
        &mut self,
        at: Micros,
        alert_id: AlertId,
        message_id: String,
        recipient: String,
    ) -> &mut RestoredMail {
        self.mails.entry(message_id.clone()).or_insert_with(|| RestoredMail {
            alert_id,
            recipient,
            message_id,
            created_at: at,
            fate: None,
        })
    }

    /// Whether the journal has this alert, and as one that leads to no other.
    pub(super) fn stands(&self, id: AlertId) -> bool {
        self.alerts.contains_key(&id) && !self.aliases.contains_key(&id)
    }

    fn settled_mails(&self) -> Vec<RestoredMail> {
        self.sorted_mails(|mail| mail.fate.is_some())
    }

    fn sorted_mails(&self, is_wanted: impl Fn(&RestoredMail) -> bool) -> Vec<RestoredMail> {
        let wanted = self.mails.values().filter(|mail| is_wanted(mail));
        let mut mails: Vec<RestoredMail> = wanted.cloned().collect();
        mails.sort_by(|left, right| {
            (left.created_at, &left.message_id).cmp(&(right.created_at, &right.message_id))
        });
        mails
    }

    fn first_seen(&self) -> Vec<FirstSeen> {
        let mut facts: Vec<FirstSeen> = self.first_seen.values().cloned().collect();
        facts.sort_by_key(|fact| (fact.at, fact.call_id));
        facts
    }

    /// Puts back what has to do with alerts, once those that the records show are stored: former ids, mails that are
    /// still owed, and alerts that the records do not show any more, from the old database or else from the journal.
    /// Does no harm where nothing is lacking. Returns how many such alerts there are; what of the old database cannot
    /// be read goes to `tell`, a sentence each.
    pub(super) fn settle(
        &self,
        store: &mut Store,
        rules: &RuleSet,
        old: Option<&Store>,
        tell: impl FnMut(String),
    ) -> Result<u64, StoreError> {
        let mut aliases: Vec<Alias> = self
            .aliases
            .iter()
            .map(|(old, new)| Alias { old: *old, new: *new, is_own: self.own.contains(new) })
            .collect();
        aliases.sort_by_key(|alias| alias.old);
        let mails = self.sorted_mails(|_| true);
        store.restore(&Restored { mails, aliases, ..Restored::default() })?;
        let mut known = store.alert_ids()?;
        let mut lost: Vec<(AlertRow, String)> = Vec::new();
        if let Some(old) = old {
            let rows = old.alerts_but(&known, tell)?.into_iter();
            lost.extend(
                rows.map(|(row, reason)| (row, reason.unwrap_or_else(|| NOT_SHOWN.to_owned()))),
            );
        }
        known.extend(lost.iter().map(|(row, _)| row.alert.id));
        let told = self.order.iter().filter(|id| !known.contains(id));
        let told = told.filter_map(|id| self.alerts.get(id));
        lost.extend(told.map(|raised| (row(raised, rules), NOT_SHOWN.to_owned())));
        let count = lost.len() as u64;
        store.restore_alerts(lost)?;
        Ok(count)
    }
}

const GIVEN_UP: &str = "given up, as the journal tells";
const NOT_SHOWN: &str = "it was found before the database was made again, and the records and rules that are there \
                         now do not show it";

/// An alert of which only the journal tells.
fn row(raised: &Raised, rules: &RuleSet) -> AlertRow {
    let rule = rules.rules().iter().find(|rule| rule.name == raised.rule);
    let alert = Alert {
        id: raised.alert_id,
        rule: Text::clone(&raised.rule),
        title: rule.map_or_else(|| raised.rule.to_string(), |rule| rule.title.clone()),
        level: raised.level,
        tags: rule.map_or_else(Vec::new, |rule| rule.tags.clone()),
        group: raised.group.clone(),
        actor: Text::clone(&raised.actor),
        first_seen: raised.first_seen,
        last_seen: raised.first_seen,
        closing: raised.closing,
        closing_at: raised.first_seen,
        count: 1,
        why: Why {
            text: rule.map_or_else(String::new, |rule| rule.why.clone()),
            threshold: 0,
            value: 0,
            timespan: None,
        },
        evidence: Vec::new(),
        elided: 0,
    };
    AlertRow { alert, evidence: EvidenceRows::Whole(Vec::new()), replaces: Vec::new() }
}
