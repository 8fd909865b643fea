use super::*;
use crate::daemon::evidence::Lines;
use crate::model::{
    Args, CallId, Certainty, Dialect, EventKind, IdHasher, JoinedBy, Level, Micros, OutcomeClass,
    Ran, RecordId, Sighting, Step, Why, Witness, WitnessLine,
};

fn call(offset: u64) -> Call {
    let mut hasher = IdHasher::new("call");
    hasher.number(offset);
    let record = RecordId { generation: 1, offset, index: 0 };
    let at = Some(Micros(i64::try_from(offset).unwrap()));
    let class = OutcomeClass::Ok;
    let step = Step { record, length: 10, at, class, code: "ok".into() };
    let sighting = Sighting {
        witness: Witness::Server,
        dialect: Dialect::Tenant,
        stream: "log".into(),
        class,
        code: "ok".into(),
        joined_by: JoinedBy::Alone,
        certainty: Certainty::Exact,
        attempt: 0,
        candidates: Vec::new(),
        steps: vec![step],
    };
    Call {
        kind: EventKind::Call,
        id: CallId::from_hasher(&hasher),
        at,
        stream: "log".into(),
        position: record,
        ended: at,
        duration_ms: None,
        tool: "read_file".into(),
        server: None,
        principal: None,
        client: None,
        actor: "u-a".into(),
        tenant: None,
        session: "u-a".into(),
        class,
        code: "ok".into(),
        decision: None,
        ran: Ran::Yes,
        args: Args::default(),
        flags: vec![],
        also: vec![],
        request_id: None,
        group_id: None,
        trace_id: None,
        ask_to_answer_ms: None,
        sightings: vec![sighting],
        discrepancies: vec![],
    }
}

fn alert(number: u8, calls: &[Arc<Call>]) -> Alert {
    Alert {
        id: AlertId([number; 16]),
        rule: "a-rule".into(),
        title: String::new(),
        level: Level::High,
        tags: vec![],
        group: vec![],
        actor: "u-a".into(),
        first_seen: None,
        last_seen: None,
        closing: calls[0].id,
        closing_at: None,
        count: 1,
        why: Why { text: String::new(), threshold: 1, value: 1, timespan: None },
        evidence: calls
            .iter()
            .map(|call| Evidence { stage: "it".into(), call: Arc::clone(call) })
            .collect(),
        elided: 0,
    }
}

/// Lines of these calls, all there or all lacking.
fn lines(calls: &[Arc<Call>], are_there: bool) -> Lines {
    let mut lines = Lines::default();
    for call in calls {
        lines.remember(WitnessLine {
            witness: Witness::Server,
            file: "a.jsonl".to_owned(),
            record: call.position,
            length: 10,
            text: are_there.then(|| format!("line {}", call.position.offset)),
        });
    }
    lines
}

/// What one batch writes: the set it adds to, the numbers of the rows added and of those gone, and how many texts.
fn written(
    kept: &mut Kept,
    seq: u64,
    alert: &Alert,
    lines: &Lines,
) -> (Option<u64>, Vec<u32>, Vec<u32>, usize) {
    let mut texts = Vec::new();
    let plan = kept.plan(alert);
    let rows = kept.put(plan, alert, lines, &mut texts, seq);
    kept.end_batch();
    let numbers = |added: Vec<EvidenceRow>| added.into_iter().map(|row| row.number).collect();
    match rows {
        EvidenceRows::Begun(added) => (None, numbers(added), Vec::new(), texts.len()),
        EvidenceRows::Grown { set, added, gone } => (Some(set), numbers(added), gone, texts.len()),
        EvidenceRows::Whole(_) => panic!("rows are wanted"),
    }
}

fn calls(offsets: impl Iterator<Item = u64>) -> Vec<Arc<Call>> {
    offsets.map(|offset| Arc::new(call(offset))).collect()
}

#[test]
fn an_alert_that_grows_writes_what_it_grew_by_and_a_second_one_no_text() {
    let mut kept = Kept::default();
    let calls = calls(1..=9);
    let lines = lines(&calls, true);
    let all = |from: u32| (from..8).collect::<Vec<u32>>();
    assert_eq!(
        written(&mut kept, 1, &alert(1, &calls[1..5]), &lines),
        (None, all(0)[..4].into(), vec![], 4)
    );
    assert_eq!(written(&mut kept, 2, &alert(1, &calls[1..]), &lines), (Some(1), all(4), vec![], 4));
    assert_eq!(written(&mut kept, 3, &alert(1, &calls[1..]), &lines), (Some(1), vec![], vec![], 0));
    // One before all others, and the latest two gone.
    let moved = alert(1, &calls[..7]);
    assert_eq!(written(&mut kept, 4, &moved, &lines), (Some(1), vec![8], vec![6, 7], 1));
    assert_eq!(written(&mut kept, 5, &moved, &lines), (Some(1), vec![], vec![], 0));
    assert_eq!(written(&mut kept, 6, &alert(2, &calls[1..]), &lines), (None, all(0), vec![], 0));
    kept.forget_texts();
    assert_eq!(written(&mut kept, 7, &alert(3, &calls[1..]), &lines), (None, all(0), vec![], 8));
}

