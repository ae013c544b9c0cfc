//! The external billing service, `billing.url`: its decisions, and operation while it is unavailable.

use std::time::Duration;

use conclave_model::Secret;
use serde_json::{Value, json};
use test_http_server as server;

use crate::support::{FakeBilling, Request, Response, TestApp, eventually};
use crate::tools::conclave;

const TOKEN: &str = "tell-nobody";
/// Cache lifetimes of an answer and of a failure.
const ANSWER_HOLDS: Duration = Duration::from_secs(30);
const FAILURE_HOLDS: Duration = Duration::from_secs(1);

/// An app with a billing service, an open room and a room code.
struct Billed {
    app: TestApp,
    service: FakeBilling,
    code: String,
}

impl Billed {
    fn start() -> Self {
        let service = FakeBilling::start();
        let app = TestApp::start_with(|config| {
            config.billing.url = Some(service.url.clone());
            config.billing.token = Some(Secret::new(TOKEN));
        });
        app.room("a");
        let code = app
            .post("/v1/rooms/a/codes")
            .json(json!({"role": "guest"}))
            .send()
            .expect(201);
        Self {
            app,
            service,
            code: code["code"].as_str().unwrap().to_owned(),
        }
    }

    /// Sets the service's answer and expires the cached one.
    fn set_standing(&self, standing: &str) {
        self.service.set_standing(standing);
        self.app.advance(ANSWER_HOLDS);
    }

    fn token(&self) -> Request {
        self.app
            .post("/v1/tokens")
            .json(json!({"room": "a", "identity": "alice"}))
    }

    fn exchange(&self) -> Request {
        self.app
            .post(&format!("/v1/codes/{}/exchange", self.code))
            .anonymous()
    }

    fn create(&self, name: &str) -> Request {
        self.app
            .post("/v1/rooms")
            .json(json!({"name": name, "empty_timeout_seconds": 4_000_000}))
    }

    fn project(&self, words: &[&str]) {
        conclave(&self.app, &[&["project"], words].concat());
    }

    /// Connects seven participants for 120 hours on the plan with overage: 400 minutes past the block.
    fn spend_the_block(&self) {
        self.project(&["set-plan", &self.app.project, "starter"]);
        self.create("long").send().expect(201);
        for identity in ["p1", "p2", "p3", "p4", "p5", "p6", "p7"] {
            self.app.join("long", identity, "guest");
        }
        self.app.advance(Duration::from_secs(120 * 3_600));
    }

    fn quota_state(&self) -> Value {
        self.app.get("/v1/plan").send().expect(200)["quota_state"].clone()
    }
}

#[track_caller]
fn unavailable(answer: &Response) {
    answer.expect_error(503, "billing_unavailable", None);
    assert_eq!(answer.headers["retry-after"], "1");
}

#[test]
fn the_service_is_asked_for_the_project_with_the_token() {
    let billed = Billed::start();
    billed.token().send().expect(201);
    let path = format!("GET /pay/v1/projects/{}/standing", billed.app.project);
    assert_eq!(
        billed.service.last_request(),
        (path, format!("Bearer {TOKEN}"))
    );
}

#[test]
fn every_call_that_starts_work_is_refused_as_the_service_says() {
    let billed = Billed::start();
    for (said, code, state) in [
        ("insufficient_balance", "insufficient_balance", "exceeded"),
        ("suspended", "quota_exceeded", "suspended"),
    ] {
        billed.set_standing(said);
        billed.token().send().expect_error(402, code, None);
        billed.create("b").send().expect_error(402, code, None);
        billed.exchange().send().expect_error(402, code, None);
        assert_eq!(billed.quota_state(), state);
        assert_eq!(
            billed.app.get("/v1/usage").send().expect(200)["plan"]["quota_state"],
            state
        );
    }
    billed.set_standing("ok");
    billed.token().send().expect(201);
    billed.exchange().send().expect(201);
    billed.create("b").send().expect(201);
    assert_eq!(billed.quota_state(), "active");
    // A use is counted only for the exchange that returned a token.
    assert_eq!(
        billed.app.get("/v1/rooms/a/codes").send().expect(200)["codes"][0]["uses"],
        1
    );
}

