//! Torn, zeroed and flipped write-ahead logs: what opens holds whole batches, and nothing is ever deleted.

use std::path::{Path, PathBuf};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::super::{Batch, Cause, Gap, OpenOptions, Position, Store, StoreError, beside};
use super::{batch, call, options};
use crate::model::{Micros, OutcomeClass};

/// Batches in the log, beyond those of the last checkpoint.
const BATCHES: u64 = 24;
const CHECKPOINTED: u64 = 4;

/// A batch that can be told whole: as many gaps as its number says, and its position.
fn numbered(number: u64) -> Batch {
    let gap = |offset| Gap { generation: number, offset, length: 1, why: "blank" };
    let position = Position {
        generation: 1,
        stream: "log".to_owned(),
        path: "/logs/log".to_owned(),
        dev: 1,
        inode: 1,
        state: "live".to_owned(),
        size: 1000,
        offset: number,
        head_len: 0,
        head_hash: vec![0; 16],
        tail_len: 0,
        tail_hash: vec![0; 16],
        last_at: None,
        heard_at: None,
        history_until: 0,
        records: number,
        rejects: 0,
    };
    let call = call(&format!("call {number}"), number, OutcomeClass::Ok);
    Batch {
        gaps: (0..number).map(gap).collect(),
        positions: vec![position],
        ..batch(None, Some(&call))
    }
}

/// A database and its log as kill -9 leaves them.
struct Crashed {
    database: Vec<u8>,
    log: Vec<u8>,
}

impl Crashed {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(&options(folder.path())).unwrap();
        for number in 1..=CHECKPOINTED {
            store.commit(&numbered(number)).unwrap();
        }
        store.checkpoint().unwrap();
        for number in CHECKPOINTED + 1..=CHECKPOINTED + BATCHES {
            store.commit(&numbered(number)).unwrap();
        }
        let path = store.path();
        let read = |path: &Path| std::fs::read(path).unwrap();
        Self { database: read(path), log: read(&beside(path, ".wal")) }
    }

    /// Lays it out with another log; returns how to open it.
    fn lay_out(&self, folder: &Path, log: &[u8]) -> OpenOptions {
        let options =
            OpenOptions { create: false, now: Micros(1_700_000_000_000_000), ..options(folder) };
        std::fs::create_dir_all(options.path.parent().unwrap()).unwrap();
        std::fs::write(&options.path, &self.database).unwrap();
        std::fs::write(beside(&options.path, ".wal"), log).unwrap();
        options
    }
}

/// The number of the last batch that is there. All before it are whole, and of none after it there is anything.
fn assert_whole(store: &Store) -> u64 {
    let one = |sql: &str| store.connection.query_row(sql, [], |row| row.get::<_, u64>(0)).unwrap();
    let last = one("select coalesce(max(seq), 0) from position_log");
    assert_eq!(one("select count(*) from position_log"), last);
    assert_eq!(one("select count(*) from call_log"), last);
    assert_eq!(one("select count(*) from gap_log"), last * (last + 1) / 2);
    assert_eq!(one("select count(*) from (select generation from gap_log group by all)"), last);
    let offset = store.positions().unwrap().first().map_or(0, |position| position.offset);
    assert_eq!((offset, store.seq()), (last, last));
    last
}

fn set_aside(options: &OpenOptions) -> Vec<PathBuf> {
    let files = std::fs::read_dir(options.path.parent().unwrap()).unwrap();
    let paths = files.map(|file| file.unwrap().path());
    paths.filter(|path| path.to_string_lossy().contains(".damaged-")).collect()
}

/// Opens the database with each of these logs, as it is and mended; returns how many logs opened as they were and how
/// many were set aside.
fn open_all(crashed: &Crashed, logs: impl Iterator<Item = Vec<u8>>) -> (usize, usize) {
    let (mut opened, mut aside) = (0, 0);
    for log in logs {
        let folder = tempfile::tempdir().unwrap();
        let options = crashed.lay_out(folder.path(), &log);
        let plain = Store::open(&options).map(|store| assert_whole(&store));
        // Opening writes to the files, even where it fails at the end.
        let options = crashed.lay_out(folder.path(), &log);
        let (store, moved) = Store::open_or_mend(&options).unwrap();
        let last = assert_whole(&store);
        match (plain, moved) {
            (Ok(_), None) => {
                opened += 1;
                assert_eq!(set_aside(&options), Vec::<PathBuf>::new());
            }
            (Err(StoreError::DamagedLog { .. }), Some(moved)) => {
                aside += 1;
                assert_eq!(last, CHECKPOINTED);
                assert_eq!(std::fs::read(&moved).unwrap(), log);
                assert_eq!(set_aside(&options), [moved]);
            }
            (plain, moved) => panic!("{plain:?} and {moved:?}"),
        }
    }
    (opened, aside)
}

#[test]
fn a_torn_log_opens_by_itself_and_holds_whole_batches() {
    let crashed = Crashed::new();
    let length = crashed.log.len();
    let ends = (0..length).step_by(length / 8).chain([10, length - 3, length]);
    let (opened, aside) = open_all(&crashed, ends.map(|end| crashed.log[..end].to_vec()));
    assert_eq!(aside, 0);
    assert!(opened > 8);
    let folder = tempfile::tempdir().unwrap();
    let whole = Store::open(&crashed.lay_out(folder.path(), &crashed.log)).unwrap();
    assert_eq!(assert_whole(&whole), CHECKPOINTED + BATCHES);
}

