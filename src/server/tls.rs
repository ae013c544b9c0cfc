//! Certificate of the API listener, and the API's URLs.

use std::net::SocketAddr;
use std::path::Path;

use conclave_model::Clock;

use crate::config::{AcmeConfig, ConfigError, TlsConfig};
use crate::error::CliError;
use crate::tls::acme::{Renewal, Storage};
use crate::tls::challenge::Challenges;
use crate::tls::files::CertificateFiles;
use crate::tls::{Certificates, TlsAcceptor, TlsStatus};

/// Default port for `https`.
const HTTPS_PORT: u16 = 443;

/// TLS of the API listener.
pub(super) struct Tls {
    /// Acceptor for connections.
    pub acceptor: TlsAcceptor,
    /// Responses to challenges, and the certificate's state for `/readyz` and the console.
    pub status: TlsStatus,
    /// Host name by which clients reach the server: the configured one, or the certificate's first. `None` if the certificate has only IP
    /// addresses and wildcards.
    name: Option<String>,
    /// Renewal, until it is started: the listeners have to serve the CA first.
    renewal: Option<Renewal>,
}

/// API URLs for clients.
pub(super) struct PublicUrls {
    /// `http` or `https`.
    pub http: String,
    /// `ws` or `wss`.
    pub websocket: String,
}

impl PublicUrls {
    /// Returns the URLs for an API listener at this address.
    pub fn new(api: SocketAddr, tls: Option<&Tls>) -> Self {
        // For both schemes.
        let s = if tls.is_some() { "s" } else { "" };
        let authority = match tls.and_then(|tls| tls.name.as_deref()) {
            // Browsers omit the default port in origins, so the URL does, too.
            Some(name) if api.port() == HTTPS_PORT => name.to_owned(),
            Some(name) => format!("{name}:{}", api.port()),
            None => api.to_string(),
        };
        Self {
            http: format!("http{s}://{authority}"),
            websocket: format!("ws{s}://{authority}"),
        }
    }
}

impl Tls {
    /// Starts to obtain certificates, unless they are in files.
    pub fn start_renewal(&mut self) {
        if let Some(renewal) = self.renewal.take() {
            renewal.spawn();
        }
    }
}

/// Loads the certificate, and follows its changes if it is in files; `None` without TLS.
///
/// # Errors
/// If the certificate's files or the file of `tls.acme_root` cannot be used.
pub(super) fn prepare(
    config: &TlsConfig,
    data: &Path,
    clock: &Clock,
) -> Result<Option<Tls>, CliError> {
    let prepared = match (config.acme(), config.files()) {
        (Some(acme), _) => Some(from_acme(acme, data, clock)),
        (None, Some((cert, key))) => Some(from_files(CertificateFiles::new(cert, key))),
        (None, None) => None,
    };
    let tls = prepared
        .transpose()
        .map_err(|error| CliError::failed(error.to_string()))?;
    tls.map(|parts| {
        parts
            .accept()
            .map_err(|error| CliError::failed(format!("tls: {error}")))
    })
    .transpose()
}

/// Source of certificates.
struct TlsParts {
    certificates: Certificates,
    challenges: Challenges,
    name: Option<String>,
    renewal: Option<Renewal>,
}

fn from_files(files: CertificateFiles) -> Result<TlsParts, ConfigError> {
    let certificate = files.load()?;
    // A wildcard is no host name, and clients should not connect by IP address if the certificate has a name.
    let is_host =
        |name: &&String| !name.starts_with('*') && name.parse::<std::net::IpAddr>().is_err();
    let name = certificate.names.iter().find(is_host).cloned();
    let certificates = Certificates::new(Some(certificate));
    // From the start on, since a renewal may come at any time.
    files.watch(certificates.clone());
    Ok(TlsParts {
        certificates,
        // Without ACME, no challenge is ever set.
        challenges: Challenges::default(),
        name,
        renewal: None,
    })
}

fn from_acme(config: AcmeConfig, data: &Path, clock: &Clock) -> Result<TlsParts, ConfigError> {
    let (storage, challenges, name) = (
        Storage::new(data, &config),
        Challenges::default(),
        Some(config.domain.clone()),
    );
    let (renewal, certificates) = Renewal::new(config, storage, clock.clone(), challenges.clone())?;
    Ok(TlsParts {
        certificates,
        challenges,
        name,
        renewal: Some(renewal),
    })
}

impl TlsParts {
    fn accept(self) -> Result<Tls, rustls::Error> {
        let Self {
            certificates,
            challenges,
            name,
            renewal,
        } = self;
        let acceptor = TlsAcceptor::new(certificates.clone(), challenges.clone())?;
        let status = TlsStatus::new(
            certificates,
            challenges,
            renewal.as_ref().map(Renewal::status),
        );
        Ok(Tls {
            acceptor,
            status,
            name,
            renewal,
        })
    }
}
