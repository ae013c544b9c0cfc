//! `/call`: the page that joins a call, with all its files served by this program, the origins that may embed it, and the rooms that it
//! opens in `dev`.

use std::collections::{BTreeMap, BTreeSet};

use conclave::config::Config;
use serde_json::{Value, json};

use crate::support::{Request, TestApp};

/// The page's languages; the first one has all texts.
const LANGUAGES: [&str; 7] = ["en", "ar", "de", "es", "fr", "pt", "sw"];

fn start() -> TestApp {
    TestApp::start()
}

fn open(app: &TestApp, room: &str, role: &str) -> Request {
    app.post("/call/rooms")
        .anonymous()
        .json(json!({"room": room, "role": role}))
}

/// Returns the values of an attribute in a text.
fn named(text: &str, before: &str, after: char) -> Vec<String> {
    text.split(before)
        .skip(1)
        .map(|rest| rest.split(after).next().unwrap().to_owned())
        .collect()
}

#[test]
fn without_the_setting_there_is_no_page() {
    let app = TestApp::start_with(|config| config.http.call_page = false);
    for path in ["/call", "/call/main.js", "/call/role", "/embed.js"] {
        app.get(path)
            .anonymous()
            .send()
            .expect_error(404, "not_found", None);
    }
    open(&app, "standup", "host")
        .send()
        .expect_error(404, "not_found", None);
}

/// Returns the contents by file name: the files that the page references, and the files that these reference.
fn files(app: &TestApp) -> BTreeMap<String, String> {
    let page = app.get("/call").anonymous().send().text();
    let mut wanted = [named(&page, "src=\"", '"'), named(&page, "href=\"/", '"')].concat();
    wanted.extend(LANGUAGES.map(|language| format!("call/{language}.json")));
    let mut found = BTreeMap::new();
    while let Some(path) = wanted.pop() {
        let path = format!("/{}", path.trim_start_matches('/'));
        let name = path
            .strip_prefix("/call/")
            .unwrap_or_else(|| panic!("{path}"))
            .to_owned();
        if found.contains_key(&name) {
            continue;
        }
        let answer = app.get(&path).anonymous().send();
        assert_eq!(answer.status, 200, "{name}");
        let kind = match name.rsplit_once('.').unwrap().1 {
            "css" => "text/css; charset=utf-8",
            "json" => "application/json",
            _ => "text/javascript; charset=utf-8",
        };
        assert_eq!(answer.headers["content-type"], kind, "{name}");
        assert_eq!(
            answer.headers["x-content-type-options"], "nosniff",
            "{name}"
        );
        let text = answer.text();
        wanted.extend(
            named(&text, " from './", '\'')
                .iter()
                .map(|name| format!("call/{name}")),
        );
        found.insert(name, text);
    }
    found
}

/// Proves S-35.
#[test]
fn the_page_and_every_file_it_names_are_served_and_nothing_comes_from_elsewhere() {
    let app = start();
    let page = app.get("/call").anonymous().send();
    assert_eq!(
        (page.status, page.headers["content-type"].as_str()),
        (200, "text/html; charset=utf-8")
    );
    let policy = &page.headers["content-security-policy"];
    let own = app.api.strip_prefix("http://").unwrap();
    assert!(
        policy.contains(&format!("connect-src 'self' ws://{own} http://{own};")),
        "{policy}"
    );
    assert!(
        policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self'; "),
        "{policy}"
    );
    let found = files(&app);
    for name in [
        "page.css",
        "main.js",
        "livekit-client.umd.js",
        "call.js",
        "parent.js",
        "fr.json",
    ] {
        assert!(found.contains_key(name), "{name}");
    }
}

