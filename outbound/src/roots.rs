//! The root certificates that the certificates of other servers are verified by: the built-in ones, those of `SSL_CERT_FILE`, and those
//! that a setting names. A private authority is added, never put in the place of the public ones.

use std::path::Path;
use std::sync::LazyLock;

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use ureq::tls::{Certificate, RootCerts};

/// Name of the variable with the file of further root certificates, as OpenSSL and other clients know it.
pub const VARIABLE: &str = "SSL_CERT_FILE";

static ENVIRONMENT: LazyLock<Result<Vec<CertificateDer<'static>>, String>> = LazyLock::new(|| {
    let file = std::env::var_os(VARIABLE).filter(|file| !file.is_empty());
    file.map_or_else(|| Ok(Vec::new()), |file| read_usable(Path::new(&file)))
});

/// Returns the certificates in the file of `SSL_CERT_FILE`, which is read once; none if the variable is unset. A certificate that
/// cannot be used is left out: bundles of systems have some.
///
/// # Errors
/// What is wrong with the file. Requests are made without it then.
pub fn environment() -> Result<&'static [CertificateDer<'static>], &'static str> {
    ENVIRONMENT.as_deref().map_err(String::as_str)
}

/// Returns the root certificates in a file, in PEM.
///
/// # Errors
/// The file cannot be read, is not in PEM, or has no certificate, or one that cannot be used.
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
    RootCertStore::empty().add(root.clone()).is_ok()
}

/// What a client verifies the certificates of servers by. By default the built-in root certificates and those of `SSL_CERT_FILE`.
#[derive(Debug, Clone)]
pub struct TrustedRoots(RootCerts);

impl TrustedRoots {
    /// Trusts these beside the default ones.
    #[must_use]
    pub fn with(further: &[CertificateDer<'static>]) -> Self {
        let further: Vec<_> = further
            .iter()
            .chain(environment().unwrap_or_default())
            .collect();
        if further.is_empty() {
            return Self(RootCerts::WebPki);
        }
        Self::of(
            webpki_root_certs::TLS_SERVER_ROOT_CERTS
                .iter()
                .chain(further),
        )
    }

    /// Trusts these alone.
    #[must_use]
    pub fn only(roots: &[CertificateDer<'static>]) -> Self {
        Self::of(roots.iter())
    }

    fn of<'a>(roots: impl Iterator<Item = &'a CertificateDer<'static>>) -> Self {
        Self(
            roots
                .map(|root| Certificate::from_der(root).to_owned())
                .into(),
        )
    }
}

impl Default for TrustedRoots {
    fn default() -> Self {
        // A bundle of a system has hundreds, and some clients are made for one call.
        static DEFAULT: LazyLock<TrustedRoots> = LazyLock::new(|| TrustedRoots::with(&[]));
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

    /// Reads a file with this content.
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
            TrustedRoots::with(&[CertificateDer::from(vec![1, 2, 3])]).into()
        else {
            panic!("no certificates of its own");
        };
        assert!(all.iter().any(|root| root.der() == [1, 2, 3]));
        assert!(all.len() > 100, "{}", all.len());
    }
}
