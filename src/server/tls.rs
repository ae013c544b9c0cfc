//! The certificate of the API listener, and the urls of the API.

use std::net::SocketAddr;
use std::path::Path;

use conclave_model::Clock;

use crate::config::{AcmeConfig, ConfigError, TlsConfig};
use crate::error::CliError;
use crate::tls::acme::{Renewal, Storage};
use crate::tls::challenge::Challenges;
use crate::tls::files::CertificateFiles;
use crate::tls::{Certificates, TlsAcceptor, TlsStatus};

/// The port of `https` urls that name none.
const HTTPS_PORT: u16 = 443;

/// TLS of the API listener.
pub(super) struct Tls {
    /// Does the handshake of connections.
    pub acceptor: TlsAcceptor,
    /// What requests are answered with.
    pub status: TlsStatus,
    /// The name under which clients reach the server: the configured one, or the first of the certificate. `None` if that is for
    /// addresses or for all names of a domain.
    name: Option<String>,
    /// Obtains certificates, once the listeners can answer the CA.
    renewal: Option<Renewal>,
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
        Self {
            http: format!("http{s}://{authority}"),
            websocket: format!("ws{s}://{authority}"),
        }
    }
}

impl Tls {
    /// Begins to obtain certificates, if they are not in files.
    pub fn start_renewal(&mut self) {
        if let Some(renewal) = self.renewal.take() {
            renewal.spawn();
        }
    }
}

/// Loads the certificate, and follows its changes if it is in files; `None` without TLS.
///
/// # Errors
/// The certificate in files or the file of `tls.acme_root` cannot be used.
pub(super) fn prepare(
    config: &TlsConfig,
    data: &Path,
    clock: &Clock,
) -> Result<Option<Tls>, CliError> {
    let prepared = match (config.acme(), config.files()) {
        (Some(acme), _) => Some(obtained(acme, data, clock)),
        (None, Some((cert, key))) => Some(in_files(CertificateFiles::new(cert, key))),
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

/// Where certificates come from.
struct Parts {
    certificates: Certificates,
    challenges: Challenges,
    name: Option<String>,
    renewal: Option<Renewal>,
}

fn in_files(files: CertificateFiles) -> Result<Parts, ConfigError> {
    let certificate = files.load()?;
    let is_host =
        |name: &&String| !name.starts_with('*') && name.parse::<std::net::IpAddr>().is_err();
    let name = certificate.names.iter().find(is_host).cloned();
    let certificates = Certificates::new(Some(certificate));
    files.watch(certificates.clone());
    Ok(Parts {
        certificates,
        challenges: Challenges::default(),
        name,
        renewal: None,
    })
}

fn obtained(config: AcmeConfig, data: &Path, clock: &Clock) -> Result<Parts, ConfigError> {
    let (storage, challenges, name) = (
        Storage::new(data, &config),
        Challenges::default(),
        Some(config.domain.clone()),
    );
    let (renewal, certificates) = Renewal::new(config, storage, clock.clone(), challenges.clone())?;
    Ok(Parts {
        certificates,
        challenges,
        name,
        renewal: Some(renewal),
    })
}

impl Parts {
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
