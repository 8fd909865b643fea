//! The first stage: what was typed, key by key, and where. Nothing is judged but its type.
//!
//! A key is named here once; the file, the environment and the suggestions all follow from that.

use super::problem::{Given, Place};
use super::sources::{Field, Sources};
use crate::notify::Secret;

/// Everything that was typed in the file and the environment.
pub(super) struct RawConfig {
    pub(super) logs: Field<Vec<Given<String>>>,
    pub(super) store: RawStore,
    pub(super) web: RawWeb,
    pub(super) mail: RawMail,
    pub(super) tail: RawTail,
    pub(super) rules: RawRules,
    pub(super) catalogue_file: Field<String>,
    pub(super) clocks: Vec<(Given<String>, Given<String>)>,
    pub(super) outcomes: Vec<(Given<String>, Given<String>)>,
}

/// `[store]`
pub(super) struct RawStore {
    pub(super) db: Field<String>,
    pub(super) memory_max: Field<String>,
    pub(super) free_min: Field<String>,
}

/// `[web]`
pub(super) struct RawWeb {
    pub(super) listen: Field<String>,
    pub(super) allow_remote: Field<bool>,
    pub(super) allowed_hosts: Field<Vec<Given<String>>>,
    pub(super) base_url: Field<String>,
}

/// `[mail]`
pub(super) struct RawMail {
    /// Where the section begins; none when nothing is said about mail.
    pub(super) begun: Option<Place>,
    pub(super) from: Field<String>,
    pub(super) to: Field<Vec<Given<String>>>,
    pub(super) level_min: Field<String>,
    pub(super) folder: Field<String>,
    pub(super) smtp: RawSmtp,
}

/// `[mail.smtp]`
pub(super) struct RawSmtp {
    pub(super) begun: Option<Place>,
    pub(super) host: Field<String>,
    pub(super) port: Field<u64>,
    pub(super) security: Field<String>,
    pub(super) username: Field<String>,
    pub(super) password: Field<Secret>,
    pub(super) password_file: Field<String>,
    pub(super) ca_file: Field<String>,
}

/// `[tail]`
pub(super) struct RawTail {
    pub(super) line_bytes_max: Field<String>,
    pub(super) open_files_max: Field<u64>,
    pub(super) scan_secs: Field<u64>,
    pub(super) silent_hours: Field<u64>,
    pub(super) path_patterns: Field<Vec<Given<String>>>,
}

/// `[rules]`
pub(super) struct RawRules {
    pub(super) folder: Field<String>,
    pub(super) disabled: Field<Vec<Given<String>>>,
}

impl RawConfig {
    pub(super) fn read(sources: &mut Sources<'_>) -> Self {
        Self {
            logs: sources.texts("", "logs"),
            store: RawStore {
                db: sources.text("store", "db"),
                memory_max: sources.text("store", "memory_max"),
                free_min: sources.text("store", "free_min"),
            },
            web: RawWeb {
                listen: sources.text("web", "listen"),
                allow_remote: sources.flag("web", "allow_remote"),
                allowed_hosts: sources.texts("web", "allowed_hosts"),
                base_url: sources.text("web", "base_url"),
            },
            mail: RawMail::read(sources),
            tail: RawTail {
                line_bytes_max: sources.text("tail", "line_bytes_max"),
                open_files_max: sources.number("tail", "open_files_max"),
                scan_secs: sources.number("tail", "scan_secs"),
                silent_hours: sources.number("tail", "silent_hours"),
                path_patterns: sources.texts("tail", "path_patterns"),
            },
            rules: RawRules {
                folder: sources.text("rules", "folder"),
                disabled: sources.texts("rules", "disabled"),
            },
            catalogue_file: sources.text("catalogue", "file"),
            clocks: sources.free_texts("clocks"),
            outcomes: sources.free_texts("outcomes"),
        }
    }
}

impl RawMail {
    fn read(sources: &mut Sources<'_>) -> Self {
        let password = sources.secret(
            "mail.smtp",
            "password",
            "a password does not belong in this file: put it alone into a file that only you may \
             read and name that as `password_file`, or set CALLTRAIL__MAIL__SMTP__PASSWORD",
        );
        Self {
            from: sources.text("mail", "from"),
            to: sources.texts("mail", "to"),
            level_min: sources.text("mail", "level_min"),
            folder: sources.text("mail", "folder"),
            smtp: RawSmtp {
                host: sources.text("mail.smtp", "host"),
                port: sources.number("mail.smtp", "port"),
                security: sources.text("mail.smtp", "security"),
                username: sources.text("mail.smtp", "username"),
                password,
                password_file: sources.text("mail.smtp", "password_file"),
                ca_file: sources.text("mail.smtp", "ca_file"),
                // After the keys: their variables begin the section, and a password alone does not.
                begun: sources.begun("mail.smtp"),
            },
            begun: sources.begun("mail"),
        }
    }
}
