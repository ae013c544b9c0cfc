//! What a kill at any moment leaves: everything that was acknowledged, each thing once, and every story ended.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::deployment::{Deployment, Running};
use crate::support::{Receiver, Request, Response, eventually};

/// Threads that call at once.
const CALLERS: usize = 4;

/// Things the program said it had made.
#[derive(Default)]
struct Acknowledged {
    rooms: Vec<String>,
    endpoints: Vec<String>,
    templates: Vec<String>,
}

/// Calls from several threads until the program is killed, after about `calls` answers. Each caller stops when nobody
/// answers any more.
fn kill_under_load(running: Running, calls: usize, call: impl Fn(&Caller, usize, usize) -> Option<()> + Sync) {
    let answered = AtomicUsize::new(0);
    let caller = Caller { api: running.api.clone(), key: running.key.clone() };
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

/// How the callers reach the program while it is being killed.
struct Caller {
    api: String,
    key: String,
}

impl Caller {
    fn post(&self, path: &str, body: Value) -> Request {
        Request::new("POST", format!("{}{path}", self.api)).bearer(&self.key).json(body)
    }
}

/// Every row of a paged list.
fn all(running: &Running, path: &str, collection: &str) -> Vec<Value> {
    let mut rows = Vec::new();
    loop {
        let page = running.get(&format!("{path}?limit=200&offset={}", rows.len())).send().expect(200);
        rows.extend(page[collection].as_array().unwrap().iter().cloned());
        if page["has_more"] == false {
            return rows;
        }
    }
}

fn names(rows: &[Value], field: &str) -> BTreeMap<String, usize> {
    let mut names = BTreeMap::new();
    for row in rows {
        *names.entry(row[field].as_str().unwrap().to_owned()).or_default() += 1;
    }
    names
}

/// Waits until every delivery is final.
fn nothing_pending(running: &Running) {
    eventually(|| {
        let pending = running.get("/v1/webhook-deliveries?status=pending").send().expect(200);
        pending["webhook_deliveries"] == json!([])
    });
}

#[test]
fn everything_acknowledged_before_a_kill_is_there_after_it() {
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
            let endpoint = created("/v1/webhook-endpoints", json!({"url": "http://127.0.0.1:9/"}))?;
            let template = created("/v1/templates", json!({"name": name, "roles": {"host": {}}}));
            let mut known = acknowledged.lock().unwrap();
            known.rooms.push(room["name"].as_str().unwrap().to_owned());
            known.endpoints.push(endpoint["id"].as_str().unwrap().to_owned());
            known.templates.push(template?["id"].as_str().unwrap().to_owned());
            Some(())
        });
        let running = deployment.start();
        let known = acknowledged.lock().unwrap();
        let rooms = names(&all(&running, "/v1/rooms", "rooms"), "name");
        assert!(known.rooms.len() >= calls);
        assert!(known.rooms.iter().all(|name| rooms.get(name) == Some(&1)));
        let endpoints = names(&all(&running, "/v1/webhook-endpoints", "webhook_endpoints"), "id");
        assert!(known.endpoints.iter().all(|id| endpoints.contains_key(id)));
        let templates = names(&all(&running, "/v1/templates", "templates"), "id");
        assert!(known.templates.iter().all(|id| templates.contains_key(id)));
        // Each acknowledged room also lives: it has its actor.
        eventually(|| {
            let totals = running.admin("GET", "/debug/actors?kind=room&limit=1").send().expect(200);
            totals["totals"]["room"].as_u64() == Some(rooms.len() as u64)
        });
        running.kill();
    }
}

#[test]
fn a_request_that_got_no_answer_is_repeated_with_its_key_and_happens_once() {
    let deployment = Deployment::new();
    let asked = Mutex::new(BTreeMap::<String, Option<Vec<u8>>>::new());
    let create = |post: &dyn Fn(&str, Value) -> Request, name: &str| -> Option<Response> {
        post("/v1/rooms", json!({"name": name})).idempotency_key(&format!("make {name}")).try_send()
    };
    for (round, calls) in [5, 47, 90, 18].into_iter().enumerate() {
        kill_under_load(deployment.start(), calls, |caller, thread, n| {
            let name = format!("r{round}-{thread}-{n}");
            asked.lock().unwrap().insert(name.clone(), None);
            let response = create(&|path, body| caller.post(path, body), &name)?;
            assert_eq!(response.status, 201, "{}", response.text());
            asked.lock().unwrap().insert(name, Some(response.body));
            Some(())
        });
    }
    let running = deployment.start();
    let asked = asked.into_inner().unwrap();
    assert!(asked.values().any(Option::is_none), "some request was cut off");
    for (name, answer) in &asked {
        let response = create(&|path, body| running.post(path).json(body), name).unwrap();
        assert_eq!(response.status, 201, "{name}: {}", response.text());
        if let Some(before) = answer {
            assert_eq!(*before, response.body, "the answer given before the kill");
            assert_eq!(response.headers.get("idempotency-replayed").map(String::as_str), Some("true"));
        }
    }
    let rooms = names(&all(&running, "/v1/rooms", "rooms"), "name");
    assert_eq!(rooms.len(), asked.len());
    assert!(rooms.values().all(|times| *times == 1));
}

#[test]
fn somebody_who_was_inside_is_reported_gone_even_to_a_receiver_that_was_down() {
    let (deployment, receiver) = (Deployment::new(), Receiver::start());
    let running = deployment.start();
    let secret = running.endpoint(&receiver.url);
    running.room("standup", 600);
    let sid = running.join(&running.token("standup", "alice", "host"));
    assert_eq!(receiver.types(2), ["room.started", "participant.joined"]);
    // What was posted but not yet written down would be posted again.
    nothing_pending(&running);
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

#[test]
fn events_committed_before_a_kill_are_delivered_after_it() {
    // The first life never comes to its tick.
    let deployment = Deployment::new();
    let receiver = Receiver::start();
    let running = deployment.start();
    running.endpoint(&receiver.url);
    let mut expected = Vec::new();
    for n in 0..20 {
        let name = format!("r{n}");
        running.room(&name, 600);
        running.delete(&format!("/v1/rooms/{name}")).send().expect_empty(204);
        expected.push(name);
    }
    running.kill();
    let seen_before: Vec<_> = receiver.drain();
    let running = deployment.start();
    nothing_pending(&running);
    // At least once: what was being posted when the program died may come again.
    let seen = seen_before.into_iter().chain(receiver.drain());
    let mut rooms: Vec<_> = seen.map(|request| request.json()["room"].as_str().unwrap().to_owned()).collect();
    rooms.sort_unstable();
    rooms.dedup();
    expected.sort_unstable();
    assert_eq!(rooms, expected);
}

#[test]
fn a_room_whose_deadline_passed_while_nobody_ran_ends_right_after_the_start() {
    let (deployment, receiver) = (Deployment::new(), Receiver::start());
    let running = deployment.start();
    running.endpoint(&receiver.url);
    running.room("brief", 1);
    running.room("patient", 600);
    let made = Instant::now();
    running.kill();
    eventually(|| made.elapsed() > Duration::from_millis(1_100));
    let running = deployment.start();
    let started = Instant::now();
    let status = |name: &str| running.get(&format!("/v1/rooms/{name}")).send().expect(200)["status"].clone();
    eventually(|| status("brief") == "ended");
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    assert_eq!(status("patient"), "open");
    let event = receiver.next().json();
    assert_eq!((&event["type"], &event["room"]), (&json!("room.finished"), &json!("brief")));
}
