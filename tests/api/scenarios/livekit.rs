//! Scenarios on LiveKit, driven through the double.

use livekit_double::Double;
use livekit_protocol as proto;
use proto::{DisconnectReason, EgressStatus, TrackSource, TrackType};

use super::{Outside, Participant, Stage};
use crate::livekit::livekit;
use crate::support::TestApp;

/// Starts an app that drives the double.
pub fn stage() -> Stage {
    let (app, double) = livekit();
    Stage::new(app, Box::new(double))
}

fn namespaced(app: &TestApp, who: &Participant) -> String {
    format!("{}.{}", app.project, who.room)
}

impl Outside for Double {
    fn join(&self, _: &TestApp, token: &str) -> String {
        Double::connect(self, token).expect("LiveKit accepts the token")
    }

    fn is_admitted(&self, _: &TestApp, token: &str) -> bool {
        Double::connect(self, token).is_ok()
    }

    fn publish(
        &self,
        app: &TestApp,
        who: &Participant,
        kind: &str,
        source: &str,
    ) -> Option<String> {
        let kind = if kind == "audio" {
            TrackType::Audio
        } else {
            TrackType::Video
        };
        let source = match source {
            "microphone" => TrackSource::Microphone,
            "camera" => TrackSource::Camera,
            other => panic!("the double has no {other}"),
        };
        self.publish_if_allowed(&namespaced(app, who), &who.identity, kind, source)
            .ok()
    }

    fn leave(&self, app: &TestApp, who: &Participant, clean: bool) {
        let reason = if clean {
            DisconnectReason::ClientInitiated
        } else {
            DisconnectReason::SignalClose
        };
        Double::leave(self, &namespaced(app, who), &who.identity, reason);
    }

    fn received_topics(&self, app: &TestApp, who: &Participant) -> Vec<String> {
        let messages = Double::messages_to(self, &namespaced(app, who), &who.identity);
        messages
            .into_iter()
            .map(|message| message.topic.unwrap_or_default())
            .collect()
    }

    fn egress(&self, _: &TestApp, egress_id: &str, status: &str, error: Option<&str>) {
        let status = match status {
            "active" => EgressStatus::EgressActive,
            "complete" => EgressStatus::EgressComplete,
            "failed" => EgressStatus::EgressFailed,
            "aborted" => EgressStatus::EgressAborted,
            "limit_reached" => EgressStatus::EgressLimitReached,
            other => panic!("a worker does not say {other}"),
        };
        self.set_egress_status(egress_id, status, error.unwrap_or_default());
    }

    fn connect(&self, _: &TestApp, stream_key: &str) -> bool {
        self.connect_encoder(stream_key).is_ok()
    }

    fn disconnect(&self, _: &TestApp, stream_key: &str) {
        self.disconnect_encoder(stream_key)
            .expect("the key opens an endpoint");
    }
}
