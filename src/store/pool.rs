//! The readers' connections: lent and given back, and all closed when the database must be opened again.
//!
//! Two engines on one file would corrupt it, so a connection of an earlier opening never comes back into use, and the
//! pool knows of each one that is still out.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use duckdb::{Connection, InterruptHandle};

use super::StoreError;

/// Idle connections kept for the next reads.
const IDLE_MAX: usize = 8;

pub(super) struct Pool {
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Counts the openings of the database.
    epoch: u64,
    /// The first is never lent, only cloned: the pool can always grow. Empty while the database is being opened again.
    idle: Vec<Connection>,
    /// How to interrupt each connection that is out.
    lent: HashMap<u64, Arc<InterruptHandle>>,
    next_ticket: u64,
    /// The epoch in which the engine gave up, if it did.
    broken: Option<u64>,
}

impl Pool {
    pub(super) fn new(template: Connection, path: PathBuf) -> Self {
        let state = State { idle: vec![template], ..State::default() };
        Self { path, state: Mutex::new(state) }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn lend(&self) -> Result<Lent<'_>, StoreError> {
        let mut state = self.lock();
        let connection = match &mut *state.idle {
            [] => return Err(StoreError::Reopening),
            [template] => template.try_clone()?,
            _ => state.idle.pop().ok_or(StoreError::Reopening)?,
        };
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        state.lent.insert(ticket, connection.interrupt_handle());
        Ok(Lent {
            pool: self,
            connection: Some(connection),
            ticket,
            epoch: state.epoch,
            is_sound: false,
        })
    }

    /// Closes the idle connections and interrupts those in use; true once none is left.
    pub(super) fn let_go(&self) -> bool {
        let mut state = self.lock();
        state.epoch += 1;
        state.idle.clear();
        for handle in state.lent.values() {
            handle.interrupt();
        }
        state.lent.is_empty()
    }

    /// True once a read found that the engine has given up: nothing but opening the file again helps.
    pub(super) fn is_broken(&self) -> bool {
        let state = self.lock();
        state.broken == Some(state.epoch)
    }

    /// Takes over another pool's idle connections.
    pub(super) fn adopt(&self, other: &Self) {
        let fresh = std::mem::take(&mut other.lock().idle);
        let mut state = self.lock();
        state.epoch += 1;
        state.idle = fresh;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that is out; it comes back when this is dropped, even by a panic.
pub(super) struct Lent<'a> {
    pool: &'a Pool,
    /// None only once it is dropped.
    connection: Option<Connection>,
    ticket: u64,
    epoch: u64,
    /// A read went well: the connection may be used again.
    is_sound: bool,
}

impl Lent<'_> {
    pub(super) fn read<T>(
        mut self,
        read: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let Some(connection) = &self.connection else { return Err(StoreError::Reopening) };
        let answer = read(connection);
        self.is_sound = answer.is_ok();
        if let Err(StoreError::Database(error)) = &answer
            && error.to_string().contains("database has been invalidated")
        {
            self.pool.lock().broken = Some(self.epoch);
        }
        answer
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let mut state = self.pool.lock();
        let is_wanted = self.is_sound && self.epoch == state.epoch && state.idle.len() < IDLE_MAX;
        match self.connection.take() {
            Some(connection) if is_wanted => state.idle.push(connection),
            // Closed before its ticket goes: who sees no tickets may open the file again.
            connection => drop(connection),
        }
        state.lent.remove(&self.ticket);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn pool(path: &Path) -> Pool {
        Pool::new(Connection::open(path).unwrap(), path.to_path_buf())
    }

    fn one(connection: &Connection) -> Result<i64, StoreError> {
        Ok(connection.query_row("select 1", [], |row| row.get(0))?)
    }

    #[test]
    fn a_connection_in_use_is_interrupted_and_keeps_the_pool_from_being_let_go() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.duckdb");
        let pool = &pool(&path);
        let (started, is_started) = mpsc::channel();
        let (go_on, may_go_on) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            let reading = scope.spawn(move || {
                pool.lend().unwrap().read(|connection| {
                    started.send(()).unwrap();
                    may_go_on.recv().unwrap();
                    // Far longer than any test may take.
                    let sql = "select count(*) from range(1000000000) a, range(1000000000) b";
                    Ok(connection.query_row(sql, [], |row| row.get::<_, i64>(0))?)
                })
            });
            is_started.recv().unwrap();
            assert!(!pool.let_go(), "a read is under way");
            assert!(matches!(pool.lend().map(drop), Err(StoreError::Reopening)));
            go_on.send(()).unwrap();
            while !pool.let_go() {
                std::thread::yield_now();
            }
            assert!(matches!(reading.join().unwrap(), Err(StoreError::Database(_))));
        });
        // The old engine is gone: its lock on the file is too, and another may take it.
        let fresh = Pool::new(Connection::open(&path).unwrap(), path);
        pool.adopt(&fresh);
        assert_eq!(pool.lend().unwrap().read(one).unwrap(), 1);
    }

    #[test]
    fn a_connection_of_an_earlier_opening_never_comes_back_into_the_pool() {
        let folder = tempfile::tempdir().unwrap();
        let pool = pool(&folder.path().join("a.duckdb"));
        let old = pool.lend().unwrap();
        pool.let_go();
        let other = folder.path().join("b.duckdb");
        let fresh = Connection::open(&other).unwrap();
        pool.adopt(&Pool::new(fresh, other));
        assert_eq!(old.read(one).unwrap(), 1);
        let state = pool.lock();
        assert_eq!((state.idle.len(), state.lent.len()), (1, 0));
    }

    #[test]
    fn a_connection_whose_read_panicked_is_not_out_for_ever() {
        let folder = tempfile::tempdir().unwrap();
        let pool = pool(&folder.path().join("a.duckdb"));
        let read = || pool.lend().unwrap().read::<()>(|_| panic!("a broken reader"));
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(read)).unwrap_err();
        assert!(pool.let_go());
    }
}
