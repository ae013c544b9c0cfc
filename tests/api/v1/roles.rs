//! `/v1/templates/{id}/roles`.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{TestApp, eventually};
use crate::tools::{room_on, template};

/// Returns the role with all defaults, which an empty object creates.
fn complete(name: &str) -> Value {
    json!({
        "name": name,
        "publish": {
            "allowed": ["audio", "video", "screen", "data"], "max_kbps": null,
            "audio": {"max_kbps": 32, "codec": "opus"},
            "video": {"max_kbps": 1200, "codec": "vp8", "frame_rate": 25, "width": 1280, "height": 720},
            "screen": {"max_kbps": 2500, "codec": "vp8", "frame_rate": 10, "width": 1920, "height": 1080},
            "simulcast": true
        },
        "subscribe": {"to_roles": null, "max_kbps": null},
        "permissions": {
            "end_room": false, "remove_others": false, "mute_others": false, "unmute_others": false,
            "change_role": false, "send_data": false, "record": false, "broadcast": false
        },
        "priority": 3, "max_peer_count": 0, "hidden": false
    })
}

#[test]
fn an_empty_object_is_a_complete_role_created_with_201_and_replaced_with_200() {
    let app = TestApp::start();
    let path = format!(
        "/v1/templates/{}/roles/host",
        template(&app, "t", &json!({}))
    );
    assert_eq!(
        app.put(&path).json(json!({})).send().expect(201),
        complete("host")
    );
    assert_eq!(app.get(&path).send().expect(200), complete("host"));
    let full = json!({
        "name": "host",
        "publish": {
            "allowed": ["video", "audio"], "max_kbps": 50_000, "audio": {"max_kbps": 16, "codec": "opus"},
            "video": {"max_kbps": 16, "codec": "av1", "frame_rate": 60, "width": 7680, "height": 16},
            "screen": {"max_kbps": 50_000, "codec": "h264", "frame_rate": 1, "width": 16, "height": 7680},
            "simulcast": false
        },
        "subscribe": {"to_roles": ["host"], "max_kbps": 64},
        "permissions": {
            "end_room": true, "remove_others": true, "mute_others": true, "unmute_others": true,
            "change_role": true, "send_data": true, "record": true, "broadcast": true
        },
        "priority": 1, "max_peer_count": -1, "hidden": true
    });
    assert_eq!(app.put(&path).json(full.clone()).send().expect(200), full);
    assert_eq!(app.get(&path).send().expect(200), full);
    assert_eq!(
        app.put(&path).json(json!({})).send().expect(200),
        complete("host")
    );
}

#[test]
fn the_codecs_of_video_are_kept_and_shown_only_if_they_were_set() {
    let app = TestApp::start();
    let path = format!(
        "/v1/templates/{}/roles/host",
        template(&app, "t", &json!({}))
    );
    let input = json!({"publish": {"video_codecs": ["vp9", "h265", "vp9"]}});
    let mut expected = complete("host");
    expected["publish"]["video_codecs"] = json!(["vp9", "h265"]);
    assert_eq!(app.put(&path).json(input).send().expect(201), expected);
    assert_eq!(app.get(&path).send().expect(200), expected);
    let theora = json!({"publish": {"video_codecs": ["theora"]}});
    app.put(&path).json(theora).send().expect_error(
        400,
        "invalid_request",
        Some("publish.video_codecs[0]"),
    );
    assert_eq!(
        app.put(&path).json(json!({})).send().expect(200),
        complete("host")
    );
}

#[test]
fn what_is_beyond_the_contract_is_shown_only_where_it_is_used() {
    let app = TestApp::start();
    let path = format!(
        "/v1/templates/{}/roles/host",
        template(&app, "t", &json!({}))
    );
    let beyond =
        json!({"permissions": {"update_own_metadata": true}, "attributes": {"team": "blue"}});
    let mut expected = complete("host");
    expected["permissions"]["update_own_metadata"] = json!(true);
    expected["attributes"] = json!({"team": "blue"});
    assert_eq!(app.put(&path).json(beyond).send().expect(201), expected);
    assert_eq!(app.get(&path).send().expect(200), expected);
    assert_eq!(
        app.put(&path).json(expected.clone()).send().expect(200),
        expected
    );
    let unused = json!({"permissions": {"update_own_metadata": false}, "attributes": {}});
    assert_eq!(
        app.put(&path).json(unused).send().expect(200),
        complete("host")
    );
}

