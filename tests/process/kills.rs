//! After SIGKILL at any moment: acknowledged changes exist exactly once, and open sessions are closed.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::deployment::{Deployment, Running};
use crate::support::{Receiver, Request, Response, eventually};

/// Threads that send requests concurrently.
const CALLERS: usize = 4;

/// Resources with an acknowledged creation.
#[derive(Default)]
struct Acknowledged {
    rooms: Vec<String>,
    endpoints: Vec<String>,
    templates: Vec<String>,
}

/// Sends requests from several threads and kills the server after about `calls` responses. Each thread stops at its first
/// request without a response.
fn kill_under_load(
    running: Running,
    calls: usize,
    call: impl Fn(&Caller, usize, usize) -> Option<()> + Sync,
) {
    let answered = AtomicUsize::new(0);
    let caller = Caller {
        api: running.api.clone(),
        key: running.key.clone(),
    };
    std::thread::scope(|scope| {
        for thread in 0..CALLERS {
            let (caller, call, answered) = (&caller, &call, &answered);
            scope.spawn(move || {
                for n in 0.. {
                    match call(caller, thread, n) {
                        Some(()) => answered.fetch_add(1, Ordering::SeqCst),
                        None => break,
                    };
                }
            });
        }
        eventually(|| answered.load(Ordering::SeqCst) >= calls);
        running.kill();
    });
}

/// Sends requests to a server that is about to be killed.
struct Caller {
    api: String,
    key: String,
}

impl Caller {
    fn post(&self, path: &str, body: Value) -> Request {
        Request::new("POST", format!("{}{path}", self.api))
            .bearer(&self.key)
            .json(body)
    }
}

/// Returns all rows of a paged list.
fn list_all(running: &Running, path: &str, collection: &str) -> Vec<Value> {
    let mut rows = Vec::new();
    loop {
        let page = running
            .get(&format!("{path}?limit=200&offset={}", rows.len()))
            .send()
            .expect(200);
        rows.extend(page[collection].as_array().unwrap().iter().cloned());
        if page["has_more"] == false {
            return rows;
        }
    }
}

fn count_by(rows: &[Value], field: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for row in rows {
        *counts
            .entry(row[field].as_str().unwrap().to_owned())
            .or_default() += 1;
    }
    counts
}

/// Waits until every delivery is final.
fn wait_for_deliveries(running: &Running) {
    eventually(|| {
        let pending = running
            .get("/v1/webhook-deliveries?status=pending")
            .send()
            .expect(200);
        pending["webhook_deliveries"] == json!([])
    });
}

/// Proves R-1.
#[test]
fn acknowledged_resources_exist_after_a_kill() {
    let deployment = Deployment::new();
    let acknowledged = Mutex::new(Acknowledged::default());
    for (round, calls) in [7, 60, 23, 111, 40].into_iter().enumerate() {
        kill_under_load(deployment.start(), calls, |caller, thread, n| {
            let name = format!("r{round}-{thread}-{n}");
            let created = |path: &str, body: Value| {
                let response = caller.post(path, body).try_send()?;
                Some(response.expect(201))
            };
            let room = created("/v1/rooms", json!({"name": name}))?;
            let endpoint = created(
                "/v1/webhook-endpoints",
                json!({"url": "http://127.0.0.1:9/"}),
            )?;
            let template = created(
                "/v1/templates",
                json!({"name": name, "roles": {"host": {}}}),
            );
            let mut known = acknowledged.lock().unwrap();
            known.rooms.push(room["name"].as_str().unwrap().to_owned());
            known
                .endpoints
                .push(endpoint["id"].as_str().unwrap().to_owned());
            known
                .templates
                .push(template?["id"].as_str().unwrap().to_owned());
            Some(())
        });
        let running = deployment.start();
        let known = acknowledged.lock().unwrap();
        let rooms = count_by(&list_all(&running, "/v1/rooms", "rooms"), "name");
        assert!(known.rooms.len() >= calls);
        assert!(known.rooms.iter().all(|name| rooms.get(name) == Some(&1)));
        let endpoints = count_by(
            &list_all(&running, "/v1/webhook-endpoints", "webhook_endpoints"),
            "id",
        );
        assert!(known.endpoints.iter().all(|id| endpoints.contains_key(id)));
        let templates = count_by(&list_all(&running, "/v1/templates", "templates"), "id");
        assert!(known.templates.iter().all(|id| templates.contains_key(id)));
        // Each acknowledged room is also listed among the actors.
        eventually(|| {
            let totals = running
                .admin("GET", "/debug/actors?kind=room&limit=1")
                .send()
                .expect(200);
            totals["totals"]["room"].as_u64() == Some(rooms.len() as u64)
        });
        running.kill();
    }
}

