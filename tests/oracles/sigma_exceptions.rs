//! Where rsigma and we differ on calls in order and a second apart. Each difference is there on purpose. Of
//! correlations, rsigma alone closes a match; of detections, what the comparison leaves out is listed with both
//! answers.

use calltrail::model::{Micros, OutcomeClass};

use super::calls::Shape;
use super::sigma::{Closing, Kind, Rule, Sort, Stage, closings, compare, fits};

/// A difference that is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exception {
    /// rsigma gathers calls that lack a field to group by in a group of their own. Ten calls without a tenant are no
    /// ten calls of one tenant.
    Nobody,
    /// rsigma counts a call that lacks the field as closing, with the values of others. Nothing of the rule is in it.
    WithoutValue,
    /// rsigma asks for the order again at every call that fills any stage, so that a sequence which has ended ends
    /// once more with each further call of its first stage. We close it at calls that end it.
    NotTheLast,
    /// rsigma takes one call for two stages. One call to a tool that can do everything is no trifecta.
    OneForTwo,
}

impl Exception {
    pub(super) const ALL: [Self; 4] =
        [Self::Nobody, Self::WithoutValue, Self::NotTheLast, Self::OneForTwo];

    /// True if this is why rsigma alone closes a match at that call.
    pub(super) fn explains(self, rule: &Rule, shapes: &[Shape], (number, group): &Closing) -> bool {
        let closing = &shapes[*number];
        match self {
            Self::Nobody => group.len() < rule.group_by.len(),
            Self::WithoutValue => match rule.kind {
                Kind::ValueCount { field: "tenant", .. } => closing.tenant.is_none(),
                Kind::ValueCount { field: "client", .. } => closing.client.is_none(),
                _ => false,
            },
            Self::NotTheLast => {
                let last = rule.stages.last().unwrap();
                matches!(rule.kind, Kind::TemporalOrdered) && !last.sort.fits(closing)
            }
            // A count takes a call once, whatever number of its rules it fits.
            Self::OneForTwo
                if matches!(rule.kind, Kind::EventCount(_) | Kind::ValueCount { .. }) =>
            {
                false
            }
            Self::OneForTwo => {
                let counts = rule.stages.iter().filter_map(|stage| stage.count);
                let longest = counts.map(|(timespan, _)| timespan).max().unwrap_or(0);
                let reach = (rule.timespan + longest) * Micros::SECOND;
                let stages_of = |shape: &Shape| {
                    rule.stages.iter().filter(|stage| stage.sort.fits(shape)).count()
                };
                let mut near = shapes[..=*number].iter().filter(|one| closing.at - one.at <= reach);
                near.any(|shape| stages_of(shape) > 1)
            }
        }
    }
}

/// A rule grouped by principal.
fn rule(kind: Kind, sorts: &[Sort]) -> Rule {
    let stages = sorts.iter().map(|sort| Stage { sort: *sort, count: None }).collect();
    Rule { kind, stages, group_by: vec!["principal"], alias: None, timespan: 60 }
}

/// The exceptions of such a rule over calls a second apart.
fn met(kind: Kind, sorts: &[Sort], shapes: &[Shape]) -> Vec<Exception> {
    let rule = rule(kind, sorts);
    let placed = shapes.iter().zip(1_000..);
    let placed = placed.map(|(shape, at)| Shape { at: at * Micros::SECOND, ..shape.clone() });
    compare(&rule, &placed.collect::<Vec<_>>()).unwrap()
}