#[test]
fn absent_fields_get_their_defaults() {
    let app = TestApp::start();
    let path = format!(
        "/v1/templates/{}/roles/host",
        template(&app, "t", &json!({}))
    );
    let body = json!({"publish": {"screen": {"codec": "vp9"}}, "subscribe": {"to_roles": []}, "priority": 8});
    let mut expected = complete("host");
    expected["publish"]["screen"]["codec"] = json!("vp9");
    expected["subscribe"]["to_roles"] = json!([]);
    expected["priority"] = json!(8);
    assert_eq!(app.put(&path).json(body).send().expect(201), expected);
    let nulls =
        json!({"publish": {"max_kbps": null}, "subscribe": {"to_roles": null, "max_kbps": null}});
    assert_eq!(
        app.put(&path).json(nulls).send().expect(200),
        complete("host")
    );
}

#[test]
fn each_field_out_of_its_range_is_refused_by_its_dotted_path() {
    let app = TestApp::start();
    let path = format!(
        "/v1/templates/{}/roles/host",
        template(&app, "t", &json!({}))
    );
    for (body, field) in [
        (json!({"name": "guest"}), "name"),
        (json!({"name": null}), "name"),
        (json!({"publish": null}), "publish"),
        (json!({"attributes": null}), "attributes"),
        (json!({"attributes": {"svc.role": "owner"}}), "attributes"),
        (json!({"attributes": {"team": ""}}), "attributes.team"),
        (
            json!({"publish": {"allowed": ["smell"]}}),
            "publish.allowed[0]",
        ),
        (json!({"publish": {"max_kbps": 15}}), "publish.max_kbps"),
        (json!({"publish": {"max_kbps": 50_001}}), "publish.max_kbps"),
        (
            json!({"publish": {"audio": {"codec": "mp3"}}}),
            "publish.audio.codec",
        ),
        (
            json!({"publish": {"audio": {"max_kbps": null}}}),
            "publish.audio.max_kbps",
        ),
        (
            json!({"publish": {"video": {"frame_rate": 0}}}),
            "publish.video.frame_rate",
        ),
        (
            json!({"publish": {"video": {"frame_rate": 61}}}),
            "publish.video.frame_rate",
        ),
        (
            json!({"publish": {"screen": {"width": 7681}}}),
            "publish.screen.width",
        ),
        (
            json!({"publish": {"screen": {"height": 15}}}),
            "publish.screen.height",
        ),
        (
            json!({"publish": {"simulcast": "yes"}}),
            "publish.simulcast",
        ),
        (
            json!({"subscribe": {"to_roles": "host"}}),
            "subscribe.to_roles",
        ),
        (
            json!({"subscribe": {"to_roles": ["a b"]}}),
            "subscribe.to_roles[0]",
        ),
        (
            json!({"subscribe": {"to_roles": ["host", "ghost"]}}),
            "subscribe.to_roles[1]",
        ),
        (json!({"permissions": {"fly": true}}), "permissions.fly"),
        (
            json!({"permissions": {"record": null}}),
            "permissions.record",
        ),
        (json!({"priority": 0}), "priority"),
        (json!({"priority": 1.5}), "priority"),
        (json!({"max_peer_count": -2}), "max_peer_count"),
        (json!({"hidden": 1}), "hidden"),
        (json!({"colour": "red"}), "colour"),
    ] {
        app.put(&path)
            .json(body)
            .send()
            .expect_error(400, "invalid_request", Some(field));
    }
    let unknown = app.get(&path).send();
    unknown.expect_error(404, "role_not_found", None);
    assert_eq!(
        unknown.json()["error"]["message"],
        "no role by that name in the template, which has none"
    );
}

#[test]
fn a_role_name_outside_its_pattern_is_refused_and_an_unknown_one_not_found() {
    let app = TestApp::start();
    let roles = format!("/v1/templates/{}/roles", template(&app, "t", &json!({})));
    for name in ["a.b", "a%20b", "%C3%BC", &"x".repeat(65)] {
        let path = format!("{roles}/{name}");
        app.put(&path)
            .json(json!({}))
            .send()
            .expect_error(400, "invalid_request", Some("name"));
        app.get(&path)
            .send()
            .expect_error(400, "invalid_request", Some("name"));
        app.delete(&path)
            .send()
            .expect_error(400, "invalid_request", Some("name"));
    }
    let longest = format!("{roles}/{}", "x".repeat(64));
    app.put(&longest).json(json!({})).send().expect(201);
    let path = format!("{roles}/ghost");
    app.get(&path)
        .send()
        .expect_error(404, "role_not_found", None);
    app.delete(&path)
        .send()
        .expect_error(404, "role_not_found", None);
}

