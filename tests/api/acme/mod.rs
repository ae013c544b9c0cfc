//! Certificates that the app obtains and renews from a simulated CA.

mod ca;
mod log;
mod validation;

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ca::{Ca, LIFETIME};
use conclave::config::{Config, HostName};
use conclave_model::{Clock, Timestamp};

use crate::support::tls::{Connection, connect};
use crate::support::{Request, START, TestApp, WAIT_LIMIT, eventually};

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// An app with a domain, and its CA.
struct Obtaining {
    app: TestApp,
    ca: Ca,
    domain: &'static str,
}

impl Obtaining {
    /// Starts both. The CA has the app's address only after `look`.
    fn prepare(domain: &'static str, change: impl FnOnce(&mut Config, &Ca)) -> Self {
        log::keep();
        let clock = Clock::manual(START.parse().unwrap());
        let ca = Ca::start(clock.clone());
        ca.set_down(true);
        let app = TestApp::start_by(clock, |config| {
            config.tls.domain = HostName::parse(domain);
            config.tls.acme_directory = ca.directory();
            config.tls.acme_root = Some(ca.root_file());
            change(config, &ca);
        });
        ca.look_at(&app);
        Self { app, ca, domain }
    }

    /// Starts both and waits for the first certificate.
    fn start(domain: &'static str) -> Self {
        let obtaining = Self::prepare(domain, |_, _| {});
        obtaining.wait_for("since the last one failed");
        obtaining.ca.set_down(false);
        obtaining.retry();
        obtaining
    }

    /// Advances to the retry after the first failure and waits for a certificate.
    fn retry(&self) {
        self.wait_for("since the last one failed");
        self.app.advance(3 * MINUTE);
        self.wait_for("due for renewal at");
    }

