//! The lines of one journey's log: a lethal trifecta between calls of other people.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::Daemon;

const LINES: &str = include_str!("../samples/trifecta/logs/tickets/audit.jsonl");
const FILE: &str = "tickets/audit.jsonl";

/// In place of the shipped rule of that name, so that the attack is one alert.
const SILENT: &str = "title: Nothing
logsource: {product: mcp}
detection: {never: {ran: [yes], outcome: asked, code: never}, condition: never}
";

/// A daemon that makes one alert of the attack.
pub(super) fn watch(home: &Path, logs: &Path) -> Daemon {
    let rules = home.join("rules");
    fs::create_dir(&rules).unwrap();
    fs::write(rules.join("trifecta-session.yml"), SILENT).unwrap();
    Daemon::start_with(home, logs, &["--rules", rules.to_str().unwrap()])
}

/// Tools of the calls that the alert rests on.
pub(super) const TOOLS: [&str; 4] =
    ["fetch_url", "search_tickets", "search_tickets", "post_comment"];
/// Time from the last call of a leg to the first of the next.
pub(super) const GAPS: [&str; 2] = ["+2.9 s", "+2.5 s"];

/// Writes the lines into their file below the folder.
pub(super) fn write(logs: &Path) -> PathBuf {
    let file = logs.join(FILE);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, LINES).unwrap();
    file
}

/// Fails unless the text is the file's line at the offset. The page lays JSON out, so white space does not count.
pub(super) fn assert_is_line(text: &str, file: &Path, offset: &str) {
    let offset: usize = offset.replace(',', "").parse().unwrap();
    let bytes = fs::read(file).unwrap();
    let rest = std::str::from_utf8(&bytes[offset..]).unwrap();
    let line = rest.lines().next().unwrap();
    let dense = |text: &str| text.split_whitespace().collect::<String>();
    assert!(line.contains(TOOLS[0]));
    assert_eq!(dense(text), dense(line));
}
