//! Every operation with every kind of invalid request: never a 5xx, always the error envelope, and only responses that the description
//! lists.

mod fields;
mod random;

use std::time::Duration;

use serde_json::{Value, json};

use crate::contract::{Described, every_operation, fits, row};
use crate::support::{Receiver, Request, Response, TestApp};
use crate::tools::{assert_envelope, default_template};

/// Errors that any operation can return without listing them, according to the description's preamble.
const GLOBAL: [(u16, &str); 5] = [
    (403, "origin_rejected"),
    (408, "request_timeout"),
    (413, "payload_too_large"),
    (415, "unsupported_media_type"),
    (409, "idempotency_key_reuse"),
];

/// An app and its described operations.
struct Api {
    app: TestApp,
    template: String,
    operations: Vec<Described>,
}

impl Api {
    /// Starts an app with a room and one participant.
    fn start() -> Self {
        Self::of(TestApp::start())
    }

    fn of(app: TestApp) -> Self {
        app.post("/v1/rooms")
            .json(json!({"name": "standup", "empty_timeout_seconds": 86_400}))
            .send()
            .expect(201);
        app.join("standup", "alice", "host");
        let operations = every_operation(&app);
        Self {
            template: default_template(&app),
            operations,
            app,
        }
    }

    /// Returns the operation's path with well-formed parameters.
    fn path(&self, operation: &Described) -> String {
        operation.concrete(|before, name| match (before, name) {
            ("rooms", _) => "standup".into(),
            ("participants" | "bans", _) => "alice".into(),
            ("roles" | "destinations", _) => "host".into(),
            ("templates", _) => self.template.clone(),
            ("recordings" | "broadcasts" | "ingress", _) => "EG_unknown".into(),
            ("codes", "code") => "abcd-efgh-jkmn".into(),
            _ => "0191d2c4-7a54-7cc1-8b59-3f1c5a0e9d21".into(),
        })
    }

    fn request(&self, operation: &Described) -> Request {
        self.app.request(&operation.method, &self.path(operation))
    }

    /// Returns a request with the description's example as the body, if the operation takes a body.
    fn request_with_example(&self, operation: &Described) -> Request {
        self.with_example(operation, &self.path(operation))
    }

    fn with_example(&self, operation: &Described, path: &str) -> Request {
        let request = self.app.request(&operation.method, path);
        match operation.example() {
            Some(example) => request.json(example.clone()),
            None => request,
        }
    }

    fn with_bodies(&self) -> impl Iterator<Item = (&Described, &Value)> {
        self.operations
            .iter()
            .filter_map(|operation| operation.example().map(|example| (operation, example)))
    }
}

/// Fails unless the description lists the response's status and code.
#[track_caller]
fn assert_described(operation: &Described, answer: &Response) {
    let text = || {
        format!(
            "{} answered {}: {}",
            operation.id(),
            answer.status,
            answer.text()
        )
    };
    assert!(answer.status < 500, "{}", text());
    if answer.status < 400 {
        assert!(
            row(operation.id()).success.contains(&answer.status),
            "{}",
            text()
        );
        return;
    }
    assert_envelope(answer);
    let body = answer.json();
    let code = body["error"]["code"].as_str().unwrap();
    assert!(
        operation.names(answer.status, code) || GLOBAL.contains(&(answer.status, code)),
        "{}",
        text()
    );
}

#[test]
fn no_operation_answers_without_a_credential_or_with_a_wrong_one() {
    let api = Api::start();
    for operation in api
        .operations
        .iter()
        .filter(|operation| row(operation.id()).auth != "none")
    {
        api.request(operation)
            .anonymous()
            .send()
            .expect_error(401, "unauthorized", None);
        let wrong = api
            .request(operation)
            .bearer(&format!("vk_test_{}", "0".repeat(43)));
        wrong.send().expect_error(401, "unauthorized", None);
    }
}

#[test]
fn no_operation_of_a_key_answers_to_a_room_token() {
    let api = Api::start();
    let token = api.app.token("standup", "alice", "host");
    for operation in api
        .operations
        .iter()
        .filter(|operation| row(operation.id()).auth == "key")
    {
        api.request(operation)
            .bearer(&token)
            .send()
            .expect_error(401, "unauthorized", None);
    }
}

#[test]
fn every_operation_of_a_key_counts_in_its_rate() {
    let burst = 200;
    let api = Api::of(TestApp::start_with(|config| {
        config.limits.requests_per_second = 1;
        config.limits.burst = burst;
    }));
    // Refills the rate limit that the start consumed.
    api.app.advance(Duration::from_secs(burst.into()));
    let mut left = burst;
    for operation in api
        .operations
        .iter()
        .filter(|operation| row(operation.id()).auth != "none")
    {
        assert_ne!(api.request(operation).send().status, 429);
        left -= 1;
    }
    for _ in 0..left {
        api.app.get("/v1/plan").send().expect(200);
    }
    for operation in api
        .operations
        .iter()
        .filter(|operation| row(operation.id()).auth != "none")
    {
        let limited = api.request(operation).send();
        limited.expect_error(429, "rate_limited", None);
    }
}

