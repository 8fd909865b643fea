//! What correlation has to see again of what is stored: one need by itself, or those of a whole day read at once.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::correlate::{Loaded, Need, Scope};
use crate::model::{Call, Dialect, Micros, Record, RecordId, Text};
use crate::store::{RecordNeed, Store, StoreError, Whose};

/// Records of several tools that are held at once; a tool that has more by itself is read piece by piece.
const SHELF_RECORDS_MAX: u64 = 20_000;

/// How far apart the beginnings of needs may lie that are read together.
const TOGETHER_MICROS: i64 = 10 * Micros::MINUTE;

/// What is stored of some tools over some stretch of time, read once for many needs.
#[derive(Default)]
pub(super) struct Shelf {
    records: FxHashMap<Text, Vec<Arc<Record>>>,
    /// Of the tools that a proxy tells of: replies name no tool, and the calls tell whose each is.
    calls: FxHashMap<Text, Vec<Call>>,
    replies: FxHashMap<RecordId, Arc<Record>>,
    /// What was read, ends included; no end: to the end of time.
    from: Micros,
    to: Option<Micros>,
}

/// Answers these needs, those up to the end of time together as far as they begin at about one time.
pub(super) fn load_all(store: &Store, needs: Vec<Need>) -> Result<Vec<Loaded>, StoreError> {
    let is_present = |need: &Need| need.to.is_none() && matches!(need.of, Scope::Tool(_));
    let (mut present, past): (Vec<Need>, Vec<Need>) = needs.into_iter().partition(is_present);
    let mut loaded = Vec::with_capacity(present.len() + past.len());
    for need in past {
        loaded.push(load(store, need)?);
    }
    present.sort_by_key(|need| need.from);
    while let Some(from) = present.first().map(|need| need.from) {
        let meets = |need: &Need| need.from.since(from) <= TOGETHER_MICROS;
        let later = present.split_off(present.partition_point(meets));
        let name = |need: &'_ Need| match &need.of {
            Scope::Tool(name) => Some(Text::clone(name)),
            Scope::Proxy(_) => None,
        };
        let names: Vec<Text> = present.iter().filter_map(name).collect();
        let shelf = Shelf::of(store, &names.iter().collect::<Vec<_>>(), from, None)?;
        loaded.extend(present.into_iter().map(|need| shelf.load(need)));
        present = later;
    }
    loaded.sort_by(|left, right| {
        (&left.need.of, left.need.from).cmp(&(&right.need.of, right.need.from))
    });
    Ok(loaded)
}

/// Answers one need.
pub(super) fn load(store: &Store, need: Need) -> Result<Loaded, StoreError> {
    let stored = RecordNeed {
        of: match &need.of {
            Scope::Tool(name) => Whose::Tool(Text::clone(name)),
            Scope::Proxy(stream) => Whose::Proxy(Text::clone(stream)),
        },
        from: need.from,
        to: need.to,
    };
    let mut records = shared(store.records_near(&stored)?);
    let mut calls = Vec::new();
    if matches!(need.of, Scope::Tool(_)) && records.iter().any(is_proxied) {
        calls = store.calls_near(&stored)?;
        let replies = store.records_with(&replies_of(&calls), need.from, need.to)?;
        records.extend(shared(replies));
    }
    Ok(Loaded { need, records, calls })
}

/// The tools, with how many records each has, in parts that a [`Shelf`] can hold.
pub(super) fn parts(tools: Vec<(Text, u64)>) -> Vec<Vec<(Text, u64)>> {
    let mut parts: Vec<Vec<(Text, u64)>> = Vec::new();
    let mut held = 0;
    for (tool, records) in tools {
        held += records;
        if held > SHELF_RECORDS_MAX || parts.is_empty() {
            held = records;
            parts.push(Vec::new());
        }
        if let Some(part) = parts.last_mut() {
            part.push((tool, records));
        }
    }
    parts
}

