//! Each action has the same effect as the API operation, with the operator as the caller.

use serde_json::{Value, json};

use super::{Browser, secret};
use crate::support::{Receiver, Request, TestApp, eventually};

fn project(app: &TestApp) -> String {
    format!("/projects/{}", app.project)
}

#[test]
fn a_project_is_created_given_a_key_credited_moved_suspended_and_resumed() {
    let app = TestApp::start();
    let browser = Browser::new(&app);
    let page = browser.act(
        "/projects",
        &[("name", "shop"), ("env", "live"), ("plan", "free")],
    );
    assert!(
        page.contains("The project was created") && page.contains("shop"),
        "{page}"
    );
    let (_, rest) = page.split_once("/projects/prj_").unwrap();
    let path = format!("/projects/prj_{}", &rest[..12]);
    let key = secret(&browser.act(&format!("{path}/keys"), &[("label", "backend")]));
    assert!(key.starts_with("vk_live_"));
    let plan = || {
        Request::new("GET", format!("{}/v1/plan", app.api))
            .bearer(&key)
            .send()
    };
    assert_eq!(plan().expect(200)["plan_id"], "free");
    assert!(
        !browser.page(&format!("{path}/settings")).contains(&key),
        "a key is shown once"
    );

    browser.act(&format!("{path}/plan"), &[("plan", "pro")]);
    assert_eq!(plan().expect(200)["plan_id"], "pro");
    browser.act(&format!("{path}/credit"), &[("ugx", "5000")]);
    assert!(
        browser
            .page(&format!("{path}/settings"))
            .contains("5\u{202f}000 UGX")
    );
    browser.act(&format!("{path}/status"), &[("status", "suspended")]);
    assert_eq!(plan().expect(200)["quota_state"], "suspended");
    browser.act(&format!("{path}/status"), &[("status", "active")]);
    assert_eq!(plan().expect(200)["quota_state"], "active");
    browser.act(&format!("{path}/keys/{}/revoke", &key[..12]), &[]);
    plan().expect_error(401, "unauthorized", None);
}

#[test]
fn a_project_is_created_with_a_default_template_unless_it_is_not_wanted() {
    let app = TestApp::start();
    let browser = Browser::new(&app);
    for (wanted, fields) in [(true, &[("with_template", "on")][..]), (false, &[][..])] {
        let mut form = vec![("name", "shop"), ("env", "live"), ("plan", "self_hosted")];
        form.extend(fields);
        let page = browser.act("/projects", &form);
        let (_, rest) = page.split_once("/projects/prj_").unwrap();
        let path = format!("/projects/prj_{}", &rest[..12]);
        let templates = browser.page(&format!("{path}/templates"));
        assert_eq!(templates.contains("guest, host"), wanted, "{templates}");
        let page = browser.act(&format!("{path}/rooms"), &[("name", "till")]);
        assert_eq!(page.contains("value=\"guest\""), wanted, "{page}");
    }
}

#[test]
fn an_invalid_form_says_what_is_allowed_and_changes_nothing() {
    let app = TestApp::start();
    let browser = Browser::new(&app);
    let refused = |path: &str, fields: &[(&str, &str)], status: u16, said: &str| {
        let answer = browser.send(path, fields);
        assert_eq!(answer.status, status, "{path}");
        assert!(answer.text().contains(said), "{path}: {}", answer.text());
    };
    refused(
        "/projects",
        &[("name", ""), ("plan", "free")],
        400,
        "must be 1 to 200 characters",
    );
    refused(
        "/projects",
        &[("name", "x"), ("plan", "gold")],
        400,
        "must be one of free, pro, self_hosted, starter",
    );
    let own = project(&app);
    refused(
        &format!("{own}/credit"),
        &[("ugx", "-1")],
        400,
        "must be an integer from 1 to",
    );
    refused(
        &format!("{own}/credit"),
        &[("ugx", "1.5")],
        400,
        "must be a whole number",
    );
    refused(
        &format!("{own}/status"),
        &[("status", "gone")],
        400,
        "must be one of active, suspended",
    );
    refused(
        &format!("{own}/rooms"),
        &[("name", "a b")],
        400,
        "invalid_room_name",
    );
    refused(&format!("{own}/rooms/none/end"), &[], 404, "room_not_found");
    refused(
        &format!("{own}/keys/vk_test_none/revoke"),
        &[],
        404,
        "no key with that prefix",
    );
    refused(
        &format!("{own}/webhooks"),
        &[("url", "ftp://x")],
        400,
        "invalid_url",
    );
    for deceptive in ["shop\u{202e}", "a\u{2066}b", "a\u{1b}[31m"] {
        refused(
            "/projects",
            &[("name", deceptive), ("env", "live"), ("plan", "free")],
            400,
            "direction",
        );
        refused(
            &format!("/projects/{}/keys", app.project),
            &[("label", deceptive)],
            400,
            "direction",
        );
    }
    refused(
        "/projects/prj_000000000000/keys",
        &[("label", "x")],
        404,
        "no project",
    );
    assert_eq!(app.get("/v1/rooms").send().json()["rooms"], json!([]));
}

