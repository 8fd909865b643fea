//! Units that are equals but for their place: which of them comes how manieth.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::UnitKey;
use crate::model::{Micros, RecordId};

/// The time of the first record, and what equals share.
pub(super) type Equal = (Micros, u64);

/// Equals in order of their first records, those that are forgotten with them while one of them is held.
#[derive(Default)]
pub(super) struct Equals(BTreeMap<Equal, Ids>);

/// Mostly a unit has no equals, and needs no list.
enum Ids {
    One(RecordId),
    Many(Vec<RecordId>),
}

impl Equals {
    /// Notes a unit, and says which of its equals count one more now. Nothing changes where it was noted before.
    pub(super) fn insert(&mut self, equal: Equal, id: RecordId) -> Vec<RecordId> {
        let mut known = match self.0.entry(equal) {
            Entry::Vacant(entry) => {
                entry.insert(Ids::One(id));
                return Vec::new();
            }
            Entry::Occupied(entry) => entry,
        };
        let ids = known.get().as_slice();
        let place = ids.partition_point(|known| *known < id);
        let behind = ids.get(place..).unwrap_or_default().to_vec();
        if behind.first() == Some(&id) {
            return Vec::new();
        }
        match known.get_mut() {
            Ids::Many(ids) => ids.insert(place, id),
            Ids::One(other) => {
                let ids = if place == 0 { vec![id, *other] } else { vec![*other, id] };
                known.insert(Ids::Many(ids));
            }
        }
        behind
    }

    /// Takes a unit out, and says which equals are left: they may count one less now.
    pub(super) fn remove(&mut self, equal: Equal, id: RecordId) -> &[RecordId] {
        if let Some(Ids::Many(ids)) = self.0.get_mut(&equal) {
            ids.retain(|known| *known != id);
        }
        let is_done = |ids: &Ids| ids.as_slice().iter().all(|known| *known == id);
        if self.0.get(&equal).is_some_and(is_done) {
            self.0.remove(&equal);
        }
        self.0.get(&equal).map(Ids::as_slice).unwrap_or_default()
    }

    /// How many of its equals come before the unit.
    pub(super) fn before(&self, equal: Equal, id: RecordId) -> usize {
        let ids = self.0.get(&equal).map(Ids::as_slice).unwrap_or_default();
        ids.binary_search(&id).unwrap_or(0)
    }

    pub(super) fn last(&self, equal: Equal) -> Option<RecordId> {
        self.0.get(&equal).and_then(|ids| ids.as_slice().last().copied())
    }

    /// Forgets those before `floor` of which no unit is held; `oldest` is the time of the first that is.
    pub(super) fn forget(
        &mut self,
        floor: Micros,
        oldest: Option<Micros>,
        is_held: impl Fn(&UnitKey) -> bool,
    ) {
        // Mostly all that is older goes, and to drop it together is cheaper than one by one.
        let newer = self.0.split_off(&(floor, 0));
        let is_kept = |(at, _): Equal, ids: &Ids| {
            oldest.is_some_and(|oldest| at >= oldest)
                && ids.as_slice().iter().any(|id| is_held(&(at, *id)))
        };
        for (equal, ids) in std::mem::replace(&mut self.0, newer) {
            if is_kept(equal, &ids) {
                self.0.insert(equal, ids);
            }
        }
    }
}

impl Ids {
    fn as_slice(&self) -> &[RecordId] {
        match self {
            Self::One(id) => std::slice::from_ref(id),
            Self::Many(ids) => ids,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(offset: u64) -> RecordId {
        RecordId { generation: 1, offset, index: 0 }
    }

    #[test]
    fn equals_are_numbered_in_order_of_their_records() {
        let (mut equals, one) = (Equals::default(), (Micros(5), 7));
        assert!(equals.insert(one, id(20)).is_empty());
        assert_eq!(equals.insert(one, id(10)), [id(20)]);
        assert!(equals.insert(one, id(20)).is_empty());
        assert_eq!(equals.insert(one, id(15)), [id(20)]);
        assert_eq!([10, 15, 20].map(|offset| equals.before(one, id(offset))), [0, 1, 2]);
        assert_eq!(equals.last(one), Some(id(20)));
        assert_eq!(equals.remove(one, id(10)), [id(15), id(20)]);
        assert_eq!(equals.before(one, id(20)), 1);
        assert_eq!(equals.remove(one, id(15)), [id(20)]);
        assert!(equals.remove(one, id(20)).is_empty());
        assert_eq!(equals.last(one), None);
    }

    #[test]
    fn a_list_is_forgotten_once_none_of_its_units_is_held() {
        let mut equals = Equals::default();
        for at in [1, 2, 3, 9] {
            equals.insert((Micros(at), 7), id(1));
            equals.insert((Micros(at), 7), id(2));
        }
        let held = (Micros(2), id(1));
        equals.forget(Micros(9), Some(held.0), |key| *key == held);
        let last = |at| equals.last((Micros(at), 7));
        assert_eq!([1, 2, 3, 9].map(last), [None, Some(id(2)), None, Some(id(2))]);
    }
}