/// Proves R-15.
#[test]
fn a_request_without_a_response_can_be_retried_with_its_idempotency_key() {
    let deployment = Deployment::new();
    let requests = Mutex::new(BTreeMap::<String, Option<Vec<u8>>>::new());
    let create = |post: &dyn Fn(&str, Value) -> Request, name: &str| -> Option<Response> {
        post("/v1/rooms", json!({"name": name}))
            .idempotency_key(&format!("create {name}"))
            .try_send()
    };
    for (round, calls) in [5, 47, 90, 18].into_iter().enumerate() {
        kill_under_load(deployment.start(), calls, |caller, thread, n| {
            let name = format!("r{round}-{thread}-{n}");
            requests.lock().unwrap().insert(name.clone(), None);
            let response = create(&|path, body| caller.post(path, body), &name)?;
            assert_eq!(response.status, 201, "{}", response.text());
            requests.lock().unwrap().insert(name, Some(response.body));
            Some(())
        });
    }
    let running = deployment.start();
    let requests = requests.into_inner().unwrap();
    assert!(
        requests.values().any(Option::is_none),
        "the kill interrupted a request"
    );
    for (name, response_before) in &requests {
        let response = create(&|path, body| running.post(path).json(body), name).unwrap();
        assert_eq!(response.status, 201, "{name}: {}", response.text());
        if let Some(before) = response_before {
            assert_eq!(*before, response.body, "the response from before the kill");
            assert_eq!(
                response
                    .headers
                    .get("idempotency-replayed")
                    .map(String::as_str),
                Some("true")
            );
        }
    }
    let rooms = count_by(&list_all(&running, "/v1/rooms", "rooms"), "name");
    assert_eq!(rooms.len(), requests.len());
    assert!(rooms.values().all(|times| *times == 1));
}

#[test]
fn a_participant_connected_at_a_kill_is_reported_as_aborted_also_to_a_receiver_that_was_down() {
    let (deployment, receiver) = (Deployment::new(), Receiver::start());
    let running = deployment.start();
    let secret = running.endpoint(&receiver.url);
    running.room("standup", 600);
    let sid = running.join(&running.token("standup", "alice", "host"));
    assert_eq!(receiver.types(2), ["room.started", "participant.joined"]);
    // A delivery that was sent but not yet recorded would be sent again.
    wait_for_deliveries(&running);
    receiver.answer_with(503);
    running.kill();

    let running = deployment.start();
    let mut event = receiver.next();
    receiver.answer_with(204);
    assert_eq!(event.json()["type"], "participant.connection_aborted");
    assert_eq!(event.json()["participant_sid"], *sid);
    let id = event.header("webhook-id").to_owned();
    eventually(|| {
        let path = "/v1/webhook-deliveries?event_type=participant.connection_aborted";
        let delivery = running.get(path).send().expect(200)["webhook_deliveries"][0].clone();
        delivery["status"] == "delivered"
    });
    event = receiver.next();
    assert_eq!(event.header("webhook-id"), id);
    assert!(event.is_signed_with(&secret));
    let session = running.get("/v1/sessions").send().expect(200)["sessions"][0].clone();
    assert!(session.get("left_at").is_some(), "{session}");
    let again = running.join(&running.token("standup", "alice", "host"));
    assert_ne!(again, sid);
}

/// Proves R-2.
#[test]
fn events_committed_before_a_kill_are_delivered_after_it() {
    let deployment = Deployment::new();
    let receiver = Receiver::start();
    let running = deployment.start();
    running.endpoint(&receiver.url);
    let mut expected = Vec::new();
    for n in 0..20 {
        let name = format!("r{n}");
        running.room(&name, 600);
        running
            .delete(&format!("/v1/rooms/{name}"))
            .send()
            .expect_empty(204);
        expected.push(name);
    }
    running.kill();
    let seen_before: Vec<_> = receiver.drain();
    let running = deployment.start();
    wait_for_deliveries(&running);
    // Deliveries are at least once: a delivery in flight at the kill may be repeated.
    let seen = seen_before.into_iter().chain(receiver.drain());
    let mut rooms: Vec<_> = seen
        .map(|request| request.json()["room"].as_str().unwrap().to_owned())
        .collect();
    rooms.sort_unstable();
    rooms.dedup();
    expected.sort_unstable();
    assert_eq!(rooms, expected);
}

/// Proves R-4.
#[test]
fn a_room_whose_deadline_passed_while_the_server_was_down_ends_right_after_the_start() {
    let (deployment, receiver) = (Deployment::new(), Receiver::start());
    let running = deployment.start();
    running.endpoint(&receiver.url);
    running.room("short", 600);
    running.room("long", 600);
    running.kill();
    // As if the server had been down for as long.
    deployment
        .records()
        .run("UPDATE rooms SET empty_deadline = created_at WHERE name = 'short'");
    let running = deployment.start();
    let status =
        |name: &str| running.get(&format!("/v1/rooms/{name}")).send().expect(200)["status"].clone();
    eventually(|| status("short") == "ended");
    assert_eq!(status("long"), "open");
    let event = receiver.next().json();
    assert_eq!(
        (&event["type"], &event["room"]),
        (&json!("room.finished"), &json!("short"))
    );
}