impl Shelf {
    /// Reads what is stored of these tools between the two times, ends included. None where that is too much to hold.
    pub(super) fn read(
        store: &Store,
        tools: &[(Text, u64)],
        (from, to): (Micros, Micros),
    ) -> Result<Option<Self>, StoreError> {
        if tools.iter().map(|(_, records)| records).sum::<u64>() > SHELF_RECORDS_MAX {
            return Ok(None);
        }
        let names: Vec<&Text> = tools.iter().map(|(name, _)| name).collect();
        Self::of(store, &names, from, Some(to)).map(Some)
    }

    fn of(
        store: &Store,
        names: &[&Text],
        from: Micros,
        to: Option<Micros>,
    ) -> Result<Self, StoreError> {
        let mut shelf = Self { from, to, ..Self::default() };
        for record in shared(store.records_of_tools(names, from, to)?) {
            let Some(tool) = record.bare_tool() else { continue };
            if let Some(known) = shelf.records.get_mut(tool) {
                known.push(record);
            } else {
                shelf.records.insert(Text::from(tool), vec![record]);
            }
        }
        let of_proxies = shelf.records.iter().filter(|(_, records)| records.iter().any(is_proxied));
        let of_proxies: Vec<&Text> = of_proxies.map(|(name, _)| name).collect();
        if of_proxies.is_empty() {
            return Ok(shelf);
        }
        let calls = store.proxied_calls_of(&of_proxies, from, to)?;
        let replies = shared(store.records_with(&replies_of(&calls), from, to)?);
        shelf.replies = replies.into_iter().map(|reply| (reply.id, reply)).collect();
        for call in calls {
            shelf.calls.entry(Text::from(call.bare_tool())).or_default().push(call);
        }
        Ok(shelf)
    }

    /// Whether all that a need of one of the tools asks for was read.
    pub(super) fn covers(&self, need: &Need) -> bool {
        let is_known = matches!(&need.of, Scope::Tool(name) if self.records.contains_key(name));
        let ends = self.to.is_none_or(|to| need.to.is_some_and(|until| until <= to));
        is_known && ends && need.from >= self.from
    }

    /// Answers a need of one of the tools, inside the time that was read.
    pub(super) fn load(&self, need: Need) -> Loaded {
        let (mut records, mut calls) = (Vec::new(), Vec::new());
        if let Scope::Tool(name) = &need.of {
            let is_near = |at: Option<Micros>| match (at, need.to) {
                (Some(at), to) => at >= need.from && to.is_none_or(|to| at <= to),
                (None, to) => to.is_none(),
            };
            let of_tool = self.records.get(name).into_iter().flatten();
            records.extend(of_tool.filter(|record| is_near(record.at)).cloned());
            let of_tool = self.calls.get(name).into_iter().flatten();
            calls.extend(of_tool.filter(|call| is_near(call.at)).cloned());
            let replies = replies_of(&calls);
            let replies = replies.iter().filter_map(|id| self.replies.get(id));
            records.extend(replies.filter(|reply| is_near(reply.at)).cloned());
        }
        Loaded { need, records, calls }
    }
}

fn is_proxied(record: &Arc<Record>) -> bool {
    record.dialect == Dialect::StdioProxy
}

/// The records of proxies in these calls that come after a request: its replies.
fn replies_of(calls: &[Call]) -> Vec<RecordId> {
    let sightings = calls.iter().flat_map(|call| &call.sightings);
    let of_proxies = sightings.filter(|sighting| sighting.dialect == Dialect::StdioProxy);
    of_proxies.flat_map(|sighting| sighting.steps.iter().skip(1).map(|step| step.record)).collect()
}

fn shared(records: Vec<Record>) -> Vec<Arc<Record>> {
    records.into_iter().map(Arc::new).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_are_read_together_as_far_as_they_can_be_held() {
        let tools = [("a", 9_000), ("b", 11_000), ("c", 1), ("d", 50_000), ("e", 2), ("f", 3)];
        let tools = tools.map(|(name, records)| (Text::from(name), records)).to_vec();
        let of_part = |part: Vec<(Text, u64)>| -> Vec<String> {
            part.iter().map(|(name, _)| name.to_string()).collect()
        };
        let parts: Vec<Vec<String>> = parts(tools).into_iter().map(of_part).collect();
        assert_eq!(parts, [vec!["a", "b"], vec!["c"], vec!["d"], vec!["e", "f"]]);
    }
}
