//! `DELETE /ext/v1/rooms/{name}/codes/{id}`.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Response, TestApp};
use crate::tools::other_project;

fn create(app: &TestApp, room: &str) -> Value {
    app.post(&format!("/v1/rooms/{room}/codes"))
        .json(json!({"role": "guest"}))
        .send()
        .expect(201)
}

/// Returns a room's codes in the list.
fn listed(app: &TestApp, room: &str) -> Vec<Value> {
    let page = app.get(&format!("/v1/rooms/{room}/codes")).send();
    page.expect(200)["codes"].as_array().unwrap().clone()
}

fn path(room: &str, code: &Value) -> String {
    format!(
        "/ext/v1/rooms/{room}/codes/{}",
        code["id"].as_str().unwrap()
    )
}

fn exchange(app: &TestApp, code: &Value) -> Response {
    app.post(&format!(
        "/v1/codes/{}/exchange",
        code["code"].as_str().unwrap()
    ))
    .anonymous()
    .send()
}

#[test]
fn a_code_is_disabled_by_the_id_that_the_list_shows() {
    let app = TestApp::start();
    app.room("a");
    let (leaked, other) = (create(&app, "a"), create(&app, "a"));
    let shown = listed(&app, "a");
    let row = shown
        .iter()
        .find(|row| row["id"] == leaked["id"])
        .expect("the code is listed");
    app.delete(&path("a", row)).send().expect_empty(204);
    exchange(&app, &leaked).expect_error(404, "code_not_found", None);
    exchange(&app, &other).expect(201);
    let disabled = |code: &Value| {
        let rows = listed(&app, "a");
        let row = rows.into_iter().find(|row| row["id"] == code["id"]);
        row.unwrap()["disabled"].clone()
    };
    assert_eq!(
        (disabled(&leaked), disabled(&other)),
        (json!(true), json!(false))
    );
}

#[test]
fn a_disabled_code_is_disabled_again_without_a_change() {
    let app = TestApp::start();
    app.room("a");
    let code = create(&app, "a");
    app.delete(&path("a", &code)).send().expect_empty(204);
    let before = listed(&app, "a");
    app.advance(Duration::from_secs(60));
    app.delete(&path("a", &code)).send().expect_empty(204);
    assert_eq!(listed(&app, "a"), before);
}

#[test]
fn a_code_of_another_room_or_project_is_not_found() {
    let app = TestApp::start();
    app.room("a");
    app.room("b");
    let code = create(&app, "a");
    let delete = |room: &str, key: &str| app.delete(&path(room, &code)).bearer(key).send();
    delete("b", &app.key).expect_error(404, "code_not_found", None);
    delete("c", &app.key).expect_error(404, "room_not_found", None);
    let other = other_project(&app, "self_hosted");
    app.post("/v1/rooms")
        .bearer(&other.key)
        .json(json!({"name": "a"}))
        .send()
        .expect(201);
    delete("a", &other.key).expect_error(404, "code_not_found", None);
    exchange(&app, &code).expect(201);
}

#[test]
fn an_ended_rooms_codes_can_still_be_disabled() {
    let app = TestApp::start();
    app.room("a");
    let code = create(&app, "a");
    app.delete("/v1/rooms/a").send();
    app.delete(&path("a", &code)).send().expect_empty(204);
    assert_eq!(listed(&app, "a")[0]["disabled"], true);
}

#[test]
fn an_id_that_is_none_is_refused() {
    let app = TestApp::start();
    app.room("a");
    app.delete("/ext/v1/rooms/a/codes/abcd-efgh-jkmn")
        .send()
        .expect_error(400, "invalid_request", Some("id"));
}
