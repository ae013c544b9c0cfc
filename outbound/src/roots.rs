//! Trusted root certificates: built-in ones, those in `SSL_CERT_FILE`, and those named in settings.
//! A private authority is added to the public ones and never replaces them.

use std::path::Path;
use std::sync::LazyLock;

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use ureq::tls::{Certificate, RootCerts};

/// Environment variable with a file of additional root certificates, as OpenSSL uses it.
pub const VARIABLE: &str = "SSL_CERT_FILE";

static ENVIRONMENT: LazyLock<Result<Vec<CertificateDer<'static>>, String>> = LazyLock::new(|| {
    // An empty variable means unset, as in OpenSSL.
    let file = std::env::var_os(VARIABLE).filter(|file| !file.is_empty());
    file.map_or_else(|| Ok(Vec::new()), |file| read_usable(Path::new(&file)))
});

/// Returns the certificates in `SSL_CERT_FILE`, which is read once; none if the variable is unset.
/// Unusable certificates are skipped, since system bundles contain some.
///
/// # Errors
/// Returns the problem with the file. Requests are then made without it.
pub fn environment() -> Result<&'static [CertificateDer<'static>], &'static str> {
    ENVIRONMENT.as_deref().map_err(String::as_str)
}

/// Reads root certificates from a PEM file.
///
/// # Errors
/// Fails if the file cannot be read, is not PEM, or has no certificate, or an unusable one.
pub fn read(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let found = read_all(path)?;
    if found.iter().any(|root| !is_usable(root)) {
        return Err(format!(
            "{} has a certificate that cannot be used",
            path.display()
        ));
    }
    Ok(found)
}

fn read_usable(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let usable: Vec<_> = read_all(path)?.into_iter().filter(is_usable).collect();
    if usable.is_empty() {
        Err(format!(
            "{} has no certificate that can be used",
            path.display()
        ))
    } else {
        Ok(usable)
    }
}

fn read_all(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let problem = |problem: String| format!("{} {problem}", path.display());
    let pem = std::fs::read(path).map_err(|error| problem(format!("cannot be read: {error}")))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let found = found.map_err(|_| problem("is not in PEM".to_owned()))?;
    if found.is_empty() {
        Err(problem("has no certificate in PEM".to_owned()))
    } else {
        Ok(found)
    }
}

fn is_usable(root: &CertificateDer<'static>) -> bool {
    // rustls rejects certificates that webpki cannot parse.
    RootCertStore::empty().add(root.clone()).is_ok()
}

/// Root certificates that a client trusts. The default is the built-in ones and those in
/// `SSL_CERT_FILE`.
#[derive(Debug, Clone)]
pub struct TrustedRoots(RootCerts);

impl TrustedRoots {
    /// Trusts these certificates in addition to the default ones.
    #[must_use]
    pub fn with_additional(additional: &[CertificateDer<'static>]) -> Self {
        let additional: Vec<_> = additional
            .iter()
            .chain(environment().unwrap_or_default())
            .collect();
        if additional.is_empty() {
            // The usual case, which copies no certificate.
            return Self(RootCerts::WebPki);
        }
        Self::from_certificates(
            webpki_root_certs::TLS_SERVER_ROOT_CERTS
                .iter()
                .chain(additional),
        )
    }

    /// Trusts only these certificates.
    #[must_use]
    pub fn only(roots: &[CertificateDer<'static>]) -> Self {
        Self::from_certificates(roots.iter())
    }

    fn from_certificates<'a>(roots: impl Iterator<Item = &'a CertificateDer<'static>>) -> Self {
        Self(
            roots
                .map(|root| Certificate::from_der(root).to_owned())
                .into(),
        )
    }
}

impl Default for TrustedRoots {
    fn default() -> Self {
        // A system bundle has hundreds of certificates, and some clients are made for a single
        // call.
        static DEFAULT: LazyLock<TrustedRoots> =
            LazyLock::new(|| TrustedRoots::with_additional(&[]));
        DEFAULT.clone()
    }
}

impl From<TrustedRoots> for RootCerts {
    fn from(roots: TrustedRoots) -> Self {
        roots.0
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    /// Parses a file with this content.
    fn read_text(text: &str) -> Result<usize, String> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        let path = file.path().display().to_string();
        read(file.path())
            .map(|found| found.len())
            .map_err(|problem| problem.replace(&path, "FILE"))
    }

    #[test]
    fn a_file_that_is_no_file_of_root_certificates_is_refused() {
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        for (text, problem) in [
            ("", "FILE has no certificate in PEM"),
            ("a text", "FILE has no certificate in PEM"),
            (
                "-----BEGIN CERTIFICATE-----\n?\n-----END CERTIFICATE-----\n",
                "FILE is not in PEM",
            ),
            (broken, "FILE has a certificate that cannot be used"),
        ] {
            assert_eq!(read_text(text).unwrap_err(), problem, "{text}");
        }
        let own = rcgen::generate_simple_self_signed(vec!["a".to_owned()])
            .unwrap()
            .cert;
        assert_eq!(read_text(&own.pem()), Ok(1));
        assert!(
            read(Path::new("/nonexistent/ca.pem"))
                .unwrap_err()
                .starts_with("/nonexistent/ca.pem cannot be read")
        );
    }

    #[test]
    fn a_private_authority_is_trusted_beside_the_public_ones() {
        let RootCerts::Specific(all) =
            TrustedRoots::with_additional(&[CertificateDer::from(vec![1, 2, 3])]).into()
        else {
            panic!("no certificates of its own");
        };
        assert!(all.iter().any(|root| root.der() == [1, 2, 3]));
        assert!(all.len() > 100, "{}", all.len());
    }
}
