use super::*;
use crate::model::{
    Alert, AlertId, AlertState, AlertView, CloseReason, EvidenceView, Level, Why, WitnessLine,
};

fn id(name: &str) -> AlertId {
    let mut hasher = IdHasher::new("alert");
    hasher.text(name);
    AlertId::from_hasher(&hasher)
}

pub(super) fn alert(name: &str, group: &[(&str, &str)]) -> Alert {
    let at = Some(Micros(5_000_000));
    Alert {
        id: id(name),
        rule: "a-rule".into(),
        title: name.to_owned(),
        level: Level::High,
        tags: vec!["attack.exfiltration".into()],
        group: group.iter().map(|(field, value)| ((*field).into(), (*value).into())).collect(),
        actor: "u-a".into(),
        first_seen: at,
        last_seen: at,
        closing: call(name, 5, OutcomeClass::Ok).id,
        closing_at: at,
        count: 1,
        why: Why { text: "it did".to_owned(), threshold: 1, value: 1, timespan: None },
        evidence: Vec::new(),
        elided: 0,
    }
}

fn evidence(name: &str) -> EvidenceView {
    let call = call(name, 5, OutcomeClass::Ok);
    let line = WitnessLine {
        witness: Witness::Server,
        file: "audit.jsonl".to_owned(),
        record: call.position,
        length: 10,
        text: Some(format!("the line of {name}")),
    };
    EvidenceView {
        stage: "only".to_owned(),
        call_id: call.id,
        at: call.at,
        ended: call.ended,
        server: None,
        tool: call.tool.to_string(),
        code: call.code.to_string(),
        class: call.class,
        ran: call.ran,
        principal: None,
        client: None,
        tenant: None,
        session: call.session.to_string(),
        event: None,
        lines: vec![line],
    }
}

/// A database, and the last decision made in it.
struct Desk {
    store: Store,
    _folder: tempfile::TempDir,
}

impl Desk {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { store: open(folder.path()), _folder: folder }
    }

    fn set(&mut self, name: &str, replaces: &[&str]) {
        let replaces = replaces.iter().map(|name| id(name)).collect();
        let alert = alert(name, &[("actor", "u-a")]);
        let row = AlertRow { alert, evidence: EvidenceRows::Whole(vec![evidence(name)]), replaces };
        self.store.commit(&Batch { alerts: vec![row], ..Batch::default() }).unwrap();
    }

    fn retract(&mut self, name: &str) {
        let retracted = vec![(id(name), "its calls are gone".to_owned())];
        self.store.commit(&Batch { retracted, ..Batch::default() }).unwrap();
    }

    fn decide(&mut self, name: &str, state: AlertState, close_reason: Option<CloseReason>) {
        let decision = Decision {
            alert_id: id(name),
            at: Micros(9),
            who: "nadia".to_owned(),
            state,
            close_reason,
            note: name.to_owned(),
        };
        self.store.decide(&decision).unwrap();
    }

    fn close(&mut self, name: &str) {
        self.decide(name, AlertState::Closed, Some(CloseReason::Benign));
    }

    fn alert(&self, name: &str) -> AlertView {
        self.store.reader().alert(id(name)).unwrap().unwrap()
    }

    /// The one alert's state, after making sure that page, list and view agree, before and after tidying.
    fn state(&mut self, name: &str) -> (AlertState, Option<CloseReason>) {
        let mut told = Vec::new();
        for _ in 0..2 {
            let reader = self.store.reader();
            let page = self.alert(name);
            let filter = AlertFilter { state: Some(page.state), ..AlertFilter::default() };
            let list = reader.alerts(&filter).unwrap();
            let listed: Vec<_> = list.iter().filter(|alert| alert.id == page.id).collect();
            assert_eq!(listed.len(), 1);
            assert_eq!((listed[0].state, listed[0].close_reason), (page.state, page.close_reason));
            let sql =
                format!("select status, close_reason from alerts where alert_id = '{}'", page.id);
            let view = reader.query(&sql, 9, 60).unwrap().rows;
            let reason = page.close_reason.map(CloseReason::as_str);
            assert_eq!(view, [[serde_json::json!(page.state.as_str()), serde_json::json!(reason)]]);
            told.push((page.state, page.close_reason));
            self.store.tidy_from(0).unwrap();
        }
        assert_eq!(told[0], told[1], "tidying changes no state");
        told[0]
    }
}

const OPEN: (AlertState, Option<CloseReason>) = (AlertState::Open, None);
const ACKNOWLEDGED: (AlertState, Option<CloseReason>) = (AlertState::Acknowledged, None);
const BENIGN: (AlertState, Option<CloseReason>) = (AlertState::Closed, Some(CloseReason::Benign));

