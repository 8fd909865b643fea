//! The process's environment, collected once and handed on as a value.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// What every variable of the configuration begins with.
pub(super) const PREFIX: &str = "CALLTRAIL__";

/// The environment variables that the configuration reads. Has no `Debug` form, because one of them
/// may be a password.
pub struct Environment(BTreeMap<OsString, OsString>);

impl Environment {
    /// Collects the variables of this process. Nothing else in the configuration asks the system.
    pub fn of_process() -> Self {
        std::env::vars_os().collect()
    }

    /// A variable's value; an empty one counts as not set.
    pub(super) fn get(&self, name: &str) -> Option<&OsStr> {
        self.0.get(OsStr::new(name)).map(OsString::as_os_str).filter(|value| !value.is_empty())
    }

    /// A variable that must hold an absolute path: others are to be ignored, says the XDG standard.
    pub(super) fn folder(&self, name: &str) -> Option<PathBuf> {
        self.get(name).map(PathBuf::from).filter(|path| path.is_absolute())
    }

    /// The names that begin with [`PREFIX`] and are not empty.
    pub(super) fn names(&self) -> impl Iterator<Item = String> {
        let is_set = |(_, value): &(_, &OsString)| !value.is_empty();
        let names = self.0.iter().filter(is_set).map(|(name, _)| name.to_string_lossy());
        names.filter(|name| name.starts_with(PREFIX)).map(String::from)
    }
}

impl FromIterator<(OsString, OsString)> for Environment {
    fn from_iter<T: IntoIterator<Item = (OsString, OsString)>>(variables: T) -> Self {
        Self(variables.into_iter().collect())
    }
}

/// The variable that stands for a key: `CALLTRAIL__MAIL__SMTP__PORT` for `port` in `[mail.smtp]`.
pub(super) fn variable(section: &str, key: &str) -> String {
    let mut parts: Vec<&str> = section.split('.').filter(|part| !part.is_empty()).collect();
    parts.push(key);
    format!("{PREFIX}{}", parts.join("__").to_ascii_uppercase())
}