#[test]
fn every_exception_is_met_and_is_the_only_one() {
    let [fetch, read] = ["fetch", "read"].map(|tool| Shape::at(0, tool));
    let nobody = Shape { principal: None, ..fetch.clone() };
    let twice = || Kind::EventCount("gte: 2".to_owned());
    assert_eq!(met(twice(), &[Sort::Fetch], &[nobody.clone(), nobody]), [Exception::Nobody]);

    let values = Kind::ValueCount { field: "tenant", condition: "gte: 2".to_owned() };
    let within = |tenant| Shape { tenant, ..fetch.clone() };
    let tenants = [within(Some("t1")), within(Some("t2")), within(None)];
    assert_eq!(met(values, &[Sort::Fetch], &tenants), [Exception::WithoutValue]);

    let stages = [Sort::Fetch, Sort::Read];
    let ended = [fetch.clone(), read.clone(), fetch.clone()];
    assert_eq!(met(Kind::TemporalOrdered, &stages, &ended), [Exception::NotTheLast]);

    let denied = Shape { class: OutcomeClass::Denied, ..fetch.clone() };
    let both = [Sort::Fetch, Sort::Denied];
    for kind in [Kind::TemporalOrdered, Kind::Temporal] {
        assert_eq!(met(kind.clone(), &both, std::slice::from_ref(&denied)), [Exception::OneForTwo]);
        // With another call for the first stage it is a match for both.
        assert_eq!(met(kind, &both, &[fetch.clone(), denied.clone()]), []);
    }
    assert_eq!(met(twice(), &[Sort::Fetch], &[fetch.clone(), read, fetch]), []);
}

/// What the comparison of correlations leaves out.
#[test]
fn correlations_differ_where_it_is_known() {
    let stages = [Sort::Fetch, Sort::Read];
    let at = |tenths: i64, tool| Shape::at(tenths * Micros::SECOND / 10, tool);
    // Any of the rules is enough for rsigma where a temporal rule has no condition.
    let found = closings(&rule(Kind::Temporal, &stages), &[at(0, "fetch")]);
    assert_eq!(found, [vec![], vec![0]]);
    // One call that two of its rules fit is two for rsigma.
    let denied = Shape { class: OutcomeClass::Denied, ..at(0, "fetch") };
    let twice = rule(Kind::EventCount("gte: 2".to_owned()), &[Sort::Fetch, Sort::Denied]);
    assert_eq!(closings(&twice, &[denied]), [vec![], vec![0]]);
    // It knows no time within a second: the read came first.
    let ordered = rule(Kind::TemporalOrdered, &stages);
    let found = closings(&ordered, &[at(10, "read"), at(14, "fetch")]);
    assert_eq!(found, [vec![], vec![1]]);
    // And 60.9 seconds are 60.
    let found = closings(&ordered, &[at(10, "fetch"), at(619, "read")]);
    assert_eq!(found, [vec![], vec![1]]);
}

/// A selection, a principal that it is asked of, whether the call fits for us, and why it is the other way for rsigma.
const DETECTIONS: [(&str, &str, bool, &str); 4] = [
    (
        "principal|startswith: 'b*c'",
        "abc",
        false,
        "with a wildcard in it, rsigma's `startswith` may begin anywhere and has to end at the end",
    ),
    ("principal|startswith: 'a*b'", "abc", true, "the same"),
    (
        "principal|endswith: 'a*b'",
        "abc",
        false,
        "with a wildcard in it, rsigma's `endswith` may end anywhere and has to begin at the beginning",
    ),
    ("principal: 'two*'", "two\nlines", true, "rsigma's wildcards stop at the end of a line"),
];

#[test]
fn detections_differ_where_it_is_known() {
    for (selection, principal, fits_here, why) in DETECTIONS {
        let shape = Shape { principal: Some(principal), ..Shape::at(Micros::SECOND, "read") };
        assert_eq!(fits(selection, &shape), (fits_here, !fits_here), "{selection}: {why}");
    }
    // rsigma takes several words for true; an argument is compared as it is written.
    let shape = Shape { args: vec![("force", "yes")], ..Shape::at(Micros::SECOND, "read") };
    assert_eq!(fits("args.force: true", &shape), (false, true));
    // An IPv4 address that is written as an IPv6 one is the IPv4 address here.
    let shape = Shape { args: vec![("host", "::ffff:10.1.2.3")], ..shape };
    assert_eq!(fits("args.host|cidr: 10.0.0.0/8", &shape), (true, false));
}
