//! `GET /ext/v1/events`.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Receiver, TestApp, eventually};
use crate::tools::other_project;

/// Returns a page.
fn page(app: &TestApp, query: &str) -> Value {
    app.get(&format!("/ext/v1/events?{query}"))
        .send()
        .expect(200)
}

fn events(page: &Value) -> &Vec<Value> {
    page["events"].as_array().unwrap()
}

/// Returns the types and rooms in a page.
fn shown(page: &Value) -> Vec<String> {
    let show = |event: &Value| {
        format!(
            "{} {}",
            event["type"].as_str().unwrap(),
            event["room"].as_str().unwrap()
        )
    };
    events(page).iter().map(show).collect()
}

/// Ends a new room, which causes one event.
fn emit(app: &TestApp, room: &str) {
    app.room(room);
    app.delete(&format!("/v1/rooms/{room}"))
        .send()
        .expect_empty(204);
}

#[test]
fn a_project_without_a_webhook_endpoint_has_its_history_from_the_first_event_on() {
    let app = TestApp::start();
    let none = page(&app, "");
    assert_eq!(
        none,
        json!({"events": [], "limit": 50, "offset": 0, "has_more": false, "cursor": 0, "gap": false})
    );
    app.room("a");
    app.join("a", "alice", "host");
    let at = app.now();
    app.advance(Duration::from_secs(1));
    emit(&app, "b");
    app.delete("/v1/rooms/a").send().expect_empty(204);
    let all = page(&app, "");
    assert_eq!(
        shown(&all),
        [
            "room.started a",
            "participant.joined a",
            "room.finished b",
            "participant.left a",
            "room.finished a"
        ]
    );
    let first = &events(&all)[0];
    assert_eq!(
        (&first["created_at"], &first["payload"]["project_id"]),
        (&json!(at), &json!(app.project))
    );
    assert_eq!(first["payload"]["type"], "room.started");
    let ids: Vec<_> = events(&all)
        .iter()
        .map(|event| event["id"].as_i64().unwrap())
        .collect();
    assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
    assert_eq!(all["cursor"], ids[4]);
    // The history survives a restart.
    let app = app.restart();
    assert_eq!(page(&app, ""), all);
}

#[test]
fn each_filter_chooses_events_alone_and_with_the_others() {
    let app = TestApp::start();
    for room in ["a", "b"] {
        app.room(room);
        for identity in ["alice", "bob"] {
            app.join(room, identity, "host");
        }
    }
    app.advance(Duration::from_secs(60));
    let later = app.now();
    emit(&app, "c");
    let joined = |room: &str| format!("participant.joined {room}");
    for (query, expected) in [
        ("room=c", vec!["room.finished c".to_owned()]),
        (
            "type=participant.joined",
            vec![joined("a"), joined("a"), joined("b"), joined("b")],
        ),
        ("identity=bob", vec![joined("a"), joined("b")]),
        ("identity=bob&room=b", vec![joined("b")]),
        ("identity=bob&type=room.started", vec![]),
        (
            "identity=bob&type=participant.joined&room=a",
            vec![joined("a")],
        ),
        (
            "room=b&type=room.started",
            vec!["room.started b".to_owned()],
        ),
        ("room=nothing", vec![]),
    ] {
        assert_eq!(shown(&page(&app, query)), expected, "{query}");
    }
    assert_eq!(
        shown(&page(&app, &format!("since={later}"))),
        ["room.finished c"]
    );
    assert_eq!(
        shown(&page(&app, &format!("since={later}&room=a"))),
        [""; 0]
    );
    let all = page(&app, "");
    let third = events(&all)[2]["id"].to_string();
    assert_eq!(
        events(&page(&app, &format!("after={third}"))),
        &events(&all)[3..]
    );
    // The later one counts.
    assert_eq!(
        shown(&page(&app, &format!("after={third}&since={later}"))),
        ["room.finished c"]
    );
}

#[test]
fn an_event_names_each_kind_of_participant_for_the_filter() {
    let app = TestApp::start();
    app.room("a");
    let sid = app.join("a", "alice", "host");
    app.publish(&sid, "audio", "microphone");
    app.join("a", "bob", "host");
    app.post("/v1/rooms/a/participants/alice/role")
        .json(json!({"role": "guest"}))
        .send();
    let listed = page(&app, "identity=alice");
    let all = page(&app, "");
    let about_alice = |event: &&Value| event["payload"]["participant_identity"] == "alice";
    let expected: Vec<&Value> = events(&all).iter().filter(about_alice).collect();
    assert_eq!(events(&listed).iter().collect::<Vec<_>>(), expected);
    assert!(shown(&listed).contains(&"track.published a".to_owned()));
}