#[test]
fn a_room_is_opened_searched_and_ended() {
    let app = TestApp::start();
    let browser = Browser::new(&app);
    let own = project(&app);
    browser.act(
        &format!("{own}/rooms"),
        &[("name", "standup"), ("empty_timeout_seconds", "60")],
    );
    assert_eq!(
        app.get("/v1/rooms/standup").send().expect(200)["empty_timeout_seconds"],
        60
    );
    app.room("retro");
    assert!(browser.page(&own).contains("standup") && browser.page(&own).contains("retro"));
    let found = browser.page(&format!("{own}?q=sta"));
    assert!(found.contains("rooms/standup") && !found.contains("rooms/retro"));
    browser.act(&format!("{own}/rooms/standup/end"), &[]);
    assert_eq!(
        app.get("/v1/rooms/standup").send().expect(200)["status"],
        "ended"
    );
    let page = browser.page(&own);
    assert!(
        page.find("rooms/retro").unwrap() < page.find("rooms/standup").unwrap(),
        "live rooms come first"
    );
    assert!(
        browser
            .page(&format!("{own}/rooms/standup"))
            .contains("The room has ended.")
    );
}

#[test]
fn a_room_is_opened_with_everything_that_the_api_takes() {
    let app = TestApp::start();
    let browser = Browser::new(&app);
    let path = format!("{}/rooms", project(&app));
    let template = app.get("/v1/templates").send().expect(200)["templates"][0]["id"].clone();
    // A number that few parsers read, and an order of keys that is not the alphabet's.
    let metadata = r#"{"z": -1.5e1615, "a": [1]}"#;
    let fields = [
        ("name", "standup"),
        ("template_id", template.as_str().unwrap()),
        ("max_participants", "7"),
        ("empty_timeout_seconds", "60"),
        ("max_duration_seconds", "600"),
        ("metadata", metadata),
    ];
    let page = browser.act(&path, &fields);
    assert!(page.contains("10 min 0 s"), "{page}");
    let room = app.get("/v1/rooms/standup").send();
    assert!(
        room.text().contains(metadata),
        "as it was sent: {}",
        room.text()
    );
    for part in [
        r#""max_participants":7"#,
        r#""empty_timeout_seconds":60"#,
        r#""max_duration_seconds":600"#,
        &format!(r#""template_id":{template}"#),
    ] {
        assert!(room.text().contains(part), "{part}: {}", room.text());
    }
    let refused = |field: &str, value: &str, said: &str| {
        let answer = browser.send(&path, &[("name", "other"), (field, value)]);
        assert_eq!(answer.status, 400, "{field}: {}", answer.text());
        // By which a script shows the message beside the input.
        let marked = format!("data-field=\"{field}\"");
        assert!(
            answer.text().contains(&marked) && answer.text().contains(said),
            "{}",
            answer.text()
        );
    };
    refused("metadata", r#"{}, "name": "third""#, "must be JSON");
    refused("max_participants", "many", "must be a whole number");
    refused("max_participants", "-1", "max_participants");
    // As text, because of the number.
    let rooms = app.get("/v1/rooms").send().text();
    assert_eq!(rooms.matches("namespaced_name").count(), 1, "{rooms}");
}

#[test]
fn participants_are_muted_moved_messaged_and_removed() {
    let (app, receiver) = TestApp::start_with_receiver();
    let browser = Browser::new(&app);
    app.room("standup");
    let sid = app.join("standup", "alice", "guest");
    let track = app.publish(&sid, "audio", "microphone");
    let room = format!("{}/rooms/standup", project(&app));
    let of_alice = |action: &str| format!("{room}/participants/alice/{action}");
    let alice = || {
        app.get("/v1/rooms/standup/participants/alice")
            .send()
            .json()
    };
    let page = browser.page(&room);
    assert!(
        page.contains("alice") && page.contains("microphone") && page.contains("Mute"),
        "{page}"
    );
    browser.act(
        &of_alice("mute"),
        &[("track_sid", &track), ("muted", "true")],
    );
    assert_eq!(alice()["tracks"][0]["muted"], true);
    browser.act(&of_alice("role"), &[("role", "host")]);
    assert_eq!(alice()["attributes"]["svc.role"], "host");
    let changes = app.get("/v1/rooms/standup/role-changes").send().expect(200);
    assert_eq!(
        changes["role_changes"][0]["changed_by_api_key_prefix"], "operator",
        "{changes}"
    );
    browser.act(
        &format!("{room}/message"),
        &[("text", "hello"), ("topic", "chat"), ("to", "alice")],
    );
    let inbox = app
        .admin("GET", &format!("/sandbox/participants/{sid}"))
        .send()
        .expect(200)["inbox"]
        .clone();
    let data = inbox
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["type"] == "data")
        .unwrap();
    assert_eq!(
        (&data["data"], &data["topic"]),
        (&json!("aGVsbG8="), &json!("chat"))
    );
    browser.act(&of_alice("remove"), &[]);
    assert_eq!(
        app.get("/v1/rooms/standup/participants").send().json()["participants"],
        json!([])
    );
    app.advance(std::time::Duration::from_secs(5));
    let types = receiver.types(5);
    assert!(
        types.contains(&"participant.role_changed".to_owned()),
        "{types:?}"
    );
}

#[test]
fn recordings_broadcasts_and_ingress_are_started_and_stopped() {
    let app = TestApp::start();
    let browser = Browser::new(&app);
    app.room("standup");
    app.join("standup", "alice", "host");
    let own = project(&app);
    let room = format!("{own}/rooms/standup");
    let first = |path: &str, list: &str| app.get(path).send().expect(200)[list][0].clone();
    browser.act(&format!("{room}/recordings"), &[("layout", "grid")]);
    let recording = first("/v1/recordings", "recordings");
    assert!(
        browser
            .page(&room)
            .contains(recording["filepath"].as_str().unwrap())
    );
    browser.act(
        &format!(
            "{own}/recordings/{}/stop",
            recording["egress_id"].as_str().unwrap()
        ),
        &[],
    );
    assert_ne!(first("/v1/recordings", "recordings")["status"], "starting");
    browser.act(
        &format!("{room}/broadcasts"),
        &[("url", "rtmp://127.0.0.1/app/key"), ("layout", "grid")],
    );
    let broadcast = first("/v1/broadcasts", "broadcasts");
    assert!(
        !browser.page(&room).contains("/app/key"),
        "no stream key is shown"
    );
    browser.act(
        &format!(
            "{own}/broadcasts/{}/stop",
            broadcast["egress_id"].as_str().unwrap()
        ),
        &[],
    );
    let fields = [("input_type", "rtmp"), ("participant_identity", "encoder")];
    let created = browser.act(&format!("{room}/ingress"), &fields);
    assert!(secret(&created).len() > 10);
    let ingress = first("/v1/ingress", "ingresses");
    browser.act(
        &format!(
            "{own}/ingress/{}/delete",
            ingress["ingress_id"].as_str().unwrap()
        ),
        &[],
    );
    assert_eq!(first("/v1/ingress", "ingresses")["status"], "deleted");
}

#[test]
fn an_identity_is_banned_by_a_form_or_beside_its_participant_and_the_ban_is_lifted() {
    let app = TestApp::start();
    let browser = Browser::new(&app);
    app.room("standup");
    app.join("standup", "mallory", "guest");
    let room = format!("{}/rooms/standup", project(&app));
    let bans = || app.get("/ext/v1/rooms/standup/bans").send().expect(200)["bans"].clone();
    let page = browser.page(&room);
    let beside = format!("{room}/participants/mallory/ban");
    assert!(page.contains(&format!("action=\"{beside}\"")), "{page}");
    let page = browser.act(&beside, &[]);
    assert!(page.contains("The identity is banned"), "{page}");
    assert_eq!(bans()[0]["identity"], "mallory");
    let participants = app.get("/v1/rooms/standup/participants").send().expect(200);
    assert_eq!(participants["participants"], json!([]));

    let fields = [("identity", "trudy"), ("hours", "2"), ("reason", "spam")];
    let page = browser.act(&format!("{room}/bans"), &fields);
    assert!(page.contains("trudy") && page.contains("spam"), "{page}");
    let until = app.clock.now().after(std::time::Duration::from_secs(7_200));
    assert_eq!(
        (&bans()[0]["until"], &bans()[0]["reason"]),
        (&json!(until), &json!("spam"))
    );
    let page = browser.act(&format!("{room}/bans/mallory/lift"), &[]);
    assert!(page.contains("The ban is lifted"), "{page}");
    assert_eq!(bans().as_array().unwrap().len(), 1);
}

#[test]
fn a_room_code_is_shown_once_with_its_link_and_disabled() {
    let app = TestApp::start();
    let browser = Browser::new(&app);
    app.room("standup");
    let room = format!("{}/rooms/standup", project(&app));
    let fields = [
        ("role", "guest"),
        ("max_uses", "2"),
        ("hours", "1"),
        ("identity", "alice"),
    ];
    let page = browser.act(&format!("{room}/codes"), &fields);
    let code = secret(&page);
    assert!(
        page.contains(&format!("/call#code={code}")) && page.contains("QR code of the join link"),
        "{page}"
    );
    let exchanged = app
        .post(&format!("/v1/codes/{code}/exchange"))
        .anonymous()
        .send()
        .expect(201);
    assert_eq!(exchanged["role"], "guest");
    let page = browser.page(&room);
    assert!(page.contains(&format!("{}-****-****", &code[..4])) && !page.contains(&code));
    let listed = app.get("/v1/rooms/standup/codes").send().expect(200);
    let id = listed["codes"][0]["id"].as_str().unwrap();
    let disable = format!("{room}/codes/{id}/disable");
    let button = |page: &str| page.contains(&format!("action=\"{disable}\""));
    assert!(button(&page), "{page}");
    let page = browser.act(&disable, &[]);
    assert!(!button(&page) && page.contains("disabled"), "{page}");
    app.post(&format!("/v1/codes/{code}/exchange"))
        .anonymous()
        .send()
        .expect_error(404, "code_not_found", None);
}

#[test]
fn a_template_is_edited_as_a_matrix() {
    let app = TestApp::start();
    let browser = Browser::new(&app);
    let own = project(&app);
    browser.act(&format!("{own}/templates"), &[("name", "lesson")]);
    let templates = app.get("/v1/templates").send().expect(200);
    let lesson = templates["templates"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["name"] == "lesson")
        .unwrap();
    let id = lesson["id"].as_str().unwrap().to_owned();
    let path = format!("{own}/templates/{id}");
    let role = |name: &str| app.get(&format!("/v1/templates/{id}/roles/{name}")).send();
    for name in ["teacher", "pupil"] {
        browser.act(&format!("{path}/roles"), &[("name", name)]);
    }
    let before = role("pupil").expect(200);
    let fields = [
        ("teacher:publish:audio", "on"),
        ("teacher:permissions:record", "on"),
        ("teacher:permissions:end_room", "on"),
        ("teacher:hidden", "on"),
        ("teacher:priority", "1"),
        ("teacher:max_peer_count", "2"),
    ];
    browser.act(&format!("{path}/permissions"), &fields);
    let teacher = role("teacher").expect(200);
    assert_eq!(teacher["publish"]["allowed"], json!(["audio"]));
    let held: Vec<_> = teacher["permissions"]
        .as_object()
        .unwrap()
        .iter()
        .filter(|(_, held)| **held == json!(true))
        .map(|(k, _)| k)
        .collect();
    assert_eq!(held, ["end_room", "record"]);
    assert_eq!(
        (
            &teacher["hidden"],
            &teacher["priority"],
            &teacher["max_peer_count"]
        ),
        (&json!(true), &json!(1), &json!(2))
    );
    assert_eq!(
        role("pupil").expect(200),
        before,
        "a role without a column is as it was"
    );
    let refused = browser.send(
        &format!("{path}/permissions"),
        &[("teacher:priority", "x"), ("teacher:max_peer_count", "0")],
    );
    assert_eq!(refused.status, 400);

    browser.act(&path, &[("name", "course"), ("region", "auto")]);
    browser.act(&format!("{own}/default-template"), &[("template", &id)]);
    assert_eq!(
        app.get(&format!("/v1/templates/{id}")).send().expect(200)["is_default"],
        true
    );
    browser.act(&format!("{path}/roles/pupil/delete"), &[]);
    role("pupil").expect_error(404, "role_not_found", None);
    let other = app
        .post("/v1/templates")
        .json(json!({"name": "other"}))
        .send()
        .expect(201);
    browser.act(
        &format!("{own}/templates/{}/delete", other["id"].as_str().unwrap()),
        &[],
    );
}

#[test]
fn a_webhook_endpoint_is_added_and_deleted_and_a_failed_delivery_retried() {
    let app = TestApp::start_with(|config| {
        config.webhooks.retry_delays = vec![std::time::Duration::from_secs(60)];
    });
    let browser = Browser::new(&app);
    let own = project(&app);
    let receiver = Receiver::start();
    receiver.answer_with(500);
    let page = browser.act(&format!("{own}/webhooks"), &[("url", &receiver.url)]);
    assert!(secret(&page).starts_with("whsec_"));
    app.room("standup");
    app.join("standup", "alice", "host");
    let newest =
        || app.get("/v1/webhook-deliveries").send().json()["webhook_deliveries"][0].clone();
    // It waits for a tick after the failed attempt of the room's first event.
    eventually(|| {
        app.deliver();
        newest()["attempts"] == 1
    });
    assert!(
        browser.page("/").contains(&receiver.url),
        "a failing receiver is on the overview"
    );
    eventually(|| {
        app.deliver();
        newest()["status"] == "failed"
    });
    assert!(
        browser.page("/").contains(&receiver.url),
        "also when nothing is attempted again"
    );
    let id: Value = newest()["id"].clone();
    let page = browser.page(&format!("{own}/deliveries/{}", id.as_str().unwrap()));
    assert!(page.contains("500") && page.contains("Retry"), "{page}");
    receiver.answer_with(200);
    browser.act(
        &format!("{own}/deliveries/{}/retry", id.as_str().unwrap()),
        &[],
    );
    app.deliver();
    eventually(|| newest()["status"] == "delivered");
    let others = || {
        app.get("/v1/webhook-deliveries?status=failed")
            .send()
            .json()["webhook_deliveries"]
            .clone()
    };
    for delivery in others().as_array().unwrap() {
        browser.act(
            &format!(
                "{own}/deliveries/{}/retry",
                delivery["id"].as_str().unwrap()
            ),
            &[],
        );
    }
    app.deliver();
    eventually(|| !browser.page("/").contains(&receiver.url));
    let endpoint =
        app.get("/v1/webhook-endpoints").send().json()["webhook_endpoints"][0]["id"].clone();
    browser.act(
        &format!("{own}/webhooks/{}/delete", endpoint.as_str().unwrap()),
        &[],
    );
    assert_eq!(
        app.get("/v1/webhook-endpoints").send().json()["webhook_endpoints"],
        json!([])
    );
}

#[test]
fn a_webhook_endpoint_is_changed_gets_a_new_secret_and_is_enabled_again() {
    let minute = std::time::Duration::from_secs(60);
    let app = TestApp::start_with(|config| {
        config.webhooks.retry_delays = vec![minute];
        config.webhooks.disable_after = minute;
    });
    let (browser, receiver) = (Browser::new(&app), Receiver::start());
    receiver.answer_with(500);
    let endpoint = app.endpoint(&receiver.url);
    let path = format!(
        "{}/webhooks/{}",
        project(&app),
        endpoint["id"].as_str().unwrap()
    );
    let listed = || app.get("/v1/webhook-endpoints").send().json()["webhook_endpoints"][0].clone();
    let fields = [
        ("url", receiver.url.as_str()),
        ("description", "attendance"),
        ("event-room.finished", "on"),
        ("active", "on"),
    ];
    browser.act(&path, &fields);
    assert_eq!(listed()["description"], "attendance");
    assert_eq!(listed()["events"], json!(["room.finished"]));
    let page = browser.act(&format!("{path}/rotate"), &[("hours", "72")]);
    assert!(secret(&page).starts_with("whsec_"));
    assert_ne!(secret(&page), endpoint["secret"].as_str().unwrap());

    app.room("standup");
    app.delete("/v1/rooms/standup").send().expect_empty(204);
    app.settle();
    app.advance(minute);
    eventually(|| listed()["active"] == false);
    let page = browser.page(&path);
    assert!(
        page.contains("the receiver answered 500") && page.contains("Enable"),
        "{page}"
    );
    assert!(browser.page("/").contains("Disabled"));
    // From a page that was shown before the server disabled it and a backend moved it.
    let moved = format!("{}/moved", receiver.url);
    app.patch(&format!(
        "/ext/v1/webhook-endpoints/{}",
        endpoint["id"].as_str().unwrap()
    ))
    .json(json!({"url": moved}))
    .send()
    .expect(200);
    let shown = [
        ("shown_url", receiver.url.as_str()),
        ("shown_active", "true"),
    ];
    browser.act(&path, &[&fields[..], &shown].concat());
    assert_eq!(
        (&listed()["active"], &listed()["url"]),
        (&json!(false), &json!(moved))
    );
    browser.act(&format!("{path}/enable"), &[]);
    assert_eq!(listed()["active"], true);
    // An unticked box is not sent.
    browser.act(&path, &fields[..3]);
    assert_eq!(listed()["active"], false);
}

#[test]
fn with_scripts_an_action_answers_into_the_page() {
    let app = TestApp::start();
    let browser = Browser::new(&app);
    let token = super::csrf(&browser.open("/projects"));
    let send = |name: &str| {
        let fields = [("csrf", token.as_str()), ("name", name)];
        let path = format!("{}/rooms", project(&app));
        browser
            .request("POST", &path)
            .form(&fields)
            .header("hx-request", "true")
            .send()
    };
    let done = send("standup");
    let to = format!("{}/rooms/standup?note=room-created", project(&app));
    assert_eq!(
        (done.status, done.headers["hx-redirect"].as_str()),
        (200, to.as_str())
    );
    let refused = send("standup");
    assert_eq!(
        (refused.status, refused.headers["hx-retarget"].as_str()),
        (409, "#notice")
    );
    assert!(
        refused.text().contains("room_exists") && !refused.text().contains("<html"),
        "{}",
        refused.text()
    );
}

#[test]
fn a_broadcast_goes_to_a_destination_of_the_template() {
    let app = TestApp::start();
    let browser = Browser::new(&app);
    app.room("standup");
    app.join("standup", "alice", "host");
    let template = app.get("/v1/templates").send().expect(200)["templates"][0]["id"].clone();
    let path = format!("/v1/templates/{}/destinations", template.as_str().unwrap());
    let body =
        json!({"name": "tube", "kind": "rtmp", "config": {"urls": ["rtmp://127.0.0.1/app/key"]}});
    app.post(&path).json(body).send().expect(201);
    let room = format!("{}/rooms/standup", project(&app));
    assert!(browser.page(&room).contains("<option value=\"tube\">"));
    browser.act(
        &format!("{room}/broadcasts"),
        &[("destination", "tube"), ("layout", "grid")],
    );
    assert_eq!(
        app.get("/v1/broadcasts").send().expect(200)["broadcasts"][0]["destination"],
        "tube"
    );
}
