//! The `conclave` command. All it does stands in [`conclave::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    conclave::cli::main()
}