#[test]
fn pages_continue_by_offset_or_by_cursor() {
    let app = TestApp::start();
    for at in 0..5 {
        emit(&app, &format!("r{at}"));
    }
    let all = page(&app, "");
    let first = page(&app, "limit=2");
    assert_eq!(events(&first), &events(&all)[..2]);
    assert_eq!(
        (&first["has_more"], &first["cursor"]),
        (&json!(true), &events(&all)[1]["id"])
    );
    let by_offset = page(&app, "limit=2&offset=2");
    let by_cursor = page(&app, &format!("limit=2&after={}", first["cursor"]));
    assert_eq!(events(&by_offset), &events(&all)[2..4]);
    assert_eq!(events(&by_cursor), events(&by_offset));
    let last = page(&app, &format!("limit=2&after={}", by_cursor["cursor"]));
    assert_eq!(
        (events(&last).len(), &last["has_more"], &last["cursor"]),
        (1, &json!(false), &all["cursor"])
    );
    // A filter without matches still passes what it has read.
    assert_eq!(page(&app, "room=nothing")["cursor"], all["cursor"]);
}

/// Proves R-27.
#[test]
fn a_client_that_polls_beside_concurrent_changes_misses_no_event_and_gets_none_twice() {
    let app = TestApp::start_with(|config| {
        config.limits.requests_per_second = 1_000_000;
        config.limits.burst = 1_000_000;
    });
    let other = other_project(&app, "self_hosted");
    let is_done = AtomicBool::new(false);
    let end_rooms = |writer: usize| {
        for at in 0..25 {
            let name = format!("w{writer}-{at}");
            // The other project's transactions commit in between.
            for key in [&app.key, &other.key] {
                app.post("/v1/rooms")
                    .bearer(key)
                    .json(json!({"name": name}))
                    .send()
                    .expect(201);
                app.delete(&format!("/v1/rooms/{name}"))
                    .bearer(key)
                    .send()
                    .expect_empty(204);
            }
        }
    };
    let poll = || {
        let (mut polled, mut cursor) = (Vec::new(), json!(0));
        while !is_done.load(Ordering::SeqCst) {
            let page = page(&app, &format!("limit=3&after={cursor}"));
            assert_eq!(page["gap"], false);
            polled.extend(shown(&page));
            cursor = page["cursor"].clone();
        }
        (polled, cursor)
    };
    let (mut polled, mut cursor) = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                scope.spawn({
                    let end_rooms = &end_rooms;
                    move || end_rooms(writer)
                })
            })
            .collect();
        let poller = scope.spawn(poll);
        // Joined before the check, since the poller would never end after a panic.
        let ended: Vec<_> = writers
            .into_iter()
            .map(std::thread::ScopedJoinHandle::join)
            .collect();
        is_done.store(true, Ordering::SeqCst);
        ended.into_iter().for_each(|ended| ended.unwrap());
        poller.join().unwrap()
    });
    loop {
        let page = page(&app, &format!("after={cursor}"));
        polled.extend(shown(&page));
        cursor = page["cursor"].clone();
        if page["has_more"] == false {
            break;
        }
    }
    assert_eq!(polled.len(), 100);
    assert_eq!(polled.iter().collect::<BTreeSet<_>>().len(), 100);
}

#[test]
fn events_are_deleted_by_age_and_a_client_that_was_away_learns_it() {
    let app = TestApp::start_with(|config| {
        config.webhooks.retention = Duration::from_secs(60);
        config.events.retention = Duration::from_secs(7_200);
    });
    for room in ["a", "b"] {
        emit(&app, room);
    }
    let old = page(&app, "limit=1")["cursor"].clone();
    app.advance(Duration::from_secs(3_600));
    emit(&app, "c");
    assert_eq!(shown(&page(&app, "")).len(), 3);
    app.advance(Duration::from_secs(3_700));
    eventually(|| shown(&page(&app, "")) == ["room.finished c"]);
    let missed = page(&app, &format!("after={old}"));
    assert_eq!(
        (shown(&missed), &missed["gap"]),
        (vec!["room.finished c".to_owned()], &json!(true))
    );
    // Nothing is missing from the first event on, or after the cursor.
    assert_eq!(page(&app, "after=0")["gap"], false);
    assert_eq!(
        page(&app, &format!("after={}", missed["cursor"]))["gap"],
        false
    );
}

