//! The writer thread panics outside a job: the server exits, and its supervisor restarts it on the same data.

use conclave_model::faults::{Fault, arm};
use serde_json::json;

use crate::support::{Request, TestApp};

/// Makes the writer panic at a point in the next batch, which a request causes. Returns the restarted server.
#[track_caller]
fn write_with_panic(app: TestApp, point: &str, request: Request) -> TestApp {
    arm(&app.database_scope(), point, Fault::Panic);
    let answer = request.send();
    answer.expect_error(503, "database_unavailable", None);
    assert_eq!(answer.headers["retry-after"], "1");
    app.wait_for_end();
    app.restart()
}

#[test]
fn a_panic_before_the_commit_leaves_nothing_of_the_change() {
    let app = TestApp::start();
    app.room("before");
    let create = app.post("/v1/rooms").json(json!({"name": "during"}));
    let app = write_with_panic(app, "batch begun", create);
    app.get("/v1/rooms/before").send().expect(200);
    app.get("/v1/rooms/during")
        .send()
        .expect_error(404, "room_not_found", None);
    app.room("during");
}

#[test]
fn a_change_whose_answer_was_lost_by_a_panic_after_the_commit_is_there_and_its_event_is_delivered_once()
 {
    let (app, receiver) = TestApp::start_with_receiver();
    app.room("before");
    app.room("ended");
    app.join("before", "alice", "host");
    app.deliver();
    receiver.drain();
    let end = app.delete("/v1/rooms/ended");
    let app = write_with_panic(app, "batch ended", end);
    assert_eq!(
        app.get("/v1/rooms/ended").send().expect(200)["status"],
        "ended"
    );
    app.wait_for_event("participant.connection_aborted", 1);
    let mut types = app.event_types(&receiver);
    types.sort_unstable();
    assert_eq!(types, ["participant.connection_aborted", "room.finished"]);
    app.delete("/v1/rooms/ended").send().expect_empty(204);
    assert!(app.event_types(&receiver).is_empty());
}
