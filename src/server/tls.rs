//! The certificate of the API listener, and the urls of the API.

use std::net::SocketAddr;

use crate::config::TlsConfig;
use crate::error::CliError;
use crate::tls::files::CertificateFiles;
use crate::tls::{Certificates, TlsAcceptor};

/// The port of `https` urls that name none.
const HTTPS_PORT: u16 = 443;

/// TLS of the API listener.
pub(super) struct Tls {
    /// Does the handshake of connections.
    pub acceptor: TlsAcceptor,
    /// The name under which clients reach the server: the first of the certificate. `None` if it is for addresses or for all
    /// names of a domain.
    name: Option<String>,
}

/// The urls of the API for clients.
pub(super) struct PublicUrls {
    /// `http` or `https`.
    pub http: String,
    /// `ws` or `wss`.
    pub websocket: String,
}

impl PublicUrls {
    /// Returns the urls of an API listener at this address.
    pub fn new(api: SocketAddr, tls: Option<&Tls>) -> Self {
        let s = if tls.is_some() { "s" } else { "" };
        let authority = match tls.and_then(|tls| tls.name.as_deref()) {
            Some(name) if api.port() == HTTPS_PORT => name.to_owned(),
            Some(name) => format!("{name}:{}", api.port()),
            None => api.to_string(),
        };
        Self { http: format!("http{s}://{authority}"), websocket: format!("ws{s}://{authority}") }
    }
}

/// Loads the certificate and follows its changes; `None` without TLS.
///
/// # Errors
/// The certificate cannot be used.
pub(super) fn prepare(config: &TlsConfig) -> Result<Option<Tls>, CliError> {
    let Some(files) = config.files().map(CertificateFiles::new) else { return Ok(None) };
    let certificate = files.load().map_err(|error| CliError::failed(error.to_string()))?;
    let is_host = |name: &&String| !name.starts_with('*') && name.parse::<std::net::IpAddr>().is_err();
    let name = certificate.names.iter().find(is_host).cloned();
    let certificates = Certificates::new(certificate);
    files.watch(certificates.clone());
    let acceptor = TlsAcceptor::new(certificates).map_err(|error| CliError::failed(format!("tls: {error}")))?;
    Ok(Some(Tls { acceptor, name }))
}