#[test]
fn an_answer_is_cached_for_30_seconds_per_project() {
    let billed = Billed::start();
    billed.token().send().expect(201);
    billed.service.set_standing("suspended");
    let asked = billed.service.request_count();
    billed.app.advance(ANSWER_HOLDS - Duration::from_millis(1));
    billed.token().send().expect(201);
    assert_eq!(billed.service.request_count(), asked);
    let other = crate::tools::other_project(&billed.app, "self_hosted");
    billed
        .create("b")
        .bearer(&other.key)
        .send()
        .expect_error(402, "quota_exceeded", None);
    billed.app.advance(Duration::from_millis(1));
    billed
        .token()
        .send()
        .expect_error(402, "quota_exceeded", None);
    assert_eq!(billed.service.request_count(), asked + 2);
}

#[test]
fn concurrent_calls_share_one_request_to_the_service() {
    let billed = Billed::start();
    billed.app.advance(ANSWER_HOLDS);
    let before = billed.service.request_count();
    let asking: Vec<_> = billed.service.silent_while(|| {
        let ask = |_| {
            let request = billed.token();
            std::thread::spawn(move || request.send().status)
        };
        let asking = (0..12).map(ask).collect();
        eventually(|| billed.service.request_count() == before + 1);
        asking
    });
    assert!(
        asking
            .into_iter()
            .all(|asking| asking.join().unwrap() == 201)
    );
    assert_eq!(billed.service.request_count(), before + 1);
}

#[test]
fn an_unknown_answer_counts_as_a_failure() {
    let billed = Billed::start();
    let elsewhere = FakeBilling::start();
    let ok = json!({"standing": "ok"}).to_string();
    let answer = |response| billed.service.answer_with(response);
    let answers: [&dyn Fn(); 8] = [
        &|| answer(server::Response::new(500).body(ok.as_str())),
        &|| answer(server::Response::new(404)),
        &|| answer(server::Response::new(204)),
        &|| {
            answer(
                server::Response::new(302)
                    .header("Location", &elsewhere.url)
                    .body(ok.as_str()),
            );
        },
        &|| answer(server::Response::new(200).body("not json")),
        &|| billed.service.set_standing("splendid"),
        &|| answer(server::Response::new(200).body("{}")),
        &|| billed.service.answer_with_bytes(b"\0\0\0\r\n\r\n".to_vec()),
    ];
    for answer in answers {
        answer();
        billed.app.advance(ANSWER_HOLDS);
        unavailable(&billed.token().send());
    }
    assert_eq!(elsewhere.request_count(), 0, "a redirect is not followed");
    billed
        .service
        .answer_with(server::Response::new(200).body(" ".repeat(20_000)));
    billed.app.advance(FAILURE_HOLDS);
    unavailable(&billed.token().send());
    billed.set_standing("ok");
    billed.token().send().expect(201);
}

#[test]
fn a_timeout_of_the_service_is_cached_for_a_second() {
    let billed = Billed::start();
    billed.app.advance(ANSWER_HOLDS);
    let before = billed.service.request_count();
    billed.service.silent_while(|| {
        unavailable(&billed.token().send());
        // The failure is cached, so no call waits for the service again.
        unavailable(&billed.token().send());
        unavailable(&billed.exchange().send());
    });
    assert_eq!(billed.service.request_count(), before + 1);
    billed.app.advance(FAILURE_HOLDS);
    billed.token().send().expect(201);
}

