use std::fs;
use std::path::Path;
use std::sync::Mutex;

use super::*;
use crate::web::RuleShown;

const RULE: &str =
    "title: Mine\nlogsource: {product: mcp}\ndetection:\n  s: {ran: no}\n  condition: s\n";

fn source(folder: &Path) -> RuleSource {
    RuleSource { folder: Some(folder.to_path_buf()), disabled: Vec::new() }
}

/// Looks, and waits for what is read if something is.
fn look(keeper: &mut Keeper) -> Change {
    keeper.look_now();
    ended(keeper)
}

fn ended(keeper: &mut Keeper) -> Change {
    let Some(mut reading) = keeper.reading.take() else { return Change::None };
    let outcome = reading.wait();
    keeper.conclude(outcome, reading.is_of_change)
}

/// Two looks: a change is taken up when both have seen the same.
fn looked(keeper: &mut Keeper) -> Change {
    assert!(matches!(look(keeper), Change::None));
    look(keeper)
}

fn taken(keeper: &mut Keeper) -> String {
    match looked(keeper) {
        Change::Taken(told) => told.unwrap_or_default(),
        Change::Refused(told) => panic!("refused: {told}"),
        Change::None => panic!("nothing was seen to change"),
    }
}

fn refused(keeper: &mut Keeper) -> String {
    match looked(keeper) {
        Change::Refused(told) => told,
        Change::Taken(_) | Change::None => panic!("nothing was refused"),
    }
}

#[test]
fn changes_that_are_made_while_the_daemon_starts_are_taken_up() {
    let home = tempfile::tempdir().unwrap();
    let (rules, others) = (home.path().join("rules"), home.path().join("others"));
    fs::create_dir(&rules).unwrap();
    fs::create_dir(&others).unwrap();
    let config = home.path().join("config.toml");
    fs::write(&config, "").unwrap();
    let mut keeper = Keeper::start(source(&rules)).unwrap();
    // A rule that comes between the reading and the first look, and another folder that is named then.
    fs::write(rules.join("mine.yml"), RULE).unwrap();
    fs::write(others.join("other.yml"), RULE).unwrap();
    let named = Arc::new(Mutex::new(rules));
    let says = Arc::clone(&named);
    keeper.follow(config.clone(), Arc::new(move || Ok(source(&says.lock().unwrap()))));
    assert!(taken(&mut keeper).contains("(added: mine)"));
    assert!(matches!(look(&mut keeper), Change::None));

    let mut keeper = Keeper::start(source(&named.lock().unwrap())).unwrap();
    *named.lock().unwrap() = others;
    let says = Arc::clone(&named);
    keeper.follow(config, Arc::new(move || Ok(source(&says.lock().unwrap()))));
    assert!(taken(&mut keeper).contains("(added: other; removed: mine)"));
    assert!(matches!(look(&mut keeper), Change::None));
}

/// Looks until something comes of it.
fn looks(keeper: &mut Keeper) -> u32 {
    (1..=1000).find(|_| !matches!(look(keeper), Change::None)).unwrap_or_default()
}

#[test]
fn what_cannot_be_read_is_tried_less_and_less_often_until_something_changes() {
    let home = tempfile::tempdir().unwrap();
    let mut keeper = Keeper::start(source(home.path())).unwrap();
    std::os::unix::fs::symlink(home.path().join("none"), home.path().join("a.yml")).unwrap();
    assert!(refused(&mut keeper).contains("cannot be read"));
    let waits: Vec<u32> = (0..8).map(|_| looks(&mut keeper)).collect();
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
    fs::write(home.path().join("b.yml"), RULE).unwrap();
    assert!(refused(&mut keeper).contains("cannot be read"));
    assert_eq!([looks(&mut keeper), looks(&mut keeper)], [1, 2]);
    fs::remove_file(home.path().join("a.yml")).unwrap();
    assert!(taken(&mut keeper).contains("(added: b)"));
    assert_eq!(looks(&mut keeper), 0);
}

#[test]
fn a_configuration_that_cannot_be_read_for_a_while_is_read_again() {
    let home = tempfile::tempdir().unwrap();
    let config = home.path().join("config.toml");
    fs::write(&config, "").unwrap();
    let folder = home.path().join("rules");
    fs::create_dir(&folder).unwrap();
    let mut keeper = Keeper::start(source(&folder)).unwrap();
    let left = Mutex::new(2_u32);
    let reread = move || {
        let mut left = left.lock().unwrap();
        *left = left.saturating_sub(1);
        if *left > 0 { Err("too many open files".to_owned()) } else { Ok(source(&folder)) }
    };
    keeper.follow(config, Arc::new(reread));
    assert!(refused(&mut keeper).contains("too many open files"));
    assert!(matches!(look(&mut keeper), Change::Taken(_)));
    assert!(keeper.shown().borrow().refused.is_none());
    assert_eq!(looks(&mut keeper), 0);
}