#[test]
fn an_undecided_alert_is_not_closed_by_merging_with_a_closed_one() {
    for (survivor, gone) in [("closed", "undecided"), ("undecided", "closed")] {
        let mut desk = Desk::new();
        desk.set("closed", &[]);
        desk.set("undecided", &[]);
        desk.close("closed");
        desk.set(survivor, &[gone]);
        assert_eq!(desk.state(survivor), OPEN, "{survivor} survives");
        desk.close(survivor);
        let expected = if survivor == "undecided" { BENIGN } else { OPEN };
        assert_eq!(desk.state(gone), expected, "{survivor} survives");
    }
}

#[test]
fn both_merged_into_a_third_count() {
    let mut desk = Desk::new();
    desk.set("closed", &[]);
    desk.set("undecided", &[]);
    desk.close("closed");
    desk.set("third", &["closed", "undecided"]);
    assert_eq!(desk.state("third"), OPEN);
    desk.decide("undecided", AlertState::Acknowledged, None);
    assert_eq!(desk.state("closed"), ACKNOWLEDGED);
    desk.close("undecided");
    assert_eq!(desk.state("third"), BENIGN);
}

#[test]
fn a_new_id_of_the_same_alert_does_not_open_it_again() {
    let mut desk = Desk::new();
    desk.set("first", &[]);
    desk.close("first");
    desk.set("second", &["first"]);
    assert_eq!(desk.state("second"), BENIGN);
    // It grows, moves on once more, and was tidied in between.
    desk.set("second", &[]);
    desk.set("third", &["second"]);
    desk.set("third", &[]);
    for name in ["first", "second", "third"] {
        assert_eq!(desk.state(name), BENIGN);
    }
    let made = desk.store.reader().decisions(id("second")).unwrap();
    assert_eq!(made.iter().map(|made| &*made.note).collect::<Vec<_>>(), ["first"]);
}

#[test]
fn aliases_in_chains_bring_every_decision_along() {
    let mut desk = Desk::new();
    desk.set("a", &[]);
    desk.set("b", &[]);
    desk.close("a");
    desk.decide("b", AlertState::Acknowledged, None);
    desk.set("b", &["a"]);
    desk.set("c", &["b"]);
    desk.set("d", &["c"]);
    for name in ["a", "b", "c", "d"] {
        assert_eq!(desk.state(name), ACKNOWLEDGED);
    }
    desk.decide("d", AlertState::Open, None);
    assert_eq!(desk.state("a"), OPEN);
    let made = desk.store.reader().decisions(id("a")).unwrap();
    assert_eq!(made.iter().map(|made| &*made.note).collect::<Vec<_>>(), ["a", "b", "d"]);
    let listed = desk.store.reader().alerts(&AlertFilter::default()).unwrap();
    assert_eq!(listed.iter().map(|alert| alert.id).collect::<Vec<_>>(), [id("d")]);
}

#[test]
fn an_alert_opened_again_has_no_close_reason() {
    let mut desk = Desk::new();
    desk.set("a", &[]);
    desk.close("a");
    assert_eq!(desk.state("a"), BENIGN);
    desk.decide("a", AlertState::Open, None);
    assert_eq!(desk.state("a"), OPEN);
}

#[test]
fn an_old_id_leads_to_the_new_alert_and_its_evidence() {
    let mut desk = Desk::new();
    desk.set("old", &[]);
    desk.set("new", &["old"]);
    for _ in 0..2 {
        let found = desk.alert("old");
        assert_eq!(found.id, id("new"));
        assert_eq!(found.evidence.len(), 1);
        assert_eq!(found.evidence[0].lines[0].text.as_deref(), Some("the line of new"));
        assert_eq!(desk.store.alerts_of("a-rule", None, None).unwrap().len(), 1);
        desk.store.tidy_from(0).unwrap();
    }
}

#[test]
fn a_retracted_alert_says_why_and_stands_when_raised_again() {
    let mut desk = Desk::new();
    desk.set("a", &[]);
    desk.retract("a");
    let retracted = desk.alert("a");
    assert_eq!(retracted.retracted.as_deref(), Some("its calls are gone"));
    assert_eq!(retracted.evidence.len(), 1, "what it rested on is kept");
    assert!(desk.store.alerts_of("a-rule", None, None).unwrap().is_empty());
    desk.set("a", &[]);
    assert_eq!(desk.alert("a").retracted, None);
    assert_eq!(desk.store.alerts_of("a-rule", None, None).unwrap().len(), 1);
}

#[test]
fn an_id_that_is_raised_again_is_no_alias_any_more() {
    let mut desk = Desk::new();
    desk.set("a", &[]);
    desk.set("b", &["a"]);
    assert_eq!(desk.alert("a").id, id("b"));
    desk.set("a", &["b"]);
    for _ in 0..2 {
        for name in ["a", "b"] {
            let found = desk.alert(name);
            assert_eq!((found.id, found.retracted), (id("a"), None));
            assert_eq!(found.evidence[0].lines[0].text.as_deref(), Some("the line of a"));
        }
        desk.store.tidy_from(0).unwrap();
    }
}