#[test]
fn texts_become_segments_of_paths_in_one_place_which_refuses_steps_in_a_path() {
    let found = files(&start());
    let own = found
        .iter()
        .filter(|(name, _)| !name.starts_with("livekit"));
    let encoding: Vec<_> = own
        .filter(|(_, text)| text.contains("encodeURIComponent("))
        .collect();
    let [(name, text)] = encoding[..] else {
        panic!(
            "{:?}",
            encoding.iter().map(|(name, _)| name).collect::<Vec<_>>()
        )
    };
    assert_eq!(
        (name.as_str(), text.matches("encodeURIComponent(").count()),
        ("server.js", 1)
    );
    let segment = text
        .split("function segment(")
        .nth(1)
        .unwrap()
        .split("\n}")
        .next()
        .unwrap();
    let (refusal, encoded) = (
        segment.find("text === '.' || text === '..'"),
        segment.find("encodeURIComponent(text)"),
    );
    assert!(refusal.is_some() && refusal < encoded, "{segment}");
}

#[test]
fn every_text_of_the_page_is_there_in_every_language() {
    let app = start();
    let page = app.get("/call").anonymous().send().text();
    let found = files(&app);
    let texts = LANGUAGES.map(|language| {
        let texts: BTreeMap<String, String> =
            serde_json::from_str(&found[&format!("{language}.json")]).unwrap();
        texts
    });
    // The page offers exactly these languages.
    let offered = found["texts.js"].split("LANGUAGES = {").nth(1).unwrap();
    let offered = offered.split('}').next().unwrap();
    let offered: BTreeSet<_> = offered
        .split(',')
        .filter_map(|one| one.split_once(':'))
        .map(|(language, _)| language.trim())
        .collect();
    assert_eq!(offered, BTreeSet::from(LANGUAGES));
    for other in &texts[1..] {
        assert_eq!(
            texts[0].keys().collect::<Vec<_>>(),
            other.keys().collect::<Vec<_>>()
        );
        for (key, text) in &texts[0] {
            let values = |text: &str| named(text, "{", '}').into_iter().collect::<BTreeSet<_>>();
            assert_eq!(values(text), values(&other[key]), "{key}");
            assert!(!other[key].trim().is_empty(), "{key}");
        }
    }
    let scripts: String = found
        .iter()
        .filter(|(name, _)| !name.starts_with("livekit"))
        .map(|(_, text)| &**text)
        .collect();
    let mut used = [
        named(&scripts, " text('", '\''),
        named(&scripts, "(text('", '\''),
        named(&scripts, "key: '", '\''),
    ]
    .concat();
    for attribute in ["data-text=\"", "data-label=\"", "data-placeholder=\""] {
        used.extend(named(&page, attribute, '"'));
    }
    assert!(used.len() > 50, "{used:?}");
    for key in used {
        assert!(texts[0].contains_key(&key), "{key}");
    }
}

/// Proves S-35.
#[test]
fn the_library_for_background_blur_is_served_from_its_folder_and_only_then_the_page_may_compile_webassembly()
 {
    let files = [
        ("track-processors.js", "text/javascript; charset=utf-8"),
        ("vision_wasm_internal.js", "text/javascript; charset=utf-8"),
        ("vision_wasm_internal.wasm", "application/wasm"),
        ("selfie_segmenter.tflite", "application/octet-stream"),
    ];
    let folder = tempfile::tempdir().unwrap();
    for (name, _) in files {
        std::fs::write(folder.path().join(name), name).unwrap();
    }
    // Further files are the operator's.
    std::fs::write(folder.path().join("other.js"), "other").unwrap();
    let page = |app: &TestApp| {
        let page = app.get("/call").anonymous().send();
        let policy = page.headers["content-security-policy"].clone();
        (policy.contains("'wasm-unsafe-eval'"), page.text())
    };
    let app = start();
    let (may_compile, text) = page(&app);
    assert!(!may_compile && text.contains("data-effects=\"false\""));
    app.get("/call/effects/track-processors.js")
        .anonymous()
        .send()
        .expect_error(404, "not_found", None);
    let path = folder.path().to_owned();
    let app = TestApp::start_with(move |config| config.http.call_effects = Some(path));
    let (may_compile, text) = page(&app);
    assert!(may_compile && text.contains("data-effects=\"true\""));
    for (name, kind) in files {
        let file = app.get(&format!("/call/effects/{name}")).anonymous().send();
        assert_eq!(
            (file.status, file.headers["content-type"].as_str()),
            (200, kind)
        );
        assert_eq!(file.headers["cache-control"], "public, max-age=86400");
        assert_eq!(file.text(), name);
    }
    app.get("/call/effects/other.js")
        .anonymous()
        .send()
        .expect_error(404, "not_found", None);
}