    /// Returns the certificate's status as operators see it.
    fn shown(&self) -> String {
        self.app.admin("GET", "/readyz").send().expect(200)["parts"]["tls"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    #[track_caller]
    fn wait_for(&self, text: &str) {
        let mut shown = String::new();
        let waited = std::time::Instant::now();
        while !shown.contains(text) {
            assert!(
                waited.elapsed() < WAIT_LIMIT,
                "waited for {text:?}: {shown}"
            );
            std::thread::park_timeout(Duration::from_millis(20));
            shown = self.shown();
        }
    }

    fn connect(&self) -> std::io::Result<Connection> {
        connect(
            self.app.port(),
            self.domain,
            self.ca.root(),
            self.app.clock.now(),
        )
    }

    /// Returns the expiry of the certificate that clients receive.
    fn expires(&self) -> Timestamp {
        let metrics = self.app.admin("GET", "/metrics").send().text();
        let line = metrics.lines().find(|line| {
            line.starts_with("conclave_tls_certificate_expiration_timestamp_seconds ")
        });
        let seconds: i64 = line.unwrap().rsplit_once(' ').unwrap().1.parse().unwrap();
        Timestamp::from_millis(seconds * 1_000)
    }

    fn restart(self) -> Self {
        let app = self.app.restart();
        self.ca.look_at(&app);
        Self { app, ..self }
    }

    /// Returns the CA's files in the data directory.
    fn files(&self) -> Vec<PathBuf> {
        let folder = fs::read_dir(self.app.data().join("tls"))
            .unwrap()
            .next()
            .unwrap()
            .unwrap()
            .path();
        let mut files: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|file| file.unwrap().path())
            .collect();
        files.sort();
        files
    }
}

/// Sends a request and returns the response.
fn call(mut connection: Connection, path: &str) -> String {
    write!(
        connection,
        "GET {path} HTTP/1.1\r\nHost: meet.example.org\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut response = String::new();
    connection.read_to_string(&mut response).unwrap();
    response
}

fn start_after(span: Duration) -> Timestamp {
    START.parse::<Timestamp>().unwrap().after(span)
}

#[test]
fn a_certificate_is_obtained_by_a_handshake_and_a_restart_uses_it_again() {
    let obtaining = Obtaining::start("meet.example.org");
    assert_eq!(
        obtaining.app.api,
        format!("https://meet.example.org:{}", obtaining.app.port())
    );
    assert_eq!(obtaining.ca.validated(), [Some("tls-alpn-01".to_owned())]);
    assert!(call(obtaining.connect().unwrap(), "/healthz").starts_with("HTTP/1.1 200 "));
    let requests = obtaining.ca.requests();
    let again = obtaining.restart();
    assert!(call(again.connect().unwrap(), "/healthz").starts_with("HTTP/1.1 200 "));
    assert!(again.shown().starts_with(
        "meet.example.org until 2026-05-30T12:03:00.000Z, due for renewal at 2026-04-30T12:03"
    ));
    assert_eq!(again.ca.requests(), requests);
}

/// Proves S-86.
#[test]
fn account_and_certificate_are_files_of_their_owner_and_nothing_shows_the_keys() {
    let obtaining = Obtaining::start("files.example.org");
    let files = obtaining.files();
    let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
    assert_eq!(
        files.iter().map(name).collect::<Vec<_>>(),
        ["account.json", "files.example.org.pem"]
    );
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert!(files.iter().all(|file| mode(file) == 0o600));
    assert_eq!(
        (
            mode(files[0].parent().unwrap()),
            mode(&obtaining.app.data().join("tls"))
        ),
        (0o700, 0o700)
    );
    let account: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(&files[0]).unwrap()).unwrap();
    let pem = fs::read_to_string(&files[1]).unwrap();
    let secrets = [
        account["credentials"]["key_pkcs8"].as_str().unwrap(),
        pem.lines().nth(1).unwrap(),
    ];
    let shown = ["/debug/actors", "/readyz", "/metrics", "/server"]
        .map(|path| obtaining.app.admin("GET", path).send().text())
        .join("\n");
    let logged = log::about("files.example.org").join("\n");
    assert!(
        logged.contains("INFO files.example.org a certificate was obtained"),
        "{logged}"
    );
    for secret in secrets {
        assert!(secret.len() > 40 && !shown.contains(secret) && !logged.contains(secret));
    }
    assert!(shown.contains("files.example.org until 2026-05-30"));
}

/// Proves S-7.
#[test]
fn until_there_is_a_certificate_handshakes_fail_and_the_server_stays_up() {
    let obtaining = Obtaining::prepare("none.example.org", |_, _| {});
    obtaining.wait_for("no certificate for none.example.org yet; next attempt at 2026-03-01T12:02");
    assert!(obtaining.connect().is_err());
    assert!(
        obtaining
            .shown()
            .contains("since the last one failed: 127.0.0.1 cannot be reached")
    );
    assert!(
        log::about("none.example.org")[0]
            .starts_with("WARN none.example.org no certificate was obtained")
    );
    obtaining.ca.set_down(false);
    obtaining.retry();
    assert!(obtaining.connect().is_ok());
}

#[test]
fn a_certificate_is_obtained_by_plain_http_if_the_ca_offers_nothing_else() {
    let redirect = |config: &mut Config, ca: &Ca| {
        config.tls.redirect_listen = "127.0.0.1:0".parse().ok();
        ca.offer(&["http-01", "dns-01"]);
    };
    let obtaining = Obtaining::prepare("http.example.org", redirect);
    obtaining.wait_for("cannot be reached");
    obtaining.ca.set_down(false);
    obtaining.retry();
    assert_eq!(obtaining.ca.validated(), [Some("http-01".to_owned())]);
    assert!(obtaining.connect().is_ok());
    // Every other path is redirected, and so is an unknown token.
    let address = obtaining.app.redirect.unwrap();
    for path in [
        "/call",
        "/.well-known/acme-challenge/DGyRejmCefe7v4NfDGDKfA",
    ] {
        assert_eq!(
            Request::new("GET", format!("http://{address}{path}"))
                .send()
                .status,
            308
        );
    }
}

#[test]
fn the_other_challenge_is_tried_after_one_that_failed() {
    let redirect =
        |config: &mut Config, _: &Ca| config.tls.redirect_listen = "127.0.0.1:0".parse().ok();
    let obtaining = Obtaining::prepare("both.example.org", redirect);
    // Another server answers at the API's port.
    let elsewhere = obtaining.app.redirect.unwrap();
    obtaining
        .ca
        .look_at_addresses(elsewhere, obtaining.app.redirect);
    obtaining.wait_for("cannot be reached");
    obtaining.ca.set_down(false);
    obtaining.retry();
    // No time has passed between the two connections.
    let first = obtaining.expires();
    obtaining.app.advance(61 * DAY);
    eventually(|| obtaining.expires() > first);
    let http = Some("http-01".to_owned());
    assert_eq!(obtaining.ca.validated(), [http.clone(), None, http]);
    let refused = log::about("both.example.org");
    assert!(
        refused
            .iter()
            .any(|line| line.contains("the CA did not verify the domain by tls-alpn-01: ")),
        "{refused:?}"
    );
}

#[test]
fn a_certificate_is_renewed_when_a_third_of_its_life_is_left() {
    let obtaining = Obtaining::start("renewed.example.org");
    let (first, requests) = (obtaining.expires(), obtaining.ca.requests());
    assert_eq!(first, start_after(3 * MINUTE + LIFETIME));
    obtaining.app.advance(59 * DAY);
    assert!(obtaining.connect().is_ok());
    assert_eq!(
        (obtaining.expires(), obtaining.ca.requests()),
        (first, requests)
    );
    let kept = obtaining.connect().unwrap();
    obtaining.app.advance(2 * DAY);
    eventually(|| obtaining.expires() > first);
    assert_eq!(
        obtaining.expires(),
        start_after(61 * DAY + 3 * MINUTE + LIFETIME)
    );
    // Open connections stay open.
    assert!(call(kept, "/healthz").starts_with("HTTP/1.1 200 "));
    obtaining.app.advance(60 * DAY);
    assert!(obtaining.connect().is_ok());
}

#[test]
fn while_the_ca_fails_the_old_certificate_stays_and_a_warning_names_the_day_on_which_it_expires() {
    let obtaining = Obtaining::start("failing.example.org");
    obtaining.ca.set_down(true);
    obtaining.app.advance(60 * DAY);
    obtaining.wait_for("failing.example.org until 2026-05-30T12:03:00.000Z; next attempt at");
    assert!(obtaining.connect().is_ok());
    let warned = || {
        log::about("failing.example.org")
            .into_iter()
            .filter(|line| line.starts_with("WARN"))
    };
    let expected = "the certificate was not renewed, and the current one expires on 2026-05-30: 127.0.0.1 cannot be reached";
    eventually(|| warned().any(|line| line.contains(expected)));
    // A restart uses the stored certificate.
    let again = obtaining.restart();
    again.wait_for("since the last one failed");
    assert!(again.connect().is_ok());
    again.ca.set_down(false);
    again.retry();
    assert!(again.expires() > start_after(60 * DAY + LIFETIME));
}

#[test]
fn failed_attempts_count_also_after_restarts_until_one_succeeds() {
    let mut obtaining = Obtaining::prepare("restarted.example.org", |_, _| {});
    obtaining.wait_for("since the last one failed");
    obtaining.ca.set_down(false);
    for _ in 0..3 {
        obtaining = obtaining.restart();
        obtaining.wait_for("; next attempt at 2026-03-01T12:02");
        assert!(
            obtaining
                .shown()
                .contains("since the last one failed: 127.0.0.1 cannot be reached")
        );
        obtaining.app.advance(MINUTE / 4);
    }
    let warning =
        "WARN restarted.example.org the last attempt to obtain a certificate failed; remove ";
    assert!(
        log::about("restarted.example.org")
            .iter()
            .any(|line| line.starts_with(warning))
    );
    assert_eq!(obtaining.ca.requests(), 0);
    let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
    let stored = obtaining.files();
    assert_eq!(
        stored.iter().map(name).collect::<Vec<_>>(),
        ["restarted.example.org.failures.json"]
    );
    assert_eq!(
        fs::metadata(&stored[0]).unwrap().permissions().mode() & 0o777,
        0o600
    );
    obtaining.retry();
    assert_eq!(
        obtaining.files().iter().map(name).collect::<Vec<_>>(),
        ["account.json", "restarted.example.org.pem"]
    );
}

#[test]
fn an_attempt_that_the_server_does_not_survive_counts_as_failed() {
    let obtaining = Obtaining::prepare("killed.example.org", |_, _| {});
    obtaining.wait_for("since the last one failed");
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    obtaining
        .ca
        .look_at_addresses(silent.local_addr().unwrap(), None);
    obtaining.ca.set_down(false);
    obtaining.app.advance(3 * MINUTE);
    // The CA waits for the challenge response.
    let waiting = silent.accept().unwrap();
    let stored = fs::read_to_string(obtaining.files().pop().unwrap()).unwrap();
    let stored: serde_json::Value = serde_json::from_str(&stored).unwrap();
    assert_eq!(
        (&stored["count"], &stored["error"]),
        (&2.into(), &"the server ended during the attempt".into())
    );
    assert!(
        stored["next"].as_str().unwrap() >= "2026-03-01T12:13",
        "{stored}"
    );
    drop(waiting);
    obtaining.wait_for("did not verify the domain by tls-alpn-01");
}

#[test]
fn another_domain_and_failures_that_cannot_be_read_start_anew() {
    let obtaining = Obtaining::prepare("first.example.org", |_, _| {});
    obtaining.wait_for("since the last one failed");
    obtaining.ca.set_down(false);
    let first = obtaining.files().pop().unwrap();
    let app = obtaining
        .app
        .restart_with(|config| config.tls.domain = HostName::parse("second.example.org"));
    obtaining.ca.look_at(&app);
    let second = Obtaining {
        app,
        ca: obtaining.ca,
        domain: "second.example.org",
    };
    second.wait_for("second.example.org until");
    fs::write(first, "broken").unwrap();
    let app = second
        .app
        .restart_with(|config| config.tls.domain = HostName::parse("first.example.org"));
    second.ca.look_at(&app);
    Obtaining { app, ..second }.wait_for("first.example.org until");
    let warning = "WARN first.example.org earlier failed attempts do not count: ";
    assert!(
        log::about("first.example.org")
            .iter()
            .any(|line| line.starts_with(warning))
    );
}

/// Proves S-85.
#[test]
fn a_ca_that_is_not_trusted_is_not_asked() {
    let obtaining = Obtaining::prepare("untrusted.example.org", |config, ca| {
        ca.set_down(false);
        config.tls.acme_root = None;
    });
    obtaining.wait_for(
        "since the last one failed: 127.0.0.1 cannot be reached: io: invalid peer certificate: UnknownIssuer",
    );
    assert_eq!(obtaining.ca.requests(), 0);
}

#[test]
fn an_account_that_the_ca_has_forgotten_is_registered_again() {
    let obtaining = Obtaining::start("account.example.org");
    obtaining.ca.forget_accounts();
    obtaining.app.advance(61 * DAY);
    obtaining.wait_for("accountDoesNotExist");
    obtaining.retry();
    assert_eq!(obtaining.ca.validated().len(), 2);
}

#[test]
fn a_stored_certificate_that_cannot_be_used_is_replaced() {
    let mut obtaining = Obtaining::start("broken.example.org");
    let certificate = obtaining.files().pop().unwrap();
    fs::write(&certificate, "broken").unwrap();
    obtaining = obtaining.restart();
    obtaining.wait_for("due for renewal at");
    assert!(obtaining.connect().is_ok());
    assert!(
        fs::read_to_string(&certificate)
            .unwrap()
            .contains("BEGIN CERTIFICATE")
    );
}
