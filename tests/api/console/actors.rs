//! Actor pages: the tree, one actor, and recent failures.

use conclave_model::faults::{Fault, arm};

use super::Browser;
use crate::support::{TestApp, eventually};

#[test]
fn the_tree_is_filtered_and_an_actor_shows_its_timers_messages_and_snapshot() {
    let app = TestApp::start();
    let browser = Browser::new(&app);
    app.room("standup");
    app.join("standup", "alice", "host");
    let tree = browser.page("/actors");
    let path = format!("/actors/{}/room/standup", app.project);
    assert!(tree.contains("system") && tree.contains(&path), "{tree}");
    let filtered = browser.page("/actors?kind=project");
    assert!(filtered.contains(&app.project) && !filtered.contains("/room/standup"));
    let shown = browser.page(&path);
    for part in [
        "Supervisor",
        "Mailbox",
        "Recent messages",
        "Snapshot",
        "alice",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let project = browser.page(&format!("/actors/{}", app.project));
    assert!(
        project.contains("data-until="),
        "a timer counts down: {project}"
    );
    assert_eq!(
        browser.open("/actors/prj_000000000000/room/none").status,
        404
    );
}

#[test]
fn an_actor_that_fails_is_seen_at_once() {
    let app = TestApp::start();
    let browser = Browser::new(&app);
    app.room("standup");
    assert!(!browser.page("/").contains("Actors that failed"));
    arm(&app.project, "project.inspect", Fault::Panic);
    browser.page("/actors");
    eventually(|| browser.page("/").contains("Actors that failed"));
}
