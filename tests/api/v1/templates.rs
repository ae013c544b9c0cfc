//! `/v1/templates`.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::TestApp;
use crate::tools::{
    NO_TEMPLATE, conclave, default_template, fields, other_project, refuses_bad_pages, room_on,
    template, walk_pages,
};

fn create(app: &TestApp, body: Value) -> crate::support::Response {
    app.post("/v1/templates").json(body).send()
}

#[test]
fn a_template_has_exactly_the_fields_of_the_contract_and_its_roles_are_normalised() {
    let app = TestApp::start();
    let made = create(
        &app,
        json!({"name": "meeting", "roles": {"host": {"priority": 1}, "guest": {}}}),
    )
    .expect(201);
    let now = "2026-03-01T12:00:00.000Z";
    let expected = json!({
        "id": made["id"], "project_id": app.project, "name": "meeting", "is_default": false,
        "settings": {"region": "auto"}, "roles": made["roles"], "created_at": now, "updated_at": now
    });
    assert_eq!(made, expected);
    let id = made["id"].as_str().unwrap();
    assert!(id.len() == 16 && id.starts_with("tpl_"), "{id}");
    assert_eq!(fields(&made["roles"]), ["guest", "host"]);
    assert_eq!(
        (
            &made["roles"]["host"]["priority"],
            &made["roles"]["host"]["name"]
        ),
        (&json!(1), &json!("host"))
    );
    assert_eq!(made["roles"]["guest"]["publish"]["video"]["width"], 1280);
    assert_eq!(
        app.get(&format!("/v1/templates/{id}")).send().expect(200),
        made
    );
}

#[test]
fn a_template_may_be_a_name_alone_or_have_a_region() {
    let app = TestApp::start();
    assert_eq!(
        create(&app, json!({"name": "a"})).expect(201)["roles"],
        json!({})
    );
    let made = create(&app, json!({"name": "b", "settings": {}})).expect(201);
    assert_eq!(made["settings"], json!({"region": "auto"}));
    for region in ["auto", "af-east", "eu-west", "us-east"] {
        let made = create(
            &app,
            json!({"name": region, "settings": {"region": region}}),
        )
        .expect(201);
        assert_eq!(made["settings"], json!({"region": region}));
    }
}

