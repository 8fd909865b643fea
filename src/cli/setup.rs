//! From a configuration to what the daemon's parts are built from. A bad set-up stops here, with every problem told.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::anyhow;
use rustix::process::{Resource, getrlimit};

use super::failure::Failure;
use crate::catalogue::Catalogue;
use crate::config::Config;
use crate::daemon::{Rehearsal, RuleSource, Rulebook, RulesError, Setup, journal_path, now};
use crate::detect::RuleSet;
use crate::model::Micros;
use crate::store::OpenOptions;
pub(super) use crate::store::beside;
use crate::tail::TailConfig;

pub(super) fn pipeline(
    config: &Config,
    roots: Vec<PathBuf>,
    database: &Path,
    rules: &Arc<RuleSet>,
) -> Result<Setup, Failure> {
    let mut tail = TailConfig::new(roots);
    tail.line_bytes_max = config.tail.line_bytes_max;
    tail.open_files_max = config.tail.open_files_max.min(files_max());
    Ok(Setup {
        store: open_options(config, database),
        tail,
        rules: Arc::clone(rules),
        catalogue: Arc::new(catalogue(config)?),
        clocks: config.clocks.clone(),
        outcome_words: config.outcomes.clone(),
        path_patterns: config.tail.path_patterns.clone(),
        is_single_pass: false,
        journal: Some(journal_path(database)),
        silence_micros: silence_micros(config.tail.silent_hours),
        mail: config.mail.clone().map(Arc::new),
        free_bytes_min: config.store.free_min,
    })
}

/// Log files that may be held open: half of what this process may open at all. The database's temporary files, browsers
/// and folders have the rest.
fn files_max() -> usize {
    let limit = getrlimit(Resource::Nofile).current;
    limit.map_or(usize::MAX, |limit| usize::try_from(limit / 2).unwrap_or(usize::MAX))
}

/// None: silence is never told of.
fn silence_micros(hours: u64) -> Option<i64> {
    let micros = i64::try_from(hours).unwrap_or(i64::MAX).saturating_mul(Micros::HOUR);
    (micros > 0).then_some(micros)
}

pub(super) fn open_options(config: &Config, database: &Path) -> OpenOptions {
    OpenOptions {
        path: database.to_path_buf(),
        create: true,
        memory_max: config.store.memory_max.clone(),
        now: now(),
    }
}

/// Every folder that is missing is told at once.
pub(super) fn check_roots(roots: &[PathBuf]) -> Result<(), Failure> {
    let missing: Vec<String> = roots
        .iter()
        .filter(|root| !root.exists())
        .map(|root| crate::untrusted::display_untrusted(&root.to_string_lossy()))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Failure::no_input(anyhow!(
        "there is no {}; name folders that exist (those inside them may come later)",
        missing.join(" and no ")
    )))
}

/// The rules in force, and where each comes from.
pub(super) fn rulebook(config: &Config) -> Result<Rulebook, Failure> {
    rule_source(config).load().map_err(refused)
}

/// Where the rules come from.
pub(super) fn rule_source(config: &Config) -> RuleSource {
    RuleSource { folder: config.rules.folder.clone(), disabled: config.rules.disabled.clone() }
}

/// Rules that cannot be used.
pub(super) fn refused(error: RulesError) -> Failure {
    match &error {
        RulesError::Folder { .. } => Failure::no_input(error),
        RulesError::Unknown { .. } | RulesError::Configuration(_) => Failure::config(error),
        RulesError::Problems { .. } | RulesError::BrokeOff => Failure::data(error),
    }
}

/// What makes calls of the raw lines in rule files, as a daemon with this configuration would.
pub(super) fn rehearsal(config: &Config) -> Result<Rehearsal, Failure> {
    Ok(Rehearsal {
        outcome_words: config.outcomes.clone(),
        path_patterns: config.tail.path_patterns.clone(),
        clocks: config.clocks.clone(),
        catalogue: catalogue(config)?,
    })
}

pub(super) fn catalogue(config: &Config) -> Result<Catalogue, Failure> {
    let Some(path) = &config.catalogue else { return Ok(Catalogue::shipped()) };
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::no_input(anyhow!("the catalogue {}: {error}", path.display())))?;
    Catalogue::with_operator(&text, &path.to_string_lossy()).map_err(|problems| {
        let problems: Vec<String> = problems
            .iter()
            .map(|problem| format!("{}:{}: {}", problem.file, problem.line, problem.message))
            .collect();
        Failure::config(anyhow!("the catalogue cannot be used:\n{}", problems.join("\n")))
    })
}
