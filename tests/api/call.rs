//! `/call`: the page that joins a call, with all its files served by this program, and the rooms it opens in `dev`.

use serde_json::{Value, json};

use crate::support::{Request, TestApp};

const FILES: [(&str, &str); 6] = [
    ("page.css", "text/css"),
    ("page.js", "text/javascript"),
    ("grid.js", "text/javascript"),
    ("chat.js", "text/javascript"),
    ("names.js", "text/javascript"),
    ("livekit-client.umd.js", "text/javascript"),
];

fn start() -> TestApp {
    TestApp::start()
}

fn open(app: &TestApp, room: &str, role: &str) -> Request {
    app.post("/call/rooms").anonymous().json(json!({"room": room, "role": role}))
}

/// The values of an attribute in a text.
fn named(text: &str, before: &str, after: char) -> Vec<String> {
    text.split(before).skip(1).map(|rest| rest.split(after).next().unwrap().to_owned()).collect()
}

#[test]
fn without_the_setting_there_is_no_page() {
    let app = TestApp::start_with(|config| config.http.call_page = false);
    for path in ["/call", "/call/page.js"] {
        app.get(path).anonymous().send().expect_error(404, "not_found", None);
    }
    open(&app, "standup", "host").send().expect_error(404, "not_found", None);
}

#[test]
fn the_page_and_every_file_it_names_are_served_and_nothing_comes_from_elsewhere() {
    let app = start();
    let page = app.get("/call").anonymous().send();
    assert_eq!((page.status, page.headers["content-type"].as_str()), (200, "text/html; charset=utf-8"));
    let policy = &page.headers["content-security-policy"];
    let own = app.api.strip_prefix("http://").unwrap();
    assert!(policy.contains(&format!("connect-src 'self' ws://{own} http://{own};")), "{policy}");
    assert!(policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self'; "), "{policy}");
    let text = page.text();
    let mut used = [named(&text, "src=\"", '"'), named(&text, "href=\"/", '"')].concat();
    for (file, kind) in FILES {
        let answer = app.get(&format!("/call/{file}")).anonymous().send();
        assert_eq!(answer.status, 200, "{file}");
        assert!(answer.headers["content-type"].starts_with(kind), "{file}");
        assert_eq!(answer.headers["x-content-type-options"], "nosniff", "{file}");
        used.extend(named(&answer.text(), "from './", '\'').iter().map(|name| format!("call/{name}")));
    }
    for name in used {
        let name = name.trim_start_matches('/').strip_prefix("call/").unwrap_or_else(|| panic!("{name}")).to_owned();
        assert!(FILES.iter().any(|(file, _)| *file == name), "{name}");
    }
}

#[test]
fn in_dev_the_page_opens_a_room_and_exchanges_its_code() {
    let app = start();
    assert!(app.get("/call").anonymous().send().text().contains("data-dev=\"true\""));
    let codes: Vec<Value> =
        ["host", "guest"].map(|role| open(&app, "standup", role).send().expect(201)["code"].clone()).into();
    for (code, role) in codes.iter().zip(["host", "guest"]) {
        let path = format!("/v1/codes/{}/exchange", code.as_str().unwrap());
        let token = app.post(&path).anonymous().json(json!({"identity": "ada"})).send().expect(201);
        assert_eq!((&token["role"], &token["url"]), (&json!(role), &json!(app.api.replace("http", "ws"))));
    }
    let rooms = app.get("/v1/rooms").send().expect(200);
    assert_eq!(rooms["rooms"].as_array().unwrap().len(), 1);
}

#[test]
fn windows_that_name_no_room_meet_in_one_until_it_has_ended() {
    let app = start();
    let open_any = || app.post("/call/rooms").anonymous().json(json!({"role": "host"})).send().expect(201);
    let calls = || {
        let rooms = app.get("/v1/rooms").send().expect(200)["rooms"].clone();
        let names = rooms.as_array().unwrap().iter().map(|room| room["name"].as_str().unwrap().to_owned());
        names.filter(|name| name.starts_with("call-")).collect::<Vec<_>>()
    };
    open_any();
    let first = calls();
    assert_eq!((first.len(), first[0].len()), (1, 11), "{first:?}");
    open(&app, "standup", "host").send().expect(201);
    open_any();
    assert_eq!(calls(), first, "another room was opened by its name");
    app.delete(&format!("/v1/rooms/{}", first[0])).send().expect_empty(204);
    open_any();
    assert_eq!(calls().len(), 2);
}

#[test]
fn what_cannot_be_opened_is_refused_as_by_the_api() {
    let app = start();
    open(&app, "a room", "host").send().expect_error(400, "invalid_room_name", Some("room"));
    open(&app, "standup", "nobody").send().expect_error(404, "role_not_found", Some("role"));
    app.delete("/v1/rooms/standup").send().expect_empty(204);
    open(&app, "standup", "host").send().expect_error(404, "room_not_found", None);
    app.post("/call/rooms").anonymous().json(json!({"room": "x"})).send().expect_error(
        400,
        "invalid_request",
        Some("role"),
    );
    app.get("/call/rooms").anonymous().send().expect_error(405, "method_not_allowed", None);
}

#[test]
fn rooms_are_opened_only_for_a_page_of_this_server_on_this_machine() {
    let app = start();
    let elsewhere = open(&app, "standup", "host").header("origin", "https://evil.example");
    elsewhere.send().expect_error(403, "origin_rejected", None);
    let rebound = open(&app, "standup", "host").header("host", "evil.example");
    rebound.send().expect_error(403, "origin_rejected", None);
    let own = open(&app, "standup", "host").header("origin", &app.api);
    own.send().expect(201);
}
