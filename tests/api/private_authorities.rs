//! Servers with certificates from a private authority: `webhooks.root_certs` and `egress.root_certs`.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tempfile::TempDir;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use url::Url;

use crate::support::{Receiver, TestApp, eventually};

/// TLS in front of plain servers, with a certificate from a private authority.
pub struct PrivateAuthority(TempDir);

impl PrivateAuthority {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        test_postgres::write_certificates(folder.path());
        Self(folder)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Returns the path of its root certificate.
    pub fn root(&self) -> PathBuf {
        self.file("root.crt")
    }

    /// Puts TLS in front of a plain server's URL and returns the new URL.
    pub fn in_front_of(&self, url: &str) -> String {
        let mut url: Url = url.parse().unwrap();
        let plain = url.socket_addrs(|| None).unwrap()[0];
        url.set_scheme("https").unwrap();
        url.set_port(Some(forward(self.acceptor(), plain))).unwrap();
        url.into()
    }

    fn acceptor(&self) -> TlsAcceptor {
        let read = |name: &str| fs::read(self.file(name)).unwrap();
        let certificate = CertificateDer::from_pem_slice(&read("server.crt")).unwrap();
        let key = PrivateKeyDer::from_pem_slice(&read("server.key")).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap();
        let config = config
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        Arc::new(config).into()
    }
}

/// Accepts TLS connections and forwards them while the test runs. Returns the port.
fn forward(acceptor: TlsAcceptor, to: SocketAddr) -> u16 {
    let (sender, port) = channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let local = tokio::task::LocalSet::new();
        local.block_on(&runtime, async move {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            sender.send(listener.local_addr().unwrap().port()).unwrap();
            while let Ok((socket, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::task::spawn_local(async move {
                    // A client that does not trust the certificate aborts the handshake.
                    let Ok(mut client) = acceptor.accept(socket).await else {
                        return;
                    };
                    let mut server = TcpStream::connect(to).await.unwrap();
                    let _ = copy_bidirectional(&mut client, &mut server).await;
                });
            }
        });
    });
    port.recv().unwrap()
}

/// Delivers an event from an app to a receiver.
fn deliver(app: &TestApp, url: &str) {
    app.endpoint(url);
    app.room("standup");
    app.delete("/v1/rooms/standup").send().expect_empty(204);
    app.wait_until_armed();
    app.advance(Duration::from_secs(5));
}

#[test]
fn a_receiver_with_a_certificate_of_a_private_authority_is_trusted_by_a_setting() {
    let (authority, receiver) = (PrivateAuthority::new(), Receiver::start());
    let url = authority.in_front_of(&receiver.url);
    let app = TestApp::start_with(|config| config.webhooks.root_certs = Some(authority.root()));
    deliver(&app, &url);
    assert_eq!(receiver.next().json()["type"], "room.finished");
    eventually(|| app.deliveries("status=delivered").len() == 1);
}

/// Proves S-75.
#[test]
fn without_the_setting_the_delivery_says_what_is_missing() {
    let (authority, receiver) = (PrivateAuthority::new(), Receiver::start());
    let url = authority.in_front_of(&receiver.url);
    // Uploads have separate trust settings.
    let app = TestApp::start_with(|config| config.egress.root_certs = Some(authority.root()));
    deliver(&app, &url);
    eventually(|| app.deliveries("")[0]["attempts"] == 1);
    let error = "TLS failed: the certificate is of an issuer that is not trusted (webhooks.root_certs, SSL_CERT_FILE)";
    assert_eq!(app.deliveries("")[0]["last_error"], error);
    assert!(receiver.drain().is_empty());
}

/// Posts an example event to a URL from the command line, with or without the variable. Returns whether it was accepted, and the output.
fn trigger(url: &str, root: Option<PathBuf>) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_conclave"));
    command
        .args([
            "trigger",
            "room.started",
            "--sample",
            url,
            "--secret",
            "whsec_AAAA",
        ])
        .env_clear();
    let ended = command
        .envs(root.map(|root| ("SSL_CERT_FILE", root)))
        .output()
        .unwrap();
    let printed = [ended.stdout, ended.stderr].concat();
    (ended.status.success(), String::from_utf8(printed).unwrap())
}

#[test]
fn every_request_trusts_the_authorities_of_ssl_cert_file_too() {
    let (authority, receiver) = (PrivateAuthority::new(), Receiver::start());
    let url = authority.in_front_of(&receiver.url);
    let (accepted, printed) = trigger(&url, Some(authority.root()));
    assert!(accepted, "{printed}");
    assert_eq!(receiver.next().json()["type"], "room.started");
    let (accepted, printed) = trigger(&url, None);
    assert!(
        !accepted && printed.contains("issuer that is not trusted"),
        "{printed}"
    );
    // An unusable certificate counts as none.
    let (accepted, _) = trigger(&url, Some(authority.file("none.crt")));
    assert!(!accepted && receiver.drain().is_empty());
}

#[test]
fn a_file_that_cannot_be_used_is_found_by_the_check() {
    let authority = PrivateAuthority::new();
    let check = |variable: &str, file: PathBuf| {
        let data = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_conclave"));
        command
            .env_clear()
            .env("CONCLAVE_MEDIA__RTC__ADDRESSES", "127.0.0.1")
            .env(variable, file);
        let ended = command
            .args(["check", "--data"])
            .arg(data.path())
            .output()
            .unwrap();
        String::from_utf8([ended.stdout, ended.stderr].concat()).unwrap()
    };
    for (variable, setting) in [
        ("CONCLAVE_WEBHOOKS__ROOT_CERTS", "webhooks.root_certs"),
        ("CONCLAVE_EGRESS__ROOT_CERTS", "egress.root_certs"),
    ] {
        let shown = check(variable, authority.root());
        assert!(
            shown.contains("certificates") && shown.contains("private authorities are trusted"),
            "{shown}"
        );
        // Broadcast receivers use the setting, too.
        let row = shown
            .lines()
            .find(|line| line.contains(" egress "))
            .unwrap();
        assert!(!row.starts_with("FAIL"), "{row}");
        for file in ["none.crt", "server.key"] {
            let shown = check(variable, authority.file(file));
            let row = shown
                .lines()
                .find(|line| line.contains("certificates"))
                .unwrap();
            assert!(
                row.starts_with("FAIL") && row.contains(&format!("{setting}: ")),
                "{row}"
            );
        }
    }
    let shown = check("SSL_CERT_FILE", authority.file("none.crt"));
    assert!(shown.contains("SSL_CERT_FILE is ignored: "), "{shown}");
    assert!(
        !check("HOME", authority.root()).contains("certificates"),
        "nothing is said of what nobody has set"
    );
}
