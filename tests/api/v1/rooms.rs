//! `/v1/rooms`.

use std::sync::Barrier;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Receiver, TestApp, eventually};
use crate::tools::{NO_TEMPLATE, default_template, other_project, refuses_bad_pages, walk_pages};

#[test]
fn a_room_has_exactly_the_fields_of_the_contract() {
    let app = TestApp::start();
    let room = app
        .post("/v1/rooms")
        .json(json!({"name": "standup"}))
        .send()
        .expect(201);
    let expected = json!({
        "id": room["id"], "project_id": app.project, "name": "standup",
        "namespaced_name": format!("{}.standup", app.project), "max_participants": 0,
        "empty_timeout_seconds": 300, "status": "open", "template_id": default_template(&app),
        "created_at": "2026-03-01T12:00:00.000Z"
    });
    assert_eq!(room, expected);
    assert_eq!(app.get("/v1/rooms/standup").send().expect(200), room);
    assert_eq!(
        app.get("/v1/rooms").send().expect(200)["rooms"],
        json!([room])
    );
}

#[test]
fn a_room_keeps_the_fields_of_its_creation() {
    let app = TestApp::start();
    let body = json!({
        "name": "A_b-9", "max_participants": 12, "empty_timeout_seconds": 60, "metadata": {"team": "blue"},
        "template_id": default_template(&app)
    });
    let room = app.post("/v1/rooms").json(body.clone()).send().expect(201);
    for (field, value) in body.as_object().unwrap() {
        assert_eq!(&room[field], value, "{field}");
    }
}

#[test]
fn null_and_absence_of_the_timeout_both_mean_the_default() {
    let app = TestApp::start();
    let room = app
        .post("/v1/rooms")
        .json(json!({"name": "a", "empty_timeout_seconds": null}))
        .send()
        .expect(201);
    assert_eq!(room["empty_timeout_seconds"], 300);
    let room = app
        .post("/v1/rooms")
        .json(json!({"name": "b", "empty_timeout_seconds": 0}))
        .send()
        .expect(201);
    assert_eq!(room["empty_timeout_seconds"], 0);
}

#[test]
fn a_room_of_a_project_without_a_default_template_has_a_null_template() {
    let app = TestApp::start();
    let other = other_project(&app, "self_hosted");
    let room = app
        .post("/v1/rooms")
        .bearer(&other.key)
        .json(json!({"name": "a"}))
        .send()
        .expect(201);
    assert_eq!(room.get("template_id"), Some(&Value::Null));
    assert_eq!(room["project_id"], other.project);
}

