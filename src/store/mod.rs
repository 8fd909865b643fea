//! DuckDB: migrations, the one write transaction a batch, typed reads. Only this module knows SQL.

mod desk;
mod reader;

pub use desk::{Decision, Delivery, DeliveryOutcome, Desk, DeskError};
pub use reader::{AlertFilter, CallFilter, Reader};

/// What can go wrong with the database.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("the database refused: {0}")]
    Database(#[from] duckdb::Error),
}
