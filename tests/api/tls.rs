//! TLS on the API listener, and the listener that redirects to it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;

use rcgen::generate_simple_self_signed;
use serde_json::json;

use crate::support::tls::{Connection, connect};
use crate::support::{Request, TestApp, WAIT_LIMIT, eventually};

/// An app with TLS, and its certificate directory.
struct Secured {
    app: TestApp,
    files: tempfile::TempDir,
}

impl Secured {
    fn start() -> Self {
        let files = tempfile::tempdir().unwrap();
        write_certificate(files.path());
        let app = TestApp::start_with(|config| {
            config.tls.cert = Some(files.path().join("cert.pem"));
            config.tls.key = Some(files.path().join("key.pem"));
            config.tls.redirect_listen = "127.0.0.1:0".parse().ok();
        });
        Self { app, files }
    }

    /// Returns the certificate in the file.
    fn certificate(&self) -> Vec<u8> {
        std::fs::read(self.files.path().join("cert.pem")).unwrap()
    }

    fn port(&self) -> u16 {
        self.app.port()
    }

    /// Connects with `trusted` as the only trusted certificate.
    fn connect(&self, trusted: &[u8]) -> std::io::Result<Connection> {
        connect(self.port(), "localhost", trusted, self.app.clock.now())
    }

    /// Sends a request and returns the whole response.
    fn call(&self, head: &str, body: &str) -> String {
        let mut connection = self.connect(&self.certificate()).unwrap();
        let length = body.len();
        write!(
            connection,
            "{head} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}",
            self.app.key
        )
        .unwrap();
        let mut response = String::new();
        connection.read_to_string(&mut response).unwrap();
        response
    }
}

fn write_certificate(directory: &Path) {
    let made = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(directory.join("key.pem"), made.signing_key.serialize_pem()).unwrap();
    std::fs::write(directory.join("cert.pem"), made.cert.pem()).unwrap();
}

/// Returns an unencrypted server's response at an address.
fn plain(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(WAIT_LIMIT)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut response = Vec::new();
    // The server may also reset the connection.
    let _ = stream.read_to_end(&mut response);
    String::from_utf8_lossy(&response).into_owned()
}

/// Proves S-5.
#[test]
fn the_api_is_served_with_tls_under_the_name_of_the_certificate() {
    let secured = Secured::start();
    assert_eq!(
        secured.app.api,
        format!("https://localhost:{}", secured.port())
    );
    let created = secured.call("POST /v1/rooms", &json!({"name": "standup"}).to_string());
    assert!(created.starts_with("HTTP/1.1 201 "), "{created}");
    let token = json!({"room": "standup", "identity": "alice", "role": "host"}).to_string();
    let minted = secured.call("POST /v1/tokens", &token);
    assert!(
        minted.contains(&format!("\"url\":\"wss://localhost:{}\"", secured.port())),
        "{minted}"
    );
}

/// Proves S-5.
#[test]
fn clients_without_tls_get_no_answer_and_disturb_nobody() {
    let secured = Secured::start();
    let address = SocketAddr::from(([127, 0, 0, 1], secured.port()));
    let silent = TcpStream::connect(address).unwrap();
    let answer = plain(address, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(!answer.contains("HTTP"), "{answer}");
    assert!(
        secured
            .call("GET /healthz", "")
            .starts_with("HTTP/1.1 200 ")
    );
    // The handshake has a deadline.
    silent.set_read_timeout(Some(WAIT_LIMIT)).unwrap();
    let read = (&silent).read(&mut [0; 8]);
    assert!(
        read.is_ok_and(|bytes| bytes == 0),
        "the connection stays open"
    );
}

#[test]
fn the_plain_listener_redirects_to_the_same_path_with_https() {
    let secured = Secured::start();
    let redirect = secured.app.redirect.unwrap();
    for method in ["GET", "POST"] {
        let response = Request::new(
            method,
            format!("http://{redirect}/call?code=abcd-efgh-jkmn"),
        )
        .send();
        assert_eq!(response.status, 308);
        let location = &response.headers["location"];
        assert_eq!(
            *location,
            format!(
                "https://127.0.0.1:{}/call?code=abcd-efgh-jkmn",
                secured.port()
            )
        );
    }
    for head in [
        "Host: evil.example@localhost\r\n",
        "Host: a b\r\n",
        "Host: a\r\nHost: b\r\n",
    ] {
        let answer = plain(
            redirect,
            &format!("GET / HTTP/1.1\r\n{head}Connection: close\r\n\r\n"),
        );
        assert!(answer.starts_with("HTTP/1.1 400 "), "{head}: {answer}");
    }
}

#[test]
fn each_address_has_a_rate_of_redirects() {
    let secured = Secured::start();
    let head = "GET / HTTP/1.1\r\nHost: a\r\n";
    let requests = format!("{head}\r\n").repeat(2_001) + head + "Connection: close\r\n\r\n";
    let answers = plain(secured.app.redirect.unwrap(), &requests);
    let count = |status: &str| answers.matches(&format!("HTTP/1.1 {status}")).count();
    assert_eq!((count("308"), count("429")), (2_000, 2));
}

#[test]
fn a_new_certificate_is_served_once_its_files_can_be_used() {
    let secured = Secured::start();
    let first = secured.certificate();
    // Until both files are replaced, the certificate and the key do not match.
    let made = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(secured.files.path().join("cert.pem"), made.cert.pem()).unwrap();
    assert!(secured.connect(&first).is_ok());
    std::fs::write(
        secured.files.path().join("key.pem"),
        made.signing_key.serialize_pem(),
    )
    .unwrap();
    eventually(|| secured.connect(made.cert.pem().as_bytes()).is_ok());
    assert!(secured.connect(&first).is_err());
}
