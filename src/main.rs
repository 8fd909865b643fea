//! The `calltrail` program: everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    calltrail::cli::run(std::env::args_os())
}
