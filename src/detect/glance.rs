//! Looking at what lies about in memory, for many at a time before work on the first of them begins: where each by
//! itself would be waited for in turn, all of them are waited for at once.

use std::hint::black_box;
use std::sync::Arc;

use crate::model::{Call, CallChange, Text};

use super::group::Group;
use super::seen::Seen;
use super::shelf::Groups;
use super::touch::Touch;

/// So many are looked at before work on them begins.
pub(super) const AT_A_TIME: usize = 32;

/// Looks at what most rules ask of the first of these calls.
pub(super) fn await_calls(changes: &[CallChange]) {
    let first = |text: &Text| text.as_bytes().first().map_or(0, |byte| usize::from(*byte));
    let glance = |call: &Arc<Call>| {
        let texts = first(&call.tool) + call.principal.as_ref().map_or(0, first);
        let of_call = texts + Arc::strong_count(call) + call.flags.len() + call.also.len();
        i64::try_from(of_call).unwrap_or(0)
    };
    let next = changes.iter().take(AT_A_TIME).flat_map(|change| [&change.old, &change.new]);
    wait(next.flatten().map(glance));
}

/// Looks at the groups of the first of these touches.
pub(super) fn await_groups(groups: &Groups, touches: &[Touch]) {
    let keys = touches.iter().take(AT_A_TIME).map(|touch| &touch.key);
    match groups {
        Groups::Chain(groups) => wait(keys.filter_map(|key| groups.get(key)).map(Group::glance)),
        Groups::FirstSeen(groups) => wait(keys.filter_map(|key| groups.get(key)).map(Seen::glance)),
    }
}

/// What is seen is of no use; but it has to be seen.
fn wait(glances: impl Iterator<Item = i64>) {
    black_box(glances.fold(0, i64::wrapping_add));
}
