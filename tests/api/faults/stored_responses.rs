//! Requests with an `Idempotency-Key` while the database rejects writes: a key never has two responses, and no effect is repeated.

use conclave_model::faults::{Fault, arm, left};
use serde_json::{Value, json};
use test_postgres::Engine;

use super::database::{COMMIT_FAILS, assert_unavailable};
use crate::support::{Request, Response, TestApp};

/// Creates room `a` with Alice, who publishes a track. Returns both sids.
fn call(app: &TestApp) -> (String, String) {
    app.room("a");
    let alice = app.join("a", "alice", "host");
    let track = app.publish(&alice, "audio", "microphone");
    (alice, track)
}

fn token(app: &TestApp, key: &str) -> Request {
    app.post("/v1/tokens")
        .json(json!({"room": "a", "identity": "bob", "role": "host"}))
        .idempotency_key(key)
}

fn data(app: &TestApp, key: &str) -> Request {
    app.post("/v1/rooms/a/send-data")
        .json(json!({"data": "aGk="}))
        .idempotency_key(key)
}

fn on_alice(app: &TestApp, action: &str, body: Value) -> Request {
    app.post(&format!("/v1/rooms/a/participants/alice/{action}"))
        .json(body)
        .idempotency_key(action)
}

/// Returns the number of messages that a participant received.
fn received(app: &TestApp, sid: &str) -> usize {
    let view = app.view(sid);
    view["inbox"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|entry| entry["type"] == "data")
        .count()
}

#[track_caller]
fn assert_same(first: &Response, again: &Response) {
    assert_eq!((again.status, again.text()), (first.status, first.text()));
    assert!(
        !first.headers.contains_key("idempotency-replayed")
            && again.headers.contains_key("idempotency-replayed")
    );
}

/// Proves F-4.
#[test]
fn while_the_database_is_locked_nothing_is_done_and_the_same_key_then_does_it_once() {
    let app = TestApp::start();
    let (alice, track) = call(&app);
    let requests = || {
        [
            token(&app, "token"),
            data(&app, "data"),
            on_alice(&app, "mute", json!({"track_sid": track, "muted": true})),
            on_alice(&app, "role", json!({"role": "guest"})),
            app.post("/v1/rooms/a/recordings")
                .json(json!({"type": "room_composite"}))
                .idempotency_key("recording"),
        ]
    };
    let lock = app.records().lock();
    std::thread::scope(|scope| {
        let sent: Vec<_> = requests()
            .map(|request| scope.spawn(|| request.send()))
            .into_iter()
            .collect();
        sent.into_iter()
            .for_each(|sent| assert_unavailable(&sent.join().unwrap()));
        // Without a key, no response is stored.
        app.post("/v1/tokens")
            .json(json!({"room": "a", "identity": "bob"}))
            .send()
            .expect(201);
        // A malformed request is refused in the same way each time.
        let malformed = app
            .post("/v1/tokens")
            .json(json!({"room": "a"}))
            .idempotency_key("malformed");
        malformed
            .send()
            .expect_error(400, "invalid_request", Some("identity"));
        let participant = app.get("/v1/rooms/a/participants/alice").send().expect(200);
        assert_eq!(
            (&participant["tracks"][0]["muted"], received(&app, &alice)),
            (&json!(false), 0)
        );
        assert_eq!(participant["attributes"]["svc.role"], "host");
    });
    drop(lock);
    let first = requests().map(Request::send);
    assert_eq!(
        first.each_ref().map(|answer| answer.status),
        [201, 200, 200, 200, 201]
    );
    first
        .iter()
        .zip(requests().map(Request::send))
        .for_each(|(first, again)| assert_same(first, &again));
    assert_eq!(received(&app, &alice), 1);
    assert_eq!(
        app.get("/v1/recordings").send().expect(200)["recordings"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn a_refusal_that_cannot_be_stored_is_503() {
    let app = TestApp::start();
    app.room_with_roles("a", &json!({"host": {"max_peer_count": 1}}));
    let alice = app.join("a", "alice", "host");
    let lock = app.records().lock();
    assert_unavailable(&token(&app, "full").send());
    drop(lock);
    app.leave(&alice, true);
    let first = token(&app, "full").send();
    first.expect(201);
    assert_same(&first, &token(&app, "full").send());
}

/// Proves F-4.
#[test]
fn on_a_full_disk_a_key_gives_one_answer_and_sends_at_most_once() {
    let app = TestApp::start();
    let (alice, _) = call(&app);
    app.fill_disk();
    let (mut sent, mut refused) = (0, 0);
    for number in 0..20 {
        for request in [data, token] {
            let send = || request(&app, &format!("key-{number}")).send();
            let (first, again) = (send(), send());
            match first.status {
                503 => {
                    assert_unavailable(&first);
                    assert_unavailable(&again);
                    refused += 1;
                }
                status => {
                    assert_same(&first, &again);
                    sent += usize::from(status == 200);
                }
            }
        }
    }
    assert!(refused > 0, "the database had space");
    assert_eq!(received(&app, &alice), sent);
    app.free_disk();
    data(&app, "key-19").send().expect(200);
}

#[test]
fn what_has_been_done_is_answered_although_its_response_cannot_be_stored() {
    if Engine::Sqlite
        .is_not_chosen("the heartbeat of a server that shares its database would take the fault")
    {
        return;
    }
    let app = TestApp::start();
    let (alice, _) = call(&app);
    let scope = app.database_scope();
    arm(&scope, "batch begun", Fault::Sql("SELECT 1"));
    arm(&scope, "batch begun", COMMIT_FAILS);
    data(&app, "data").send().expect(200);
    assert_eq!((left(&scope), received(&app, &alice)), (0, 1));
}
