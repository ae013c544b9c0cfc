//! The stories of the API, each told on both media planes: what callers are answered and receivers are told does not depend
//! on which one there is.

mod broadcast;
mod embedded;
mod ingest;
mod join_to_leave;
mod livekit;
mod moderate;
mod record;

use serde_json::Value;

use crate::support::{Receiver, TestApp, eventually};

/// What happens on a media plane without the control plane's doing: what people, encoders and workers do.
trait Outside {
    /// Somebody joins with a token. Its sid.
    fn join(&self, app: &TestApp, token: &str) -> String;
    /// Whether somebody with this token is let in; who is joins.
    fn is_let_in(&self, app: &TestApp, token: &str) -> bool;
    /// Somebody publishes a track. Its sid; `None` when it may not.
    fn publish(&self, app: &TestApp, who: &Person, kind: &str, source: &str) -> Option<String>;
    /// Somebody leaves, or loses the connection.
    fn leave(&self, app: &TestApp, who: &Person, clean: bool);
    /// The topics of the messages of the server's that somebody heard.
    fn heard(&self, app: &TestApp, who: &Person) -> Vec<String>;
    /// A worker says how its job stands: `active`, or a final status.
    fn egress(&self, app: &TestApp, egress_id: &str, status: &str, error: Option<&str>);
    /// An encoder connects with an endpoint's stream key; says whether it was let in.
    fn connect(&self, app: &TestApp, stream_key: &str) -> bool;
    /// It goes away.
    fn disconnect(&self, app: &TestApp, stream_key: &str);
}

/// Somebody who joined.
struct Person {
    room: String,
    identity: String,
    sid: String,
    token: String,
}

/// An app on one of the planes, with a receiver.
struct Stage {
    app: TestApp,
    receiver: Receiver,
    outside: Box<dyn Outside>,
    told: Vec<String>,
}

impl Stage {
    fn new(app: TestApp, outside: Box<dyn Outside>) -> Self {
        let receiver = Receiver::start();
        app.endpoint(&receiver.url);
        Self { app, receiver, outside, told: Vec::new() }
    }

    #[track_caller]
    fn join(&self, room: &str, identity: &str, role: &str) -> Person {
        let token = self.app.token(room, identity, role);
        let sid = self.outside.join(&self.app, &token);
        Person { room: room.to_owned(), identity: identity.to_owned(), sid, token }
    }

    #[track_caller]
    fn publish(&self, who: &Person, kind: &str, source: &str) -> String {
        self.outside.publish(&self.app, who, kind, source).expect("it may publish that")
    }

    fn leave(&self, who: &Person, clean: bool) {
        self.outside.leave(&self.app, who, clean);
    }

    fn egress(&self, egress_id: &str, status: &str, error: Option<&str>) {
        self.outside.egress(&self.app, egress_id, status, error);
    }

    /// Waits until just these events have been written since the last time, and gives them in no certain order: they bear
    /// the same time. Their order is the receiver's to see, at the [end](Stage::end).
    #[track_caller]
    fn expect(&mut self, types: &[&str]) -> Vec<Value> {
        let before = self.told.len();
        self.told.extend(types.iter().map(|event_type| (*event_type).to_owned()));
        eventually(|| self.app.deliveries("").len() >= self.told.len());
        let payloads: Vec<Value> = self.app.deliveries("").iter().map(|row| row["payload"].clone()).collect();
        let mut all: Vec<_> = payloads.iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect();
        let mut wanted = self.told.clone();
        all.sort();
        wanted.sort();
        assert_eq!(all, wanted, "after {:?}", &self.told[..before]);
        payloads.into_iter().filter(|event| types.contains(&event["type"].as_str().unwrap())).collect()
    }

    /// Has everything delivered and sees that it came in its order.
    #[track_caller]
    fn end(self) {
        assert_eq!(self.app.event_types(&self.receiver), self.told);
    }
}

/// Tells a story on both planes.
macro_rules! on_both_planes {
    ($($story:ident),+ $(,)?) => {
        mod on_the_embedded_plane {
            $(#[test] fn $story() { super::$story($crate::stories::embedded::stage()); })+
        }
        mod on_livekit {
            $(#[test] fn $story() { super::$story($crate::stories::livekit::stage()); })+
        }
    };
}
use on_both_planes;
