//! Root certificates of private authorities, from the files that settings name.

use std::path::Path;

use conclave_outbound::{TrustedRoots, roots};
use rustls::pki_types::CertificateDer;

use crate::config::Config;
use crate::error::CliError;

/// Returns the trusted roots for webhook receivers: the built-in ones and `webhooks.root_certs`.
///
/// # Errors
/// If the file cannot be used.
pub(crate) fn for_webhooks(config: &Config) -> Result<TrustedRoots, CliError> {
    let found = read("webhooks.root_certs", config.webhooks.root_certs.as_deref())?;
    Ok(TrustedRoots::with_additional(&found))
}

/// Returns the trusted roots for object storage: the built-in ones and `egress.root_certs`.
///
/// # Errors
/// If the file cannot be used.
pub(crate) fn for_storage(config: &Config) -> Result<TrustedRoots, CliError> {
    let found = read("egress.root_certs", config.egress.root_certs.as_deref())?;
    Ok(TrustedRoots::with_additional(&found))
}

/// Returns the certificates in a setting's file; none if it names no file.
///
/// # Errors
/// If the file cannot be used.
pub(super) fn read(
    setting: &str,
    file: Option<&Path>,
) -> Result<Vec<CertificateDer<'static>>, CliError> {
    let found = file.map(roots::read).transpose();
    found
        .map(Option::unwrap_or_default)
        .map_err(|problem| CliError::failed(format!("{setting}: {problem}")))
}

/// Logs a warning if the file in `SSL_CERT_FILE` cannot be used.
pub(super) fn warn_of_environment() {
    if let Err(problem) = roots::environment() {
        log::warn!("{} is ignored: {problem}", roots::VARIABLE);
    }
}
