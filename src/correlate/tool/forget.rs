//! Takes units out of memory: those that nothing can join any more, and what is too much.

use std::collections::hash_map;

use rustc_hash::{FxHashMap, FxHashSet};

use super::super::cuts::Cuts;
use super::{
    Entry, FIRST, Gone, GroupKey, MEETS_MICROS, TIMELESS, ToolState, UnitKey, group_key, is_awaited,
};
use crate::model::{Micros, RecordId};

/// Of groups, the last unit and the records that are forgotten.
type Left = FxHashMap<GroupKey, ([Option<UnitKey>; 2], FxHashSet<RecordId>)>;

impl ToolState {
    /// Takes units out that are forgotten, and notes those whose calls are still open. `keys` are in order.
    pub(super) fn drop_units(&mut self, keys: &[UnitKey], floor: Micros, gone: &mut Gone) {
        let mut left = Left::default();
        // Mostly they are the oldest of all, and to take those out together is cheaper than one by one.
        let is_next = |(held, gone): &(&UnitKey, &UnitKey)| held == gone;
        let oldest = self.units.keys().zip(keys).take_while(is_next).count();
        let kept = self.units.keys().nth(oldest).copied();
        if oldest > 0 {
            let rest = kept.map(|kept| self.units.split_off(&kept)).unwrap_or_default();
            for (key, entry) in std::mem::replace(&mut self.units, rest) {
                self.drop_unit(key, entry, floor, (&mut left, gone));
            }
        }
        for key in keys.iter().skip(oldest) {
            if let Some(entry) = self.units.remove(key) {
                self.drop_unit(*key, entry, floor, (&mut left, gone));
            }
        }
        for (name, (last, records)) in left {
            let Some(group) = self.groups.get_mut(&name) else { continue };
            let units = &self.units;
            group.units.retain(|unit| units.contains_key(unit));
            group.records.retain(|record| !records.contains(&record.id));
            for (known, last) in group.forgotten.iter_mut().zip(last) {
                *known = (*known).max(last);
            }
            if group.units.is_empty() {
                self.groups.remove(&name);
            }
        }
    }

    /// Notes in `left` what its group is left without.
    fn drop_unit(
        &mut self,
        key: UnitKey,
        entry: Entry,
        floor: Micros,
        (left, gone): (&mut Left, &mut Gone),
    ) {
        let is_lost = is_awaited(&entry.unit) && entry.to >= floor.minus(Micros::HOUR);
        let Some(name) = group_key(&entry.unit.base) else {
            self.lost_proxied |= is_lost;
            gone.push(entry.unit.base);
            return;
        };
        if is_lost {
            self.lost.add(&name, entry.to);
        }
        let hash_map::Entry::Occupied(group) = self.groups.entry(name) else { return };
        // Mostly the id names no other call.
        if group.get().units.as_slice() == [key] {
            gone.append(&mut group.remove().records);
            return;
        }
        let (last, records) = left.entry(group.key().clone()).or_default();
        let last = &mut last[usize::from(key.0 == TIMELESS)];
        *last = (*last).max(Some(key));
        records.extend(entry.unit.steps.iter().map(|step| step.record));
    }

    /// The units of pieces that nothing from `floor` on can join. Once an open call goes on it meets all that began
    /// since it did, so that is held with it.
    pub(super) fn ended(&self, floor: Micros, keeps_open: bool) -> Vec<UnitKey> {
        let mut ended = Vec::with_capacity(self.units.len());
        let mut piece: Vec<UnitKey> = Vec::new();
        let mut last: Option<&Entry> = None;
        let units = self.units.range(..(TIMELESS, FIRST)).map(Some);
        for next in units.chain([None]) {
            let begins = last
                .zip(next)
                .is_none_or(|(last, (_, entry))| !self.is_joined || last.piece != entry.piece);
            if begins {
                let next = next.map(|(key, _)| *key);
                if last.is_some_and(|last| self.has_ended(last, next, &piece, floor)) {
                    ended.append(&mut piece);
                }
                piece.clear();
            }
            let Some((key, entry)) = next.filter(|(key, _)| !begins || key.0 < floor) else {
                break;
            };
            if keeps_open && is_awaited(&entry.unit) && entry.to >= floor.minus(Micros::HOUR) {
                break;
            }
            piece.push(*key);
            last = Some(entry);
        }
        ended
    }

    /// `last` is the last unit of the piece, `next` the one that follows.
    fn has_ended(
        &self,
        last: &Entry,
        next: Option<UnitKey>,
        piece: &[UnitKey],
        floor: Micros,
    ) -> bool {
        let reach = if self.is_joined { last.reach } else { last.to };
        // What comes may cut a piece in two that has ended, and each part is then joined by itself.
        let ends = piece.first().zip(piece.last());
        if ends.is_some_and(|(first, last)| Cuts::may_turn_between(first.0, last.0, floor)) {
            return false;
        }
        let is_cut = next.is_some_and(|next| next.0.minus(MEETS_MICROS) <= reach);
        if is_cut && self.is_joined {
            let at = piece.last().map_or(reach, |key| key.0);
            return reach < floor && self.cuts.is_cut_for_good(at, floor);
        }
        reach.plus(MEETS_MICROS) < floor
    }
}
