//! All calls once more, a page at a time.

use super::*;
use crate::store::{After, CallPage};

/// The ids of all calls of a question, page by page.
fn pages(store: &Store, page: &CallPage) -> Vec<CallId> {
    let mut page = page.clone();
    let mut ids = Vec::new();
    loop {
        let calls = store.reader().call_page(&page).unwrap();
        assert!(calls.len() <= page.limit);
        let Some(last) = calls.last() else { return ids };
        page.after = Some(After::of(last));
        ids.extend(calls.iter().map(|call| call.id));
    }
}

#[test]
fn pages_hold_every_call_that_stands_once_and_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path());
    let mut all: Vec<Arc<Call>> = Vec::new();
    for number in 0..40_u64 {
        let mut one = Call::clone(&call(&format!("c{number}"), 40 - number, OutcomeClass::Ok));
        // Many of one instant, of two logs, and some without a time.
        one.at =
            (number % 8 != 7).then_some(Micros(i64::try_from(number % 5).unwrap() * 1_000_000));
        one.stream = if number % 3 == 0 { "a".into() } else { "b".into() };
        one.actor = if number % 2 == 0 { "kim".into() } else { "lee".into() };
        let one = Arc::new(one);
        store.commit(&batch(None, Some(&one))).unwrap();
        all.push(one);
    }
    // Revised: its first row is void.
    let revised = Arc::new(Call { code: "late".into(), ..Call::clone(&all[0]) });
    store.commit(&batch(Some(&all[0]), Some(&revised))).unwrap();
    all.sort_by_key(|call| call.order());
    let ids = |is_wanted: &dyn Fn(&Call) -> bool| -> Vec<CallId> {
        all.iter().filter(|call| is_wanted(call)).map(|call| call.id).collect()
    };
    for limit in [1, 3, 7, 100] {
        let page = CallPage { limit, ..CallPage::default() };
        assert_eq!(pages(&store, &page), ids(&|call| call.at.is_some()), "{limit}");
        let untimed = CallPage { is_untimed: true, ..page.clone() };
        assert_eq!(pages(&store, &untimed), ids(&|call| call.at.is_none()), "{limit}");
        let (from, to) = (Some(Micros(1_000_000)), Some(Micros(3_000_000)));
        let of_kim = CallPage { group: vec![("actor".into(), "kim".into())], from, to, ..page };
        let wanted = |call: &Call| {
            *call.actor == *"kim" && call.at >= from && call.at <= to && call.at.is_some()
        };
        assert_eq!(pages(&store, &of_kim), ids(&wanted), "{limit}");
    }
    assert_eq!(store.reader().call(revised.id).unwrap().unwrap().code, revised.code);
}
