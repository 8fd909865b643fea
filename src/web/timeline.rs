//! The timeline picture: where everything goes. The template only writes it down.
//!
//! The time axis is not linear: stretches of time grow with their logarithm, so that a call of one
//! millisecond and a pause of ten minutes fit on one picture. Gaps between the legs of a rule are
//! therefore written out in figures.

use super::incident::Incident;
use super::scene::{Part, Scene, SceneCall};
use super::shown::{Px, Severity, Shown, brief_duration, day_time_text};
use crate::model::{CallId, Micros, OutcomeClass, Witness};

pub(crate) const WIDTH: f64 = 1100.0;
/// Room for the names of lanes.
pub(crate) const LEFT: f64 = 176.0;
const RIGHT: f64 = 30.0;
/// Narrowest bar, so that the shortest call is seen.
const BAR_WIDTH_MIN: f64 = 6.0;
const BAR_HEIGHT: f64 = 12.0;
const LANE_HEIGHT: f64 = 26.0;
const STRIP_HEIGHT: f64 = 74.0;
const LABEL_HEIGHT: f64 = 14.0;
const CHAR_WIDTH: f64 = 6.6;
const AXIS_HEIGHT: f64 = 26.0;
/// Alerts that get a strip of their own.
const STRIPS_MAX: usize = 6;

/// The picture.
pub(crate) struct Timeline {
    pub(crate) height: Px,
    pub(crate) axis_y: Px,
    pub(crate) strips: Vec<Strip>,
    pub(crate) lanes: Vec<Lane>,
    pub(crate) calls: Vec<Mark>,
    pub(crate) ticks: Vec<Tick>,
    /// Alerts without a strip.
    pub(crate) strips_left_out: usize,
}

/// One alert's strip: the legs of its rule and the time between them.
pub(crate) struct Strip {
    pub(crate) name: Shown,
    pub(crate) severity: Severity,
    pub(crate) is_retracted: bool,
    pub(crate) name_y: Px,
    pub(crate) line_y: Px,
    pub(crate) labels: Vec<Label>,
    pub(crate) gaps: Vec<Gap>,
}

/// The name of a leg, over its first call.
pub(crate) struct Label {
    pub(crate) x: Px,
    pub(crate) y: Px,
    pub(crate) text: Shown,
    pub(crate) whole: Shown,
}

/// The time from the last call of one leg to the first of the next.
pub(crate) struct Gap {
    pub(crate) from: Px,
    pub(crate) to: Px,
    pub(crate) middle: Px,
    pub(crate) y: Px,
    pub(crate) text_y: Px,
    pub(crate) text: Shown,
}

/// One witness's lane.
pub(crate) struct Lane {
    pub(crate) name: &'static str,
    pub(crate) top: Px,
    pub(crate) name_y: Px,
}

/// Everything drawn for one call: it is one link.
pub(crate) struct Mark {
    pub(crate) id: CallId,
    pub(crate) title: Shown,
    pub(crate) is_context: bool,
    pub(crate) legs: Vec<Leg>,
    pub(crate) bars: Vec<Bar>,
}

/// The shape of a call on an alert's strip.
pub(crate) struct Leg {
    pub(crate) x: Px,
    pub(crate) text_y: Px,
    pub(crate) number: usize,
    pub(crate) points: String,
    pub(crate) class: &'static str,
}

/// A call on a witness's lane.
pub(crate) struct Bar {
    pub(crate) x: Px,
    pub(crate) y: Px,
    pub(crate) width: Px,
    pub(crate) class: &'static str,
}

pub(crate) struct Tick {
    pub(crate) x: Px,
    pub(crate) text: Shown,
}

impl Timeline {
    pub(crate) fn axis_text_y(&self) -> Px {
        Px(self.axis_y.0 + 17.0)
    }

