//! The state of every tool and proxy over some stretch of time.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::build::session_key;
use super::proxy::ProxyState;
use super::tool::ToolState;
use super::unit::{Unit, fold};
use super::{Clocks, Diff, Loaded, Scope, ScopeRef, scope_of};
use crate::model::{Call, Dialect, Micros, Record, RecordId, Step, Text};

#[derive(Default)]
pub(super) struct Memory {
    tools: FxHashMap<Text, ToolState>,
    proxies: FxHashMap<Text, ProxyState>,
}

impl Memory {
    /// Joins records with what is here and adds what changed to `diff`.
    pub(super) fn add(&mut self, records: &[Arc<Record>], clocks: &Clocks, diff: &mut Diff) {
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
        clocks: &Clocks,
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
    pub(super) fn restore(&mut self, loaded: Loaded, clocks: &Clocks) {
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
                let state = self.tools.entry(name).or_default();
                state.add(&direct, clocks);
                for unit in proxied_units(proxied, &direct, &loaded.calls) {
                    state.add_unit(unit, clocks);
                }
                state.settle(clocks, &mut Diff::default());
            }
        }
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

/// Rebuilds proxied units from their first record and what was stored with their call. `direct` are the records of
/// the other witnesses.
fn proxied_units(records: Vec<Arc<Record>>, direct: &[Arc<Record>], calls: &[Call]) -> Vec<Unit> {
    let mut stored: FxHashMap<RecordId, (&Call, &[Step])> = FxHashMap::default();
    for call in calls {
        for sighting in &call.sightings {
            if let Some(first) = sighting.steps.first() {
                stored.insert(first.record, (call, &sighting.steps));
            }
        }
    }
    let mut others: FxHashMap<RecordId, &Arc<Record>> = FxHashMap::default();
    if !records.is_empty() {
        others.extend(direct.iter().map(|record| (record.id, record)));
    }
    records
        .into_iter()
        .map(|record| {
            let mut unit = Unit::single(record);
            if let Some((call, steps)) = stored.get(&unit.base.id) {
                unit.steps = steps.to_vec();
                if let Some(reply) = reply_of(&unit, call, &others) {
                    fold(&mut unit.told, &reply);
                }
            }
            unit
        })
        .collect()
}

/// What the reply added to the call: everything that no other record of it explains. Replies have no tool, so they
/// are not loaded with one. What another witness says too is lost, which shows only once that one leaves the call.
fn reply_of(
    unit: &Unit,
    call: &Call,
    others: &FxHashMap<RecordId, &Arc<Record>>,
) -> Option<Record> {
    if unit.steps.len() < 2 {
        return None;
    }
    let steps = call.sightings.iter().flat_map(|sighting| &sighting.steps);
    let known: Vec<&Record> = steps
        .filter_map(|step| others.get(&step.record).map(|record| &***record))
        .chain([&*unit.base])
        .collect();
    let left = |field: fn(&Record) -> &Option<Text>, value: &Option<Text>| {
        value
            .clone()
            .filter(|value| !known.iter().any(|record| field(record).as_ref() == Some(value)))
    };
    let derived = session_key(None, call.principal.as_ref(), call.client.as_ref(), &call.stream);
    let session = Some(Text::clone(&call.session)).filter(|session| *session != derived);
    let explained =
        |duration_ms| known.iter().any(|record| record.duration_ms == Some(duration_ms));
    let mut flags = call.flags.clone();
    flags.retain(|flag| !known.iter().any(|record| record.flags.contains(flag)));
    let mut also = call.also.clone();
    also.retain(|value| !known.iter().any(|record| record.also.contains(value)));
    Some(Record {
        principal: left(|record| &record.principal, &call.principal),
        client: left(|record| &record.client, &call.client),
        tenant: left(|record| &record.tenant, &call.tenant),
        session: left(|record| &record.session, &session),
        server: left(|record| &record.server, &call.server),
        trace_id: left(|record| &record.trace_id, &call.trace_id),
        duration_ms: call.duration_ms.filter(|duration_ms| !explained(*duration_ms)),
        flags,
        also,
        ..Record::clone(&unit.base)
    })
}