#[test]
fn files_that_are_repaired_are_told_though_the_rules_are_the_same() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("a.yml");
    fs::write(&file, RULE).unwrap();
    let mut keeper = Keeper::start(source(home.path())).unwrap();
    fs::write(&file, "title: [\n").unwrap();
    let told = refused(&mut keeper);
    let mut lines = told.lines();
    assert!(lines.next().is_some_and(|line| line.contains("are refused")), "{told}");
    assert!(lines.next().is_some_and(|line| line.starts_with("a.yml:")), "{told}");
    assert!(keeper.shown().borrow().refused.is_some());
    fs::write(&file, RULE).unwrap();
    assert!(taken(&mut keeper).starts_with("The rule files are in order again, and the 19 rules"));
    assert!(keeper.shown().borrow().refused.is_none());
}

#[test]
fn what_is_taken_over_is_told_by_name() {
    let home = tempfile::tempdir().unwrap();
    let file = |name: &str| home.path().join(name);
    fs::write(file("a.yml"), RULE).unwrap();
    let mut keeper = Keeper::start(source(home.path())).unwrap();
    fs::write(file("a.yml"), RULE.replace("ran: no", "ran: yes")).unwrap();
    fs::write(file("b.yml"), RULE).unwrap();
    fs::write(file("overrides.toml"), "[call-burst]\ndisabled = true\n").unwrap();
    assert_eq!(
        taken(&mut keeper),
        "Changed rules were taken over, and 19 are in force from the next batch on (added: b; changed: a; \
         switched off: call-burst)."
    );
    fs::remove_file(file("overrides.toml")).unwrap();
    fs::remove_file(file("a.yml")).unwrap();
    let told = taken(&mut keeper);
    assert!(
        told.contains("19 are in force")
            && told.ends_with("(removed: a; switched on: call-burst)."),
        "{told}"
    );
}

#[test]
fn what_overrides_make_doubtful_is_told_and_in_force() {
    let home = tempfile::tempdir().unwrap();
    let mut keeper = Keeper::start(source(home.path())).unwrap();
    let overrides = "[rubber-stamp.numbers]\n\"ask_to_answer_ms|lt\" = 0\n";
    fs::write(home.path().join("overrides.toml"), overrides).unwrap();
    let told = taken(&mut keeper);
    let doubt = "overrides.toml:2:1: with this, `rubber-stamp` is in doubt: no call can fit";
    let mut lines = told.lines();
    assert!(lines.next().is_some_and(|line| line.ends_with("(changed: rubber-stamp).")), "{told}");
    assert!(lines.next().is_some_and(|line| line.starts_with(doubt)), "{told}");
    assert_eq!(lines.next(), None);
    let doubts = |keeper: &Keeper| -> Vec<(String, String)> {
        let shown = keeper.shown().borrow().clone();
        let of = |rule: &RuleShown| (rule.name.clone(), rule.doubts.concat());
        let all = shown.rules.iter().map(of);
        all.filter(|(_, doubts)| !doubts.is_empty()).collect()
    };
    let shown = doubts(&keeper);
    assert!(
        matches!(&*shown, [(rule, told)] if rule == "rubber-stamp" && told.starts_with(doubt)),
        "{shown:?}"
    );
    assert!(keeper.shown().borrow().refused.is_none());
    fs::write(home.path().join("overrides.toml"), overrides.replace("= 0", "= 1")).unwrap();
    assert_eq!(taken(&mut keeper).lines().count(), 1);
    assert_eq!(doubts(&keeper), []);
}

#[test]
fn remarks_and_moved_lines_change_no_rule_and_repeat_no_doubt() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("overrides.toml");
    let doubtful = "[rubber-stamp.numbers]\n\"ask_to_answer_ms|lt\" = 0\n";
    fs::write(&file, doubtful).unwrap();
    let mut keeper = Keeper::start(source(home.path())).unwrap();
    let in_force = Arc::clone(&keeper.book().rules);
    keeper.tell_costs(vec![RuleCost::default(); in_force.rules().len()]);
    let place = |keeper: &Keeper| -> Vec<String> {
        let shown = keeper.shown().borrow().clone();
        let doubts = shown.rules.iter().flat_map(|rule| rule.doubts.clone());
        doubts.map(|doubt| doubt.split(": ").next().unwrap().to_owned()).collect()
    };
    assert_eq!(place(&keeper), ["overrides.toml:2:1"]);
    fs::write(&file, format!("# A remark.\n{doubtful}")).unwrap();
    assert!(matches!(looked(&mut keeper), Change::Taken(None)));
    assert!(Arc::ptr_eq(&in_force, &keeper.book().rules));
    assert_eq!(place(&keeper), ["overrides.toml:3:1"]);
    assert_eq!(keeper.shown().borrow().loads.len(), in_force.rules().len());
    // With another rule that is changed, what was told before is not told again.
    fs::write(&file, format!("{doubtful}[call-burst]\nlevel = \"low\"\n")).unwrap();
    let told = taken(&mut keeper);
    assert!(told.ends_with("(changed: call-burst).") && !told.contains('\n'), "{told}");
    assert!(!Arc::ptr_eq(&in_force, &keeper.book().rules));
}