    pub(crate) fn new(incident: &Incident, scene: &Scene) -> Self {
        let axis = Axis::new(scene.times(), LEFT, WIDTH - RIGHT);
        let mut order: Vec<usize> = (0..incident.alerts().len()).collect();
        order.sort_by_key(|index| {
            let alert = &incident.alerts()[*index];
            (alert.retracted.is_some(), std::cmp::Reverse(alert.level), *index)
        });
        let strips_left_out = order.len().saturating_sub(STRIPS_MAX);
        order.truncate(STRIPS_MAX);
        let strips: Vec<Strip> = order
            .iter()
            .enumerate()
            .map(|(row, alert)| strip(incident, scene, &axis, *alert, row as f64 * STRIP_HEIGHT))
            .collect();
        let lanes_top = strips.len() as f64 * STRIP_HEIGHT + 6.0;
        let lanes = lanes(scene, lanes_top);
        let axis_y = lanes_top + lanes.len() as f64 * LANE_HEIGHT + 4.0;
        let calls =
            scene.calls.iter().map(|call| mark(call, &axis, &order, &strips, &lanes)).collect();
        Self {
            height: Px(axis_y + AXIS_HEIGHT),
            axis_y: Px(axis_y),
            ticks: ticks(scene, &axis),
            strips,
            lanes,
            calls,
            strips_left_out,
        }
    }
}

fn strip(incident: &Incident, scene: &Scene, axis: &Axis, index: usize, top: f64) -> Strip {
    let alert = &incident.alerts()[index];
    let line = top + STRIP_HEIGHT - 24.0;
    let runs = runs(scene, index);
    Strip {
        name: Shown::short(&alert.rule, 22),
        severity: Severity(alert.level),
        is_retracted: alert.retracted.is_some(),
        name_y: Px(line + 4.0),
        line_y: Px(line),
        labels: labels(&runs, axis, top),
        gaps: gaps(&runs, axis, line),
    }
}

/// Neighbouring calls of one stage of one alert.
struct Run<'a> {
    part: &'a Part,
    first: Option<Micros>,
    last: Option<Micros>,
    tool: &'a str,
    calls: usize,
}

fn runs(scene: &Scene, alert: usize) -> Vec<Run<'_>> {
    let mut runs: Vec<Run<'_>> = Vec::new();
    for call in &scene.calls {
        let Some(part) = call.parts.iter().find(|part| part.alert == alert) else { continue };
        match runs.last_mut().filter(|run| run.part.stage == part.stage) {
            Some(run) => {
                run.calls += 1;
                run.last = call.at.or(run.last);
            }
            None => {
                runs.push(Run { part, first: call.at, last: call.at, tool: &call.tool, calls: 1 });
            }
        }
    }
    runs
}

