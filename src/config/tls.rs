//! Settings of TLS on the API listener.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::text;

/// Section `tls`: TLS on the API listener. Plain HTTP if nothing is set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TlsConfig {
    /// File of the certificate and of those of its issuers, in PEM, the server's own first. Read again when it changes.
    #[serde(with = "text::optional")]
    pub cert: Option<PathBuf>,
    /// File of the private key, in PEM. Read again when it changes.
    #[serde(with = "text::optional")]
    pub key: Option<PathBuf>,
    /// Address and port of a plain HTTP listener that redirects to the API listener. Default: none.
    #[serde(with = "text::optional")]
    pub redirect_listen: Option<SocketAddr>,
}

impl TlsConfig {
    /// Returns the files of the certificate and of its key, if TLS is on.
    #[must_use]
    pub fn files(&self) -> Option<(PathBuf, PathBuf)> {
        self.cert.clone().zip(self.key.clone())
    }
}
