//! Recordings, broadcasts and ingress endpoints while the media plane is unreachable or loses reports.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Request, Response, TestApp, eventually};

const RECORDINGS: &str = "/v1/rooms/standup/recordings";
const BROADCASTS: &str = "/v1/rooms/standup/broadcasts";

/// Event types of recordings and broadcasts.
const EGRESS_EVENTS: [&str; 8] = [
    "recording.started",
    "recording.updated",
    "recording.ended",
    "recording.failed",
    "broadcast.started",
    "broadcast.updated",
    "broadcast.ended",
    "broadcast.failed",
];

/// Starts an app with a room that stays open, and a webhook endpoint without deliveries, for its log.
fn started() -> TestApp {
    let app = TestApp::start();
    app.endpoint("http://127.0.0.1:9/hook");
    app.post("/v1/rooms")
        .json(json!({"name": "standup", "empty_timeout_seconds": 86_400}))
        .send()
        .expect(201);
    app
}

fn record(app: &TestApp) -> Request {
    app.post(RECORDINGS).json(json!({"type": "room_composite"}))
}

fn stream(app: &TestApp) -> Request {
    app.post(BROADCASTS)
        .json(json!({"urls": ["rtmp://8.8.8.8/live/key"]}))
}

/// Returns the id in a start's response.
fn id(egress: &Value) -> String {
    egress["egress_id"].as_str().unwrap().to_owned()
}

/// Records of one kind; lists do not call the media plane.
fn listed(app: &TestApp, kind: &str) -> Vec<Value> {
    app.get(&format!("/v1/{kind}")).send().expect(200)[kind]
        .as_array()
        .unwrap()
        .clone()
}

fn statuses(app: &TestApp, kind: &str) -> Vec<String> {
    listed(app, kind)
        .iter()
        .map(|egress| egress["status"].as_str().unwrap().to_owned())
        .collect()
}

