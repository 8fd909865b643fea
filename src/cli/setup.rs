//! From a configuration to what the daemon's parts are built from. A bad set-up stops here, with every problem told.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::anyhow;
use rustix::process::{Resource, getrlimit};

use super::failure::Failure;
use crate::catalogue::Catalogue;
use crate::config::Config;
use crate::daemon::{Setup, journal_path, now};
use crate::detect::{RuleSet, merge, shipped};
use crate::model::Micros;
use crate::store::OpenOptions;
pub(super) use crate::store::beside;
use crate::tail::TailConfig;

pub(super) fn pipeline(
    config: &Config,
    roots: Vec<PathBuf>,
    database: &Path,
) -> Result<Setup, Failure> {
    let mut tail = TailConfig::new(roots);
    tail.line_bytes_max = config.tail.line_bytes_max;
    tail.open_files_max = config.tail.open_files_max.min(files_max());
    Ok(Setup {
        store: open_options(config, database),
        tail,
        rules: Arc::new(rules(config)?),
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

/// The shipped rules with the user's laid over them, less those that are switched off.
pub(super) fn rules(config: &Config) -> Result<RuleSet, Failure> {
    let own = own_rules(config.rules.folder.as_deref())?;
    let own: Vec<(&str, &str)> = own.iter().map(|(name, text)| (&**name, &**text)).collect();
    let mut files = merge(&shipped(), &own);
    let is_known = |disabled: &&String| {
        files.iter().any(|(name, _)| name.strip_suffix(".yml") == Some(disabled))
    };
    if let Some(unknown) = config.rules.disabled.iter().find(|disabled| !is_known(disabled)) {
        return Err(Failure::config(anyhow!(
            "rules.disabled names {unknown}, and there is no such rule; `calltrail rules list` names them"
        )));
    }
    files.retain(|(name, _)| {
        !config.rules.disabled.iter().any(|disabled| name.strip_suffix(".yml") == Some(disabled))
    });
    RuleSet::compile(&files).map_err(|problems| {
        let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
        Failure::data(anyhow!("rules cannot be used:\n{}", problems.join("\n")))
    })
}

/// The rule files of a folder as (name, text), by name.
pub(super) fn own_rules(folder: Option<&Path>) -> Result<Vec<(String, String)>, Failure> {
    let Some(folder) = folder else { return Ok(Vec::new()) };
    let fail = |error: std::io::Error| {
        Failure::no_input(anyhow!("the rules folder {}: {error}", folder.display()))
    };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        let is_named =
            path.extension().is_some_and(|extension| extension == "yml" || extension == "yaml");
        // Whatever is no file, such as a pipe, could be waited for without end.
        if is_named && std::fs::metadata(&path).map_err(fail)?.is_file() {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned() + ".yml";
            files.push((name, std::fs::read_to_string(&path).map_err(fail)?));
        }
    }
    files.sort();
    Ok(files)
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
