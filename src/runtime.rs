//! The program's async runtime.

use crate::error::CliError;

/// Runs a future to completion in an actix system on a new multi-threaded tokio runtime, which the store and the actors need.
///
/// # Errors
/// The future's own error, or an error if the runtime cannot be started.
pub fn run_in_system<T>(future: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| CliError::failed(format!("the runtime cannot be started: {error}")))?;
    actix::System::with_tokio_rt(|| runtime).block_on(future)
}
