//! The state of every tool and proxy over some stretch of time.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::clock::Clocks;
use super::proxy::ProxyState;
use super::tool::ToolState;
use super::unit::Unit;
use super::{Diff, Loaded, Scope, ScopeRef, scope_of};
use crate::model::{Call, Dialect, Micros, Record, RecordId, RecordKind, Step, Text};

#[derive(Default)]
pub(super) struct Memory {
    tools: FxHashMap<Text, ToolState>,
    proxies: FxHashMap<Text, ProxyState>,
}

impl Memory {
    /// Joins records with what is here and adds what changed to `diff`.
    pub(super) fn add(&mut self, records: &[Arc<Record>], clocks: &mut Clocks, diff: &mut Diff) {
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
        for name in &touched {
            if let Some(state) = self.tools.get_mut(name) {
                state.settle(clocks, diff);
            }
        }
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
    pub(super) fn restore(&mut self, loaded: Loaded, clocks: &mut Clocks) {
        match loaded.need.of {
            Scope::Proxy(stream) => {
                // Its units come with the tools' own loads.
                self.proxies.entry(stream).or_default().add(loaded.records);
            }
            Scope::Tool(name) => {
                let (proxied, direct): (Vec<_>, Vec<_>) = loaded
                    .records
                    .into_iter()
                    .partition(|record| record.dialect == Dialect::StdioProxy);
                let (replies, proxied): (Vec<_>, Vec<_>) =
                    proxied.into_iter().partition(|record| record.kind == RecordKind::Reply);
                let state = self.tools.entry(name).or_default();
                state.add(&direct, clocks);
                for unit in proxied_units(proxied, &replies, &loaded.calls) {
                    state.add_unit(unit, clocks);
                }
                state.settle(clocks, &mut Diff::default());
            }
        }
    }

    /// Joins those of a tool's units anew that are of these streams and begin in this span.
    pub(super) fn rejoin(
        &mut self,
        tool: &Text,
        streams: &FxHashSet<Text>,
        span: (Micros, Micros),
        clocks: &mut Clocks,
        diff: &mut Diff,
    ) {
        if let Some(state) = self.tools.get_mut(tool) {
            state.rejoin(streams, span);
            state.settle(clocks, diff);
        }
    }

    /// Whether the unit that begins with this record is here.
    pub(super) fn holds_unit(&self, tool: &Text, at: Option<Micros>, record: RecordId) -> bool {
        self.tools.get(tool).is_some_and(|state| state.holds(at, record))
    }

    /// Drops a scope, so that it can be restored from the store.
    pub(super) fn drop_scope(&mut self, scope: &Scope) {
        match scope {
            Scope::Tool(name) => drop(self.tools.remove(name)),
            Scope::Proxy(stream) => drop(self.proxies.remove(stream)),
        }
    }

    pub(super) fn forget(&mut self, floor: Micros) {
        for state in self.tools.values_mut() {
            state.forget(floor);
        }
        for state in self.proxies.values_mut() {
            state.forget(floor);
        }
    }

    /// Drops scopes that hold nothing: attackers can make up names without end.
    pub(super) fn drop_empty(&mut self) {
        self.tools.retain(|_, state| state.len() > 0);
    }

    pub(super) fn units(&self) -> usize {
        self.tools.values().map(ToolState::len).sum()
    }

    pub(super) fn scopes(&self) -> usize {
        self.tools.len() + self.proxies.len()
    }

    pub(super) fn holds(&self, scope: &Scope) -> bool {
        match scope {
            Scope::Tool(name) => self.tools.contains_key(name),
            Scope::Proxy(stream) => self.proxies.contains_key(stream),
        }
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
