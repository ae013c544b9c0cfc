//! Quality of sessions, as the media workers measure it, in the API, the metrics and the console.

use std::time::Duration;

use serde_json::{Value, json};
use str0m::media::MediaKind;

use super::Call;
use crate::support::{TestApp, eventually};

/// More than the interval at which measurements are written.
const WRITTEN: Duration = Duration::from_secs(11);

/// Returns the session of an identity.
pub fn session(app: &TestApp, identity: &str) -> String {
    let page = app
        .get(&format!("/v1/sessions?identity={identity}"))
        .send()
        .expect(200);
    page["sessions"][0]["id"].as_str().unwrap().to_owned()
}

fn quality(app: &TestApp, session: &str) -> Value {
    app.get(&format!("/ext/v1/sessions/{session}/quality"))
        .send()
        .expect(200)
}

fn samples(app: &TestApp, session: &str) -> Value {
    app.get(&format!("/ext/v1/sessions/{session}/quality/samples"))
        .send()
        .expect(200)["samples"]
        .clone()
}

impl Call {
    /// Ends clients' sessions, and returns their summaries once they are written. All leave first, since the clock then moves further than
    /// a connected client may be silent.
    #[track_caller]
    pub fn measure(&mut self, ended: [(usize, &str); 2]) -> [Value; 2] {
        for (client, session) in ended {
            self.clients[client].leave();
            self.wait("its session is over", |call| {
                let shown = call.app.get(&format!("/v1/sessions/{session}")).send();
                shown.expect(200).get("left_at").is_some()
            });
        }
        ended.map(|(_, session)| {
            eventually(|| {
                // The worker's last report may come after the next write.
                self.app.advance(WRITTEN);
                quality(&self.app, session).get("summary").is_some()
            });
            quality(&self.app, session)["summary"].clone()
        })
    }
}

#[test]
fn a_session_has_its_quality_once_it_is_over() {
    let mut call = Call::start();
    let (alice, bob) = (call.join("alice", "host"), call.join("bob", "host"));
    let camera = call.publish(alice, MediaKind::Video);
    call.assert_receives(bob, &camera);
    call.clients[alice].lose_signalling();
    call.clients[alice].resume();
    // Statistics are measured once a second.
    call.run(Duration::from_millis(2_500));
    let (publisher, receiver) = (session(&call.app, "alice"), session(&call.app, "bob"));
    assert_eq!(
        quality(&call.app, &publisher),
        json!({"session_id": publisher})
    );

    let [sent, received] = call.measure([(alice, &publisher), (bob, &receiver)]);
    assert_eq!(sent["connection"], "udp", "{sent}");
    assert_eq!(sent["sent"]["codecs"], json!(["VP8"]), "{sent}");
    assert!(sent["sent"]["packets"].as_u64() > Some(10), "{sent}");
    assert!(sent["score"].as_f64() > Some(3.), "{sent}");
    assert!(sent["measured_seconds"].as_f64() > Some(2.), "{sent}");
    assert_eq!(sent["reconnects"]["total"], 1, "{sent}");
    assert_eq!(sent["received"]["packets"], 0, "{sent}");
    assert!(
        received["received"]["packets"].as_u64() > Some(10),
        "{received}"
    );
    assert_eq!(received["received"]["codecs"], json!(["VP8"]), "{received}");
    let listed = samples(&call.app, &publisher);
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(listed[0]["sent"]["packets"], sent["sent"]["packets"]);

    let worst = call.app.get("/ext/v1/sessions/worst").send().expect(200);
    let mut ids: Vec<_> = worst["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|measured| measured["id"].as_str().unwrap())
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, [publisher.as_str(), receiver.as_str()]);
    let of_alice = worst["sessions"].as_array().unwrap().iter();
    let of_alice = of_alice
        .into_iter()
        .find(|measured| measured["id"] == publisher);
    assert_eq!(of_alice.unwrap()["quality"], sent);

    let page = |path: &str| call.app.admin("GET", path).send().text();
    let shown = page(&format!(
        "/projects/{}/sessions/{publisher}",
        call.app.project
    ));
    assert!(
        shown.contains("Mean score") && shown.contains("VP8"),
        "{shown}"
    );
    let shown = page(&format!("/projects/{}/sessions", call.app.project));
    assert!(shown.contains("Worst sessions today"), "{shown}");

    // Samples are deleted after a week, summaries never.
    call.app.advance(Duration::from_secs(7 * 24 * 60 * 60));
    eventually(|| samples(&call.app, &publisher) == json!([]));
    assert_eq!(quality(&call.app, &publisher)["summary"], sent);
    let worst = call.app.get("/ext/v1/sessions/worst").send().expect(200);
    assert_eq!(worst["sessions"], json!([]), "they were another day's");
}

#[test]
fn a_connected_session_is_in_the_metrics_after_ten_seconds() {
    let mut call = Call::start();
    let alice = call.join("alice", "host");
    call.speak(alice);
    // The media workers measure by the machine's clock.
    call.run(Duration::from_millis(11_500));
    let line = format!(
        "conclave_session_score{{project=\"{}\",quantile=\"0.5\"}} ",
        call.app.project
    );
    // In steps: on a busy machine a measurement comes after the clock moved, and is taken at the next write.
    call.app.step_until(WRITTEN, 3, || {
        let text = call.app.admin("GET", "/metrics").send().text();
        text.lines().any(|shown| shown.starts_with(&line))
    });
    let id = session(&call.app, "alice");
    eventually(|| samples(&call.app, &id).as_array().unwrap().len() == 1);
    let shown = quality(&call.app, &id);
    assert_eq!(
        shown["summary"]["sent"]["codecs"],
        json!(["Opus"]),
        "{shown}"
    );
}

#[test]
fn a_stop_writes_the_quality_of_the_sessions_that_it_ends() {
    let mut call = Call::start();
    let alice = call.join("alice", "host");
    call.speak(alice);
    call.run(Duration::from_millis(1_500));
    let id = session(&call.app, "alice");
    let app = call.app.restart();
    assert!(quality(&app, &id).get("summary").is_some());
}
