//! Settings of TLS on the API listener.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::HostName;
use super::text;

/// The directory of Let's Encrypt.
const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";

/// Section `tls`: TLS on the API listener. Plain HTTP if nothing is set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TlsConfig {
    /// File of the certificate and of those of its issuers, in PEM, the server's own first. Read again when it changes.
    #[serde(with = "text::optional")]
    pub cert: Option<PathBuf>,
    /// File of the private key, in PEM. Read again when it changes.
    #[serde(with = "text::optional")]
    pub key: Option<PathBuf>,
    /// The name that certificates are obtained for by ACME, instead of `cert` and `key`.
    #[serde(with = "text::optional")]
    pub domain: Option<HostName>,
    /// URL of the directory of the ACME server. Default: Let's Encrypt.
    #[serde(with = "text::required")]
    pub acme_directory: String,
    /// E-mail address that the CA may write to. Default: none.
    #[serde(with = "text::optional")]
    pub acme_contact: Option<String>,
    /// File of the root certificates, in PEM, that the ACME server is trusted by. Default: the built-in ones.
    #[serde(with = "text::optional")]
    pub acme_root: Option<PathBuf>,
    /// Address and port of a plain HTTP listener that redirects to the API listener. Default: none.
    #[serde(with = "text::optional")]
    pub redirect_listen: Option<SocketAddr>,
}

/// How certificates are obtained by ACME.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcmeConfig {
    /// The name that certificates are for.
    pub domain: String,
    /// URL of the directory of the ACME server.
    pub directory: String,
    /// E-mail address that the CA may write to.
    pub contact: Option<String>,
    /// File of the root certificates that the ACME server is trusted by, instead of the built-in ones.
    pub root: Option<PathBuf>,
    /// Whether the server answers over plain HTTP, so that it can use the challenge http-01.
    pub has_http: bool,
}

impl Default for TlsConfig {
    fn default() -> Self {
        Self {
            cert: None,
            key: None,
            domain: None,
            acme_directory: LETS_ENCRYPT.to_owned(),
            acme_contact: None,
            acme_root: None,
            redirect_listen: None,
        }
    }
}

impl TlsConfig {
    /// Returns the files of the certificate and of its key, if the certificate is in files.
    pub fn files(&self) -> Option<(PathBuf, PathBuf)> {
        self.cert.clone().zip(self.key.clone())
    }

    /// Returns how certificates are obtained by ACME, if they are.
    pub fn acme(&self) -> Option<AcmeConfig> {
        Some(AcmeConfig {
            domain: self.domain.as_ref()?.domain()?.to_owned(),
            directory: self.acme_directory.clone(),
            contact: self.acme_contact.clone(),
            root: self.acme_root.clone(),
            has_http: self.redirect_listen.is_some(),
        })
    }
}
