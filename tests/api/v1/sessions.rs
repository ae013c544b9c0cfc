//! `/v1/sessions` and `/v1/rooms/{name}/sessions`.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::TestApp;

fn identities(page: &Value) -> Vec<&str> {
    page["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| s["participant_identity"].as_str().unwrap())
        .collect()
}

#[test]
fn a_session_has_exactly_the_fields_of_the_contract_and_its_duration_runs() {
    let app = TestApp::start();
    app.room("standup");
    let sid = app.join("standup", "alice", "host");
    let joined_at = app.now();
    app.advance(Duration::from_millis(61_900));
    let page = app.get("/v1/sessions").send().expect(200);
    let open = json!({
        "id": page["sessions"][0]["id"], "room": "standup", "namespaced_room": format!("{}.standup", app.project),
        "participant_identity": "alice", "participant_sid": sid, "role": "host", "joined_at": joined_at,
        "duration_seconds": 61, "track_count": 0
    });
    assert_eq!(
        page,
        json!({"sessions": [open], "limit": 50, "offset": 0, "has_more": false})
    );

    app.leave(&sid, true);
    let mut closed = open;
    closed["left_at"] = json!(app.now());
    app.advance(Duration::from_secs(100));
    assert_eq!(
        app.get("/v1/rooms/standup/sessions").send().expect(200)["sessions"],
        json!([closed])
    );
    let id = closed["id"].as_str().unwrap().to_owned();
    closed["tracks"] = json!([]);
    assert_eq!(
        app.get(&format!("/v1/sessions/{id}")).send().expect(200),
        closed
    );
}

#[test]
fn the_role_is_null_when_the_token_carried_none() {
    let app = TestApp::start();
    app.room("standup");
    app.join("standup", "alice", "");
    let page = app.get("/v1/sessions").send().expect(200);
    assert_eq!(page["sessions"][0].get("role"), Some(&Value::Null));
}

#[test]
fn tracks_are_listed_in_order_of_start_with_their_ends() {
    let app = TestApp::start();
    app.room("standup");
    let sid = app.join("standup", "alice", "host");
    let mut expected = Vec::new();
    for (kind, source) in [
        ("audio", "microphone"),
        ("video", "camera"),
        ("video", "screen_share"),
    ] {
        let track = app.publish(&sid, kind, source);
        expected.push(
            json!({"track_sid": track, "kind": kind, "source": source, "started_at": app.now()}),
        );
        app.advance(Duration::from_millis(500));
    }
    app.unpublish(&sid, expected[1]["track_sid"].as_str().unwrap());
    expected[1]["ended_at"] = json!(app.now());
    let page = app.get("/v1/sessions").send().expect(200);
    assert_eq!(page["sessions"][0]["track_count"], 3);
    let path = format!(
        "/v1/sessions/{}",
        page["sessions"][0]["id"].as_str().unwrap()
    );
    assert_eq!(app.get(&path).send().expect(200)["tracks"], json!(expected));
    app.advance(Duration::from_secs(1));
    app.leave(&sid, false);
    for track in [0, 2] {
        expected[track]["ended_at"] = json!(app.now());
    }
    assert_eq!(app.get(&path).send().expect(200)["tracks"], json!(expected));
}

#[test]
fn sessions_are_filtered_by_room_identity_role_and_whether_they_are_open() {
    let app = TestApp::start();
    app.room("one");
    app.room("two");
    app.join("one", "alice", "host");
    app.advance(Duration::from_secs(1));
    let bob = app.join("one", "bob", "guest");
    app.advance(Duration::from_secs(1));
    app.join("two", "alice", "guest");
    app.leave(&bob, true);
    let of = |query: &str| {
        let page = app.get(&format!("/v1/sessions?{query}")).send().expect(200);
        identities(&page)
            .iter()
            .map(|identity| (*identity).to_owned())
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(of(""), "alice bob alice");
    assert_eq!(of("room=one"), "bob alice");
    assert_eq!(of("room=nowhere"), "");
    assert_eq!(of("identity=alice"), "alice alice");
    assert_eq!(of("role=guest"), "alice bob");
    assert_eq!(of("active=true"), "alice alice");
    assert_eq!(of("active=false"), "bob");
    assert_eq!(of("room=one&identity=alice&role=host&active=true"), "alice");
    let of_room = app
        .get("/v1/rooms/one/sessions?role=guest")
        .send()
        .expect(200);
    assert_eq!(identities(&of_room), ["bob"]);
}

#[test]
fn after_and_before_include_the_instant_itself() {
    let app = TestApp::start();
    app.room("standup");
    let mut joined = Vec::new();
    for identity in ["a", "b", "c"] {
        joined.push(app.now());
        app.join("standup", identity, "");
        app.advance(Duration::from_secs(10));
    }
    let of = |query: &str| {
        let page = app
            .get(&format!("/v1/rooms/standup/sessions?{query}"))
            .send()
            .expect(200);
        identities(&page).concat()
    };
    assert_eq!(of(&format!("after={}", joined[1])), "cb");
    assert_eq!(of(&format!("before={}", joined[1])), "ba");
    assert_eq!(of(&format!("after={0}&before={0}", joined[1])), "b");
    // The same instant in another notation.
    assert_eq!(of("after=2026-03-01T14:00:10%2B02:00"), "cb");
    for field in ["after", "before"] {
        let refused = app.get(&format!("/v1/sessions?{field}=yesterday")).send();
        refused.expect_error(400, "invalid_request", Some(field));
    }
}

#[test]
fn invalid_filters_are_refused_by_name() {
    let app = TestApp::start();
    app.room("standup");
    let refused = |path: &str| app.get(path).send();
    refused("/v1/sessions?active=yes").expect_error(400, "invalid_request", Some("active"));
    refused("/v1/sessions?room=a%20b").expect_error(400, "invalid_room_name", Some("room"));
    refused("/v1/sessions?identity=a%20b").expect_error(400, "invalid_identity", Some("identity"));
    refused("/v1/sessions?role=a%20b").expect_error(400, "invalid_request", Some("role"));
    // A room's list already has one room only.
    refused("/v1/rooms/standup/sessions?room=standup").expect_error(
        400,
        "invalid_request",
        Some("room"),
    );
    refused("/v1/rooms/nowhere/sessions").expect_error(404, "room_not_found", None);
    refused("/v1/sessions/not-a-uuid").expect_error(400, "invalid_request", Some("id"));
    let unknown = "/v1/sessions/0191d2c4-9c11-7e02-9d3b-58a1c07be4f0";
    refused(unknown).expect_error(404, "session_not_found", None);
}

#[test]
fn paging_neither_repeats_nor_skips_sessions_with_the_same_time() {
    let app = TestApp::start();
    app.room("standup");
    let mut expected: Vec<String> = (0..7).map(|n| format!("p{n}")).collect();
    expected.iter().for_each(|identity| {
        app.join("standup", identity, "");
    });
    let mut seen = Vec::new();
    for offset in [0, 3, 6] {
        let page = app
            .get(&format!("/v1/sessions?limit=3&offset={offset}"))
            .send()
            .expect(200);
        assert_eq!(page["has_more"], offset < 6);
        seen.extend(
            identities(&page)
                .iter()
                .map(|identity| (*identity).to_owned()),
        );
    }
    seen.sort_unstable();
    expected.sort_unstable();
    assert_eq!(seen, expected);
}

#[test]
fn each_join_of_one_identity_is_a_separate_session() {
    let app = TestApp::start();
    app.room("standup");
    let first = app.join("standup", "alice", "host");
    app.advance(Duration::from_secs(3));
    let second = app.join("standup", "alice", "host");
    let page = app.get("/v1/sessions").send().expect(200);
    let sids: Vec<_> = page["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| s["participant_sid"].clone())
        .collect();
    assert_eq!(sids, [json!(second), json!(first)]);
    assert_eq!(
        (
            &page["sessions"][1]["duration_seconds"],
            &page["sessions"][1]["left_at"]
        ),
        (&json!(3), &json!(app.now()))
    );
}

#[test]
fn ending_a_room_closes_its_sessions_and_they_stay_readable() {
    let app = TestApp::start();
    app.room("standup");
    app.join("standup", "alice", "host");
    app.advance(Duration::from_secs(7));
    app.delete("/v1/rooms/standup").send().expect_empty(204);
    let page = app.get("/v1/rooms/standup/sessions").send().expect(200);
    assert_eq!(page["sessions"][0]["left_at"], json!(app.now()));
    assert_eq!(page["sessions"][0]["duration_seconds"], 7);
}
