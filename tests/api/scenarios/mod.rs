//! Scenarios for both media planes: responses and events are the same on each.

mod broadcast;
mod embedded;
mod ingest;
mod join_to_leave;
mod livekit;
mod moderate;
mod record;

use serde_json::Value;

use crate::support::{Receiver, TestApp, eventually};

/// Media plane events without the control plane: actions by clients, encoders and egress workers.
trait Outside {
    /// Joins a client with a token. Returns the sid.
    fn join(&self, app: &TestApp, token: &str) -> String;
    /// Tries to join with a token. Returns whether the client was admitted.
    fn is_admitted(&self, app: &TestApp, token: &str) -> bool;
    /// Publishes a participant's track. Returns the sid; `None` when its permission does not allow it.
    fn publish(&self, app: &TestApp, who: &Participant, kind: &str, source: &str)
    -> Option<String>;
    /// Disconnects a participant: it leaves, or loses its connection.
    fn leave(&self, app: &TestApp, who: &Participant, clean: bool);
    /// Returns the topics of the data messages that the server sent to a participant.
    fn received_topics(&self, app: &TestApp, who: &Participant) -> Vec<String>;
    /// Reports an egress's status as its worker does: `active`, or a final one.
    fn egress(&self, app: &TestApp, egress_id: &str, status: &str, error: Option<&str>);
    /// Connects an encoder with a stream key. Returns whether it was admitted.
    fn connect(&self, app: &TestApp, stream_key: &str) -> bool;
    /// Disconnects the encoder.
    fn disconnect(&self, app: &TestApp, stream_key: &str);
}

/// A participant that joined.
struct Participant {
    room: String,
    identity: String,
    sid: String,
    token: String,
}

/// An app on one of the media planes, with a webhook receiver.
struct Stage {
    app: TestApp,
    receiver: Receiver,
    outside: Box<dyn Outside>,
    /// All event types so far, in order.
    expected: Vec<String>,
}

impl Stage {
    fn new(app: TestApp, outside: Box<dyn Outside>) -> Self {
        let receiver = Receiver::start();
        app.endpoint(&receiver.url);
        Self {
            app,
            receiver,
            outside,
            expected: Vec::new(),
        }
    }

    #[track_caller]
    fn join(&self, room: &str, identity: &str, role: &str) -> Participant {
        let token = self.app.token(room, identity, role);
        let sid = self.outside.join(&self.app, &token);
        Participant {
            room: room.to_owned(),
            identity: identity.to_owned(),
            sid,
            token,
        }
    }

    #[track_caller]
    fn publish(&self, who: &Participant, kind: &str, source: &str) -> String {
        self.outside
            .publish(&self.app, who, kind, source)
            .expect("it may publish that")
    }

    fn leave(&self, who: &Participant, clean: bool) {
        self.outside.leave(&self.app, who, clean);
    }

    fn egress(&self, egress_id: &str, status: &str, error: Option<&str>) {
        self.outside.egress(&self.app, egress_id, status, error);
    }

    /// Waits until exactly these events have been recorded since the last call, and returns them in any order, since they have the same
    /// time. Their order is checked at the receiver, in [`end`](Stage::end).
    #[track_caller]
    fn expect(&mut self, types: &[&str]) -> Vec<Value> {
        let before = self.expected.len();
        self.expected
            .extend(types.iter().map(|event_type| (*event_type).to_owned()));
        eventually(|| self.app.deliveries("").len() >= self.expected.len());
        let payloads: Vec<Value> = self
            .app
            .deliveries("")
            .iter()
            .map(|row| row["payload"].clone())
            .collect();
        let mut all: Vec<_> = payloads
            .iter()
            .map(|event| event["type"].as_str().unwrap().to_owned())
            .collect();
        let mut wanted = self.expected.clone();
        all.sort();
        wanted.sort();
        assert_eq!(all, wanted, "after {:?}", &self.expected[..before]);
        payloads
            .into_iter()
            .filter(|event| types.contains(&event["type"].as_str().unwrap()))
            .collect()
    }

    /// Delivers all events and checks their order.
    #[track_caller]
    fn end(self) {
        assert_eq!(self.app.event_types(&self.receiver), self.expected);
    }
}

/// Runs scenarios on both planes.
macro_rules! on_both_planes {
    ($($scenario:ident),+ $(,)?) => {
        mod on_the_embedded_plane {
            $(#[test] fn $scenario() { super::$scenario($crate::scenarios::embedded::stage()); })+
        }
        mod on_livekit {
            $(#[test] fn $scenario() { super::$scenario($crate::scenarios::livekit::stage()); })+
        }
    };
}
use on_both_planes;
