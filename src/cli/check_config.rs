//! `calltrail check-config`: every problem at once, or what is in force.

use std::io::Write;
use std::process::ExitCode;

use super::failure::Failure;
use super::{Common, setup};
use crate::config;

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Print an annotated example instead
    #[arg(long)]
    example: bool,
}

pub(super) fn run(args: &Args, common: &Common, out: &mut impl Write) -> Result<ExitCode, Failure> {
    if args.example {
        out.write_all(config::EXAMPLE.as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    let config = super::load(&common.overrides())?;
    // What the configuration names has to be good as well.
    setup::rulebook(&config)?;
    setup::catalogue(&config)?;
    let mut err = std::io::stderr().lock();
    match &config.file {
        Some(file) => writeln!(err, "calltrail: read from {}", file.display())?,
        None => writeln!(err, "calltrail: no configuration file: defaults, environment and flags")?,
    }
    out.write_all(config.to_masked_toml().as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