/// Returns the types of all recording and broadcast events, in order.
fn egress_events(app: &TestApp) -> Vec<String> {
    app.logged(&EGRESS_EVENTS)
        .iter()
        .map(|event| event["type"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn lost_reports_of_an_egress_are_recorded_within_one_round_and_reported_once() {
    for (kind, singular, start) in [
        ("recordings", "recording", record as fn(&TestApp) -> Request),
        ("broadcasts", "broadcast", stream),
    ] {
        let app = started();
        let event = |what: &str| format!("{singular}.{what}");
        let expected = |app: &TestApp, what: &str, egress: &str, status: &str| {
            let mut facts = json!({"egress_id": egress});
            facts[format!("{singular}_status")] = json!(status);
            app.event(&event(what), "standup", &facts)
        };
        let done = id(&start(&app).send().expect(201));
        app.drop_reports(1);
        app.drive(&done, json!({"status": "active"}));
        assert_eq!(statuses(&app, kind), ["starting"]);
        app.reconciled(&event("updated"), 1);
        assert_eq!(statuses(&app, kind), ["active"]);
        assert_eq!(
            app.logged(&[&event("updated")]),
            [expected(&app, "updated", &done, "active")]
        );
        app.drop_reports(1);
        app.drive(&done, json!({"status": "complete"}));
        assert_eq!(statuses(&app, kind), ["active"]);
        app.reconciled(&event("ended"), 1);
        assert_eq!(
            app.logged(&[&event("ended")]),
            [expected(&app, "ended", &done, "complete")]
        );

        // Both reports are lost, and the egress failed: its intermediate status is unknown.
        let failed = id(&start(&app).send().expect(201));
        app.drop_reports(2);
        app.drive(&failed, json!({"status": "active"}));
        app.drive(
            &failed,
            json!({"status": "failed", "error": "the disk is full"}),
        );
        app.reconciled(&event("failed"), 1);
        assert_eq!(
            app.logged(&[&event("failed")]),
            [expected(&app, "failed", &failed, "failed")]
        );
        let records = listed(&app, kind);
        assert_eq!(
            (&records[0]["status"], &records[0]["error"]),
            (&json!("failed"), &json!("the disk is full"))
        );
        assert_eq!(
            (&records[1]["status"], &records[1]["egress_id"]),
            (&json!("complete"), &json!(done))
        );

        // A round later there are no further events.
        app.join("standup", "alice", "host");
        app.next_round();
        app.wait_until_seen("standup");
        assert_eq!(
            egress_events(&app),
            ["started", "updated", "ended", "started", "failed"].map(event)
        );
    }
}

#[test]
fn a_stopped_egress_whose_end_was_lost_is_final_before_the_next_round() {
    let app = started();
    let egress = id(&record(&app).send().expect(201));
    assert_eq!(
        app.post(&format!("/v1/recordings/{egress}/stop"))
            .send()
            .expect(200)["status"],
        "ending"
    );
    app.drop_reports(1);
    app.drive(&egress, json!({"status": "complete"}));
    let path = format!("/{}/egress/{egress}", app.project);
    assert_eq!(app.actors(&path)["timers"][0]["name"], "settle");
    assert_eq!(statuses(&app, "recordings"), ["ending"]);
    app.advance(Duration::from_secs(5));
    eventually(|| statuses(&app, "recordings") == ["complete"]);
    assert_eq!(
        egress_events(&app),
        ["recording.started", "recording.updated", "recording.ended"]
    );
}

/// Returns all egress and ingress calls that need the media plane, each with its status after the outage.
fn asking(app: &TestApp, egress: &str, ingress: &str) -> Vec<(Request, u16)> {
    let make = json!({"input_type": "rtmp", "participant_identity": "second"});
    vec![
        (record(app), 201),
        (stream(app), 201),
        (app.get(&format!("/v1/recordings/{egress}")), 200),
        (app.post(&format!("/v1/recordings/{egress}/stop")), 200),
        (app.post("/v1/rooms/standup/ingress").json(make), 201),
        (app.get(&format!("/v1/ingress/{ingress}")), 200),
        (app.delete(&format!("/v1/ingress/{ingress}")), 204),
    ]
}

#[track_caller]
fn assert_away(answer: &Response) {
    answer.expect_error(503, "media_unavailable", None);
    assert_eq!(answer.headers["retry-after"], "1");
    assert_eq!(answer.headers.get("idempotency-replayed"), None);
}

#[test]
fn egress_calls_during_an_outage_are_503_without_an_effect_and_work_afterwards() {
    let app = started();
    let running = record(&app).send().expect(201);
    let ingress = app.ingress("standup", "encoder");
    let endpoint = ingress["ingress_id"].as_str().unwrap();
    let ingresses = || {
        app.get("/v1/ingress").send().expect(200)["ingresses"]
            .as_array()
            .unwrap()
            .clone()
    };
    let records = || {
        [
            listed(&app, "recordings"),
            listed(&app, "broadcasts"),
            ingresses(),
        ]
    };
    let stood = records();
    app.outage(3_600);
    for (request, _) in asking(&app, &id(&running), endpoint) {
        assert_away(&request.send());
    }
    assert_eq!(records(), stood);
    assert_eq!(egress_events(&app), ["recording.started"]);
    let project = app.actors(&format!("/{}", app.project));
    let making = (
        &project["state"]["egresses_pending"],
        &project["state"]["ingresses_pending"],
    );
    assert_eq!(making, (&json!(0), &json!(0)));
    // Errors that need no media plane are given as usual.
    app.post("/v1/rooms/nowhere/recordings")
        .json(json!({"type": "room_composite"}))
        .send()
        .expect_error(404, "room_not_found", None);
    // The stream key still works, because its deletion was refused.
    app.connect(&ingress);
    app.encoder(&ingress, "disconnect").expect(200);

    app.outage(0);
    for (request, status) in asking(&app, &id(&running), endpoint) {
        let answer = request.send();
        assert_eq!(answer.status, status, "{}", answer.text());
    }
    assert_eq!(
        (
            statuses(&app, "recordings"),
            statuses(&app, "broadcasts").len()
        ),
        (vec!["starting".into(), "ending".into()], 1)
    );
    let statuses: Vec<_> = ingresses()
        .iter()
        .map(|row| row["status"].clone())
        .collect();
    assert_eq!(statuses, ["inactive", "deleted"]);
    assert_eq!(
        egress_events(&app),
        [
            "recording.started",
            "recording.started",
            "broadcast.started",
            "recording.updated"
        ]
    );
}

#[test]
fn repeating_a_start_or_a_stop_with_its_key_after_a_503_runs_once() {
    let app = started();
    for (kind, start) in [
        ("recordings", record as fn(&TestApp) -> Request),
        ("broadcasts", stream),
    ] {
        let call = || start(&app).idempotency_key("start").send();
        app.outage(3_600);
        assert_away(&call());
        assert_away(&call());
        assert_eq!(listed(&app, kind), Vec::<Value>::new());
        app.outage(0);
        let first = call();
        let egress = id(&first.expect(201));
        assert_eq!(first.headers.get("idempotency-replayed"), None);
        // A stored response needs no media plane.
        app.outage(3_600);
        let again = call();
        assert_eq!((again.status, &again.body), (201, &first.body));
        assert_eq!(again.headers["idempotency-replayed"], "true");
        let stop = || {
            app.post(&format!("/v1/{kind}/{egress}/stop"))
                .idempotency_key("stop")
                .send()
        };
        assert_away(&stop());
        assert_eq!(statuses(&app, kind), ["starting"]);
        app.outage(0);
        let stopped = stop();
        assert_eq!(stopped.expect(200)["status"], "ending");
        assert_eq!(stop().body, stopped.body);
        assert_eq!(statuses(&app, kind), ["ending"]);
    }
    let each = [
        "recording.started",
        "recording.updated",
        "broadcast.started",
        "broadcast.updated",
    ];
    assert_eq!(egress_events(&app), each);
}