#[test]
fn a_call_that_says_anything_else_is_written_again_and_one_that_was_read_again_is_not() {
    type Change = fn(&mut Call);
    let changes: [Change; 15] = [
        |call| call.ended = Some(Micros(99)),
        |call| call.at = None,
        |call| call.stream = "other".into(),
        |call| call.position.offset += 1,
        |call| call.server = Some("s".into()),
        |call| call.tool = "t".into(),
        |call| call.code = "c".into(),
        |call| call.class = OutcomeClass::Denied,
        |call| call.ran = Ran::No,
        |call| call.principal = Some("p".into()),
        |call| call.client = Some("p".into()),
        |call| call.tenant = Some("p".into()),
        |call| call.session = "p".into(),
        |call| call.sightings[0].steps[0].length += 1,
        |call| call.sightings.clear(),
    ];
    let mut kept = Kept::default();
    let first = calls(1..=2);
    let lines = lines(&first, true);
    written(&mut kept, 1, &alert(1, &first), &lines);
    let again = calls(1..=2);
    assert_eq!(written(&mut kept, 2, &alert(1, &again), &lines).1, [0_u32; 0]);
    for (number, change) in (2..).zip(changes) {
        let mut revised = call(2);
        change(&mut revised);
        let revised = [Arc::clone(&first[0]), Arc::new(revised)];
        let (set, added, gone, texts) = written(&mut kept, 3, &alert(1, &revised), &lines);
        assert_eq!((set, added, gone.len(), texts), (Some(1), vec![number], 1, 1));
    }
}

#[test]
fn a_line_that_was_not_there_is_looked_for_again_until_it_is() {
    let mut kept = Kept::default();
    let calls = calls(1..=2);
    let (lacking, there) = (lines(&calls, false), lines(&calls, true));
    let alert = alert(1, &calls);
    assert_eq!(written(&mut kept, 1, &alert, &lacking), (None, vec![0, 1], vec![], 2));
    assert_eq!(kept.plan(&alert).calls(&alert).count(), 2);
    written(&mut kept, 2, &alert, &lacking);
    assert_eq!(written(&mut kept, 3, &alert, &lacking), (Some(2), vec![], vec![], 0));
    assert_eq!(written(&mut kept, 4, &alert, &there), (Some(2), vec![2, 3], vec![0, 1], 2));
    assert_eq!(written(&mut kept, 5, &alert, &there), (Some(2), vec![], vec![], 0));
}

#[test]
fn a_set_most_of_whose_rows_are_gone_is_begun_anew() {
    let mut kept = Kept::default();
    let calls = calls(0..400);
    let lines = lines(&calls, true);
    let mut sets = Vec::new();
    for from in 0..390 {
        let alert = alert(1, &calls[from..from + 10]);
        sets.push(written(&mut kept, from as u64 + 1, &alert, &lines).0);
    }
    let begun = sets.iter().filter(|set| set.is_none()).count();
    assert!((2..=6).contains(&begun), "{begun}");
}

#[test]
fn lines_that_another_alert_has_stored_are_found_though_the_first_to_ask_had_none() {
    let calls = calls(1..=1);
    let mut remembered = lines(&calls, false);
    let stored_with_b = || {
        let one = lines(&calls, true);
        one.of(&calls[0])
    };
    let (a, b) = (AlertId([1; 16]), AlertId([2; 16]));
    assert_eq!(remembered.not_asked(&[a]).collect::<Vec<_>>(), [a]);
    remembered.recall(Vec::new());
    assert!(!remembered.are_whole(&calls[0]));
    // Later, the one that has them: it is asked, and once.
    assert_eq!(remembered.not_asked(&[a, b]).collect::<Vec<_>>(), [b]);
    remembered.recall(stored_with_b());
    assert!(remembered.are_whole(&calls[0]));
    assert_eq!(remembered.not_asked(&[a, b]).count(), 0);
    // In one batch: the text without lines that the first of them has is not taken for the second.
    let mut kept = Kept::default();
    let mut texts = Vec::new();
    let (first, second) = (alert(1, &calls), alert(2, &calls));
    let (lacking, there) = (lines(&calls, false), remembered);
    let plan = kept.plan(&first);
    kept.put(plan, &first, &lacking, &mut texts, 1);
    let plan = kept.plan(&second);
    kept.put(plan, &second, &there, &mut texts, 1);
    assert_eq!(texts.len(), 2);
    assert!(texts[1].contains("line 1") && !texts[0].contains("line 1"), "{texts:?}");
    // And the first one gets them, whoever still remembers the lines.
    let row = written(&mut kept, 2, &first, &lines(&calls, false));
    assert_eq!(row, (Some(1), vec![1], vec![0], 0));
}

/// Of many small sets the sets are what memory holds.
#[test]
fn sets_are_forgotten_by_what_they_take_also_those_without_rows() {
    let mut kept = Kept::default();
    let calls = calls(1..=1);
    let lines = lines(&calls, true);
    for number in 0..3 {
        let mut one = alert(number, &calls);
        one.evidence.truncate(usize::from(number > 0));
        written(&mut kept, 1, &one, &lines);
    }
    assert_eq!(kept.rows, 3 * ROWS_OF_A_SET + 2);
    assert_eq!(kept.sets.len(), 3);
}
