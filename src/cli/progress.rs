//! Progress bars, on stderr and only on a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::daemon::Progress;

/// A bar that shows nothing where stderr is no terminal.
pub(super) fn bar(quiet: bool) -> ProgressBar {
    let target =
        if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr_with_hz(8) };
    let bar = ProgressBar::with_draw_target(Some(0), target);
    let template = "{bar:30} {bytes}/{total_bytes}  {bytes_per_sec}  {eta} left  {msg}";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}

pub(super) fn update(bar: &ProgressBar, progress: Progress) {
    bar.set_length(progress.total.max(progress.done));
    bar.set_position(progress.done);
    bar.set_message(format!("{} records, {} rejects", progress.records, progress.rejects));
}
