//! Scenarios on the embedded plane, driven through its sandbox.

use serde_json::json;

use super::{Outside, Participant, Stage};
use crate::support::TestApp;

struct Sandbox;

/// Starts an app with the embedded plane.
pub fn stage() -> Stage {
    Stage::new(TestApp::start(), Box::new(Sandbox))
}

impl Outside for Sandbox {
    fn join(&self, app: &TestApp, token: &str) -> String {
        app.join_with(token).expect(201)["sid"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    fn is_admitted(&self, app: &TestApp, token: &str) -> bool {
        app.join_with(token).status == 201
    }

    fn publish(
        &self,
        app: &TestApp,
        who: &Participant,
        kind: &str,
        source: &str,
    ) -> Option<String> {
        let answer = app.act(&who.sid, "tracks", json!({"kind": kind, "source": source}));
        (answer.status == 201).then(|| answer.json()["sid"].as_str().unwrap().to_owned())
    }

    fn leave(&self, app: &TestApp, who: &Participant, clean: bool) {
        app.leave(&who.sid, clean);
    }

    fn received_topics(&self, app: &TestApp, who: &Participant) -> Vec<String> {
        let view = app.view(&who.sid);
        let data = view["inbox"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|entry| entry["type"] == "data");
        data.map(|entry| entry["topic"].as_str().unwrap_or_default().to_owned())
            .collect()
    }

    fn egress(&self, app: &TestApp, egress_id: &str, status: &str, error: Option<&str>) {
        let mut body = json!({"status": status});
        if let Some(error) = error {
            body["error"] = json!(error);
        }
        app.drive(egress_id, body);
    }

    fn connect(&self, app: &TestApp, stream_key: &str) -> bool {
        app.admin("POST", &format!("/sandbox/ingress/{stream_key}/connect"))
            .send()
            .status
            == 200
    }

    fn disconnect(&self, app: &TestApp, stream_key: &str) {
        app.admin("POST", &format!("/sandbox/ingress/{stream_key}/disconnect"))
            .send()
            .expect(200);
    }
}