#[test]
fn a_log_with_a_zeroed_tail_or_a_flipped_bit_is_set_aside_and_kept() {
    let crashed = Crashed::new();
    let length = crashed.log.len();
    let zeroed = (1..6).map(|part| {
        let mut log = crashed.log.clone();
        log[length * part / 6..].fill(0);
        log
    });
    assert_eq!(open_all(&crashed, zeroed), (0, 5));
    let mut dice = ChaCha8Rng::seed_from_u64(7);
    let flipped = (0..16).map(|_| {
        let mut log = crashed.log.clone();
        let at = usize::try_from(dice.next_u64() % length as u64).unwrap();
        log[at] ^= 1 << (dice.next_u32() % 8);
        log
    });
    // A flipped length can look like a torn end, which is whole batches too.
    let (opened, aside) = open_all(&crashed, flipped);
    assert!(aside >= 12, "{opened} opened, {aside} set aside");
}

/// The crashed database with a log that DuckDB refuses.
fn damaged(folder: &Path) -> OpenOptions {
    let crashed = Crashed::new();
    let mut log = crashed.log.clone();
    let middle = log.len() / 2;
    log[middle..].fill(0);
    crashed.lay_out(folder, &log)
}

#[test]
fn those_who_only_read_move_nothing_and_say_who_does() {
    let folder = tempfile::tempdir().unwrap();
    let options = damaged(folder.path());
    let error = Store::open(&options).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("scan --db"), "{error}");
    assert_eq!(set_aside(&options), Vec::<PathBuf>::new());
    assert!(beside(&options.path, ".wal").exists());
}

#[test]
fn a_second_damaged_log_does_not_replace_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let options = damaged(folder.path());
    let (_, first) = Store::open_or_mend(&options).unwrap();
    let options = damaged(folder.path());
    let (_, second) = Store::open_or_mend(&options).unwrap();
    assert_ne!(first, second);
    assert_eq!(set_aside(&options).len(), 2);
}

#[test]
fn a_damaged_database_keeps_its_log() {
    let folder = tempfile::tempdir().unwrap();
    let options = damaged(folder.path());
    // Both headers and what they lead to.
    let mut database = std::fs::read(&options.path).unwrap();
    database[4096..].fill(7);
    std::fs::write(&options.path, &database).unwrap();
    let log = std::fs::read(beside(&options.path, ".wal")).unwrap();
    Store::open_or_mend(&options).map(|_| ()).unwrap_err();
    assert_eq!(std::fs::read(beside(&options.path, ".wal")).unwrap(), log);
    assert_eq!(set_aside(&options), Vec::<PathBuf>::new());
}

#[test]
fn the_log_of_a_database_that_another_process_holds_stays_where_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let options = damaged(folder.path());
    // Locks are between processes, so another one takes it; it says so, and ends when its input does.
    let script = "import fcntl,sys; f=open(sys.argv[1],'r+b'); fcntl.lockf(f, fcntl.LOCK_EX); \
                  print('held', flush=True); sys.stdin.read()";
    let Ok(mut holder) = std::process::Command::new("python3")
        .args(["-c", script])
        .arg(&options.path)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
    else {
        return;
    };
    let mut held = String::new();
    let mut output = std::io::BufReader::new(holder.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut output, &mut held).unwrap();
    let opened = Store::open_or_mend(&options).map(|_| ());
    let moved = super::super::mend::set_aside_now(&options);
    drop(holder.stdin.take());
    holder.wait().unwrap();
    assert!(matches!(opened, Err(StoreError::InUse { .. })), "{opened:?}");
    assert!(!moved);
    assert!(beside(&options.path, ".wal").exists());
}

#[test]
fn too_little_memory_to_open_a_sound_database_is_told_as_that_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&options(folder.path())).unwrap();
    // So few at a time that they go into the log, and not past it into the file.
    let fill =
        "insert into gap_log select i, hash(i), hash(i + 1), 'blank' from range(50000) t(i);";
    store.connection.execute_batch(&fill.repeat(20)).unwrap();
    let crashed = tempfile::tempdir().unwrap();
    let options = OpenOptions { create: false, ..options(crashed.path()) };
    std::fs::create_dir_all(options.path.parent().unwrap()).unwrap();
    for suffix in ["", ".wal"] {
        std::fs::copy(beside(store.path(), suffix), beside(&options.path, suffix)).unwrap();
    }
    let log = std::fs::read(beside(&options.path, ".wal")).unwrap();
    // It runs out at different places, and DuckDB has other words for each.
    for memory_max in ["1MB", "2MB", "4MB", "6MB"] {
        let little = OpenOptions { memory_max: memory_max.to_owned(), ..options.clone() };
        let opened = [
            Store::open(&little).map(drop),
            Store::open_or_mend(&little).map(drop),
            Store::salvage(&little).map(drop),
        ];
        for error in opened.map(Result::unwrap_err) {
            assert!(matches!(error, StoreError::Memory { .. }), "{error}");
            let told = error.to_string();
            assert!(told.contains("memory_max") && !told.contains("damaged"), "{told}");
            assert_eq!(error.cause(), Cause::Memory);
        }
    }
    assert!(std::fs::read(beside(&options.path, ".wal")).unwrap() == log);
    let store = Store::open(&options).unwrap();
    let rows: u64 =
        store.connection.query_row("select count(*) from gap_log", [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 1_000_000);
}
