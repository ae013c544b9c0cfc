//! Secrets do not appear in the log at any level, in the debug endpoints, in the records, or in the data directory's files, except for the
//! key files.

use std::fs;

use serde_json::json;
use test_postgres::PASSWORD;

use crate::deployment::{Deployment, Running};
use crate::support::{FakeBilling, Receiver, Watcher};

/// Length of an API key's prefix, which is not secret.
const KEY_PREFIX: usize = 12;

/// All secrets in the scenario, with a description. Each is a part that is long enough to be unique.
struct Secrets(Vec<(&'static str, String)>);

impl Secrets {
    fn add(&mut self, what: &'static str, secret: &str) {
        assert!(secret.len() >= 16, "{what} is too short to search for");
        self.0.push((what, secret.to_owned()));
    }

    fn assert_absent_from(&self, place: &str, bytes: &[u8]) {
        for (what, secret) in &self.0 {
            let found = bytes
                .windows(secret.len())
                .position(|window| window == secret.as_bytes());
            if let Some(at) = found {
                let around =
                    &bytes[at.saturating_sub(120)..(at + secret.len() + 40).min(bytes.len())];
                panic!("{what} is in {place}: {}", String::from_utf8_lossy(around));
            }
        }
    }
}

/// Runs a typical scenario, including failing requests, and returns the debug endpoints' output meanwhile.
fn run_scenario(running: &Running, receiver: &Receiver, secrets: &mut Secrets) -> String {
    let watcher = Watcher::open(&running.admin, "");
    secrets.add("the API key", &running.key[KEY_PREFIX..]);
    let secret = running.endpoint(&receiver.url);
    secrets.add("a signing secret", secret.trim_start_matches("whsec_"));
    let keyed = running
        .post("/v1/webhook-endpoints")
        .idempotency_key("an-endpoint");
    let keyed = keyed.json(json!({"url": receiver.url})).send().expect(201);
    secrets.add(
        "a signing secret in a stored response",
        keyed["secret"]
            .as_str()
            .unwrap()
            .trim_start_matches("whsec_"),
    );
    running.room("standup", 600);
    let token = running.token("standup", "alice", "host");
    secrets.add("a room token", token.rsplit('.').next().unwrap());
    let body = json!({"room": "standup", "identity": "bob"});
    let stored = running
        .post("/v1/tokens")
        .idempotency_key("a-token")
        .json(body)
        .send()
        .expect(201);
    secrets.add(
        "a room token in a stored response",
        stored["token"]
            .as_str()
            .unwrap()
            .rsplit('.')
            .next()
            .unwrap(),
    );
    let sid = running.join(&token);
    let view = running
        .admin("GET", &format!("/sandbox/participants/{sid}"))
        .send()
        .expect(200);
    secrets.add(
        "a refreshed token",
        view["token"].as_str().unwrap().rsplit('.').next().unwrap(),
    );
    let track = json!({"kind": "audio", "source": "microphone"});
    running
        .admin("POST", &format!("/sandbox/participants/{sid}/tracks"))
        .json(track)
        .send()
        .expect(201);
    let body = json!({"input_type": "rtmp", "participant_identity": "encoder"});
    let ingress = running
        .post("/v1/rooms/standup/ingress")
        .json(body)
        .send()
        .expect(201);
    let key = ingress["stream_key"].as_str().unwrap();
    secrets.add("a stream key", key);
    for what in ["connect", "disconnect", "nothing"] {
        running
            .admin("POST", &format!("/sandbox/ingress/{key}/{what}"))
            .send();
    }
    running
        .admin("POST", &format!("/sandbox/ingress/{key}/connect"))
        .send()
        .expect(200);
    send_whip_requests(running, secrets);
    receiver.answer_with(500);
    send_invalid_credentials(running, &token, secrets);
    let mut shown = String::new();
    for path in ["/debug/actors?limit=200", "/debug/actors/system", "/readyz"] {
        shown += &running.admin("GET", path).send().text();
        shown += &running
            .admin("GET", path)
            .header("accept", "text/plain")
            .send()
            .text();
    }
    running.delete("/v1/rooms/standup").send().expect_empty(204);
    for _ in 0..30 {
        let event = watcher.next();
        shown += &event.data;
        if event.event == "room.finished" {
            break;
        }
    }
    shown += &running.get("/v1/webhook-deliveries").send().text();
    shown += &running.get("/v1/webhook-endpoints").send().text();
    shown
}

/// Sends WHIP requests; no encoder connects.
fn send_whip_requests(running: &Running, secrets: &mut Secrets) {
    let body = json!({"input_type": "whip", "participant_identity": "studio"});
    let ingress = running
        .post("/v1/rooms/standup/ingress")
        .json(body)
        .send()
        .expect(201);
    let key = ingress["stream_key"].as_str().unwrap();
    secrets.add("a stream key of WHIP", key);
    let path = format!("/whip/{key}");
    let offer = "v=0\r\nm=video 9 X 96\r\na=mid:0\r\na=sendonly\r\na=rtpmap:96 VP8/90000\r\n";
    for (body, media_type, status) in [
        ("", "text/plain", 415),
        ("", "application/sdp", 400),
        (offer, "application/sdp", 400),
    ] {
        let refused = running
            .post(&path)
            .raw(body)
            .header("content-type", media_type)
            .send();
        assert_eq!(refused.status, status, "{}", refused.text());
    }
    for (path, status) in [
        (path.clone(), 404),
        (format!("{path}/more"), 404),
        (format!("/whip/session/{key}"), 404),
    ] {
        assert_eq!(running.delete(&path).send().status, status);
    }
    assert_eq!(running.get(&path).send().status, 405);
}

/// Sends invalid credentials, which are secrets too: they may be valid elsewhere, or contain a typing error.
fn send_invalid_credentials(running: &Running, token: &str, secrets: &mut Secrets) {
    let stranger = format!("vk_live_{}", "Zq9".repeat(15).split_at(43).0);
    secrets.add("a wrong API key", &stranger[KEY_PREFIX..]);
    running
        .get("/v1/rooms")
        .bearer(&stranger)
        .send()
        .expect_error(401, "unauthorized", None);
    let forged = format!("{}Zq9Zq9Zq9Zq9Zq9Zq9", &token[..token.len() - 18]);
    secrets.add("a forged token", "Zq9Zq9Zq9Zq9Zq9Zq9");
    let refused = running
        .admin("POST", "/sandbox/join")
        .json(json!({"token": forged}))
        .send();
    assert_eq!(refused.status, 401);
    running
        .delete("/v1/rooms/standup")
        .bearer(&forged)
        .send()
        .expect_error(401, "unauthorized", None);
    let by_token = running
        .delete("/v1/rooms/nowhere")
        .anonymous()
        .header("x-svc-room-token", token)
        .send();
    by_token.expect_error(401, "unauthorized", None);
    let broken = running
        .post("/v1/tokens")
        .raw(format!("{{\"room\": \"{forged}\", "));
    assert_eq!(broken.send().status, 400);
}

/// Proves R-13, S-87.
#[test]
fn no_secret_is_in_the_log_the_debug_endpoints_or_the_database() {
    let (receiver, billing) = (Receiver::start(), FakeBilling::start());
    let mut secrets = Secrets(Vec::new());
    let billing_token = "a-token-for-the-billing-service";
    secrets.add("the billing token", billing_token);
    let turn_secret = "a-secret-that-is-shared-with-coturn";
    secrets.add("the secret of the TURN servers", turn_secret);
    // In the database's URL, if there is one.
    secrets.add("the password of the database", PASSWORD);
    let deployment = Deployment::new().with("RUST_LOG", "trace");
    let deployment = deployment
        .with("CONCLAVE_MEDIA__RTC__TURN__URLS", "turn:turn.example.com")
        .with("CONCLAVE_MEDIA__RTC__TURN__SECRET", turn_secret);
    let deployment = deployment
        .with("CONCLAVE_BILLING__URL", &billing.url)
        .with("CONCLAVE_BILLING__TOKEN", billing_token);
    let mut running = deployment.start();
    let media = fs::read_to_string(deployment.data().join("media.key")).unwrap();
    secrets.add("the media secret", media.lines().nth(1).unwrap());
    let shown = run_scenario(&running, &receiver, &mut secrets);
    assert!(shown.contains("room.finished"), "{shown}");
    assert_eq!(billing.last_request().1, format!("Bearer {billing_token}"));
    let files = fs::read_dir(deployment.data())
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let keys = ["media.key", "dev.key"];
    for file in files.filter(|path| path.is_file() && !keys.iter().any(|key| path.ends_with(key))) {
        secrets.assert_absent_from(&file.display().to_string(), &fs::read(&file).unwrap());
    }
    let records = deployment.records();
    assert!(
        records.contain("standup"),
        "the right records are looked into"
    );
    for (what, secret) in &secrets.0 {
        assert!(!records.contain(secret), "{what} is in the records");
    }
    assert_eq!(running.terminate(), Some(0));
    let log = deployment.log();
    assert!(
        log.contains("TRACE") && log.contains("DEBUG"),
        "the log contains all levels"
    );
    secrets.assert_absent_from("the debug endpoints", shown.as_bytes());
    secrets.assert_absent_from("the log", log.as_bytes());
    for word in ["whsec_", "vk_test_", "Bearer "] {
        let line = log
            .lines()
            .find(|line| line.contains(word) && !line.contains(&running.key[..KEY_PREFIX]));
        assert_eq!(line, None, "{word} in the log");
    }
}

/// Proves S-70.
#[test]
fn files_with_stream_keys_of_earlier_versions_are_deleted_at_the_start() {
    let temporary = tempfile::tempdir().unwrap();
    let [left, other] = [".tmpLeft01", ".tmpOther1"].map(|name| temporary.path().join(name));
    fs::write(&left, "rtmp_app=live\nrtmp_playpath=a-key-of-a-broadcast\n").unwrap();
    fs::write(&other, "of another program").unwrap();
    let deployment = Deployment::new().with("TMPDIR", temporary.path().to_str().unwrap());
    let mut running = deployment.start();
    assert!(!left.exists() && other.exists());
    // All lines are written by then.
    assert_eq!(running.terminate(), Some(0));
    let log = deployment.log();
    let line = log
        .lines()
        .find(|line| line.contains("deleted the files with stream keys"))
        .expect("a line about them");
    assert!(line.contains("files=1"), "{line}");
    assert!(!deployment.log().contains("a-key-of-a-broadcast"));
}
