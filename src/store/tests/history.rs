use rustc_hash::FxHashMap;

use super::alerts::alert;
use super::*;
use crate::model::Text;

/// A call that differs from every other group in every field.
fn member(who: &str, offset: u64) -> Arc<Call> {
    let mut one = Call::clone(&call(&format!("{who}-{offset}"), offset, OutcomeClass::Ok));
    let value = |field: &str| Text::from(format!("{field} of {who}"));
    one.principal = Some(value("principal"));
    one.client = Some(value("client"));
    one.actor = value("actor");
    one.tenant = Some(value("tenant"));
    one.session = value("session");
    one.tool = value("tool.name");
    one.server = Some(value("tool.server"));
    one.code = value("code");
    one.sightings[0].code = value("code");
    Arc::new(one)
}

const FIELDS: [&str; 8] =
    ["principal", "client", "actor", "tenant", "session", "tool.name", "tool.server", "code"];

fn stored() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path());
    let members = ["ann", "bob"].into_iter().flat_map(|who| [1, 100].map(|at| member(who, at)));
    let mut timeless = Call::clone(&member("ann", 200));
    timeless.at = None;
    timeless.sightings[0].steps[0].at = None;
    let calls = members
        .chain([Arc::new(timeless)])
        .map(|new| CallChange { old: None, new: Some(new) })
        .collect();
    store.commit(&Batch { calls, ..Batch::default() }).unwrap();
    (folder, store)
}

/// The offsets of the calls of ann's groups, one for each list of fields.
fn offsets(store: &Store, fields: &[&str], from: Option<Micros>) -> Vec<u64> {
    let group: Vec<(Text, Text)> = fields
        .iter()
        .map(|field| ((*field).into(), Text::from(format!("{field} of ann"))))
        .collect();
    let wanted = [WantedGroup { group: &group, from, until: None }];
    let found = store.calls_of(&wanted, &mut FxHashMap::default()).unwrap();
    let mut offsets: Vec<u64> = found.iter().map(|call| call.position.offset).collect();
    offsets.sort_unstable();
    offsets
}

#[test]
fn the_calls_of_a_group_are_found_by_each_field_and_by_all() {
    let (_folder, store) = stored();
    for field in FIELDS {
        assert_eq!(offsets(&store, &[field], None), [1, 100, 200], "{field}");
        assert_eq!(offsets(&store, &[field], Some(Micros(50_000_000))), [100], "{field}");
    }
    assert_eq!(offsets(&store, &FIELDS, None), [1, 100, 200]);
}

#[test]
fn groups_of_one_question_have_their_own_starts() {
    let (_folder, store) = stored();
    let group = |who: &str| vec![(Text::from("code"), Text::from(format!("code of {who}")))];
    let (ann, bob) = (group("ann"), group("bob"));
    let wanted = [
        WantedGroup { group: &ann, from: None, until: None },
        WantedGroup { group: &bob, from: Some(Micros(50_000_000)), until: None },
    ];
    let mut found: Vec<(String, u64)> = store
        .calls_of(&wanted, &mut FxHashMap::default())
        .unwrap()
        .iter()
        .map(|call| (call.code.to_string(), call.position.offset))
        .collect();
    found.sort();
    let expected =
        [("code of ann", 1), ("code of ann", 100), ("code of ann", 200), ("code of bob", 100)];
    assert_eq!(found, expected.map(|(code, offset)| (code.to_owned(), offset)));
}

#[test]
fn a_group_of_no_fields_is_every_call() {
    let (_folder, store) = stored();
    let wanted = [WantedGroup { group: &[], from: None, until: None }];
    assert_eq!(store.calls_of(&wanted, &mut FxHashMap::default()).unwrap().len(), 5);
}

#[test]
fn a_call_that_is_known_already_is_not_read_again() {
    let (_folder, store) = stored();
    let wanted = [WantedGroup { group: &[], from: None, until: None }];
    let mut known = FxHashMap::default();
    let first = store.calls_of(&wanted, &mut known).unwrap();
    let second = store.calls_of(&wanted, &mut known).unwrap();
    assert_eq!((first.len(), second.len(), known.len()), (5, 5, 5));
    assert!(second.iter().all(|call| first.iter().any(|other| Arc::ptr_eq(call, other))));
}