/// Returns settings that allow these origins to embed the call page.
fn embedded(config: &mut Config, origins: &[&str]) {
    let rest = serde_json::to_value(&config.http).unwrap();
    let Value::Object(mut http) = rest else {
        panic!("{rest}")
    };
    http.insert("embed_origins".into(), json!(origins));
    config.http = serde_json::from_value(Value::Object(http)).unwrap();
}

/// Proves S-34.
#[test]
fn without_the_setting_no_page_may_show_the_call_in_a_frame() {
    let app = TestApp::start_with(|config| config.http.embed_origins.clear());
    let page = app.get("/call").anonymous().send();
    assert_eq!(page.headers["x-frame-options"], "DENY");
    assert!(page.headers["content-security-policy"].ends_with("frame-ancestors 'none'"));
    assert!(page.text().contains("data-parents=\"\""));
    app.get("/embed.js")
        .anonymous()
        .send()
        .expect_error(404, "not_found", None);
}

/// Proves S-34.
#[test]
fn pages_of_the_given_origins_and_no_others_may_show_the_call_in_a_frame() {
    let app = TestApp::start_with(|config| {
        embedded(config, &["https://a.example", "http://localhost:3000"]);
    });
    let page = app.get("/call").anonymous().send();
    assert!(
        !page.headers.contains_key("x-frame-options"),
        "it cannot name origins"
    );
    let policy = &page.headers["content-security-policy"];
    assert!(
        policy.ends_with("; frame-ancestors https://a.example http://localhost:3000"),
        "{policy}"
    );
    assert!(
        page.text()
            .contains("data-parents=\"https://a.example http://localhost:3000\"")
    );
    let devices = &page.headers["permissions-policy"];
    for device in [
        "camera=(self)",
        "microphone=(self)",
        "display-capture=(self)",
        "geolocation=()",
    ] {
        assert!(devices.contains(device), "{devices}");
    }
    let script = app.get("/embed.js").anonymous().send();
    assert_eq!(
        (script.status, script.headers["content-type"].as_str()),
        (200, "text/javascript; charset=utf-8")
    );
    assert_eq!(script.headers["access-control-allow-origin"], "*");
    assert!(script.text().contains("customElements.define"));
    app.post("/embed.js")
        .anonymous()
        .send()
        .expect_error(405, "method_not_allowed", None);
    let rooms = open(&app, "standup", "host").header("origin", "https://a.example");
    rooms.send().expect_error(403, "origin_rejected", None);
}

#[test]
fn in_dev_every_port_of_this_machine_may_show_the_call() {
    let app = start();
    let page = app.get("/call").anonymous().send();
    let loopback = "http://localhost:* http://127.0.0.1:*";
    assert!(
        page.headers["content-security-policy"].ends_with(&format!("; frame-ancestors {loopback}"))
    );
    assert!(
        page.text()
            .contains(&format!("data-parents=\"{loopback}\""))
    );
    for parent in [
        "http://localhost:3000",
        "http://localhost",
        "http://127.0.0.1:5173",
    ] {
        let page = app
            .get(&format!("/call?parent={parent}"))
            .anonymous()
            .send();
        assert!(page.text().contains("id=\"lobby\""), "{parent}");
    }
    assert_eq!(app.get("/embed.js").anonymous().send().status, 200);
}

