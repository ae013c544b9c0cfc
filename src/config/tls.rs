//! Section `tls`.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::HostName;

conclave_model::settings! {
    /// TLS on the API listener, for the API, signalling, WHIP and the call page. Without it, the listener speaks plain HTTP. URLs for
    /// clients contain the certificate's name, unless media.public_url is set.
    pub struct TlsConfig {
        /// PEM file with the certificate chain, the server's own certificate first.
        ///
        /// The server reads it again when it changes.
        pub cert: Option<PathBuf> = None;
        /// PEM file with the private key of tls.cert.
        ///
        /// The server reads it again when it changes.
        pub key: Option<PathBuf> = None;
        /// Name of this server, such as "meet.example.org", for which it obtains and renews a certificate by ACME; the alternative is
        /// tls.cert with tls.key. See [TLS](running.md#tls).
        ///
        /// By setting it, you accept the CA's terms of service. The CA must reach this server under the name: at port 443 (http.listen,
        /// for the challenge tls-alpn-01) or at port 80 (redirect_listen, for http-01). Until there is a certificate, TLS handshakes
        /// fail.
        pub domain: Option<HostName> = None;
        /// URL of the CA's directory: https://.
        ///
        /// For tests, use "https://acme-staging-v02.api.letsencrypt.org/directory", which has higher limits.
        pub acme_directory: String = "https://acme-v02.api.letsencrypt.org/directory".into();
        /// E-mail address that the CA may write to.
        pub acme_contact: Option<String> = None;
        /// PEM file with the root certificate of a private CA. Default: the built-in root certificates.
        pub acme_root: Option<PathBuf> = None;
        /// Address and port of a plain HTTP listener that redirects to https, such as "0.0.0.0:80".
        pub redirect_listen: Option<SocketAddr> = None;
    }
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
