//! The admin listener: health, actors, and the event stream.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use conclave_model::Secret;
use serde_json::{Value, json};

use crate::support::{Receiver, Request, TestApp, WAIT_LIMIT, Watcher, eventually};

fn keys(value: &Value) -> Vec<&str> {
    value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

fn ids(page: &Value) -> Vec<&str> {
    page["actors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|actor| actor["id"].as_str().unwrap())
        .collect()
}

fn actors(app: &TestApp, query: &str) -> Value {
    app.actors(query)
}

#[test]
fn the_tree_is_listed_from_its_root_with_totals_by_kind() {
    let app = TestApp::start();
    app.room("standup");
    app.room("retro");
    let endpoint = app.endpoint("http://127.0.0.1:9/hook")["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let project = app.project.clone();
    eventually(|| actors(&app, "?kind=webhook_endpoint")["actors"] != json!([]));
    let page = actors(&app, "");
    let expected = [
        "system".to_owned(),
        project.clone(),
        format!("{project}/room/retro"),
        format!("{project}/room/standup"),
        format!("{project}/webhook/{endpoint}"),
    ];
    assert_eq!(ids(&page), expected);
    assert_eq!(
        keys(&page),
        ["actors", "has_more", "limit", "offset", "totals"]
    );
    assert_eq!(
        page["totals"],
        json!({"system": 1, "project": 1, "room": 2, "webhook_endpoint": 1})
    );
    assert_eq!(
        (&page["limit"], &page["offset"], &page["has_more"]),
        (&json!(50), &json!(0), &json!(false))
    );
}

#[test]
fn an_actor_shows_its_common_fields_and_its_own_state() {
    let app = TestApp::start();
    app.room("standup");
    let page = actors(&app, "?kind=room");
    let room = &page["actors"][0];
    let expected = json!({
        "id": format!("{}/room/standup", app.project), "kind": "room", "parent": app.project,
        "project_id": app.project, "name": "standup", "status": "hibernating", "started_at": app.now(), "restarts": 0,
        "mailbox": room["mailbox"], "handled": room["handled"],
        "timers": [{"name": "empty_timeout", "fires_at": "2026-03-01T12:05:00.000Z"}],
        "state": {
            "status": "open", "participants": {}, "holders": {}, "reserved": [],
            "empty_deadline": "2026-03-01T12:05:00.000Z"
        }
    });
    assert_eq!(*room, expected);
    let system = &actors(&app, "?kind=system")["actors"][0];
    assert_eq!(
        (&system["parent"], &system["project_id"]),
        (&Value::Null, &Value::Null)
    );
}

#[test]
fn a_room_shows_its_participants_by_role() {
    let app = TestApp::start();
    app.room("standup");
    for (identity, role) in [
        ("alice", "host"),
        ("bob", "guest"),
        ("carol", "guest"),
        ("dan", ""),
    ] {
        app.join("standup", identity, role);
    }
    let state = actors(&app, "?kind=room")["actors"][0]["state"].clone();
    assert_eq!(
        state["participants"],
        json!({"host": ["alice"], "guest": ["bob", "carol"], "": ["dan"]})
    );
    assert_eq!(state["holders"], json!({"host": 1, "guest": 2, "": 1}));
    assert_eq!(state["empty_deadline"], Value::Null);
}

#[test]
fn an_endpoint_shows_its_last_response_and_whether_it_backs_off() {
    let (app, receiver) = TestApp::start_with_receiver();
    app.room("standup");
    receiver.answer_with(500);
    app.delete("/v1/rooms/standup").send().expect_empty(204);
    app.deliver();
    let endpoint = actors(&app, "?kind=webhook_endpoint")["actors"][0].clone();
    assert_eq!(
        keys(&endpoint["state"]),
        [
            "backoff",
            "due",
            "in_flight",
            "last_response",
            "running",
            "unrecorded"
        ]
    );
    assert_eq!(endpoint["state"]["backoff"], true);
    assert_eq!(endpoint["state"]["last_response"]["response_status"], 500);
    assert_eq!(endpoint["state"]["due"], endpoint["timers"][0]["fires_at"]);
}

#[test]
fn actors_are_filtered_and_paged() {
    let app = TestApp::start();
    for name in ["alpha", "beta", "gamma"] {
        app.room(name);
    }
    assert_eq!(ids(&actors(&app, "?kind=room&q=ta")).len(), 1);
    assert_eq!(
        ids(&actors(&app, &format!("?project={}", app.project))).len(),
        4
    );
    assert_eq!(ids(&actors(&app, "?project=prj_000000000000")).len(), 0);
    let page = actors(&app, "?kind=room&limit=2");
    assert_eq!(
        (ids(&page).len(), &page["has_more"], &page["totals"]),
        (2, &json!(true), &json!({"room": 3}))
    );
    let page = actors(&app, "?kind=room&limit=2&offset=2");
    assert_eq!(
        (ids(&page).len(), &page["has_more"], &page["offset"]),
        (1, &json!(false), &json!(2))
    );
    let refused = |query: &str| app.admin("GET", &format!("/debug/actors?{query}")).send();
    refused("kind=planet").expect_error(400, "invalid_request", Some("kind"));
    refused("project=x").expect_error(400, "invalid_request", Some("project"));
    refused("limit=0").expect_error(400, "invalid_request", Some("limit"));
    refused("colour=red").expect_error(400, "invalid_request", Some("colour"));
}

#[test]
fn one_actor_is_read_by_its_path_with_its_recent_history() {
    let app = TestApp::start();
    app.room("standup");
    app.join("standup", "alice", "host");
    app.delete("/v1/rooms/standup/participants/alice")
        .send()
        .expect_empty(204);
    let actor = app.actors(&format!("/{}/room/standup", app.project));
    let steps: Vec<_> = actor["history"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| step["message"].as_str().unwrap())
        .collect();
    assert_eq!(steps.first(), Some(&"report"));
    assert!(steps.contains(&"remove_participant"), "{steps:?}");
    assert_eq!(keys(&actor["history"][0]), ["at", "message"]);
    assert_eq!(
        app.admin("GET", "/debug/actors/system").send().expect(200)["kind"],
        "system"
    );
    let project = app.actors(&format!("/{}", app.project));
    assert_eq!(project["state"]["open_rooms"], 1);
    app.admin("GET", "/debug/actors/prj_x/room/none")
        .send()
        .expect_error(404, "not_found", None);
}

#[test]
fn an_ended_room_is_gone_from_the_tree() {
    let app = TestApp::start();
    app.room("standup");
    app.delete("/v1/rooms/standup").send().expect_empty(204);
    eventually(|| ids(&actors(&app, "?kind=room")).is_empty());
}

#[test]
fn the_tree_reads_as_indented_text() {
    let app = TestApp::start();
    app.room("standup");
    let text = |path: &str| app.admin("GET", path).header("accept", "text/plain").send();
    let tree = text("/debug/actors");
    assert!(tree.headers["content-type"].starts_with("text/plain"));
    let tree = tree.text();
    let starts: Vec<_> = tree
        .lines()
        .map(|line| line.split(" [").next().unwrap())
        .collect();
    assert_eq!(starts[0], "system system");
    assert_eq!(starts[1], format!("  project {}", app.project));
    assert_eq!(starts[2], "    room standup");
    assert!(tree.lines().last().unwrap().contains("room=1"), "{tree}");
    let one = text(&format!("/debug/actors/{}/room/standup", app.project)).text();
    assert!(
        one.contains("room standup [hibernating]")
            && one.contains("empty_timeout@2026-03-01T12:05:00.000Z"),
        "{one}"
    );
}

#[test]
fn the_tree_is_text_only_for_clients_that_prefer_text() {
    let app = TestApp::start();
    let is_text = |accept: &str| {
        let answer = app
            .admin("GET", "/debug/actors")
            .header("accept", accept)
            .send();
        answer.headers["content-type"].starts_with("text/plain")
    };
    for accept in [
        "text/plain",
        "text/plain;charset=utf-8",
        "text/plain, */*",
        "text/plain, application/json;q=0.5",
    ] {
        assert!(is_text(accept), "{accept}");
    }
    for accept in [
        "*/*",
        "application/json",
        "application/json, text/plain, */*",
        "text/plain;q=0",
        "text/plain;q=0.1, */*",
        "text/html, text/plain;q=0.5, application/json;q=0.9",
        "nonsense",
    ] {
        assert!(!is_text(accept), "{accept}");
    }
}

#[test]
fn the_event_stream_has_the_same_payload_as_webhooks() {
    let (app, receiver) = TestApp::start_with_receiver();
    let watcher = Watcher::start(&app, "");
    assert!(
        watcher.head().contains("content-type: text/event-stream"),
        "{}",
        watcher.head()
    );
    app.room("standup");
    let alice = app.join("standup", "alice", "host");
    app.leave(&alice, true);
    app.deliver();
    let mut last = 0;
    for event_type in ["room.started", "participant.joined", "participant.left"] {
        let (seen, posted) = (watcher.next(), receiver.next());
        assert_eq!(
            (seen.event.as_str(), seen.data.as_bytes()),
            (event_type, posted.body.as_slice())
        );
        assert!(seen.id > last, "ids grow");
        last = seen.id;
    }
}

#[test]
fn the_event_stream_of_one_project_has_no_event_of_another() {
    let app = TestApp::start();
    let (other, own) = (
        Watcher::start(&app, "?project=prj_000000000000"),
        Watcher::start(&app, &format!("?project={}", app.project)),
    );
    app.room("standup");
    app.delete("/v1/rooms/standup").send().expect_empty(204);
    assert_eq!(own.next().json()["room"], "standup");
    assert_eq!(other.seen(), 0);
    app.admin("GET", "/debug/events?project=x")
        .send()
        .expect_error(400, "invalid_request", Some("project"));
}

/// Opens the event stream on its own connection. Returns the connection and the status.
fn open_stream(app: &TestApp) -> (TcpStream, u16) {
    open_stream_at(app, "/debug/events")
}

fn open_stream_at(app: &TestApp, path: &str) -> (TcpStream, u16) {
    let mut stream = TcpStream::connect(app.admin.strip_prefix("http://").unwrap()).unwrap();
    stream.set_read_timeout(Some(WAIT_LIMIT)).unwrap();
    stream
        .write_all(format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").as_bytes())
        .unwrap();
    let mut line = [0; 12];
    stream.read_exact(&mut line).unwrap();
    (
        stream,
        std::str::from_utf8(&line[9..]).unwrap().parse().unwrap(),
    )
}

/// Proves S-8.
#[test]
fn streams_of_events_leave_connections_to_the_rest_of_the_admin_listener() {
    let app = TestApp::start();
    let (mut open, mut refused) = (Vec::new(), Vec::new());
    for _ in 0..1_200 {
        let (stream, status) = open_stream(&app);
        if status == 200 {
            open.push(stream);
        } else {
            refused.push((stream, status));
        }
    }
    assert_eq!(open.len(), 256);
    assert!(refused.iter().all(|(_, status)| *status == 429));
    // A refused connection is closed by the server, although its client keeps it open.
    for (stream, _) in &mut refused {
        stream.read_to_end(&mut Vec::new()).unwrap();
    }
    app.admin("GET", "/healthz").send().expect(200);
    app.admin("GET", "/debug/actors").send().expect(200);
    // The console's pages share these connections.
    app.room("standup");
    let of_console = format!("/projects/{}/rooms/standup/events", app.project);
    assert_eq!(open_stream_at(&app, &of_console).1, 429);
    drop(open.pop());
    eventually(|| open_stream_at(&app, &of_console).1 == 200);
}

#[test]
fn health_and_readiness_are_reported() {
    let app = TestApp::start();
    for address in [&app.api, &app.admin] {
        Request::new("GET", format!("{address}/healthz"))
            .send()
            .expect(200);
    }
    let ready = app.admin("GET", "/readyz").send().expect(200);
    assert_eq!(
        ready,
        json!({"ready": true, "role": "active", "parts": app.parts("ok")})
    );
}

#[test]
fn a_probe_that_asks_for_another_role_is_told_that_the_server_is_not_what_it_looks_for() {
    let app = TestApp::start();
    assert_eq!(
        app.admin("GET", "/readyz?role=active").send().expect(200)["ready"],
        true
    );
    let other = app.admin("GET", "/readyz?role=standby").send().expect(503);
    assert_eq!(
        (&other["ready"], &other["role"]),
        (&json!(false), &json!("active"))
    );
    app.admin("GET", "/readyz?role=leader").send().expect_error(
        400,
        "invalid_request",
        Some("role"),
    );
}

/// Proves S-18.
#[test]
fn with_an_admin_token_everything_but_health_needs_it() {
    let app =
        TestApp::start_with(|config| config.admin.token = Some(Secret::new("let-me-in-please")));
    let paths = [
        "/debug/actors",
        "/debug/actors/system",
        "/debug/events",
        "/sandbox/participants/PA_1",
        "/nowhere",
    ];
    for path in paths {
        for request in [
            app.admin("GET", path).anonymous(),
            app.admin("GET", path).bearer("let-me-in-pleasf"),
            app.admin("GET", path).bearer(&app.key),
            app.admin("GET", path).bearer(""),
        ] {
            request.send().expect_error(401, "unauthorized", None);
        }
        // An address may send five wrong tokens per minute.
        app.advance(Duration::from_secs(60));
    }
    let join = app
        .admin("POST", "/sandbox/join")
        .anonymous()
        .json(json!({"token": "x"}))
        .send();
    join.expect_error(401, "unauthorized", None);
    for path in ["/healthz", "/readyz"] {
        app.admin("GET", path).anonymous().send().expect(200);
    }
    app.admin("GET", "/debug/actors").send().expect(200);
    app.admin("GET", "/nowhere")
        .send()
        .expect_error(404, "not_found", None);
    app.room("standup");
    app.join("standup", "alice", "host");
}

#[test]
fn no_secret_is_in_any_snapshot() {
    let (app, receiver) = (TestApp::start(), Receiver::start());
    let secret = app.endpoint(&receiver.url)["secret"]
        .as_str()
        .unwrap()
        .to_owned();
    app.room("standup");
    let token = app.token("standup", "alice", "host");
    app.join_with(&token).expect(201);
    app.deliver();
    app.advance(Duration::from_secs(1));
    let mut shown = app.admin("GET", "/debug/actors?limit=200").send().text();
    shown += &app
        .admin("GET", "/debug/actors")
        .header("accept", "text/plain")
        .send()
        .text();
    let page = actors(&app, "");
    for id in ids(&page) {
        shown += &app
            .admin("GET", &format!("/debug/actors/{id}"))
            .send()
            .text();
    }
    for secret in [secret.as_str(), token.as_str(), &app.key, "whsec_"] {
        assert!(!shown.contains(secret), "{secret} in {shown}");
    }
}