/// Proves S-34.
#[test]
fn a_page_of_another_origin_gets_the_name_of_the_setting_instead_of_the_call() {
    let app = TestApp::start_with(|config| embedded(config, &["https://a.example"]));
    let shown = |query: &str| app.get(&format!("/call{query}")).anonymous().send();
    let refused = shown("?parent=https%3A%2F%2Fevil.example");
    assert_eq!(refused.status, 200);
    let policy = &refused.headers["content-security-policy"];
    assert!(
        policy.starts_with("default-src 'none'; script-src 'self'; ")
            && policy.ends_with("; frame-ancestors https://evil.example"),
        "{policy}"
    );
    assert!(!refused.headers.contains_key("permissions-policy"));
    let text = refused.text();
    assert!(
        text.contains("http.embed_origins. https://evil.example is not one of them"),
        "{text}"
    );
    assert!(
        !text.contains("<button") && !text.contains("main.js"),
        "{text}"
    );
    let script = app.get("/call/refused.js").anonymous().send();
    assert_eq!(
        script.headers["content-type"],
        "text/javascript; charset=utf-8"
    );
    for query in [
        "",
        "?parent=https://a.example",
        "?parent=%3Cscript%3E",
        "?parent=https://a.example/x",
    ] {
        let page = shown(query);
        let policy = &page.headers["content-security-policy"];
        assert!(
            policy.ends_with("; frame-ancestors https://a.example"),
            "{query}: {policy}"
        );
        assert!(page.text().contains("id=\"lobby\""), "{query}");
    }
}

