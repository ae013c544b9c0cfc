//! Section `tls`.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::HostName;

conclave_model::settings! {
    /// TLS on the API listener, for the API, signalling, WHIP and the call page. Without it, the listener uses plain HTTP. URLs for clients
    /// contain the certificate's name, unless media.public_url is set.
    pub struct TlsConfig {
        /// PEM file with the certificate chain, the server's own certificate first.
        ///
        /// The server reads it again when it changes.
        pub cert: Option<PathBuf> = None;
        /// PEM file with the private key of tls.cert.
        ///
        /// The server reads it again when it changes.
        pub key: Option<PathBuf> = None;
        /// Host name of this server, such as "meet.example.org", for which it obtains and renews a certificate by ACME, as an alternative
        /// to tls.cert with tls.key. See [TLS](running.md#tls).
        ///
        /// By setting it, you accept the CA's terms of service. The CA must reach this server by the name: at port 443 (http.listen, for
        /// the challenge tls-alpn-01) or at port 80 (redirect_listen, for http-01). Until there is a certificate, TLS handshakes fail.
        pub domain: Option<HostName> = None;
        /// https:// URL of the CA's directory.
        ///
        /// For tests, use "https://acme-staging-v02.api.letsencrypt.org/directory", which has higher limits.
        pub acme_directory: String = "https://acme-v02.api.letsencrypt.org/directory".into();
        /// E-mail address for messages from the CA.
        pub acme_contact: Option<String> = None;
        /// PEM file with the root certificate of a private CA. Default: the built-in root certificates.
        pub acme_root: Option<PathBuf> = None;
        /// Address and port of a plain HTTP listener that redirects to https, such as "0.0.0.0:80".
        pub redirect_listen: Option<SocketAddr> = None;
    }
}

/// Settings for certificates from an ACME server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcmeConfig {
    /// Host name in the certificates.
    pub domain: String,
    /// URL of the ACME server's directory.
    pub directory: String,
    /// E-mail address for messages from the CA.
    pub contact: Option<String>,
    /// File with root certificates for the ACME server, instead of the built-in ones.
    pub root: Option<PathBuf>,
    /// Whether the server has a plain HTTP listener, which the challenge http-01 needs.
    pub has_http: bool,
}

impl TlsConfig {
    /// Returns the files of the certificate and its key, if configured.
    pub fn files(&self) -> Option<(PathBuf, PathBuf)> {
        self.cert.clone().zip(self.key.clone())
    }

    /// Returns the ACME settings, if certificates come from ACME.
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
