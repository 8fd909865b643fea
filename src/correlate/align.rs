//! Lays two streams' records of look-alike calls against each other.
//!
//! A model in a loop makes the same call again and again, and now and then a record is lost. In order, all that come
//! after a lost one would be off by one. The clocks as measured over the day say roughly where a record belongs; which
//! of the differences around there comes up most often in this component says it finely.

use rustc_hash::FxHashMap;

use super::clock::Estimate;
use super::matching::Matching;
use super::waiting::Seen;

/// Units looked at on each side of the time at which a call's record is expected.
const NEIGHBOURS_MAX: usize = 16;
/// Width of the bins in which differences vote.
const VOTE_MICROS: i64 = 25_000;
/// How far from the chosen difference two records are still taken for the same without regard to order.
const FINE_MICROS: i64 = 300_000;

/// By how much two streams' clocks differ in a component, beyond what was measured over the day.
#[derive(Default)]
pub(super) struct Fine(FxHashMap<(usize, usize), i64>);

/// A call and a unit that may be its record.
struct Choice {
    call: usize,
    /// The call's place among those that choose.
    place: usize,
    unit: usize,
    /// How much later the record is than the measured clocks say.
    off: i64,
    /// The numbers of the two streams.
    pair: (usize, usize),
    /// Whether the two say that it ended differently.
    contradicts: bool,
}

impl Fine {
    /// How much later than the lead's its record is expected.
    pub(super) fn offset(&self, lead: &Seen<'_>, unit: &Seen<'_>, estimate: Estimate) -> i64 {
        estimate.offset + self.0.get(&(lead.number, unit.number)).copied().unwrap_or(0)
    }
}

/// Ties calls to the units that lie nearest to where the clocks say, and takes those units. Returns them as (call,
/// unit), with the differences found.
pub(super) fn nearest(matching: &mut Matching<'_, '_>) -> (Vec<(usize, usize)>, Fine) {
    let options = options(matching);
    let fine = vote(&options);
    let mut near: Vec<(i64, usize, usize, usize)> = options
        .iter()
        .filter_map(|option| {
            let off = option.off - fine.0.get(&option.pair).copied().unwrap_or(0);
            let doubt = if option.contradicts { FINE_MICROS } else { 0 };
            let is_near = off.abs() <= FINE_MICROS;
            is_near.then(|| (off.abs() + doubt, option.place, option.unit, option.call))
        })
        .collect();
    near.sort_unstable();
    let mut served: Vec<bool> = vec![false; matching.calls.len()];
    let mut found = Vec::new();
    for (_, _, unit, call) in near {
        if !served[call] && !matching.waiting.is_taken(unit) {
            served[call] = true;
            matching.waiting.take(unit);
            found.push((call, unit));
        }
    }
    (found, fine)
}

fn options(matching: &Matching<'_, '_>) -> Vec<Choice> {
    let Matching { calls, order, waiting, pass, ruler, .. } = matching;
    let mut options = Vec::with_capacity(order.len());
    let mut around = Vec::new();
    for (place, call) in order.iter().enumerate() {
        let joined = &calls[*call];
        let lead = joined.lead;
        let Some(window) = ruler.search(lead) else { continue };
        let (lane, times) = (joined.lane(*pass), matching.expected(lead));
        waiting.around(lane, window, times, NEIGHBOURS_MAX, &mut around);
        for unit in around.iter().copied() {
            let seen = &waiting.units[unit];
            let Some(estimate) = ruler.estimate(lead, seen) else { continue };
            if !matching.fits(*call, seen) {
                continue;
            }
            let (own, others) = (lead.class, seen.class);
            options.push(Choice {
                call: *call,
                place,
                unit,
                off: lead.gap_to(seen) - estimate.offset,
                pair: (lead.number, seen.number),
                contradicts: own.is_terminal() && others.is_terminal() && own != others,
            });
        }
    }
    options
}

/// For each pair of streams the difference that comes up most often, of equals the one nearest to what was measured.
fn vote(options: &[Choice]) -> Fine {
    let mut votes: FxHashMap<(usize, usize), FxHashMap<i64, i64>> = FxHashMap::default();
    for option in options {
        let bin = (option.off + VOTE_MICROS / 2).div_euclid(VOTE_MICROS);
        // A vote counts for its neighbours as well: what is meant may lie between two bins.
        let bins = votes.entry(option.pair).or_default();
        for (bin, weight) in [(bin - 1, 1), (bin, 2), (bin + 1, 1)] {
            *bins.entry(bin).or_default() += weight;
        }
    }
    let chosen = votes.into_iter().filter_map(|(pair, bins)| {
        let (bin, _) = bins
            .into_iter()
            .max_by_key(|(bin, votes)| (*votes, std::cmp::Reverse((bin.abs(), *bin))))?;
        Some((pair, bin * VOTE_MICROS))
    });
    Fine(chosen.collect())
}
