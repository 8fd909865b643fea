//! `calltrail simulate`: realistic logs in every dialect, with the truth beside them.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use indicatif::{ProgressBar, ProgressDrawTarget};
use serde_json::json;

use super::Common;
use super::failure::Failure;
use super::output::Format;
use super::words::count;
use crate::model::Micros;
use crate::simulate::{Noise, Scenario, write_logs};

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// The folder to write to: OUT/logs for the logs, OUT/truth for what they tell of
    out: PathBuf,
    /// The same seed gives the same bytes
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Tool calls to make
    #[arg(long, default_value_t = 10_000)]
    calls: u64,
    /// One attack for so many calls; 0 for none
    #[arg(long, default_value_t = 500)]
    attack_every: u64,
    /// When the story begins
    #[arg(long, default_value = "2026-01-05T07:00:00Z", value_parser = parse_time)]
    start: Micros,
    /// Stacks to add: a client, a proxy or gate and a server that all log the same calls, each in its own way
    #[arg(long, default_value_t = 0)]
    stacks: u32,
    /// Percent of the records that never reach their log
    #[arg(long, default_value_t = 0, value_name = "PERCENT", value_parser = percent())]
    lost: u32,
    /// Percent of the stacks' calls that belong to a run of identical ones, at once or one after the other
    #[arg(long, default_value_t = 0, value_name = "PERCENT", value_parser = percent())]
    identical: u32,
    /// Percent of the stacks' failed calls that are made again
    #[arg(long, default_value_t = 0, value_name = "PERCENT", value_parser = percent())]
    retried: u32,
    /// Percent of the records that come late, up to an hour, because their log stands still for a while
    #[arg(long, default_value_t = 0, value_name = "PERCENT", value_parser = percent())]
    late: u32,
    /// How far the clock of each server, proxy and gate may be off, in milliseconds
    #[arg(long, default_value_t = 0)]
    skew_ms: u32,
    /// How far such a clock may go wrong in a day, in milliseconds
    #[arg(long, default_value_t = 0)]
    drift_ms_a_day: u32,
    /// Percent of such clocks that are set once, by up to ten seconds
    #[arg(long, default_value_t = 0, value_name = "PERCENT", value_parser = percent())]
    stepped: u32,
    /// How long a line may be held back, in milliseconds
    #[arg(long, default_value_t = 20_000)]
    lateness_ms: u32,
    /// How far a server's clock may be from its client's, in milliseconds
    #[arg(long, default_value_t = 900)]
    clock_offset_ms: u32,
    /// Rotate each log at so many bytes; 0 never
    #[arg(long, default_value_t = 64 << 20)]
    rotate_bytes: u64,
}

pub(super) fn run(args: &Args, common: &Common, out: &mut impl Write) -> Result<ExitCode, Failure> {
    let mut scenario = Scenario::new(args.seed, args.start, args.calls);
    scenario.attack_every = args.attack_every;
    scenario.lateness_ms_max = args.lateness_ms;
    scenario.clock_offset_ms_max = args.clock_offset_ms;
    scenario.stacks = args.stacks;
    scenario.noise = Noise {
        lost_percent: args.lost,
        identical_percent: args.identical,
        retried_percent: args.retried,
        late_percent: args.late,
        skew_ms_max: args.skew_ms,
        drift_ms_a_day_max: args.drift_ms_a_day,
        stepped_percent: args.stepped,
        off_ms_max: 0,
    };
    let target =
        if common.quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
    let bar = ProgressBar::with_draw_target(None, target);
    let rotate = (args.rotate_bytes > 0).then_some(args.rotate_bytes);
    let summary = write_logs(&args.out, &scenario, rotate, &mut |lines| bar.set_position(lines))
        .map_err(Failure::cannot_create)?;
    bar.finish_and_clear();
    match common.output {
        Format::Json => writeln!(out, "{}", json!(summary))?,
        Format::Human => writeln!(
            out,
            "{} of {} under {}; {} among them, told in {}.",
            count(summary.lines, "line"),
            count(summary.calls, "call"),
            args.out.join("logs").display(),
            count(summary.attacks, "attack"),
            args.out.join("truth").display(),
        )?,
    }
    Ok(ExitCode::SUCCESS)
}

fn percent() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(0..=90)
}

fn parse_time(text: &str) -> Result<Micros, String> {
    Micros::parse_rfc3339(text).ok_or_else(|| "a time such as 2026-01-05T07:00:00Z".to_owned())
}