#[test]
fn without_the_service_operations_that_do_not_list_the_503_follow_the_records() {
    let app = TestApp::start_with(|config| config.billing.url = Some("http://127.0.0.1:9".into()));
    app.room("a");
    unavailable(
        &app.post("/v1/tokens")
            .json(json!({"room": "a", "identity": "alice"}))
            .send(),
    );
    unavailable(&app.get("/v1/usage").send());
    assert_eq!(
        app.get("/v1/plan").send().expect(200)["quota_state"],
        "active"
    );
    let code = app
        .post("/v1/rooms/a/codes")
        .json(json!({"role": "guest", "max_uses": 1}))
        .send()
        .expect(201);
    let exchange = format!("/v1/codes/{}/exchange", code["code"].as_str().unwrap());
    unavailable(&app.post(&exchange).anonymous().send());
    assert_eq!(
        app.get("/v1/rooms/a/codes").send().expect(200)["codes"][0]["uses"],
        0
    );
    // A refusal by the records applies even while the service is unreachable.
    conclave(&app, &["project", "suspend", &app.project]);
    let token = app
        .post("/v1/tokens")
        .json(json!({"room": "a", "identity": "alice"}))
        .send();
    token.expect_error(402, "quota_exceeded", None);
    app.post(&exchange)
        .anonymous()
        .send()
        .expect_error(402, "quota_exceeded", None);
    app.post(&exchange)
        .anonymous()
        .raw("{")
        .send()
        .expect_error(400, "invalid_request", None);
    app.post("/v1/codes/abcd-efgh-jkmn/exchange")
        .anonymous()
        .send()
        .expect_error(404, "code_not_found", None);
}

#[test]
fn calls_refused_by_the_operator_or_the_plan_do_not_ask_the_service() {
    let billed = Billed::start();
    billed.project(&["suspend", &billed.app.project]);
    let before = billed.service.request_count();
    billed.app.advance(ANSWER_HOLDS);
    billed
        .token()
        .send()
        .expect_error(402, "quota_exceeded", None);
    billed
        .create("b")
        .send()
        .expect_error(402, "quota_exceeded", None);
    assert_eq!(billed.quota_state(), "suspended");
    billed.project(&["resume", &billed.app.project]);
    billed.project(&["set-plan", &billed.app.project, "free"]);
    billed.app.advance(ANSWER_HOLDS);
    assert_eq!(billed.service.request_count(), before);
    billed.create("long").send().expect(201);
    billed.app.join("long", "alice", "guest");
    billed.app.advance(Duration::from_secs(167 * 3_600));
    let before = billed.service.request_count();
    billed
        .token()
        .send()
        .expect_error(402, "quota_exceeded", None);
    assert_eq!(
        (billed.quota_state(), billed.service.request_count()),
        (json!("exceeded"), before)
    );
}

#[test]
fn the_local_wallet_counts_only_while_the_service_is_unreachable() {
    let billed = Billed::start();
    billed.spend_the_block();
    // The local wallet is empty, and the service covers the charge.
    billed.create("b").send().expect(201);
    assert_eq!(billed.quota_state(), "active");
    billed.service.answer_with(server::Response::new(500));
    billed.app.advance(ANSWER_HOLDS);
    unavailable(
        &billed
            .app
            .post("/v1/tokens")
            .json(json!({"room": "b", "identity": "bob"}))
            .send(),
    );
    billed
        .create("c")
        .send()
        .expect_error(402, "insufficient_balance", None);
    billed.project(&["credit", &billed.app.project, "100000"]);
    billed.create("c").send().expect(201);
}

#[test]
fn with_a_service_months_are_not_debited_from_the_local_wallet() {
    let billed = Billed::start();
    billed.project(&["credit", &billed.app.project, "5000"]);
    billed.spend_the_block();
    // From March 6 to April 2, and on to April 6: the participants are still connected, 400 minutes past April's block.
    billed.app.advance(Duration::from_secs(27 * 24 * 3_600));
    assert_eq!(billed.quota_state(), "active");
    billed.app.advance(Duration::from_secs(84 * 3_600));
    // Without the service, the wallet covers April's 3,200 shillings. March, at two millions, was not debited.
    billed.service.answer_with(server::Response::new(500));
    billed.app.advance(ANSWER_HOLDS);
    billed.create("b").send().expect(201);
}
