//! Decisions of people when the daemon dies under them.

use std::fs;

use calltrail::daemon::control::{Ask, Tell};
use calltrail::model::{AlertId, AlertState};
use calltrail::store::AlertFilter;

use super::run::{Run, Seen};
use super::step::Step;
use crate::support::{beside, socket};

fn acknowledge(run: &Run, id: AlertId) -> Result<Tell, String> {
    let note = "looking".to_owned();
    let ask = Ask::Decide {
        id,
        who: "nadia".to_owned(),
        state: AlertState::Acknowledged,
        close_reason: None,
        note,
    };
    socket::tell(&run.database(), &ask)
}

fn alert(run: &Run) -> (AlertId, AlertState) {
    let told = socket::tell(&run.database(), &Ask::Alerts { filter: AlertFilter::default() });
    let Ok(Tell::Alerts { alerts }) = told else { panic!("{told:?}") };
    (alerts[0].id, alerts[0].state)
}

#[test]
fn a_decision_that_was_answered_outlives_a_death_and_one_that_was_not_can_be_made_again() {
    let mut run = Run::of_news(&Seen::make());
    let fault = Step::Fault { point: "after_journal", action: "kill", passing: 1 };
    for step in [Step::WriteAttack { log: 3 }, Step::Settle, fault] {
        run.take(step).unwrap();
    }
    let (id, _) = alert(&run);
    acknowledge(&run, id).unwrap_err();
    run.settle().unwrap();
    let journal = fs::read_to_string(beside(&run.database(), ".journal.jsonl"));
    assert!(
        journal.is_ok_and(|journal| journal.contains("looking")),
        "first in the journal, then in the database"
    );

    assert!(matches!(acknowledge(&run, id), Ok(Tell::Done)));
    run.kill();
    run.settle().unwrap();
    assert_eq!(alert(&run), (id, AlertState::Acknowledged));
    run.finish().unwrap();
}
