//! The state of every tool and proxy over some stretch of time.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::clock::Clocks;
use super::proxy::ProxyState;
use super::tool::{Gone, ToolState};
use super::unit::Unit;
use super::{Diff, Held, Limits, Loaded, Scope, ScopeRef, scope_of};
use crate::model::{Call, Dialect, Micros, Record, RecordId, RecordKind, Step, Text};

/// How much more of the past is held than has to be.
const FORGET_MICROS: i64 = Micros::MINUTE;

#[derive(Default)]
pub(super) struct Memory {
    tools: FxHashMap<Text, ToolState>,
    proxies: FxHashMap<Text, ProxyState>,
    /// Tools of the last batch.
    touched: Vec<Text>,
    /// Units of all tools, and with how many they are next made fewer.
    units: usize,
    units_max: usize,
    batches: u64,
    has_lost: bool,
    /// From here on nothing that is held was forgotten for its age.
    floor: Option<Micros>,
}

impl Memory {
    /// Joins records with what is here and adds what changed to `diff`.
    pub(super) fn add(
        &mut self,
        records: &[Arc<Record>],
        limits: &Limits,
        clocks: &mut Clocks,
        diff: &mut Diff,
    ) {
        let mut by_tool: FxHashMap<&str, Vec<Arc<Record>>> = FxHashMap::default();
        let mut by_proxy: FxHashMap<&Text, Vec<Arc<Record>>> = FxHashMap::default();
        for record in records {
            match scope_of(record) {
                Some(ScopeRef::Tool(tool)) => {
                    by_tool.entry(tool).or_default().push(Arc::clone(record));
                }
                Some(ScopeRef::Proxy) => {
                    by_proxy.entry(&record.stream).or_default().push(Arc::clone(record));
                }
                None => {}
            }
        }
        let mut touched: FxHashSet<Text> = FxHashSet::default();
        for (tool, records) in by_tool {
            let (name, state) = self.tool(tool);
            state.add(&records, clocks);
            touched.insert(name);
        }
        for (stream, records) in by_proxy {
            let (gone, new) = self.proxies.entry(Text::clone(stream)).or_default().add(records);
            self.replace_units(&gone, new, clocks, &mut touched);
        }
        // In order of names, so that the outcome does not depend on the order in a hash table.
        let mut touched: Vec<Text> = touched.into_iter().collect();
        touched.sort_unstable();
        self.batches += 1;
        for name in &touched {
            if let Some(state) = self.tools.get_mut(name) {
                state.settle(limits, clocks, diff);
                state.touch(self.batches);
                self.units = self.units.saturating_add_signed(state.grown());
            }
        }
        self.touched = touched;
    }

    fn replace_units(
        &mut self,
        gone: &[Unit],
        new: Vec<Unit>,
        clocks: &mut Clocks,
        touched: &mut FxHashSet<Text>,
    ) {
        for unit in gone {
            let Some(tool) = unit.base.bare_tool() else { continue };
            let (name, state) = self.tool(tool);
            state.remove_unit(unit, clocks);
            touched.insert(name);
        }
        for unit in new {
            let base = Arc::clone(&unit.base);
            let Some(tool) = base.bare_tool() else { continue };
            let (name, state) = self.tool(tool);
            state.add_unit(unit, clocks);
            touched.insert(name);
        }
    }

    /// Puts a scope's stored past in, as if its records had just been joined.
    pub(super) fn restore(&mut self, loaded: Loaded, limits: &Limits, clocks: &mut Clocks) {
        match loaded.need.of {
            Scope::Proxy(stream) => {
                // Its units come with the tools' own loads.
                let state = self.proxies.entry(stream).or_default();
                state.add(loaded.records);
                state.hold_from(loaded.need.floor);
            }
            Scope::Tool(name) => {
                let state = self.tools.entry(name).or_default();
                fill(state, &loaded.records, &loaded.calls, clocks);
                state.settle(limits, clocks, &mut Diff::default());
                state.hold_from(loaded.need.floor);
                state.touch(self.batches + 1);
                self.units = self.units.saturating_add_signed(state.grown());
            }
        }
    }

    /// Joins those of a tool's units anew that are of these streams and begin in this span.
    pub(super) fn rejoin(
        &mut self,
        tool: &Text,
        streams: &FxHashSet<Text>,
        span: (Micros, Micros),
        limits: &Limits,
        clocks: &mut Clocks,
        diff: &mut Diff,
    ) {
        if let Some(state) = self.tools.get_mut(tool) {
            state.rejoin(streams, span);
            state.settle(limits, clocks, diff);
        }
    }

    /// Drops a scope, so that it can be restored from the store.
    pub(super) fn drop_scope(&mut self, scope: &Scope) {
        match scope {
            Scope::Tool(name) => {
                let dropped = self.tools.remove(name).map_or(0, |state| state.len());
                self.units = self.units.saturating_sub(dropped);
            }
            Scope::Proxy(stream) => drop(self.proxies.remove(stream)),
        }
    }

