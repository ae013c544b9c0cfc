//! The identities `.` and `..`: HTTP clients resolve them as path segments, so a request about such a participant would act on its
//! room.

use serde_json::{Value, json};

use crate::support::{Response, TestApp};
use crate::tools::{exchange, parsed};

const DOTS: [&str; 2] = [".", ".."];

/// Sends a request with a raw path, which an HTTP client would normalise.
fn send_raw(app: &TestApp, method: &str, path: &str, body: &str) -> Response {
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        app.key,
        body.len()
    );
    parsed(&exchange(app, head.as_bytes()))
}

fn create_code(app: &TestApp, body: Value) -> Response {
    app.post("/v1/rooms/a/codes").json(body).send()
}

/// Proves S-48.
#[test]
fn they_are_refused_wherever_an_identity_enters() {
    let app = TestApp::start();
    app.room("a");
    let code = create_code(&app, json!({"role": "guest"})).expect(201);
    let exchange = format!("/v1/codes/{}/exchange", code["code"].as_str().unwrap());
    for dots in DOTS {
        let refused = |answer: Response, field: &str| {
            answer.expect_error(400, "invalid_identity", Some(field));
        };
        refused(
            app.post("/v1/tokens")
                .json(json!({"room": "a", "identity": dots}))
                .send(),
            "identity",
        );
        refused(
            create_code(&app, json!({"role": "guest", "identity": dots})),
            "identity",
        );
        refused(
            app.post(&exchange)
                .anonymous()
                .json(json!({"identity": dots}))
                .send(),
            "identity",
        );
        for input_type in ["rtmp", "whip"] {
            let ingress = json!({"input_type": input_type, "participant_identity": dots});
            refused(
                app.post("/v1/rooms/a/ingress").json(ingress).send(),
                "participant_identity",
            );
        }
        let data = json!({"data": "aGk=", "destination_identities": ["alice", dots]});
        refused(
            app.post("/v1/rooms/a/send-data").json(data).send(),
            "destination_identities[1]",
        );
        let recording = json!({"type": "participant", "identity": dots});
        refused(
            app.post("/v1/rooms/a/recordings").json(recording).send(),
            "identity",
        );
        for list in [
            "/v1/sessions",
            "/v1/rooms/a/sessions",
            "/v1/rooms/a/role-changes",
        ] {
            refused(
                app.get(&format!("{list}?identity={dots}")).send(),
                "identity",
            );
        }
    }
    for identity in ["...", ".a", "a.", "..a", "-", "@", "_"] {
        app.post("/v1/tokens")
            .json(json!({"room": "a", "identity": identity}))
            .send()
            .expect(201);
    }
}

/// Proves S-48.
#[test]
fn a_path_with_one_is_refused_and_the_room_goes_on() {
    let app = TestApp::start();
    app.room("a");
    app.join("a", "alice", "host");
    for dots in [".", "..", "%2e", "%2E%2e", ".%2E"] {
        let participant = format!("/v1/rooms/a/participants/{dots}");
        let mute = r#"{"track_sid": "TR_1", "muted": true}"#;
        for (method, path, body) in [
            ("GET", participant.clone(), ""),
            ("DELETE", participant.clone(), ""),
            ("POST", format!("{participant}/mute"), mute),
            (
                "POST",
                format!("{participant}/role"),
                r#"{"role": "guest"}"#,
            ),
        ] {
            send_raw(&app, method, &path, body).expect_error(
                400,
                "invalid_identity",
                Some("identity"),
            );
        }
    }
    assert_eq!(app.get("/v1/rooms/a").send().expect(200)["status"], "open");
    assert_eq!(
        app.get("/v1/rooms/a/participants").send().expect(200)["participants"][0]["identity"],
        "alice"
    );
}

#[test]
fn records_of_an_earlier_version_stay_readable_and_give_no_token() {
    let app = TestApp::start();
    app.room("a");
    let alice = app.join("a", "alice", "host");
    let change = app
        .post("/v1/rooms/a/participants/alice/role")
        .json(json!({"role": "guest"}));
    change.send().expect(200);
    app.leave(&alice, true);
    let code = create_code(&app, json!({"role": "guest", "identity": "alice"})).expect(201);
    app.records().run(
        "UPDATE sessions SET participant_identity = '..'; UPDATE role_changes SET participant_identity = '..';
         UPDATE codes SET identity = '..'",
    );
    assert_eq!(
        app.get("/v1/sessions").send().expect(200)["sessions"][0]["participant_identity"],
        ".."
    );
    let changes = app.get("/v1/rooms/a/role-changes").send().expect(200);
    assert_eq!(changes["role_changes"][0]["participant_identity"], "..");
    assert_eq!(
        app.get("/v1/rooms/a/codes").send().expect(200)["codes"][0]["identity"],
        ".."
    );
    let exchange = app
        .post(&format!(
            "/v1/codes/{}/exchange",
            code["code"].as_str().unwrap()
        ))
        .anonymous();
    exchange
        .send()
        .expect_error(400, "invalid_identity", Some("identity"));
}
