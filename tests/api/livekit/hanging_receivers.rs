//! Receivers that never respond delay neither LiveKit calls nor other projects' webhooks.

use livekit_double::Joining;
use serde_json::json;

use super::{livekit_with, room};
use crate::support::{Hanging, NEVER, Receiver, Request, eventually};
use crate::tools::other_project;

/// More than the process' former limit for blocking threads.
const HANGING: usize = 600;

/// Proves R-9.
#[test]
fn hanging_receivers_delay_neither_livekit_nor_another_project() {
    // Work behind a hanging receiver would not finish before the test fails.
    let (app, double) = livekit_with(|config| config.webhooks.timeout = NEVER);
    let (hanging, receiver) = (Hanging::start(), Receiver::start());
    let other = other_project(&app, "self_hosted");
    let room = room(&app);
    for n in 0..HANGING {
        app.endpoint(&format!("{}/{n}", hanging.url));
    }
    app.room("ended");
    app.delete("/v1/rooms/ended").send().expect_empty(204);
    eventually(|| hanging.held() >= 100);

    let as_other = |method: &str, path: &str| {
        Request::new(method, format!("{}{path}", app.api)).bearer(&other.key)
    };
    as_other("POST", "/v1/webhook-endpoints")
        .json(json!({"url": receiver.url}))
        .send()
        .expect(201);
    as_other("POST", "/v1/rooms")
        .json(json!({"name": "theirs"}))
        .send()
        .expect(201);
    as_other("DELETE", "/v1/rooms/theirs")
        .send()
        .expect_empty(204);
    assert_eq!(receiver.next().json()["room"], "theirs");

    double.join(&room, &Joining::participant("alice"));
    let listed = app.get("/v1/rooms/standup/participants").send().expect(200);
    assert_eq!(listed["participants"][0]["identity"], "alice");
    // The 600 were due long before the other project's event.
    assert!(
        hanging.held() < HANGING,
        "{} posts run at once",
        hanging.held()
    );
}