#[test]
fn every_idempotent_operation_replays_its_response() {
    let api = Api::start();
    let mut replayed = 0;
    for operation in &api.operations {
        if !row(operation.id()).idempotent {
            continue;
        }
        let send = || {
            let request = api.request_with_example(operation);
            request.header("idempotency-key", operation.id()).send()
        };
        let (first, second) = (send(), send());
        assert_described(operation, &first);
        assert_eq!(
            (second.status, second.text()),
            (first.status, first.text()),
            "{}",
            operation.id()
        );
        let header = |answer: &Response| answer.headers.contains_key("idempotency-replayed");
        assert_eq!(
            (header(&first), header(&second)),
            (false, true),
            "{}: {}",
            operation.id(),
            first.text()
        );
        replayed += 1;
    }
    assert!(replayed > 10, "{replayed}");
}

#[test]
fn no_operation_accepts_a_body_over_the_limit() {
    let api = Api::start();
    for operation in &api.operations {
        let answer = api.request(operation).raw("x".repeat(65_537)).send();
        answer.expect_error(413, "payload_too_large", None);
    }
}

#[test]
fn no_operation_with_a_body_accepts_another_media_type_or_an_absent_body() {
    let api = Api::start();
    for (operation, example) in api.with_bodies() {
        let request = api
            .request(operation)
            .json(example.clone())
            .header("content-type", "text/plain");
        request
            .send()
            .expect_error(415, "unsupported_media_type", None);
        let without = api.request(operation).send();
        if operation.requires_body() {
            without.expect_error(400, "invalid_request", None);
        } else {
            assert_described(operation, &without);
        }
    }
}

#[test]
fn no_operation_that_lists_400_accepts_an_unknown_query_parameter() {
    let api = Api::start();
    for operation in api
        .operations
        .iter()
        .filter(|operation| row(operation.id()).errors.contains(&400))
    {
        let path = format!("{}?colour=red", api.path(operation));
        let answer = api.with_example(operation, &path).send();
        answer.expect_error(400, "invalid_request", Some("colour"));
    }
}

#[test]
fn no_operation_accepts_an_unknown_body_field() {
    let api = Api::start();
    for (operation, example) in api.with_bodies() {
        let mut body = example.clone();
        body["colour"] = json!("red");
        api.request(operation).json(body).send().expect_error(
            400,
            "invalid_request",
            Some("colour"),
        );
    }
}

#[test]
fn an_operation_without_a_body_refuses_one_with_fields_if_it_lists_400_and_else_ignores_it() {
    let api = Api::start();
    for operation in api
        .operations
        .iter()
        .filter(|operation| operation.example().is_none())
    {
        for body in [&b"{"[..], b"[]", b"\xff", b"{}"] {
            assert_described(operation, &api.request(operation).raw(body).send());
        }
        let answer = api.request(operation).raw(b"{\"colour\":1}").send();
        if row(operation.id()).errors.contains(&400) {
            answer.expect_error(400, "invalid_request", Some("colour"));
        } else {
            assert!(
                answer.status != 400,
                "{}: {}",
                operation.id(),
                answer.text()
            );
        }
    }
}

#[test]
fn actual_answers_fit_the_description() {
    let api = Api::start();
    let receiver = Receiver::start();
    api.app.endpoint(&receiver.url);
    let sid = api.app.join("standup", "bob", "");
    api.app.publish(&sid, "audio", "microphone");
    api.app.leave(&sid, true);
    api.app.tick();
    receiver.next();
    let mut fitted = 0;
    for operation in api
        .operations
        .iter()
        .filter(|operation| operation.method != "DELETE")
    {
        let answer = api.request_with_example(operation).send();
        let content = format!(
            "/responses/{}/content/application~1json/schema",
            answer.status
        );
        let schema = operation
            .operation
            .pointer(&content)
            .unwrap_or_else(|| panic!("{}", answer.text()));
        fits(&operation.document, schema, &answer.json(), operation.id());
        fitted += u32::from(answer.status < 300);
    }
    assert!(fitted >= 15, "{fitted}");
}

/// Proves S-43.
#[test]
fn a_room_token_without_the_permission_cannot_moderate_its_room() {
    let api = Api::start();
    let token = api.app.token("standup", "bob", "guest");
    let mut refused = 0;
    for operation in api
        .operations
        .iter()
        .filter(|operation| operation.path.contains("/v1/rooms/{name}"))
    {
        let row = row(operation.id());
        let Some(permission) = row.permission else {
            continue;
        };
        let answer = api.request_with_example(operation).bearer(&token).send();
        assert_envelope(&answer);
        let body = answer.json();
        assert_eq!(
            (answer.status, &body["error"]["code"]),
            (403, &json!("permission_denied")),
            "{}",
            operation.id()
        );
        let field = body["error"]["field"].as_str().unwrap();
        assert!(
            permission.split('|').any(|known| known == field),
            "{}: {field}",
            operation.id()
        );
        refused += 1;
    }
    assert!(refused > 0);
}
