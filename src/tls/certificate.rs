//! Certificates, and the current one for new connections.

use std::sync::Arc;

use conclave_model::Timestamp;
use parking_lot::RwLock;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use x509_cert::der::Decode;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

/// Certificate with its private key.
#[derive(Debug, Clone)]
pub struct Certificate {
    pub(super) key: Arc<CertifiedKey>,
    /// End of the validity.
    pub not_after: Timestamp,
    /// Start of the validity.
    pub not_before: Timestamp,
    /// Host names and IP addresses.
    pub names: Vec<String>,
}

/// A certificate and a key cannot be used. No message contains any of their content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CertificateError {
    /// The first file has no certificate.
    #[error("no certificate in PEM")]
    NoCertificate,
    /// The certificate cannot be parsed.
    #[error("the certificate cannot be parsed")]
    Malformed,
    /// The second file has no private key.
    #[error("no private key in PEM")]
    NoKey,
    /// The key's algorithm is not supported.
    #[error("the private key is not RSA, ECDSA (P-256, P-384, P-521) or Ed25519")]
    UnsupportedKey,
    /// The key does not belong to the certificate.
    #[error("the private key does not belong to the certificate")]
    KeyMismatch,
}

impl Certificate {
    /// Reads a certificate chain and its private key.
    ///
    /// # Errors
    /// If one of them cannot be used, or if they do not belong together.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, CertificateError> {
        let chain: Vec<_> = CertificateDer::pem_slice_iter(chain)
            .collect::<Result<_, _>>()
            .map_err(|_| CertificateError::NoCertificate)?;
        // The server's own certificate comes first (RFC 8446, section 4.4.2).
        let first = chain.first().ok_or(CertificateError::NoCertificate)?;
        let ([not_before, not_after], names) = validity_and_names(first)?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| CertificateError::NoKey)?;
        let key = aws_lc_rs::sign::any_supported_type(&key)
            .map_err(|_| CertificateError::UnsupportedKey)?;
        // rustls would fail every handshake with such a pair, without a hint for the operator.
        let certified = CertifiedKey::new(chain, key);
        certified
            .keys_match()
            .map_err(|_| CertificateError::KeyMismatch)?;
        Ok(Self {
            key: Arc::new(certified),
            not_after,
            not_before,
            names,
        })
    }

    /// Returns its names and expiry.
    pub fn summary(&self) -> String {
        format!("{} until {}", self.names.join(", "), self.not_after)
    }
}

fn validity_and_names(
    certificate: &CertificateDer<'_>,
) -> Result<([Timestamp; 2], Vec<String>), CertificateError> {
    let parsed =
        x509_cert::Certificate::from_der(certificate).map_err(|_| CertificateError::Malformed)?;
    let parsed = parsed.tbs_certificate();
    let validity = parsed.validity();
    let limits = [validity.not_before, validity.not_after];
    let limits = limits.map(|time| Timestamp::from_millis(0).after(time.to_unix_duration()));
    // Only the subject alternative names count: clients ignore the common name (RFC 9525).
    let alternatives = parsed
        .get_extension::<SubjectAltName>()
        .map_err(|_| CertificateError::Malformed)?;
    let names = alternatives.iter().flat_map(|(_, names)| &names.0);
    Ok((limits, names.filter_map(host_name).collect()))
}

fn host_name(name: &GeneralName) -> Option<String> {
    match name {
        GeneralName::DnsName(name) => Some(name.to_string()),
        GeneralName::IpAddress(bytes) => {
            let bytes = bytes.as_bytes();
            let v4 = <[u8; 4]>::try_from(bytes).map(std::net::IpAddr::from);
            v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(std::net::IpAddr::from))
                .map(|ip| ip.to_string())
                .ok()
        }
        // Other kinds, such as e-mail addresses, name no host.
        _ => None,
    }
}

/// Certificate for new connections, whatever host name they request; none until the first one is obtained. Clones share it.
#[derive(Debug, Clone)]
pub struct Certificates(Arc<RwLock<Option<Certificate>>>);

impl Certificates {
    /// Creates the value with a certificate, or without one.
    pub fn new(certificate: Option<Certificate>) -> Self {
        Self(Arc::new(RwLock::new(certificate)))
    }

    /// Replaces the certificate. Open connections keep the previous one.
    pub fn replace(&self, certificate: Certificate) {
        *self.0.write() = Some(certificate);
    }

    /// Returns the current certificate.
    pub fn current(&self) -> Option<Certificate> {
        self.0.read().clone()
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    fn pem(names: &[&str]) -> (String, String) {
        let names: Vec<_> = names.iter().map(ToString::to_string).collect();
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        (made.cert.pem(), made.signing_key.serialize_pem())
    }

    #[test]
    fn a_certificate_is_read_with_its_names() {
        let (chain, key) = pem(&["meet.example.org", "192.0.2.1", "2001:db8::1"]);
        let certificate = Certificate::from_pem(chain.as_bytes(), key.as_bytes()).unwrap();
        assert_eq!(
            certificate.names,
            ["meet.example.org", "192.0.2.1", "2001:db8::1"]
        );
        // The defaults of rcgen.
        assert_eq!(certificate.not_before.to_string()[..4], *"1975");
        assert_eq!(certificate.not_after.to_string()[..4], *"4096");
    }

    #[test]
    fn keys_of_each_kind_are_accepted() {
        use rcgen::{
            PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ECDSA_P521_SHA512, PKCS_ED25519,
            PKCS_RSA_SHA256,
        };
        let kinds = [
            &PKCS_ECDSA_P256_SHA256,
            &PKCS_ECDSA_P384_SHA384,
            &PKCS_ECDSA_P521_SHA512,
            &PKCS_ED25519,
        ];
        for kind in kinds.into_iter().chain([&PKCS_RSA_SHA256]) {
            let key = KeyPair::generate_for(kind).unwrap();
            let chain = CertificateParams::new(["a.example".to_owned()])
                .unwrap()
                .self_signed(&key)
                .unwrap()
                .pem();
            let made = Certificate::from_pem(chain.as_bytes(), key.serialize_pem().as_bytes());
            assert!(made.is_ok(), "{kind:?}: {made:?}");
        }
    }

    #[test]
    fn files_that_do_not_fit_are_refused_with_the_reason() {
        let ((chain, key), (_, other)) = (pem(&["a.example"]), pem(&["a.example"]));
        let error = |chain: &str, key: &str| {
            Certificate::from_pem(chain.as_bytes(), key.as_bytes()).unwrap_err()
        };
        assert_eq!(error("", &key), CertificateError::NoCertificate);
        assert_eq!(error(&key, &key), CertificateError::NoCertificate);
        assert_eq!(error(&chain, ""), CertificateError::NoKey);
        assert_eq!(error(&chain, &chain), CertificateError::NoKey);
        assert_eq!(error(&chain, &other), CertificateError::KeyMismatch);
        let half = &chain[..chain.len() / 2];
        assert_eq!(error(half, &key), CertificateError::NoCertificate);
        let malformed = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert_eq!(error(malformed, &key), CertificateError::Malformed);
    }
}