#[test]
fn a_participant_is_told_what_its_role_may_do_and_nothing_of_other_rooms() {
    let app = start();
    let roles =
        json!({"lead": {"permissions": {"mute_others": true, "change_role": true}}, "guest": {}});
    let template = app
        .post("/v1/templates")
        .json(json!({"name": "lesson", "roles": roles}))
        .send()
        .expect(201);
    let metadata = json!({"title": "Algèbre, leçon 4", "lesson": 4});
    let room = json!({"name": "algebra", "template_id": template["id"], "metadata": metadata});
    app.post("/v1/rooms").json(room).send().expect(201);
    let ask = |token: &str| {
        app.get("/call/role")
            .anonymous()
            .header("x-svc-room-token", token)
            .send()
    };
    let token = |role: &str| {
        let body = json!({"room": "algebra", "identity": role, "role": role});
        app.post("/v1/tokens").json(body).send().expect(201)["token"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let lead = ask(&token("lead")).expect(200);
    assert_eq!(lead["roles"], json!(["guest", "lead"]));
    assert_eq!(
        (
            &lead["permissions"]["mute_others"],
            &lead["permissions"]["end_room"]
        ),
        (&json!(true), &json!(false))
    );
    assert_eq!(lead["title"], "Algèbre, leçon 4");
    let guest = ask(&token("guest")).expect(200);
    assert_eq!(
        (&guest["roles"], &guest["permissions"]["mute_others"]),
        (&json!([]), &json!(false))
    );
    for (name, metadata) in [("untitled", json!({"title": 7})), ("plain", json!({}))] {
        let room = json!({"name": name, "metadata": metadata});
        app.post("/v1/rooms").json(room).send().expect(201);
        let body = json!({"room": name, "identity": "ada"});
        let token = app.post("/v1/tokens").json(body).send().expect(201);
        let found = ask(token["token"].as_str().unwrap()).expect(200);
        assert_eq!(found["title"], json!(null), "{name}");
    }
    let without = app.get("/call/role").anonymous();
    without.send().expect_error(401, "unauthorized", None);
    app.get("/call/role")
        .send()
        .expect_error(401, "unauthorized", None);
    ask("x.y.z").expect_error(401, "unauthorized", None);
    let elsewhere = app
        .get("/call/role")
        .anonymous()
        .header("x-svc-room-token", &token("lead"));
    elsewhere
        .header("origin", "https://evil.example")
        .send()
        .expect_error(403, "origin_rejected", None);
}

#[test]
fn everyone_learns_what_is_recorded_or_broadcast_and_who_may_stop_it_how() {
    let app = start();
    let roles = json!({"lead": {"permissions": {"record": true}}, "guest": {}});
    let template = app
        .post("/v1/templates")
        .json(json!({"name": "lesson", "roles": roles}))
        .send()
        .expect(201);
    for name in ["algebra", "geometry"] {
        let room = json!({"name": name, "template_id": template["id"]});
        app.post("/v1/rooms").json(room).send().expect(201);
    }
    let running = |room: &str, role: &str| {
        let body = json!({"room": room, "identity": role, "role": role});
        let token = app.post("/v1/tokens").json(body).send().expect(201);
        app.get("/call/role")
            .anonymous()
            .header("x-svc-room-token", token["token"].as_str().unwrap())
            .send()
            .expect(200)["running"]
            .clone()
    };
    assert_eq!(running("algebra", "lead"), json!([]));
    let begun = |kind: &str, body: Value| {
        let path = format!("/v1/rooms/algebra/{kind}");
        app.post(&path).json(body).send().expect(201)["egress_id"].clone()
    };
    let recording = begun("recordings", json!({"type": "room_composite"}));
    let broadcast = begun("broadcasts", json!({"urls": ["rtmp://8.8.8.8/live/key"]}));
    // The `lead` role may stop recordings, but not broadcasts.
    let expected = json!([{"kind": "recording", "egress_id": recording}, {"kind": "broadcast"}]);
    assert_eq!(running("algebra", "lead"), expected);
    let expected = json!([{"kind": "recording"}, {"kind": "broadcast"}]);
    assert_eq!(running("algebra", "guest"), expected);
    assert_eq!(running("geometry", "lead"), json!([]));
    let stop = |kind: &str, id: &Value| {
        let path = format!("/v1/{kind}/{}/stop", id.as_str().unwrap());
        app.post(&path).send().expect(200);
    };
    stop("recordings", &recording);
    assert_eq!(running("algebra", "guest"), json!([{"kind": "broadcast"}]));
    stop("broadcasts", &broadcast);
    assert_eq!(running("algebra", "guest"), json!([]));
}

#[test]
fn in_dev_the_page_opens_a_room_and_exchanges_its_code() {
    let app = start();
    assert!(
        app.get("/call")
            .anonymous()
            .send()
            .text()
            .contains("data-dev=\"true\"")
    );
    let codes: Vec<Value> = ["host", "guest"]
        .map(|role| open(&app, "standup", role).send().expect(201)["code"].clone())
        .into();
    for (code, role) in codes.iter().zip(["host", "guest"]) {
        let path = format!("/v1/codes/{}/exchange", code.as_str().unwrap());
        let token = app
            .post(&path)
            .anonymous()
            .json(json!({"identity": "ada"}))
            .send()
            .expect(201);
        assert_eq!(
            (&token["role"], &token["url"]),
            (&json!(role), &json!(app.api.replace("http", "ws")))
        );
    }
    let rooms = app.get("/v1/rooms").send().expect(200);
    assert_eq!(rooms["rooms"].as_array().unwrap().len(), 1);
}

#[test]
fn windows_that_name_no_room_meet_in_one_until_it_has_ended() {
    let app = start();
    let open_any = || {
        app.post("/call/rooms")
            .anonymous()
            .json(json!({"role": "host"}))
            .send()
            .expect(201)
    };
    let calls = || {
        let rooms = app.get("/v1/rooms").send().expect(200)["rooms"].clone();
        let names = rooms
            .as_array()
            .unwrap()
            .iter()
            .map(|room| room["name"].as_str().unwrap().to_owned());
        names
            .filter(|name| name.starts_with("call-"))
            .collect::<Vec<_>>()
    };
    open_any();
    let first = calls();
    assert_eq!((first.len(), first[0].len()), (1, 11), "{first:?}");
    open(&app, "standup", "host").send().expect(201);
    open_any();
    assert_eq!(calls(), first, "another room was opened by its name");
    app.delete(&format!("/v1/rooms/{}", first[0]))
        .send()
        .expect_empty(204);
    open_any();
    assert_eq!(calls().len(), 2);
}

#[test]
fn what_cannot_be_opened_is_refused_as_by_the_api() {
    let app = start();
    open(&app, "a room", "host")
        .send()
        .expect_error(400, "invalid_room_name", Some("room"));
    open(&app, "standup", "nobody")
        .send()
        .expect_error(404, "role_not_found", Some("role"));
    app.delete("/v1/rooms/standup").send().expect_empty(204);
    open(&app, "standup", "host")
        .send()
        .expect_error(404, "room_not_found", None);
    app.post("/call/rooms")
        .anonymous()
        .json(json!({"room": "x"}))
        .send()
        .expect_error(400, "invalid_request", Some("role"));
    app.get("/call/rooms")
        .anonymous()
        .send()
        .expect_error(405, "method_not_allowed", None);
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