    /// Forgets what of the last batch's tools ended before `floor`, where enough has: or of all.
    pub(super) fn forget(&mut self, floor: Micros, of_all: bool, at_once: bool) {
        let names: Vec<Text> =
            if of_all { self.tools.keys().cloned().collect() } else { self.touched.clone() };
        let mut gone = Gone::new();
        for name in names {
            let Some(state) = self.tools.get_mut(&name) else { continue };
            // To forget is to look at everything that is forgotten soon, so it waits until it is worth it.
            if of_all
                || at_once
                || state.floor().is_none_or(|known| floor.since(known) > FORGET_MICROS)
            {
                state.forget(floor, &mut gone);
                self.units = self.units.saturating_add_signed(state.grown());
            }
        }
        let_go(gone);
        for state in self.proxies.values_mut() {
            state.forget(floor);
        }
        self.floor = Some(floor);
        self.raise_proxies(of_all);
    }

    /// Makes the tools smaller that hold too much, and the largest of all where they do together. False where scopes
    /// had to be dropped.
    pub(super) fn shrink(&mut self, limits: &Limits) -> bool {
        let mut has_lost = false;
        let mut gone = Gone::new();
        for name in &self.touched {
            let Some(state) = self.tools.get_mut(name) else { continue };
            if state.len() > limits.scope_units {
                self.has_lost = true;
                state.shrink(limits.scope_units, limits, &mut gone);
                has_lost |= state.take_lost_proxied();
                self.units = self.units.saturating_add_signed(state.grown());
            }
        }
        let_go(gone);
        let is_above = self.units > limits.units.max(self.units_max);
        if is_above {
            has_lost |= self.shrink_largest(limits);
        }
        if has_lost {
            // What a proxy says next may be of a call that is not held, so its past is looked up.
            self.proxies.clear();
        }
        self.raise_proxies(is_above);
        self.shrink_proxies(limits);
        let is_full =
            self.tools.len() + self.proxies.len() > limits.scopes || self.units > 2 * limits.units;
        if is_full {
            self.drop_older(limits);
        }
        !is_full && !has_lost
    }

    fn shrink_largest(&mut self, limits: &Limits) -> bool {
        let mut sizes: Vec<usize> = self.tools.values().map(ToolState::len).collect();
        sizes.sort_unstable();
        // Those that hold less than their share leave the rest of it to the others.
        let (mut left, mut share) = (limits.units / 4 * 3, 0);
        for (index, size) in sizes.iter().enumerate() {
            share = left / (sizes.len() - index);
            if *size > share {
                break;
            }
            left -= size;
        }
        self.has_lost = true;
        let mut has_lost = false;
        let mut gone = Gone::new();
        for state in self.tools.values_mut().filter(|state| state.len() > share) {
            state.shrink(share, limits, &mut gone);
            has_lost |= state.take_lost_proxied();
            self.units = self.units.saturating_add_signed(state.grown());
        }
        let_go(gone);
        // What cannot be forgotten is not looked at again for each batch.
        self.units_max = self.units / 8 * 9;
        has_lost
    }

    /// All that is held of proxies' streams, in records, answers and what waits for them.
    #[cfg(test)]
    pub(super) fn held_of_proxies(&self) -> usize {
        self.proxies.values().map(ProxyState::weight).sum()
    }

    /// Makes the largest proxies smaller where all hold too much together.
    fn shrink_proxies(&mut self, limits: &Limits) {
        let mut held: usize = self.proxies.values().map(ProxyState::len).sum();
        if held <= limits.units {
            return;
        }
        let newest = self.floor.map_or(Micros(i64::MAX), |floor| floor.plus(limits.horizon_micros));
        let mut largest: Vec<&mut ProxyState> = self.proxies.values_mut().collect();
        largest.sort_by_key(|state| std::cmp::Reverse(state.len()));
        for state in largest {
            if held <= limits.units / 2 {
                break;
            }
            held -= state.len();
            state.shrink(newest);
            held += state.len();
        }
    }

    /// Drops the scopes that were not touched for longest: attackers can make up names without end.
    fn drop_older(&mut self, limits: &Limits) {
        let mut ages: Vec<u64> = self.tools.values().map(ToolState::touched).collect();
        ages.sort_unstable();
        let middle = ages.get(ages.len() / 2).copied().unwrap_or(0);
        let mut spare = limits.scopes / 2;
        self.tools.retain(|_, state| {
            // A batch can bring more names than are held.
            let stays = state.touched() > middle || (state.touched() == middle && spare > 0);
            spare = spare.saturating_sub(usize::from(stays));
            stays
        });
        // A proxy's replies need the tools that they are for.
        self.proxies.clear();
        self.units = self.tools.values().map(ToolState::len).sum();
    }

