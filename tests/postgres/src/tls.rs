//! Certificates for a TLS server.

use std::fs;
use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

/// Writes `root.crt`, a root certificate, and `server.crt` and `server.key`, issued by it for `localhost` and
/// 127.0.0.1.
pub fn write_certificates(folder: &Path) {
    let root_key = KeyPair::generate().expect("a key");
    let mut root = CertificateParams::default();
    // Must differ from the other certificate's name: a certificate that names itself as issuer is its own authority.
    root.distinguished_name
        .push(DnType::CommonName, "Authority of the tests");
    root.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let root_certificate = root.self_signed(&root_key).expect("a certificate");
    let server_key = KeyPair::generate().expect("a key");
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    let server = CertificateParams::new(names).expect("names of a certificate");
    let server = server
        .signed_by(&server_key, &Issuer::from_params(&root, &root_key))
        .expect("a certificate");
    for (name, text) in [
        ("root.crt", root_certificate.pem()),
        ("server.crt", server.pem()),
        ("server.key", server_key.serialize_pem()),
    ] {
        fs::write(folder.join(name), text).expect("a file is written");
    }
}
