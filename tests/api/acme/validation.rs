//! Domain validation from the CA's side: it connects to the server (RFC 8555, section 8.3, and RFC 8737).

use std::io::Read;
use std::net::SocketAddr;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use sha2::{Digest, Sha256};
use x509_cert::Certificate;
use x509_cert::der::Decode;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

use crate::support::Request;
use crate::support::tls::shake_hands;

/// Requests the key authorization at the token's path.
pub fn validate_http(
    address: SocketAddr,
    domain: &str,
    token: &str,
    text: &str,
) -> Result<(), String> {
    let url = format!("http://{address}/.well-known/acme-challenge/{token}");
    let response = Request::new("GET", url)
        .header("Host", domain)
        .try_send()
        .ok_or("no answer")?;
    if (response.status, response.text().as_str()) == (200, text) {
        Ok(())
    } else {
        Err(format!("{response:?}"))
    }
}

/// Performs the handshake with the challenge's ALPN protocol and checks the certificate.
pub fn validate_tls_alpn(address: SocketAddr, domain: &str, text: &str) -> Result<(), String> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions();
    let config = config
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(TrustAll(provider)));
    let mut config = config.with_no_client_auth();
    config.alpn_protocols = vec![b"acme-tls/1".to_vec()];
    let mut connection = shake_hands(address, domain, config).map_err(|error| error.to_string())?;
    assert_eq!(connection.conn.alpn_protocol(), Some(&b"acme-tls/1"[..]));
    let certificate = connection.conn.peer_certificates().unwrap()[0]
        .clone()
        .into_owned();
    // The server closes the connection on its own.
    assert_eq!(
        connection
            .read(&mut [0; 8])
            .map_err(|error| error.to_string())?,
        0
    );
    check(&certificate, domain, text)
}

fn check(certificate: &CertificateDer<'_>, domain: &str, text: &str) -> Result<(), String> {
    let parsed = Certificate::from_der(certificate).map_err(|error| error.to_string())?;
    let parsed = parsed.tbs_certificate();
    let (_, SubjectAltName(names)) = parsed.get_extension().unwrap().unwrap();
    assert!(
        matches!(&names[..], [GeneralName::DnsName(name)] if name.to_string() == domain),
        "{names:?}"
    );
    let identifiers = parsed.extensions().into_iter().flatten();
    let identifiers: Vec<_> = identifiers
        .filter(|found| found.extn_id.to_string() == "1.3.6.1.5.5.7.1.31")
        .collect();
    let [identifier] = identifiers[..] else {
        return Err("no acmeIdentifier".into());
    };
    assert!(identifier.critical);
    // An OCTET STRING with 32 bytes.
    let expected = [&[4, 32], Sha256::digest(text).as_slice()].concat();
    if identifier.extn_value.as_bytes() == expected {
        Ok(())
    } else {
        Err("the digest is another one".into())
    }
}

/// Accepts every certificate: the library would reject the challenge's extension.
#[derive(Debug)]
struct TrustAll(Arc<CryptoProvider>);

impl ServerCertVerifier for TrustAll {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