#[test]
fn the_alerts_of_a_rule_come_with_their_groups_from_when_they_matter() {
    let (_folder, mut store) = stored();
    let mut rows = Vec::new();
    for (number, field) in (1..).zip(FIELDS) {
        let mut alert = alert(field, &[(field, "it"), ("tenant", "acme")]);
        alert.last_seen = Some(Micros(number));
        rows.push(AlertRow { alert, evidence: EvidenceRows::Whole(vec![]), replaces: vec![] });
    }
    let mut other = alert("other", &[]);
    other.rule = "another-rule".into();
    rows.push(AlertRow { alert: other, evidence: EvidenceRows::Whole(vec![]), replaces: vec![] });
    store.commit(&Batch { alerts: rows, ..Batch::default() }).unwrap();
    let whole = store.alerts_of("a-rule", None, None).unwrap();
    for field in FIELDS {
        let wanted: [(Text, Text); 2] =
            [(field.into(), "it".into()), ("tenant".into(), "acme".into())];
        let found: Vec<_> = whole.iter().filter(|(group, _)| *group == wanted).collect();
        assert_eq!(found.len(), 1, "{field}");
        assert_eq!(found[0].1.id, alert(field, &[]).id);
        assert_eq!(found[0].1.closing, alert(field, &[]).closing);
    }
    assert_eq!(whole.len(), FIELDS.len());
    let [first, second] = [&whole[0].0, &whole[1].0];
    let some = store.alerts_of("a-rule", None, Some(&[first, second, &[]])).unwrap();
    let of_either = |(group, _): &(_, _)| group == first || group == second;
    assert!(some.len() == 2 && some.iter().all(of_either), "none of other groups");
    assert_eq!(store.alerts_of("a-rule", Some(Micros(6)), None).unwrap().len(), 3);
    let of_all = store.alerts_of("another-rule", None, Some(&[&[]])).unwrap();
    assert_eq!(of_all.len(), 1, "of a rule whose calls are one group");
    // A rule that lost a field hears of what it said before, and can take it back.
    let shorter = store.alerts_of("a-rule", None, Some(&[&first[..1]])).unwrap();
    assert_eq!(shorter.len(), FIELDS.len());
}

#[test]
fn of_many_ids_those_of_alerts_are_known() {
    let (_folder, mut store) = stored();
    let [mine, other] = ["it", "another"].map(|value| alert("actor", &[("actor", value)]));
    let mut other = other;
    other.id = crate::model::AlertId([9; 16]);
    let row =
        AlertRow { alert: mine.clone(), evidence: EvidenceRows::Whole(vec![]), replaces: vec![] };
    store.commit(&Batch { alerts: vec![row], ..Batch::default() }).unwrap();
    let known = store.known_alerts(&[other.id, mine.id, mine.id]).unwrap();
    assert_eq!(known.into_iter().collect::<Vec<_>>(), [mine.id]);
    assert!(store.known_alerts(&[]).unwrap().is_empty());
}

#[test]
fn what_is_wanted_of_one_group_at_times_far_apart_is_found_of_both() {
    let (_folder, store) = stored();
    let group = [(Text::from("actor"), Text::from("actor of ann"))];
    let time_of = |offset| member("ann", offset).at.unwrap();
    let wanted = |offset: u64| WantedGroup {
        group: &group,
        from: Some(time_of(offset)),
        until: Some(time_of(offset)),
    };
    let days = WantedGroup { from: Some(Micros(i64::MAX / 2)), until: None, group: &group };
    for asked in [&[wanted(100), wanted(1)][..], &[days, wanted(100), wanted(1)]] {
        let mut found: Vec<u64> = store
            .calls_of(asked, &mut FxHashMap::default())
            .unwrap()
            .iter()
            .map(|call| call.position.offset)
            .collect();
        found.sort_unstable();
        assert_eq!(found, [1, 100]);
    }
}