/// Names the runs, in the first of two rows where there is room; a name without any room is left to
/// the table.
fn labels(runs: &[Run<'_>], axis: &Axis, top: f64) -> Vec<Label> {
    let mut row_ends = [LEFT - 20.0; 2];
    let mut labels = Vec::new();
    for run in runs {
        let times = if run.calls > 1 { format!(" ×{}", run.calls) } else { String::new() };
        let whole = format!("{}: {}{times}", run.part.name, run.tool);
        let text = Shown::short(&whole, 34);
        let width = text.as_str().chars().count() as f64 * CHAR_WIDTH;
        let x = (axis.x(run.first) - 9.0).min(WIDTH - width - 4.0).max(LEFT - 12.0);
        let Some(row) = row_ends.iter().position(|end| *end <= x) else { continue };
        row_ends[row] = x + width + 10.0;
        let y = Px(top + 14.0 + row as f64 * LABEL_HEIGHT);
        labels.push(Label { x: Px(x), y, text, whole: Shown::short(&whole, 200) });
    }
    labels
}

fn gaps(runs: &[Run<'_>], axis: &Axis, line: f64) -> Vec<Gap> {
    runs.windows(2)
        .filter_map(|pair| {
            let [one, two] = pair else { return None };
            let (end, start) = (one.last?, two.first?);
            let (from, to) = (axis.x(Some(end)), axis.x(Some(start)));
            Some(Gap {
                from: Px(from + 10.0),
                to: Px((to - 10.0).max(from + 10.0)),
                middle: Px(f64::midpoint(from, to)),
                y: Px(line),
                text_y: Px(line + 19.0),
                text: Shown::new(&format!("+{}", brief_duration(start.since(end)))),
            })
        })
        .collect()
}

fn lanes(scene: &Scene, top: f64) -> Vec<Lane> {
    let saw = |witness: &Witness| {
        scene.calls.iter().any(|call| call.seen.iter().any(|seen| seen.witness == *witness))
    };
    Witness::ALL
        .into_iter()
        .filter(saw)
        .enumerate()
        .map(|(row, witness)| {
            let top = top + row as f64 * LANE_HEIGHT;
            Lane { name: witness.as_str(), top: Px(top), name_y: Px(top + 17.0) }
        })
        .collect()
}

fn mark(call: &SceneCall, axis: &Axis, order: &[usize], strips: &[Strip], lanes: &[Lane]) -> Mark {
    let legs: Vec<Leg> = order
        .iter()
        .zip(strips)
        .filter_map(|(alert, strip)| {
            let part = call.parts.iter().find(|part| part.alert == *alert)?;
            Some(leg(part.stage, axis.x(call.at), strip.line_y.0))
        })
        .collect();
    let bars = call
        .seen
        .iter()
        .filter_map(|seen| {
            let lane = lanes.iter().find(|lane| lane.name == seen.witness.as_str())?;
            let from = axis.x(seen.from.or(call.at));
            let width = (axis.x(seen.to.or(seen.from).or(call.at)) - from).max(BAR_WIDTH_MIN);
            let y = Px(lane.top.0 + (LANE_HEIGHT - BAR_HEIGHT) / 2.0);
            Some(Bar { x: Px(from), y, width: Px(width), class: class_word(seen.class) })
        })
        .collect();
    let server = call.server.as_ref().map(|server| format!(" on {server}")).unwrap_or_default();
    let at = call.at.map_or_else(|| "no time".to_owned(), day_time_text);
    // What is written in the picture begins the name, for people who speak to their browser.
    let mut words: Vec<String> = legs.iter().map(|leg| leg.number.to_string()).collect();
    words.push(format!("{}{server}, {at}, {}", call.tool, call.code));
    Mark {
        id: call.id,
        title: Shown::short(&words.join(" "), 200),
        is_context: call.is_context(),
        legs,
        bars,
    }
}

/// Circle, diamond, square, triangle, then hexagons: each stage has its own shape and its number
/// inside.
fn leg(stage: usize, x: f64, y: f64) -> Leg {
    let (corners, turn, size) = match stage {
        0 => (24, 0.0, 9.0),
        1 => (4, 0.0, 11.0),
        2 => (4, 0.125, 11.5),
        3 => (3, 0.75, 12.0),
        _ => (6, 0.0, 10.0),
    };
    let points: Vec<String> = (0..corners)
        .map(|corner| {
            let angle = (f64::from(corner) / f64::from(corners) + turn) * std::f64::consts::TAU;
            format!("{:.1},{:.1}", x + size * angle.cos(), y + size * angle.sin())
        })
        .collect();
    let class = stage_class(stage);
    Leg { x: Px(x), text_y: Px(y + 4.0), number: stage + 1, points: points.join(" "), class }
}

pub(crate) const fn stage_class(stage: usize) -> &'static str {
    match stage {
        0 => "leg-1",
        1 => "leg-2",
        2 => "leg-3",
        3 => "leg-4",
        _ => "leg-5",
    }
}

/// The style class of an outcome.
pub(crate) const fn class_word(class: OutcomeClass) -> &'static str {
    match class {
        OutcomeClass::Ok => "ok",
        OutcomeClass::Denied | OutcomeClass::Declined | OutcomeClass::Limited => "refused",
        OutcomeClass::Error => "error",
        OutcomeClass::Asked | OutcomeClass::Approved | OutcomeClass::Input => "asked",
        OutcomeClass::Unknown => "unknown",
    }
}

/// Times of evidence calls along the axis, where they do not run into each other.
fn ticks(scene: &Scene, axis: &Axis) -> Vec<Tick> {
    let room = 12.0 * CHAR_WIDTH + 12.0;
    let mut end = f64::MIN;
    let mut ticks = Vec::new();
    let legs = scene.calls.iter().filter(|call| !call.is_context());
    for at in legs.filter_map(|call| call.at) {
        let x = axis.x(Some(at)).min(WIDTH - room / 2.0);
        if x - room / 2.0 >= end {
            end = x + room / 2.0;
            ticks.push(Tick { x: Px(x), text: Shown::new(&day_time_text(at)) });
        }
    }
    ticks
}

