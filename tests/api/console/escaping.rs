//! Markup in names, metadata, payloads and errors is escaped in every page.

use serde_json::json;

use super::Browser;
use super::crawl::{fill, pages};
use crate::support::{Receiver, TestApp, eventually};

const MARKUP: &str = "\"'><script>alert(1)</script><img src=x onerror=alert(1)><b>&amp;";

#[track_caller]
fn assert_escaped(path: &str, text: &str) {
    for raw in [
        "<script>alert",
        "<img src=x",
        "<b>&amp;",
        "onerror=alert(1)>",
    ] {
        assert!(!text.contains(raw), "{path} has {raw}");
    }
}

/// Proves S-23.
#[test]
fn markup_changes_no_page() {
    let app = TestApp::start();
    fill(&app);
    let browser = Browser::new(&app);
    let project = &app.project;
    browser.act(
        "/projects",
        &[("name", MARKUP), ("env", "live"), ("plan", "free")],
    );
    browser.act(&format!("/projects/{project}/keys"), &[("label", MARKUP)]);
    let body = json!({"name": "planted", "metadata": {MARKUP: MARKUP}});
    app.post("/v1/rooms").json(body).send().expect(201);
    let body = json!({"room": "planted", "identity": "mallory", "name": MARKUP, "role": "host"});
    let token = app.post("/v1/tokens").json(body).send().expect(201)["token"]
        .as_str()
        .unwrap()
        .to_owned();
    let joined = app
        .admin("POST", "/sandbox/join")
        .json(json!({"token": token}))
        .send()
        .expect(201);
    assert!(joined["sid"].is_string());
    let ingress = json!({"input_type": "rtmp", "participant_identity": "encoder-2", "participant_name": MARKUP});
    app.post("/v1/rooms/planted/ingress")
        .json(ingress)
        .send()
        .expect(201);
    let recording = app
        .post("/v1/rooms/planted/recordings")
        .json(json!({"type": "room_composite"}))
        .send()
        .expect(201);
    let path = format!(
        "/sandbox/egress/{}",
        recording["egress_id"].as_str().unwrap()
    );
    app.admin("POST", &path)
        .json(json!({"status": "failed", "error": MARKUP}))
        .send()
        .expect(200);
    app.endpoint("http://127.0.0.1:9/%3Cb%3E?x=<script>alert(1)</script>");
    eventually(|| {
        browser
            .page(&format!("/projects/{project}/recordings"))
            .contains("failed")
    });
    let mut planted = 0;
    for (path, text) in pages(&browser) {
        assert_escaped(&path, &text);
        planted += usize::from(text.contains("&lt;script&gt;alert"));
    }
    assert!(planted >= 6, "only {planted} pages show what was planted");
}

/// Proves R-42.
#[test]
fn metadata_that_few_parsers_read_is_shown_as_it_was_sent() {
    let app = TestApp::start();
    let browser = Browser::new(&app);
    let cases = [
        ("number", "-1.5e1615", "-1.5e1615"),
        ("half", r#""\ud800""#, "ud800"),
        ("key", r#"{"\udfff": 1}"#, "udfff"),
    ];
    for (name, metadata, part) in cases {
        let body = format!(r#"{{"name": "{name}", "metadata": {{"is": [{metadata}, "there"]}}}}"#);
        let created = app.post("/v1/rooms").raw(body).send();
        assert_eq!(created.status, 201, "{}", created.text());
        let shown = browser.page(&format!("/projects/{}/rooms/{name}", app.project));
        assert!(
            shown.contains(part) && shown.contains("there"),
            "{name}: {shown}"
        );
    }
    let rooms = browser.page(&format!("/projects/{}", app.project));
    for name in ["number", "half", "key"] {
        assert!(rooms.contains(&format!("/rooms/{name}")), "{rooms}");
    }
}

#[test]
fn markup_in_an_address_or_a_refused_form_changes_no_page() {
    let app = TestApp::start();
    let browser = Browser::new(&app);
    let encoded: String = url::form_urlencoded::byte_serialize(MARKUP.as_bytes()).collect();
    let project = &app.project;
    for path in [
        format!("/?note={encoded}"),
        format!("/projects/{project}?q={encoded}"),
        format!("/projects/{project}/sessions?room={encoded}"),
        format!("/projects/{project}/webhooks?status={encoded}"),
        format!("/actors?q={encoded}&kind={encoded}"),
        format!("/actors/{encoded}"),
        format!("/projects/{encoded}"),
        format!("/sign-in?next={encoded}"),
    ] {
        assert_escaped(&path, &browser.open(&path).text());
    }
    let refused = browser.send(&format!("/projects/{project}/rooms"), &[("name", MARKUP)]);
    assert_eq!(refused.status, 400);
    assert_escaped("rooms", &refused.text());
    let refused = browser.send("/projects", &[("name", "x"), ("plan", MARKUP)]);
    assert_escaped("projects", &refused.text());
}

#[test]
fn events_with_markup_are_escaped_in_their_stream() {
    use std::io::{BufRead, BufReader, Write};

    let app = TestApp::start();
    app.room("standup");
    let address = app.admin.strip_prefix("http://").unwrap();
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(crate::support::WAIT_LIMIT))
        .unwrap();
    let path = format!("/projects/{}/rooms/standup/events", app.project);
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    assert!(
        lines.any(|line| line.contains(": watching")),
        "the stream is open"
    );
    app.room("other");
    app.join("other", "bob", "guest");
    app.join("standup", "alice", "host");
    let shown = lines
        .find(|line| line.starts_with("data: "))
        .expect("an event");
    assert!(
        shown.starts_with("data: <li>") && shown.contains("room.started"),
        "{shown}"
    );
    let joined = lines
        .find(|line| line.starts_with("data: "))
        .expect("another event");
    assert!(
        joined.contains("participant.joined") && joined.contains("alice"),
        "{joined}"
    );
}

#[test]
fn what_a_receiver_answers_is_shown_with_the_delivery() {
    let app = TestApp::start();
    let receiver = Receiver::start();
    let endpoint = app.endpoint(&receiver.url);
    let browser = Browser::new(&app);
    let path = format!("/projects/{}/webhooks", app.project);
    let shown = browser.act(
        &format!("{path}/{}/test", endpoint["id"].as_str().unwrap()),
        &[],
    );
    assert!(shown.contains("webhook.test"), "{shown}");
    app.advance(std::time::Duration::from_secs(5));
    eventually(|| browser.page(&path).contains("badge good\">delivered"));
    let (_, rest) = browser
        .page(&path)
        .split_once("/deliveries/")
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .unwrap();
    let id = rest.split('"').next().unwrap();
    let shown = browser.page(&format!("/projects/{}/deliveries/{id}", app.project));
    assert!(
        shown.contains("<dd>204</dd>")
            && shown.contains("webhook.test")
            && shown.contains("Payload"),
        "{shown}"
    );
    assert_eq!(receiver.next().json()["type"], "webhook.test");
}