#[test]
fn exceptions_that_read_alike_are_told_apart() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("overrides.toml");
    let of = |principals| format!("[[call-burst.except]]\nprincipal = {principals}\n");
    fs::write(&file, of("\"a or b\"")).unwrap();
    let mut keeper = Keeper::start(source(home.path())).unwrap();
    fs::write(&file, of("[\"a\", \"b\"]")).unwrap();
    assert!(taken(&mut keeper).ends_with("(changed: call-burst)."));
}

/// A keeper whose configuration is read again when `go` says so, and tells `begun` before.
fn held(home: &Path) -> (Keeper, std::sync::mpsc::Receiver<()>, std::sync::mpsc::Sender<()>) {
    let config = home.join("config.toml");
    fs::write(&config, "").unwrap();
    let folder = home.join("rules");
    fs::create_dir(&folder).unwrap();
    let mut keeper = Keeper::start(source(&folder)).unwrap();
    let (tell, begun) = std::sync::mpsc::channel();
    let (go, wait) = std::sync::mpsc::channel();
    let wait = Mutex::new(wait);
    let reread = move || {
        tell.send(()).unwrap();
        wait.lock().unwrap().recv().unwrap();
        Ok(source(&folder))
    };
    keeper.follow(config, Arc::new(reread));
    (keeper, begun, go)
}

/// Makes a rule, and looks until it is being read.
fn begin_to_read(keeper: &mut Keeper, begun: &std::sync::mpsc::Receiver<()>, rule: &Path) {
    fs::write(rule, RULE).unwrap();
    keeper.look_now();
    keeper.look_now();
    begun.recv().unwrap();
}

#[test]
fn while_changed_rules_are_read_those_before_are_in_force_and_nobody_waits() {
    let home = tempfile::tempdir().unwrap();
    let (mut keeper, begun, go) = held(home.path());
    let awake = Arc::new(Notify::new());
    keeper.wake(Arc::clone(&awake));
    begin_to_read(&mut keeper, &begun, &home.path().join("rules/a.yml"));
    for _ in 0..3 {
        keeper.look_now();
        assert!(matches!(keeper.ended(), Change::None));
        assert!(keeper.book().rule("a").is_none());
    }
    go.send(()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(awake.notified());
    assert!(matches!(keeper.ended(), Change::Taken(Some(told)) if told.contains("(added: a)")));
    assert!(keeper.book().rule("a").is_some());
    assert!(begun.try_recv().is_err(), "it is read once");
}

#[test]
fn what_is_changed_while_it_is_read_is_read_again_and_what_was_read_is_of_no_use() {
    let home = tempfile::tempdir().unwrap();
    let (mut keeper, begun, go) = held(home.path());
    let file = |name: &str| home.path().join("rules").join(name);
    begin_to_read(&mut keeper, &begun, &file("a.yml"));
    // Two files that belong together, and what is under way may see one of them, or both, or none.
    fs::write(file("a.yml"), RULE.replace("ran: no", "ran: yes")).unwrap();
    fs::write(file("b.yml"), RULE).unwrap();
    keeper.look_now();
    keeper.look_now();
    assert!(begun.try_recv().is_err(), "one is read at a time");
    go.send(()).unwrap();
    assert!(matches!(ended(&mut keeper), Change::None));
    assert!(keeper.book().rule("a").is_none());
    go.send(()).unwrap();
    assert!(
        matches!(look(&mut keeper), Change::Taken(Some(told)) if told.contains("(added: a, b)"))
    );
    assert!(matches!(look(&mut keeper), Change::None));
}

#[test]
fn what_looks_as_before_once_it_was_read_in_vain_is_read_again() {
    let home = tempfile::tempdir().unwrap();
    let (mut keeper, begun, go) = held(home.path());
    let file = |name: &str| home.path().join("rules").join(name);
    begin_to_read(&mut keeper, &begun, &file("a.yml"));
    fs::write(file("b.yml"), RULE).unwrap();
    go.send(()).unwrap();
    assert!(matches!(ended(&mut keeper), Change::None));
    fs::remove_file(file("b.yml")).unwrap();
    go.send(()).unwrap();
    assert!(matches!(look(&mut keeper), Change::Taken(Some(told)) if told.contains("(added: a)")));
}

#[test]
fn a_reading_that_breaks_off_is_told_and_tried_again_and_the_rules_before_stay() {
    let home = tempfile::tempdir().unwrap();
    let (mut keeper, _begun, go) = held(home.path());
    drop(go);
    let told = refused(&mut keeper);
    assert!(told.contains("broke off") && told.contains("stay in force"), "{told}");
    assert_eq!(looks(&mut keeper), 1);
    assert_eq!(keeper.book().rules.rules().len(), 18);
}
