use rustc_hash::FxHashSet;

use super::alerts::alert;
use super::older::damage;
use super::*;
use crate::model::{AlertId, Evidence, EvidenceView};

/// Texts that fill some blocks.
const TEXTS: u32 = 40_000;

fn shown(number: u32) -> String {
    let evidence = Evidence { stage: "".into(), call: one(number) };
    let mut view = EvidenceView::new(&evidence, Vec::new());
    view.session = blake3::hash(&number.to_le_bytes()).to_hex().repeat(4);
    serde_json::to_string(&view).unwrap()
}

fn one(number: u32) -> Arc<Call> {
    call(&number.to_string(), number.into(), OutcomeClass::Ok)
}

/// An alert that rests on these calls, each shown by the text of its number.
fn resting(name: &str, calls: impl Iterator<Item = u32>) -> AlertRow {
    let row = |(index, number): (u32, u32)| EvidenceRow {
        number: index,
        stage: "a".into(),
        call_id: one(number).id,
        order: one(number).order(),
        text: TextPlace { seq: 1, number },
    };
    let rows = (0..).zip(calls).map(row).collect();
    AlertRow { alert: alert(name, &[]), evidence: EvidenceRows::Begun(rows), replaces: Vec::new() }
}

/// A database with these alerts.
fn made(folder: &std::path::Path, alerts: Vec<AlertRow>) {
    let mut store = open(folder);
    let evidence_texts = (0..TEXTS).map(shown).collect();
    store.commit(&Batch { alerts, evidence_texts, ..Batch::default() }).unwrap();
    store.checkpoint().unwrap();
}

/// What each alert rests on by now, and what is said to be lost.
fn left(store: &Store) -> (Vec<(AlertId, Vec<EvidenceView>)>, Vec<String>) {
    let mut losses = Vec::new();
    let alerts = store.alerts_but(&FxHashSet::default(), |lost| losses.push(lost));
    let views = alerts.into_iter().map(|(row, _)| match row.evidence {
        EvidenceRows::Whole(views) => (row.alert.id, views),
        _ => panic!("a set of its own"),
    });
    (views.collect(), losses)
}

#[test]
fn a_damaged_place_costs_the_calls_that_it_shows_and_no_others_of_their_alerts() {
    let folder = tempfile::tempdir().unwrap();
    let each = TEXTS / 100;
    let many = (0..100).map(|number| resting(&number.to_string(), (0..1).map(|_| number * each)));
    made(folder.path(), many.chain([resting("all", (0..TEXTS).step_by(10).rev())]).collect());
    damage(&options(folder.path()), "evidence_text_log", "evidence", 0);
    let (alerts, losses) = left(&open(folder.path()));
    assert_eq!(alerts.len(), 101);
    let (_, all) = alerts.iter().find(|(id, _)| *id == alert("all", &[]).id).unwrap();
    let lost = TEXTS as usize / 10 - all.len();
    // A block holds some hundreds of texts, and so many at most are read at once.
    assert!((1..1_000).contains(&lost), "{lost} of {TEXTS} are lost");
    assert!(all.is_sorted_by_key(|view| view.at) && all.iter().all(|view| view.stage == "a"));
    let without = alerts.iter().filter(|(_, views)| views.is_empty()).count();
    assert!((1..100).contains(&without), "{without}");
    let calls = format!("{} of the calls that these alerts rest on, ", lost + without);
    assert!(losses.len() == 1 && losses[0].starts_with(&calls), "{losses:?}");
    let more = format!(" and {} more: ", without + 1 - 5);
    assert!(losses[0].contains(&more) && losses[0].contains("orrupt"), "{losses:?}");
}

#[test]
fn a_text_that_says_nothing_costs_its_call_and_is_told_with_the_alert() {
    let folder = tempfile::tempdir().unwrap();
    made(folder.path(), vec![resting("one", 0..5), resting("two", 5..9)]);
    let store = open(folder.path());
    let harm = "update evidence_text_log set evidence = '{' where number = 2;
                delete from evidence_text_log where number = 3";
    store.connection.execute_batch(harm).unwrap();
    let (alerts, losses) = left(&store);
    let shown = |number: u32| -> Vec<CallId> {
        let views =
            &alerts.iter().find(|(id, _)| *id == alert(["one", "two"][number as usize], &[]).id);
        views.unwrap().1.iter().map(|view| view.call_id).collect()
    };
    assert_eq!(shown(0), [0, 1, 4].map(|number| one(number).id));
    assert_eq!(shown(1), [5, 6, 7, 8].map(|number| one(number).id));
    let told = format!("2 of the calls that these alerts rest on, {}: ", alert("one", &[]).id);
    assert!(losses.len() == 1 && losses[0].starts_with(&told), "{losses:?}");
    let lines = store.kept_lines(&FxHashSet::default(), |lost| panic!("{lost}")).unwrap();
    assert!(lines.is_empty());
}

#[test]
fn damaged_rows_cost_what_they_tell_and_no_more() {
    let folder = tempfile::tempdir().unwrap();
    made(folder.path(), vec![resting("one", 0..5)]);
    // So many that they lie in more places than one; their texts are nowhere.
    let more = "insert into evidence_row_log select r.* replace (i + 5 as number, hash(i)::ubigint as text_seq)
                from (from evidence_row_log limit 1) r, range(300000) t(i);
                checkpoint";
    open(folder.path()).connection.execute_batch(more).unwrap();
    damage(&options(folder.path()), "evidence_row_log", "text_seq", 1);
    let (alerts, losses) = left(&open(folder.path()));
    assert_eq!(alerts[0].1.len(), 5);
    let numbers: Vec<usize> =
        losses.iter().map(|lost| lost.split_once(' ').unwrap().0.parse().unwrap()).collect();
    assert!(losses[0].contains(" rows that tell which calls alerts rest on: "), "{losses:?}");
    assert!((1..200_000).contains(&numbers[0]), "{losses:?}");
    assert_eq!(numbers[0] + numbers[1], 300_000);
}
