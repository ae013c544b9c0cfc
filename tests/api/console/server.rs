//! The server page, and how much a page reads.

use conclave_model::Secret;

use super::{Browser, TOKEN};
use crate::support::TestApp;

#[test]
fn the_effective_settings_are_shown_without_secrets() {
    let app = TestApp::start_with(|config| {
        config.admin.token = Some(Secret::new(TOKEN));
        config.billing.url = Some("http://operator:hush-hush@127.0.0.1:1".into());
        config.billing.token = Some(Secret::new("billing-secret"));
    });
    let page = Browser::signed_in(&app).page("/server");
    for shown in [
        "webhooks.tick",
        "http.listen",
        "media.rtc.udp_ports",
        "5s",
        "default",
    ] {
        assert!(page.contains(shown), "{shown}");
    }
    for secret in [TOKEN, "billing-secret", "hush-hush"] {
        assert!(!page.contains(secret), "{secret}");
    }
}

#[test]
fn lists_show_fifty_rows_and_lead_to_the_next() {
    let app = TestApp::start();
    let browser = Browser::new(&app);
    for at in 0..60 {
        app.room(&format!("room-{at:02}"));
        app.delete(&format!("/v1/rooms/room-{at:02}"))
            .send()
            .expect_empty(204);
    }
    let path = format!("/projects/{}", app.project);
    let first = browser.page(&path);
    assert_eq!(first.matches("/rooms/room-").count(), 50);
    assert!(
        first.contains("?offset=50") && !first.contains("Newer"),
        "{first}"
    );
    let second = browser.page(&format!("{path}?offset=50"));
    assert_eq!(second.matches("/rooms/room-").count(), 10);
    assert!(second.contains("?offset=0") && !second.contains("Older"));
    let found = browser.page(&format!("{path}?q=room-1"));
    assert_eq!(found.matches("/rooms/room-").count(), 10);
}

#[test]
fn a_rooms_page_shows_its_events_from_the_first_on() {
    let app = TestApp::start();
    let browser = Browser::new(&app);
    for room in ["standup", "other"] {
        app.room(room);
    }
    app.join("other", "mallory", "guest");
    for _ in 0..30 {
        let sid = app.join("standup", "alice", "host");
        app.leave(&sid, true);
    }
    app.delete("/v1/rooms/standup").send().expect_empty(204);
    let path = format!("/projects/{}/rooms/standup", app.project);
    let history = |page: &str| page.split_once("Event history").unwrap().1.to_owned();
    let first = history(&browser.page(&path));
    let position = |text: &str| first.find(text).unwrap();
    assert!(position("room.started") < position("participant.joined"));
    assert!(position("participant.joined") < position("participant.left"));
    assert!(first.contains("alice") && !first.contains("mallory"));
    assert!(first.contains("Later") && !first.contains("Earlier"));
    assert!(!first.contains("room.finished"));
    let last = history(&browser.page(&format!("{path}?offset=50")));
    assert!(last.contains("room.finished") && last.contains("Earlier"));
    assert!(!last.contains("room.started") && !last.contains("Later"));
}

#[test]
fn a_page_answers_while_the_api_is_at_its_limit() {
    let app = TestApp::start_with(|config| {
        config.limits.requests_per_second = 1;
        config.limits.burst = 1;
    });
    let browser = Browser::new(&app);
    for _ in 0..20 {
        browser.page("/");
    }
}