#[test]
fn each_invalid_field_is_refused_by_name() {
    let app = TestApp::start();
    for (body, field) in [
        (json!({}), "name"),
        (json!({"name": null}), "name"),
        (json!({"name": ""}), "name"),
        (json!({"name": "a b"}), "name"),
        (json!({"name": "x".repeat(65)}), "name"),
        (json!({"name": "a", "settings": null}), "settings"),
        (json!({"name": "a", "settings": []}), "settings"),
        (
            json!({"name": "a", "settings": {"region": "mars"}}),
            "settings.region",
        ),
        (
            json!({"name": "a", "settings": {"colour": 1}}),
            "settings.colour",
        ),
        (json!({"name": "a", "roles": []}), "roles"),
        (json!({"name": "a", "roles": null}), "roles"),
        (json!({"name": "a", "roles": {"x": null}}), "roles.x"),
        (json!({"name": "a", "roles": {"x y": {}}}), "roles.x y"),
        (
            json!({"name": "a", "roles": {"x": {"name": "y"}}}),
            "roles.x.name",
        ),
        (
            json!({"name": "a", "roles": {"x": {"colour": 1}}}),
            "roles.x.colour",
        ),
        (
            json!({"name": "a", "roles": {"x": {"publish": {"video": {"width": 15}}}}}),
            "roles.x.publish.video.width",
        ),
        (
            json!({"name": "a", "roles": {"x": {"subscribe": {"to_roles": ["x", "y"]}}}}),
            "roles.x.subscribe.to_roles[1]",
        ),
        (json!({"name": "a", "colour": 1}), "colour"),
    ] {
        create(&app, body).expect_error(400, "invalid_request", Some(field));
    }
    assert_eq!(
        app.get("/v1/templates").send().json()["templates"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn roles_of_one_request_may_refer_to_each_other_and_to_themselves() {
    let app = TestApp::start();
    let roles = json!({"a": {"subscribe": {"to_roles": ["b", "a"]}}, "b": {"subscribe": {"to_roles": ["a"]}}});
    let made = create(&app, json!({"name": "t", "roles": roles})).expect(201);
    assert_eq!(
        made["roles"]["a"]["subscribe"]["to_roles"],
        json!(["b", "a"])
    );
}

#[test]
fn a_name_is_unique_in_the_project_and_nowhere_else() {
    let app = TestApp::start();
    let id = template(&app, "t", &json!({}));
    create(&app, json!({"name": "t"})).expect_error(409, "template_exists", Some("name"));
    create(&app, json!({"name": "T"})).expect(201);
    let other = other_project(&app, "self_hosted");
    app.post("/v1/templates")
        .bearer(&other.key)
        .json(json!({"name": "t"}))
        .send()
        .expect(201);
    app.delete(&format!("/v1/templates/{id}"))
        .send()
        .expect_empty(204);
    create(&app, json!({"name": "t"})).expect(201);
}

#[test]
fn templates_are_paged_without_repeats() {
    let app = TestApp::start();
    let mut expected = vec![default_template(&app)];
    for index in 0..5 {
        app.advance(Duration::from_secs(1));
        expected.insert(0, template(&app, &format!("t{index}"), &json!({})));
    }
    for limit in [1, 2, 6, 200] {
        assert_eq!(
            walk_pages(
                |path| app.get(path),
                "/v1/templates",
                "templates",
                "id",
                limit
            ),
            expected
        );
    }
    refuses_bad_pages(&app, "/v1/templates");
}

#[test]
fn a_malformed_id_is_400_and_an_unknown_one_404_on_every_call() {
    let app = TestApp::start();
    let requests = [
        app.get("/v1/templates/ID"),
        app.patch("/v1/templates/ID").json(json!({})),
        app.delete("/v1/templates/ID"),
        app.get("/v1/templates/ID/settings"),
        app.patch("/v1/templates/ID/settings")
            .json(json!({"region": "auto"})),
        app.put("/v1/templates/ID/roles/host").json(json!({})),
        app.get("/v1/templates/ID/roles/host"),
        app.delete("/v1/templates/ID/roles/host"),
    ];
    for request in requests {
        for id in ["tpl_", "tpl_00000000000G", "TPL_000000000000", "x"] {
            request
                .clone()
                .with_path_part("ID", id)
                .send()
                .expect_error(400, "invalid_request", Some("id"));
        }
        request
            .with_path_part("ID", NO_TEMPLATE)
            .send()
            .expect_error(404, "template_not_found", None);
    }
}

#[test]
fn an_update_changes_only_sent_fields_and_replaces_sent_roles() {
    let app = TestApp::start();
    let roles = json!({"host": {"priority": 1, "hidden": true}, "guest": {"priority": 9}});
    let id = template(&app, "t", &roles);
    let path = format!("/v1/templates/{id}");
    let before = app.get(&path).send().expect(200);
    app.advance(Duration::from_secs(1));

    let after = app
        .patch(&path)
        .json(json!({"roles": {"host": {"priority": 2}, "new": {}}}))
        .send()
        .expect(200);
    assert_eq!(fields(&after["roles"]), ["guest", "host", "new"]);
    assert_eq!(after["roles"]["guest"], before["roles"]["guest"]);
    assert_eq!(
        (
            &after["roles"]["host"]["priority"],
            &after["roles"]["host"]["hidden"]
        ),
        (&json!(2), &json!(false))
    );
    assert_eq!(
        (&after["name"], &after["settings"]),
        (&before["name"], &before["settings"])
    );
    assert_eq!(after["created_at"], before["created_at"]);
    assert_eq!(after["updated_at"], app.now());

    let after = app
        .patch(&path)
        .json(json!({"name": null, "settings": {"region": "eu-west"}}))
        .send()
        .expect(200);
    assert_eq!(
        (&after["name"], &after["settings"]["region"]),
        (&json!("t"), &json!("eu-west"))
    );
    let after = app
        .patch(&path)
        .json(json!({"name": "t2"}))
        .send()
        .expect(200);
    assert_eq!(
        (&after["name"], &after["settings"]["region"]),
        (&json!("t2"), &json!("eu-west"))
    );
    assert_eq!(app.get(&path).send().expect(200), after);
}

#[test]
fn settings_without_a_region_leave_the_region_unchanged() {
    let app = TestApp::start();
    let path = format!("/v1/templates/{}", template(&app, "t", &json!({})));
    app.patch(&path)
        .json(json!({"settings": {"region": "eu-west"}}))
        .send()
        .expect(200);
    let after = app
        .patch(&path)
        .json(json!({"settings": {}}))
        .send()
        .expect(200);
    assert_eq!(after["settings"]["region"], "eu-west");
}

#[test]
fn an_empty_update_is_accepted_and_changes_nothing_else() {
    let app = TestApp::start();
    let path = format!(
        "/v1/templates/{}",
        template(&app, "t", &json!({"host": {}}))
    );
    let before = app.get(&path).send().expect(200);
    assert_eq!(app.patch(&path).json(json!({})).send().expect(200), before);
}

#[test]
fn a_refused_update_changes_nothing() {
    let app = TestApp::start();
    let path = format!(
        "/v1/templates/{}",
        template(&app, "t", &json!({"host": {}}))
    );
    template(&app, "taken", &json!({}));
    let before = app.get(&path).send().expect(200);
    let patch = |body: Value| app.patch(&path).json(body).send();
    patch(json!({"name": "taken", "roles": {"x": {}}})).expect_error(
        409,
        "template_exists",
        Some("name"),
    );
    let dangling = json!({"name": "free", "roles": {"x": {"subscribe": {"to_roles": ["ghost"]}}}});
    patch(dangling).expect_error(
        400,
        "invalid_request",
        Some("roles.x.subscribe.to_roles[0]"),
    );
    patch(json!({"settings": {"region": "mars"}})).expect_error(
        400,
        "invalid_request",
        Some("settings.region"),
    );
    patch(json!({"is_default": true})).expect_error(400, "invalid_request", Some("is_default"));
    assert_eq!(app.get(&path).send().expect(200), before);
    assert_eq!(patch(json!({"name": "t"})).expect(200)["name"], "t");
}

#[test]
fn an_update_may_refer_to_existing_roles() {
    let app = TestApp::start();
    let path = format!(
        "/v1/templates/{}",
        template(&app, "t", &json!({"host": {}}))
    );
    let roles = json!({"guest": {"subscribe": {"to_roles": ["host"]}}});
    app.patch(&path)
        .json(json!({"roles": roles}))
        .send()
        .expect(200);
}

#[test]
fn the_default_template_cannot_be_deleted_until_another_is_the_default() {
    let app = TestApp::start();
    let default = format!("/v1/templates/{}", default_template(&app));
    app.delete(&default)
        .send()
        .expect_error(409, "template_is_default", None);
    let next = template(&app, "next", &json!({}));
    conclave(
        &app,
        &["project", "set-default-template", &app.project, &next],
    );
    assert_eq!(
        app.get(&format!("/v1/templates/{next}")).send().json()["is_default"],
        true
    );
    assert_eq!(app.room("a")["template_id"], next.as_str());
    app.delete(&default).send().expect_empty(204);
    app.get(&default)
        .send()
        .expect_error(404, "template_not_found", None);
}

#[test]
fn a_first_template_is_not_the_default_by_itself() {
    let app = TestApp::start();
    let other = other_project(&app, "self_hosted");
    let made = app
        .post("/v1/templates")
        .bearer(&other.key)
        .json(json!({"name": "t"}))
        .send()
        .expect(201);
    assert_eq!(made["is_default"], false);
}

#[test]
fn open_rooms_hold_a_template_and_ended_ones_keep_its_id_as_history() {
    let app = TestApp::start();
    let id = template(&app, "t", &json!({"host": {}}));
    let path = format!("/v1/templates/{id}");
    room_on(&app, "a", &id);
    app.delete(&path)
        .send()
        .expect_error(409, "template_in_use", None);
    app.delete("/v1/rooms/a").send().expect_empty(204);
    app.delete(&path).send().expect_empty(204);
    assert_eq!(
        app.get("/v1/rooms/a").send().expect(200)["template_id"],
        id.as_str()
    );
    app.get(&format!("{path}/roles/host"))
        .send()
        .expect_error(404, "template_not_found", None);
    app.delete(&path)
        .send()
        .expect_error(404, "template_not_found", None);
}