#[test]
fn metadata_is_returned_byte_for_byte() {
    let app = TestApp::start();
    let texts = [
        r#"{"z":1,"a":1.0,"m":1e2,"deep":[{"x":null}]}"#,
        r#""text ü \u00e9""#,
        "[1,  2]",
        "0.10",
        "123456789012345678901234567890",
        "true",
        "null",
    ];
    for (index, text) in texts.iter().enumerate() {
        let created = app
            .post("/v1/rooms")
            .raw(format!(r#"{{"name":"r{index}","metadata":{text}}}"#))
            .send();
        assert_eq!(created.status, 201, "{}", created.text());
        let read = app.get(&format!("/v1/rooms/r{index}")).send();
        for answer in [created.text(), read.text()] {
            assert!(
                answer.contains(&format!(r#""metadata":{text},"#)),
                "{text}: {answer}"
            );
        }
    }
}

#[test]
fn metadata_nests_at_most_64_levels() {
    let app = TestApp::start();
    let nested = |levels: usize, open: &str, close: &str| {
        format!("{}0{}", open.repeat(levels), close.repeat(levels))
    };
    let create = |name: &str, metadata: &str| {
        app.post("/v1/rooms")
            .raw(format!(r#"{{"name":"{name}","metadata":{metadata}}}"#))
            .send()
    };
    for (kind, open, close) in [
        ("arrays", "[", "]"),
        ("objects", r#"{"a":"#, "}"),
        ("texts", r#"["]]",["#, "]]"),
    ] {
        let most = if kind == "texts" { 32 } else { 64 };
        assert_eq!(
            create(kind, &nested(most, open, close)).status,
            201,
            "{kind}"
        );
        for levels in [most + 1, 10 * most] {
            let refused = create("other", &nested(levels, open, close));
            refused.expect_error(400, "invalid_request", Some("metadata"));
        }
    }
    assert_eq!(
        create("flat", &format!("[{}[]]", "[],".repeat(1_000))).status,
        201
    );
}

#[test]
fn each_invalid_field_is_refused_by_name() {
    let app = TestApp::start();
    for (body, code, field) in [
        (json!({}), "invalid_request", "name"),
        (json!({"name": null}), "invalid_request", "name"),
        (json!({"name": 1}), "invalid_request", "name"),
        (json!({"name": ""}), "invalid_room_name", "name"),
        (json!({"name": "a b"}), "invalid_room_name", "name"),
        (json!({"name": "a.b"}), "invalid_room_name", "name"),
        (json!({"name": "ü"}), "invalid_room_name", "name"),
        (
            json!({"name": "x".repeat(129)}),
            "invalid_room_name",
            "name",
        ),
        (
            json!({"name": "a", "max_participants": -1}),
            "invalid_request",
            "max_participants",
        ),
        (
            json!({"name": "a", "max_participants": 1.5}),
            "invalid_request",
            "max_participants",
        ),
        (
            json!({"name": "a", "max_participants": null}),
            "invalid_request",
            "max_participants",
        ),
        (
            json!({"name": "a", "empty_timeout_seconds": -1}),
            "invalid_request",
            "empty_timeout_seconds",
        ),
        (
            json!({"name": "a", "empty_timeout_seconds": "60"}),
            "invalid_request",
            "empty_timeout_seconds",
        ),
        (
            json!({"name": "a", "template_id": "tpl_1"}),
            "invalid_request",
            "template_id",
        ),
        (
            json!({"name": "a", "template_id": "tpl_ABCDEFABCDEF"}),
            "invalid_request",
            "template_id",
        ),
        (
            json!({"name": "a", "colour": "red"}),
            "invalid_request",
            "colour",
        ),
    ] {
        app.post("/v1/rooms")
            .json(body)
            .send()
            .expect_error(400, code, Some(field));
    }
    assert_eq!(app.get("/v1/rooms").send().json()["rooms"], json!([]));
}

#[test]
fn the_longest_name_is_accepted() {
    let app = TestApp::start();
    let name = "x".repeat(128);
    app.room(&name);
    assert_eq!(
        app.get(&format!("/v1/rooms/{name}")).send().expect(200)["name"],
        name
    );
}

#[test]
fn a_template_of_another_project_is_not_found() {
    let app = TestApp::start();
    let body = json!({"name": "a", "template_id": NO_TEMPLATE});
    app.post("/v1/rooms").json(body).send().expect_error(
        404,
        "template_not_found",
        Some("template_id"),
    );
    app.get("/v1/rooms/a")
        .send()
        .expect_error(404, "room_not_found", None);
}

/// Proves R-3.
#[test]
fn a_name_stays_used_after_the_room_has_ended() {
    let app = TestApp::start();
    app.room("once");
    app.post("/v1/rooms")
        .json(json!({"name": "once"}))
        .send()
        .expect_error(409, "room_exists", Some("name"));
    app.delete("/v1/rooms/once").send().expect_empty(204);
    app.post("/v1/rooms")
        .json(json!({"name": "once"}))
        .send()
        .expect_error(409, "room_exists", Some("name"));
    app.room("Once");
}

#[test]
fn rooms_are_listed_newest_first_with_ended_ones_and_paging_neither_repeats_nor_skips() {
    let app = TestApp::start();
    let mut expected = Vec::new();
    for index in 0..7 {
        expected.insert(
            0,
            app.room(&format!("r{index}"))["name"]
                .as_str()
                .unwrap()
                .to_owned(),
        );
        app.advance(Duration::from_secs(1));
    }
    app.delete("/v1/rooms/r3").send().expect_empty(204);
    for limit in [1, 2, 3, 7, 200] {
        assert_eq!(
            walk_pages(|path| app.get(path), "/v1/rooms", "rooms", "name", limit),
            expected,
            "limit {limit}"
        );
    }
    let page = app.get("/v1/rooms?limit=7").send().json();
    assert_eq!(
        (page["has_more"].clone(), page["rooms"][3]["status"].clone()),
        (json!(false), json!("ended"))
    );
}

#[test]
fn rooms_created_at_the_same_time_are_paged_in_a_total_order() {
    let app = TestApp::start();
    for index in 0..9 {
        app.room(&format!("r{index}"));
    }
    let once = walk_pages(|path| app.get(path), "/v1/rooms", "rooms", "name", 200);
    assert_eq!(
        walk_pages(|path| app.get(path), "/v1/rooms", "rooms", "name", 2),
        once
    );
    assert_eq!(
        once.iter().collect::<std::collections::BTreeSet<_>>().len(),
        9
    );
}

#[test]
fn a_page_after_the_end_is_empty_and_shows_the_defaults() {
    let app = TestApp::start();
    app.room("a");
    let page = app.get("/v1/rooms?offset=5").send().expect(200);
    assert_eq!(
        page,
        json!({"rooms": [], "limit": 50, "offset": 5, "has_more": false})
    );
    refuses_bad_pages(&app, "/v1/rooms");
}

#[test]
fn reading_an_unknown_room_is_404_even_for_an_invalid_name() {
    let app = TestApp::start();
    for name in ["nobody", "a.b", "a%20b", "%C3%BC", "%FF", &"x".repeat(129)] {
        let path = format!("/v1/rooms/{name}");
        app.get(&path)
            .send()
            .expect_error(404, "room_not_found", None);
    }
}

#[test]
fn ending_a_room_sets_its_end_once_and_again_changes_nothing() {
    let app = TestApp::start();
    let receiver = Receiver::start();
    app.endpoint(&receiver.url);
    app.room("a");
    app.advance(Duration::from_secs(5));
    app.delete("/v1/rooms/a").send().expect_empty(204);
    let ended = app.get("/v1/rooms/a").send().expect(200);
    assert_eq!(
        (&ended["status"], &ended["ended_at"]),
        (&json!("ended"), &json!("2026-03-01T12:00:05.000Z"))
    );
    assert!(ended.get("started_at").is_none(), "{ended}");
    app.advance(Duration::from_secs(5));
    app.delete("/v1/rooms/a").send().expect_empty(204);
    assert_eq!(app.get("/v1/rooms/a").send().expect(200), ended);
    app.advance(Duration::from_secs(5));
    assert_eq!(receiver.types(1), ["room.finished"]);
    let deliveries = app.get("/v1/webhook-deliveries").send().expect(200);
    assert_eq!(
        deliveries["webhook_deliveries"].as_array().unwrap().len(),
        1
    );
}

#[test]
fn ending_an_invalid_name_is_400_and_an_unknown_one_404() {
    let app = TestApp::start();
    app.delete("/v1/rooms/nobody")
        .send()
        .expect_error(404, "room_not_found", None);
    app.delete("/v1/rooms/a.b")
        .send()
        .expect_error(400, "invalid_room_name", Some("name"));
    app.room("a");
    app.delete("/v1/rooms/a?force=1")
        .send()
        .expect_error(400, "invalid_request", Some("force"));
    assert_eq!(app.get("/v1/rooms/a").send().json()["status"], "open");
}

#[test]
fn a_room_starts_with_its_first_participant_and_ends_its_timeout_after_the_last() {
    let app = TestApp::start();
    app.room("a");
    app.advance(Duration::from_secs(7));
    let sid = app.join("a", "alice", "host");
    let room = app.get("/v1/rooms/a").send().expect(200);
    assert_eq!(room["started_at"], "2026-03-01T12:00:07.000Z");
    app.advance(Duration::from_secs(1_000));
    app.leave(&sid, true);
    app.advance(Duration::from_secs(299));
    assert_eq!(app.get("/v1/rooms/a").send().json()["status"], "open");
    app.advance(Duration::from_secs(1));
    eventually(|| app.get("/v1/rooms/a").send().json()["status"] == "ended");
    let room = app.get("/v1/rooms/a").send().expect(200);
    assert_eq!(
        (&room["started_at"], &room["ended_at"]),
        (&json!("2026-03-01T12:00:07.000Z"), &json!(app.now()))
    );
}

#[test]
fn a_room_without_participants_ends_at_its_deadline_with_one_event() {
    let app = TestApp::start();
    let receiver = Receiver::start();
    let secret = app.endpoint(&receiver.url)["secret"]
        .as_str()
        .unwrap()
        .to_owned();
    app.post("/v1/rooms")
        .json(json!({"name": "short", "empty_timeout_seconds": 30}))
        .send()
        .expect(201);
    app.advance(Duration::from_secs(29));
    assert_eq!(app.get("/v1/rooms/short").send().json()["status"], "open");
    app.advance(Duration::from_secs(1));
    eventually(|| app.get("/v1/rooms/short").send().json()["status"] == "ended");
    app.tick();
    let event = receiver.next();
    assert!(event.is_signed_with(&secret));
    assert_eq!(event.json()["type"], "room.finished");
}

#[test]
fn the_plan_caps_concurrent_rooms_and_participants_per_room() {
    let app = TestApp::start();
    let other = other_project(&app, "free");
    let create = |body: Value| app.post("/v1/rooms").bearer(&other.key).json(body).send();
    create(json!({"name": "x", "max_participants": 11})).expect_error(
        402,
        "quota_exceeded",
        Some("max_participants"),
    );
    create(json!({"name": "a", "max_participants": 10})).expect(201);
    create(json!({"name": "b"})).expect(201);
    create(json!({"name": "c"})).expect_error(402, "room_limit_reached", None);
    app.delete("/v1/rooms/a")
        .bearer(&other.key)
        .send()
        .expect_empty(204);
    create(json!({"name": "c"})).expect(201);
}

/// Proves R-3.
#[test]
fn concurrent_creations_of_one_name_create_one_room() {
    let app = TestApp::start_with(|config| config.http.workers = 4);
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let create = || {
            app.post("/v1/rooms")
                .json(json!({"name": "a"}))
                .send()
                .status
        };
        let calls: Vec<_> = (0..8).map(|_| scope.spawn(create)).collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    });
    let made = statuses.iter().filter(|status| **status == 201).count();
    assert_eq!(
        (
            made,
            statuses.iter().filter(|status| **status == 409).count()
        ),
        (1, 7)
    );
}

/// Proves R-10, S-65.
#[test]
fn concurrent_creations_stay_within_the_limit_of_the_plan() {
    let app = TestApp::start_with(|config| config.http.workers = 4);
    let other = other_project(&app, "free");
    let start = Barrier::new(8);
    let create = |number: u32| {
        start.wait();
        let body = json!({"name": format!("room-{number}")});
        app.post("/v1/rooms")
            .bearer(&other.key)
            .json(body)
            .send()
            .status
    };
    let mut statuses: Vec<u16> = std::thread::scope(|scope| {
        let create = &create;
        let calls: Vec<_> = (0..8)
            .map(|number| scope.spawn(move || create(number)))
            .collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    });
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 201, 402, 402, 402, 402, 402, 402]);
    let rooms = app.get("/v1/rooms").bearer(&other.key).send().expect(200);
    assert_eq!(rooms["rooms"].as_array().unwrap().len(), 2);
}

#[test]
fn rooms_and_their_deadlines_survive_a_restart() {
    let app = TestApp::start();
    let open = app.room("a");
    app.room("b");
    app.advance(Duration::from_secs(200));
    app.delete("/v1/rooms/b").send().expect_empty(204);
    let ended = app.get("/v1/rooms/b").send().expect(200);
    let app = app.restart();
    assert_eq!(app.get("/v1/rooms/a").send().expect(200), open);
    assert_eq!(app.get("/v1/rooms/b").send().expect(200), ended);
    app.advance(Duration::from_secs(99));
    assert_eq!(app.get("/v1/rooms/a").send().json()["status"], "open");
    app.advance(Duration::from_secs(1));
    eventually(|| app.get("/v1/rooms/a").send().json()["status"] == "ended");
}

/// Returns the names in a filtered list.
fn filtered(app: &TestApp, query: &str) -> Vec<String> {
    let page = app.get(&format!("/v1/rooms?{query}")).send().expect(200);
    let rooms = page["rooms"].as_array().unwrap();
    rooms
        .iter()
        .map(|room| room["name"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn rooms_are_found_by_every_filter_and_by_all_together() {
    let app = TestApp::start();
    let mut created = Vec::new();
    for name in ["class-b", "class-a", "clinic", "class-c", "Class"] {
        created.push(app.now());
        app.room(name);
        app.advance(Duration::from_secs(10));
    }
    app.delete("/v1/rooms/class-a").send().expect_empty(204);
    app.delete("/v1/rooms/clinic").send().expect_empty(204);
    assert_eq!(
        filtered(&app, "status=open"),
        ["Class", "class-c", "class-b"]
    );
    assert_eq!(filtered(&app, "status=ended"), ["clinic", "class-a"]);
    // In the order of the names.
    let found = ["class-a", "class-b", "class-c"];
    assert_eq!(filtered(&app, "name_prefix=class-"), found);
    assert_eq!(
        filtered(&app, "name_prefix=class-&limit=1&offset=1"),
        ["class-b"]
    );
    assert_eq!(filtered(&app, "name_prefix=class-b"), ["class-b"]);
    assert_eq!(filtered(&app, "name_prefix=d"), Vec::<String>::new());
    assert_eq!(
        filtered(&app, "status=open&name_prefix=cl"),
        ["class-b", "class-c"]
    );
    let (second, third) = (&created[1], &created[2]);
    // Both ends belong to the range.
    assert_eq!(
        filtered(&app, &format!("created_after={third}")),
        ["Class", "class-c", "clinic"]
    );
    assert_eq!(
        filtered(&app, &format!("created_before={second}")),
        ["class-a", "class-b"]
    );
    let between = format!("created_after={second}&created_before={third}");
    assert_eq!(filtered(&app, &between), ["clinic", "class-a"]);
    assert_eq!(
        filtered(&app, &format!("{between}&status=open")),
        Vec::<String>::new()
    );
    let all = format!("{between}&status=ended&name_prefix=class");
    assert_eq!(filtered(&app, &all), ["class-a"]);
}

#[test]
fn each_invalid_filter_of_rooms_is_named() {
    let app = TestApp::start();
    for (query, field) in [
        ("status=live", "status"),
        ("status=", "status"),
        ("name_prefix=", "name_prefix"),
        ("name_prefix=a%20b", "name_prefix"),
        ("name_prefix=a%25", "name_prefix"),
        ("created_after=yesterday", "created_after"),
        ("created_before=1", "created_before"),
        ("name=a", "name"),
    ] {
        app.get(&format!("/v1/rooms?{query}")).send().expect_error(
            400,
            "invalid_request",
            Some(field),
        );
    }
}
