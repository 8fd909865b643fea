//! What ends a command early, and the exit code that says so (sysexits).

use std::process::ExitCode;

/// A command that could not do what was asked.
#[derive(Debug)]
pub(super) struct Failure {
    code: u8,
    error: anyhow::Error,
}

impl Failure {
    /// The command line is wrong.
    pub(super) fn usage(error: impl Into<anyhow::Error>) -> Self {
        Self { code: 64, error: error.into() }
    }

    /// A file that was named holds something wrong.
    pub(super) fn data(error: impl Into<anyhow::Error>) -> Self {
        Self { code: 65, error: error.into() }
    }

    /// Something that should be read is not there.
    pub(super) fn no_input(error: impl Into<anyhow::Error>) -> Self {
        Self { code: 66, error: error.into() }
    }

    /// Something could not be made.
    pub(super) fn cannot_create(error: impl Into<anyhow::Error>) -> Self {
        Self { code: 73, error: error.into() }
    }

    /// Another process holds what is needed: try again when it is done.
    pub(super) fn busy(error: impl Into<anyhow::Error>) -> Self {
        Self { code: 75, error: error.into() }
    }

    /// The configuration is wrong.
    pub(super) fn config(error: impl Into<anyhow::Error>) -> Self {
        Self { code: 78, error: error.into() }
    }

    pub(super) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code)
    }

    /// The whole chain on one line.
    pub(super) fn message(&self) -> String {
        format!("{:#}", self.error)
    }

    /// True where whoever read the output went away, as `head` does: no failure of ours.
    pub(super) fn is_broken_pipe(&self) -> bool {
        self.error
            .downcast_ref::<std::io::Error>()
            .is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self { code: 74, error: error.into() }
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        if let Some(store) = error.downcast_ref::<crate::store::StoreError>() {
            return Self { code: code_of(store), error };
        }
        Self { code: 70, error }
    }
}

impl From<crate::store::StoreError> for Failure {
    fn from(error: crate::store::StoreError) -> Self {
        Self { code: code_of(&error), error: error.into() }
    }
}

fn code_of(error: &crate::store::StoreError) -> u8 {
    use crate::store::StoreError;
    match error {
        StoreError::InUse { .. } | StoreError::Reopening | StoreError::TimedOut { .. } => 75,
        StoreError::Open { .. }
        | StoreError::DamagedLog { .. }
        | StoreError::NewerSchema { .. }
        | StoreError::ForeignSchema { .. }
        | StoreError::NotAQuery { .. } => 65,
        StoreError::Missing { .. } => 66,
        StoreError::Folder { .. } | StoreError::Journal { .. } => 73,
        StoreError::Full { .. }
        | StoreError::Memory { .. }
        | StoreError::Room { .. }
        | StoreError::Upgrade { .. } => 74,
        StoreError::Database(_) | StoreError::NotKept { .. } | StoreError::Broken => 70,
    }
}