#[test]
fn writing_and_deleting_a_role_update_its_template() {
    let app = TestApp::start();
    let template = format!("/v1/templates/{}", template(&app, "t", &json!({})));
    let path = format!("{template}/roles/host");
    app.advance(Duration::from_secs(1));
    let role = app.put(&path).json(json!({})).send().expect(201);
    let seen = app.get(&template).send().expect(200);
    assert_eq!(
        (&seen["updated_at"], &seen["roles"]),
        (&json!(app.now()), &json!({"host": role}))
    );
    app.advance(Duration::from_secs(1));
    app.delete(&path).send().expect_empty(204);
    let seen = app.get(&template).send().expect(200);
    assert_eq!(
        (&seen["updated_at"], &seen["roles"]),
        (&json!(app.now()), &json!({}))
    );
    app.delete(&path)
        .send()
        .expect_error(404, "role_not_found", None);
}

#[test]
fn a_role_that_another_subscribes_to_cannot_be_deleted_and_the_error_names_the_other() {
    let app = TestApp::start();
    let roles = json!({"host": {}, "guest": {"subscribe": {"to_roles": ["host"]}}});
    let roles = format!("/v1/templates/{}/roles", template(&app, "t", &roles));
    let refused = app.delete(&format!("{roles}/host")).send();
    refused.expect_error(409, "role_referenced", Some("subscribe.to_roles"));
    assert!(
        refused.json()["error"]["message"]
            .as_str()
            .unwrap()
            .contains("guest")
    );
    app.put(&format!("{roles}/guest"))
        .json(json!({}))
        .send()
        .expect(200);
    app.delete(&format!("{roles}/host"))
        .send()
        .expect_empty(204);
}

#[test]
fn a_role_that_names_only_itself_can_be_deleted() {
    let app = TestApp::start();
    let roles = json!({"host": {"subscribe": {"to_roles": ["host"]}}});
    let path = format!("/v1/templates/{}/roles/host", template(&app, "t", &roles));
    app.delete(&path).send().expect_empty(204);
}

#[test]
fn a_role_in_use_cannot_be_deleted_until_its_last_participant_has_left() {
    let app = TestApp::start();
    let id = template(&app, "t", &json!({"host": {}, "guest": {}}));
    let path = format!("/v1/templates/{id}/roles/host");
    room_on(&app, "a", &id);
    let sid = app.join("a", "alice", "host");
    app.delete(&path)
        .send()
        .expect_error(409, "role_referenced", None);
    app.delete(&format!("/v1/templates/{id}/roles/guest"))
        .send()
        .expect_empty(204);
    app.leave(&sid, true);
    eventually(|| app.delete(&path).send().status == 204);
}

#[test]
fn replacing_a_role_in_use_is_allowed_and_counts_for_the_next_token() {
    let app = TestApp::start();
    let id = template(&app, "t", &json!({"host": {}}));
    room_on(&app, "a", &id);
    app.join("a", "alice", "host");
    app.put(&format!("/v1/templates/{id}/roles/host"))
        .json(json!({"max_peer_count": 1}))
        .send()
        .expect(200);
    let body = json!({"room": "a", "identity": "bob", "role": "host"});
    app.post("/v1/tokens").json(body).send().expect_error(
        409,
        "role_capacity_reached",
        Some("role"),
    );
}

#[test]
fn a_role_can_be_written_back_as_it_was_read() {
    let app = TestApp::start();
    let template = format!(
        "/v1/templates/{}",
        template(&app, "t", &json!({"host": {"priority": 2}, "guest": {}}))
    );
    let before = app.get(&template).send().expect(200);
    for name in ["host", "guest"] {
        let path = format!("{template}/roles/{name}");
        assert_eq!(
            app.put(&path)
                .json(before["roles"][name].clone())
                .send()
                .expect(200),
            before["roles"][name]
        );
    }
    let body =
        json!({"name": before["name"], "settings": before["settings"], "roles": before["roles"]});
    assert_eq!(app.patch(&template).json(body).send().expect(200), before);
}