/// Places instants from left to right.
struct Axis {
    /// In order of time.
    points: Vec<(Micros, f64)>,
    right: f64,
}

impl Axis {
    fn new(times: impl Iterator<Item = Micros>, left: f64, right: f64) -> Self {
        let mut times: Vec<Micros> = times.collect();
        times.sort_unstable();
        times.dedup();
        let weight = |pair: &[Micros]| match pair {
            [one, two] => (1.0 + two.since(*one) as f64 / 1000.0).ln() + 0.2,
            _ => 0.0,
        };
        let total: f64 = times.windows(2).map(weight).sum();
        // A little room before the first and after the last call.
        let (start, room) = (left + 14.0, right - left - 40.0);
        let mut sum = 0.0;
        let mut points = Vec::with_capacity(times.len());
        for (index, at) in times.iter().enumerate() {
            if index > 0 {
                sum += times.get(index - 1..=index).map_or(0.0, weight);
            }
            points.push((*at, start + if total > 0.0 { sum / total * room } else { 0.0 }));
        }
        Self { points, right }
    }

    /// An instant that the axis was made with; a call without a time stands at its end.
    fn x(&self, at: Option<Micros>) -> f64 {
        let Some(at) = at else { return self.right };
        let next = self.points.partition_point(|(point, _)| *point < at);
        self.points.get(next).or(self.points.last()).map_or(self.right, |(_, x)| *x)
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{call, trifecta};
    use super::*;
    use proptest::prelude::*;

    fn draw(around: usize) -> (Timeline, Scene) {
        let (incident, mut calls) = trifecta();
        calls.extend((0..around).map(|n| call(100 + u8::try_from(n).unwrap(), "list_dir", 1_000)));
        let scene = Scene::new(&incident, calls);
        (Timeline::new(&incident, &scene), scene)
    }

    #[test]
    fn the_gaps_between_the_legs_are_exact() {
        let (timeline, _) = draw(0);
        let gaps: Vec<_> = timeline.strips[0].gaps.iter().map(|gap| gap.text.as_str()).collect();
        assert_eq!(gaps, ["+4.1 s", "+5.25 s"]);
    }

    #[test]
    fn the_legs_have_their_own_shapes_and_numbers() {
        let (timeline, _) = draw(0);
        let numbers: Vec<_> =
            timeline.calls.iter().flat_map(|call| &call.legs).map(|leg| leg.number).collect();
        assert_eq!(numbers, [1, 2, 2, 3]);
        let corners: Vec<_> = timeline
            .calls
            .iter()
            .flat_map(|call| &call.legs)
            .map(|leg| leg.points.split(' ').count())
            .collect();
        assert_eq!(corners, [24, 4, 4, 4]);
        assert_ne!(timeline.calls[1].legs[0].class, timeline.calls[3].legs[0].class);
    }

    #[test]
    fn every_call_and_every_witness_is_drawn_wide_enough_to_be_seen() {
        let (timeline, scene) = draw(3);
        assert_eq!(timeline.calls.len(), scene.calls.len());
        for (mark, call) in timeline.calls.iter().zip(&scene.calls) {
            assert_eq!(mark.bars.len(), call.seen.len());
            assert!(mark.bars.iter().all(|bar| bar.width.0 >= BAR_WIDTH_MIN));
        }
    }

    proptest! {
        #[test]
        fn the_axis_keeps_the_order_and_stays_inside(
            times in proptest::collection::vec(any::<i64>(), 1..50),
        ) {
            let axis = Axis::new(times.iter().map(|at| Micros(*at)), LEFT, WIDTH);
            let mut sorted = times.clone();
            sorted.sort_unstable();
            let xs: Vec<f64> = sorted.iter().map(|at| axis.x(Some(Micros(*at)))).collect();
            prop_assert!(xs.windows(2).all(|pair| pair[0] <= pair[1]));
            prop_assert!(xs.iter().all(|x| (LEFT..=WIDTH).contains(x)));
        }
    }
}
