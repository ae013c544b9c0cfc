//! The `conclave` program. [`conclave::cli`] contains its commands.

use std::process::ExitCode;

fn main() -> ExitCode {
    conclave::cli::main()
}