    /// A proxy is held no longer than the tools that it tells of: what it says later may be of any of them.
    fn raise_proxies(&mut self, by_all: bool) {
        if self.proxies.is_empty() {
            return;
        }
        let floor_of = |state: &ToolState| state.floor().filter(|_| state.is_proxied());
        let floor = if by_all {
            self.tools.values().filter_map(floor_of).max()
        } else {
            let touched = self.touched.iter().filter_map(|name| self.tools.get(name));
            touched.filter_map(floor_of).max()
        };
        for state in self.proxies.values_mut() {
            if let Some(floor) = floor.filter(|floor| state.floor() < Some(*floor)) {
                state.hold_from(floor);
            }
        }
    }

    /// What was joined here was not joined there: from now on what is older than `cutoff` is to be loaded.
    pub(super) fn disown(
        &mut self,
        elsewhere: &Self,
        of_proxies: Micros,
        cutoff: impl Fn(&str) -> Micros,
    ) {
        for stream in elsewhere.proxies.keys() {
            if let Some(state) = self.proxies.get_mut(stream)
                && state.floor() < Some(of_proxies)
            {
                state.hold_from(of_proxies);
            }
        }
        for name in elsewhere.tools.keys() {
            if let Some(state) = self.tools.get_mut(name) {
                let cutoff = cutoff(name);
                if state.floor() < Some(cutoff) {
                    state.hold_from(cutoff);
                }
            }
        }
    }

    pub(super) fn floor_of_tool(&self, tool: &str) -> Held {
        Held::of(self.tools.get(tool), ToolState::floor)
    }

    pub(super) fn floor_of_proxy(&self, stream: &str) -> Held {
        Held::of(self.proxies.get(stream), ProxyState::floor)
    }

    /// True while calls may be open that are not held.
    pub(super) const fn has_lost(&self) -> bool {
        self.has_lost
    }

    /// True where the record may go on with a call that is open, but not held.
    pub(super) fn continues_lost(&self, record: &Arc<Record>, clocks: &Clocks) -> bool {
        let state = record.bare_tool().and_then(|tool| self.tools.get(tool));
        state.is_some_and(|state| state.continues_lost(record, clocks))
    }

    /// The oldest time that anything of the tool has.
    pub(super) fn oldest_of(&self, tool: &str) -> Option<Micros> {
        self.tools.get(tool).and_then(ToolState::oldest)
    }

    /// The oldest time that anything here has.
    pub(super) fn oldest(&self) -> Option<Micros> {
        let tools = self.tools.values().filter_map(ToolState::oldest);
        tools.chain(self.proxies.values().filter_map(ProxyState::oldest)).min()
    }

    /// The shared name and the state of a tool, made if it is new.
    fn tool(&mut self, tool: &str) -> (Text, &mut ToolState) {
        let name = self
            .tools
            .get_key_value(tool)
            .map_or_else(|| Text::from(tool), |(name, _)| Text::clone(name));
        let state = self.tools.entry(Text::clone(&name)).or_default();
        (name, state)
    }
}

/// Drops records in the order in which they lie in memory.
fn let_go(mut gone: Gone) {
    gone.sort_unstable_by_key(|record| Arc::as_ptr(record).addr());
}

/// From where to where the tool's units have to be known, so that those between two times are joined as they should be.
pub(super) fn span(
    records: &[Arc<Record>],
    calls: &[Call],
    between: (Micros, Micros),
    limits: &Limits,
    clocks: &Clocks,
) -> (Micros, Micros) {
    let mut state = ToolState::default();
    fill(&mut state, records, calls, clocks);
    state.span(between.0, between.1, limits)
}

fn fill(state: &mut ToolState, records: &[Arc<Record>], calls: &[Call], clocks: &Clocks) {
    let (proxied, direct): (Vec<_>, Vec<_>) =
        records.iter().cloned().partition(|record| record.dialect == Dialect::StdioProxy);
    let (replies, proxied): (Vec<_>, Vec<_>) =
        proxied.into_iter().partition(|record| record.kind == RecordKind::Reply);
    state.add(&direct, clocks);
    for unit in proxied_units(proxied, &replies, calls) {
        state.add_unit(unit, clocks);
    }
}

/// Rebuilds proxied units from their first record, the replies, and the calls that say which reply is whose.
fn proxied_units(records: Vec<Arc<Record>>, replies: &[Arc<Record>], calls: &[Call]) -> Vec<Unit> {
    let mut stored: FxHashMap<RecordId, &[Step]> = FxHashMap::default();
    for sighting in calls.iter().flat_map(|call| &call.sightings) {
        if let Some(first) = sighting.steps.first() {
            stored.insert(first.record, &sighting.steps);
        }
    }
    let replies: FxHashMap<RecordId, &Arc<Record>> =
        replies.iter().map(|record| (record.id, record)).collect();
    records
        .into_iter()
        .map(|record| {
            let mut unit = Unit::single(record);
            for step in stored.get(&unit.base.id).into_iter().flat_map(|steps| steps.iter().skip(1))
            {
                if let Some(reply) = replies.get(&step.record) {
                    unit.push(reply);
                    unit.steps.pop();
                }
                // The stored step knows whether the reply was believed.
                unit.steps.push(step.clone());
            }
            unit
        })
        .collect()
}
