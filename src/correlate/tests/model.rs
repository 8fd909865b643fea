//! A store for tests, in memory.

use std::collections::BTreeMap;

use rustc_hash::FxHashSet;

use super::*;

/// A store that answers needs from everything it was given, as the real one does.
#[derive(Default)]
pub(in crate::correlate) struct Model {
    pub(in crate::correlate) records: Vec<Arc<Record>>,
    calls: BTreeMap<CallId, Arc<Call>>,
    clock_samples: Vec<ClockSample>,
    clock_uses: Vec<ClockUse>,
    /// What an earlier correlator left to be joined anew.
    left: Vec<StaleDay>,
}

impl Model {
    fn load(&self, need: &Need) -> Loaded {
        let within = |at: Option<Micros>| {
            at.map_or(need.to.is_none(), |at| at >= need.from && need.to.is_none_or(|to| at <= to))
        };
        let mut records: Vec<Arc<Record>> = self
            .records
            .iter()
            .filter(|record| within(record.at))
            .filter(|record| match &need.of {
                Scope::Tool(tool) => {
                    record.kind == RecordKind::Call && record.bare_tool() == Some(&**tool)
                }
                Scope::Proxy(stream) => {
                    record.dialect == Dialect::StdioProxy && record.stream == *stream
                }
            })
            .cloned()
            .collect();
        if matches!(need.of, Scope::Tool(_)) {
            let proxies: FxHashSet<Text> = records
                .iter()
                .filter(|record| record.dialect == Dialect::StdioProxy)
                .map(|record| Text::clone(&record.stream))
                .collect();
            let replies = self.records.iter().filter(|record| {
                record.kind == RecordKind::Reply
                    && proxies.contains(&record.stream)
                    && within(record.at)
            });
            records.extend(replies.cloned());
        }
        records.sort_by_key(|record| (record.at, Text::clone(&record.stream), record.id));
        let calls = self.calls.values().map(|call| Call::clone(call)).collect();
        Loaded { need: need.clone(), records, calls }
    }

    fn load_tool(&self, correlator: &Correlator, batch: &[Arc<Record>], need: &Need) -> Loaded {
        let mut found = self.load(need);
        while let Some(wider) = correlator.widen(batch, &found) {
            found = self.load(&wider);
        }
        found
    }

    pub(in crate::correlate) fn feed(
        &mut self,
        correlator: &mut Correlator,
        batch: &[Arc<Record>],
    ) {
        let needs = correlator.plan_proxies(batch);
        let mut loaded: Vec<Loaded> = needs.iter().map(|need| self.load(need)).collect();
        let needs = correlator.plan_tools(batch, &loaded);
        loaded.extend(needs.iter().map(|need| self.load_tool(correlator, batch, need)));
        self.know_clocks(correlator, &correlator.plan_clocks(batch, &loaded));
        let outcome = correlator.apply(batch, loaded);
        self.take(outcome);
        self.records.extend(batch.iter().cloned());
    }

    fn know_clocks(&self, correlator: &mut Correlator, days: &[Micros]) {
        let samples = self.clock_samples.iter().filter(|sample| days.contains(&sample.day));
        let uses = self.clock_uses.iter().filter(|used| days.contains(&used.day));
        correlator.know_clocks(days, samples.cloned().collect(), uses.cloned().collect());
    }

    /// Joins anew what the clocks, as they are known by now, would join otherwise.
    pub(in crate::correlate) fn rejoin(&mut self, correlator: &mut Correlator, all: bool) {
        let left = std::mem::take(&mut self.left);
        for stale in left.into_iter().chain(correlator.stale_clocks(all)) {
            self.know_clocks(correlator, &correlator.plan_clock(&stale));
            let mut rejoin = correlator.begin_rejoin(stale);
            let tools: std::collections::BTreeSet<Text> = self
                .records
                .iter()
                .filter_map(|record| record.bare_tool().map(Text::from))
                .collect();
            let whole_or_in_pieces = self.records.len() as u64 % 2 * u64::MAX;
            for tool in &tools {
                for (need, from, to) in Correlator::plan_rejoin(&rejoin, tool, whole_or_in_pieces) {
                    let loaded = self.load_tool(correlator, &[], &need);
                    correlator.rejoin_loaded(&mut rejoin, loaded, from, to);
                }
            }
            let outcome = correlator.end_rejoin(rejoin);
            self.take(outcome);
        }
    }

    /// A correlator that goes on from what is stored.
    pub(in crate::correlate) fn resume(&mut self, clocks: Clocks, limits: &Limits) -> Correlator {
        let newest = self.records.iter().filter_map(|record| record.at).max();
        let mut earlier = Correlator::resume(clocks.clone(), newest);
        let used = self.clock_uses.iter().map(|used| used.day);
        let mut days: Vec<Micros> =
            self.clock_samples.iter().map(|sample| sample.day).chain(used).collect();
        days.sort_unstable();
        days.dedup();
        self.know_clocks(&mut earlier, &days);
        self.left.extend(earlier.stale_clocks(true));
        Correlator { limits: limits.clone(), ..Correlator::resume(clocks, newest) }
    }

    pub(in crate::correlate) fn take(&mut self, outcome: Outcome) {
        self.clock_samples.extend(outcome.clock_samples);
        self.clock_uses.extend(outcome.clock_uses);
        for change in &outcome.changes {
            if let Some(old) = &change.old {
                let known = self.calls.remove(&old.id);
                assert!(known.as_deref() == Some(&**old), "the old call is the stored one");
            }
        }
        for change in outcome.changes {
            if let Some(new) = change.new {
                assert!(self.calls.insert(new.id, new).is_none(), "a call is new once");
            }
        }
    }

    /// What the joins say of the clocks, and what calls are joined with, as far as anything is.
    pub(in crate::correlate) fn clocks(
        &self,
    ) -> (BTreeMap<String, i64>, BTreeMap<String, (i64, i64)>) {
        let mut samples: BTreeMap<String, i64> = BTreeMap::new();
        for ClockSample { day, upper, lower, bin_ms, samples: more } in &self.clock_samples {
            *samples.entry(format!("{day:?} {upper} {lower} {bin_ms}")).or_default() += more;
        }
        samples.retain(|_, count| *count != 0);
        let mut uses = BTreeMap::new();
        for ClockUse { day, upper, lower, offset_micros, tolerance_micros } in &self.clock_uses {
            let pair = format!("{day:?} {upper} {lower}");
            match offset_micros.zip(*tolerance_micros) {
                Some(used) => drop(uses.insert(pair, used)),
                None => drop(uses.remove(&pair)),
            }
        }
        (samples, uses)
    }

    pub(in crate::correlate) fn calls(&self) -> Vec<Call> {
        let mut calls: Vec<Call> = self.calls.values().map(|call| Call::clone(call)).collect();
        calls.sort_by_key(Call::order);
        calls
    }
}
