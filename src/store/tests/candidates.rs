//! Where the candidates of an ambiguous join lead.

use super::*;

#[test]
fn candidates_lead_to_the_calls_that_hold_them() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path());
    let near = call("near", 3, OutcomeClass::Ok);
    // Its second witness holds the record.
    let mut joined = Call::clone(&call("joined", 4, OutcomeClass::Ok));
    let mut second = joined.sightings[0].clone();
    second.steps[0].record.generation = 7;
    let inner = second.steps[0].record;
    joined.sightings.push(second);
    let far = call("far", 4_000, OutcomeClass::Ok);
    let unknown = RecordId { generation: 9, offset: 9, index: 9 };
    let mut asking = Call::clone(&call("asking", 5, OutcomeClass::Ok));
    asking.sightings[0].candidates =
        vec![near.position, inner, far.position, unknown, near.position];
    // It names the same candidate and does not hold it.
    let mut naming = Call::clone(&call("naming", 6, OutcomeClass::Ok));
    naming.sightings[0].candidates = vec![unknown];
    naming.sightings.push(naming.sightings[0].clone());
    for call in [&near, &Arc::new(joined.clone()), &far, &Arc::new(naming)] {
        store.commit(&batch(None, Some(call))).unwrap();
    }
    let found = store.reader().candidates_of(&asking).unwrap();
    let led: Vec<_> = found
        .iter()
        .map(|candidate| (candidate.record, candidate.call.as_ref().map(|call| call.id)))
        .collect();
    let all = [
        (near.position, Some(near.id)),
        (inner, Some(joined.id)),
        // More than an hour away: told by its place.
        (far.position, None),
        (unknown, None),
    ];
    assert_eq!(led, all);
    assert!(store.reader().candidates_of(&near).unwrap().is_empty());
}
