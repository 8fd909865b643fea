use super::*;
use crate::model::{Text, WitnessPair};

/// A call that these witnesses tell of, each in a log of its name, with the first of them as its lead.
fn seen(offset: u64, witnesses: &[(Witness, &str)], client: &str) -> Arc<Call> {
    let mut one = Call::clone(&call(&offset.to_string(), offset, OutcomeClass::Ok));
    let (mut of, first) = (one.sightings[0].clone(), witnesses[0].1);
    one.sightings = Vec::new();
    for (witness, stream) in witnesses {
        (of.witness, of.stream) = (*witness, Text::from(*stream));
        one.sightings.push(of.clone());
    }
    (one.stream, one.client) = (first.into(), Some(client.into()));
    Arc::new(one)
}

fn pair(lower: &str, upper: &str, client: Option<&str>) -> WitnessPair {
    WitnessPair {
        lower: lower.into(),
        upper: upper.into(),
        principal: Some("u-a".into()),
        client: client.map(Text::from),
    }
}

#[test]
fn the_first_calls_of_each_pair_are_found_from_its_place_on_and_up_to_its_end() {
    use Witness::{Client, Gateway, Server, Transcript};
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path());
    let both = [(Client, "c"), (Server, "s")];
    let calls = [
        seen(1, &both, "x"),
        seen(2, &both, "y"),
        seen(3, &both, "x"),
        seen(4, &[(Client, "c"), (Transcript, "t"), (Gateway, "g"), (Server, "s")], "x"),
        seen(5, &both[..1], "x"),
        seen(6, &both[1..], "x"),
        seen(7, &both, "x"),
    ];
    for call in &calls {
        store.commit(&batch(None, Some(call))).unwrap();
    }
    let pairs = [
        pair("s", "c", Some("x")),
        pair("s", "c", Some("y")),
        pair("s", "c", None),
        pair("g", "t", Some("x")),
        pair("s", "t", Some("z")),
    ];
    let begins = (Micros(0), CallId([0; 16]));
    let found = |after: CallPlace, until: Option<Micros>, each_max: usize| -> Vec<(usize, u64)> {
        let wanted: Vec<WantedPair<'_>> =
            pairs.iter().map(|pair| WantedPair { pair, after, until }).collect();
        let found = store.calls_of_pairs(&wanted, each_max).unwrap();
        found.into_iter().map(|(number, call)| (number, call.position.offset)).collect()
    };
    assert_eq!(found(begins, None, 1), [(0, 1), (1, 2), (3, 4)]);
    assert_eq!(found(begins, None, 9), [(0, 1), (0, 3), (0, 4), (0, 7), (1, 2), (3, 4)]);
    let third = (calls[2].at.unwrap(), calls[2].id);
    assert_eq!(found(third, None, 1), [(0, 4), (3, 4)], "behind the place");
    assert_eq!(
        found(begins, Some(Micros(3_000_000)), 9),
        [(0, 1), (0, 3), (1, 2)],
        "up to the end"
    );
    assert_eq!(store.calls_of_pairs(&[], 1).unwrap(), []);
}