#[test]
fn deliveries_are_deleted_before_their_events() {
    let app = TestApp::start_with(|config| {
        config.webhooks.retention = Duration::from_secs(60);
        config.events.retention = Duration::from_secs(86_400);
    });
    let receiver = Receiver::start();
    app.endpoint(&receiver.url);
    emit(&app, "a");
    app.deliver();
    eventually(|| app.deliveries("status=delivered").len() == 1);
    app.advance(Duration::from_secs(7_200));
    eventually(|| app.deliveries("").is_empty());
    assert_eq!(shown(&page(&app, "")), ["room.finished a"]);
}

#[test]
fn events_are_kept_as_long_as_their_deliveries() {
    let app = TestApp::start_with(|config| {
        config.webhooks.retention = Duration::from_secs(7_200);
        config.events.retention = Duration::from_secs(60);
    });
    emit(&app, "a");
    app.advance(Duration::from_secs(3_600));
    emit(&app, "b");
    assert_eq!(shown(&page(&app, "")).len(), 2);
    app.advance(Duration::from_secs(3_700));
    eventually(|| shown(&page(&app, "")) == ["room.finished b"]);
}

#[test]
fn a_cursor_of_newer_records_is_a_gap() {
    let app = TestApp::start();
    emit(&app, "a");
    let newest = page(&app, "")["cursor"].clone();
    for after in ["1000000", "9223372036854775807"] {
        let beyond = page(&app, &format!("after={after}"));
        assert_eq!(
            (events(&beyond).len(), &beyond["gap"], &beyond["cursor"]),
            (0, &json!(true), &newest)
        );
    }
}

#[test]
fn another_projects_events_are_not_listed() {
    let app = TestApp::start();
    let other = other_project(&app, "self_hosted");
    emit(&app, "a");
    let listed = |query: &str| {
        app.get(&format!("/ext/v1/events?{query}"))
            .bearer(&other.key)
            .send()
            .expect(200)
    };
    for query in [
        "",
        "room=a",
        "type=room.finished",
        "after=0",
        "since=2000-01-01T00:00:00Z",
    ] {
        let page = listed(query);
        assert_eq!(
            (events(&page).len(), &page["cursor"]),
            (0, &json!(0)),
            "{query}"
        );
    }
}

#[test]
fn the_consoles_test_event_is_not_part_of_the_history() {
    let (app, receiver) = TestApp::start_with_receiver();
    let listed = app.get("/v1/webhook-endpoints").send().expect(200);
    let id = listed["webhook_endpoints"][0]["id"].as_str().unwrap();
    let browser = crate::console::Browser::new(&app);
    let path = format!("/projects/{}/webhooks/{id}/test", app.project);
    browser.act(&path, &[]);
    app.deliver();
    assert_eq!(receiver.next().json()["type"], "webhook.test");
    let listed = page(&app, "");
    assert_eq!(events(&listed).len(), 0);
    // It is passed, so that it is not read again.
    assert_ne!(listed["cursor"], 0);
}

#[test]
fn a_malformed_parameter_is_refused_by_name() {
    let app = TestApp::start();
    for (query, field, code) in [
        ("after=-1", "after", "invalid_request"),
        ("after=x", "after", "invalid_request"),
        ("after=", "after", "invalid_request"),
        ("after=9223372036854775808", "after", "invalid_request"),
        ("after=18446744073709551616", "after", "invalid_request"),
        ("since=yesterday", "since", "invalid_request"),
        ("type=room.opened", "type", "invalid_request"),
        ("room=a%20b", "room", "invalid_room_name"),
        ("identity=%20", "identity", "invalid_identity"),
        ("limit=201", "limit", "invalid_request"),
        ("before=1", "before", "invalid_request"),
    ] {
        app.get(&format!("/ext/v1/events?{query}"))
            .send()
            .expect_error(400, code, Some(field));
    }
}
