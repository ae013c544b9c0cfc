//! A PostgreSQL that is unreachable or unresponsive, under servers with calls.

use livekit_double::Double;
use serde_json::{Value, json};
use test_postgres::{Cluster, ClusterOptions, Proxy};

use crate::deployment::{Deployment, Running};
use crate::standby::Waiting;
use crate::support::{Receiver, eventually};
use crate::webrtc::Call;

/// Number of a microphone's packets in 30 s.
const PACKETS: usize = 1_500;

/// A server with a room, two participants and a webhook receiver.
struct Server {
    deployment: Deployment,
    running: Running,
    receiver: Receiver,
}

impl Server {
    fn start(deployment: Deployment) -> Self {
        let (running, receiver) = (deployment.start(), Receiver::start());
        running.endpoint(&receiver.url);
        running.room("standup", 600);
        Self {
            deployment,
            running,
            receiver,
        }
    }

    fn tokens(&self) -> [String; 2] {
        ["alice", "bob"].map(|identity| self.running.token("standup", identity, "host"))
    }

    /// Waits until both have joined. Returns their open sessions.
    fn sessions(&self) -> Value {
        let mut sessions = Value::Null;
        eventually(|| {
            sessions = self
                .running
                .get("/v1/sessions?active=true")
                .send()
                .expect(200)["sessions"]
                .clone();
            sessions
                .as_array()
                .is_some_and(|sessions| sessions.len() == 2)
        });
        sessions
    }

    fn assert_refuses(&self) {
        let refused = self
            .running
            .post("/v1/rooms")
            .json(json!({"name": "refused"}))
            .send();
        refused.expect_error(503, "database_unavailable", None);
        assert_eq!(refused.headers["retry-after"], "1");
    }

    fn lease(&self) -> Value {
        self.running.admin("GET", "/debug/lease").send().expect(200)["status"].clone()
    }

    /// Waits until changes succeed and the server is ready.
    fn wait_until_back(&self) {
        eventually(|| {
            self.running
                .post("/v1/rooms")
                .json(json!({"name": "back"}))
                .send()
                .status
                == 201
        });
        eventually(|| {
            self.running.admin("GET", "/readyz").send().status == 200 && self.lease() == "active"
        });
    }
}

/// Returns the session fields that an outage must not change.
fn fixed(sessions: &Value) -> Vec<[&Value; 3]> {
    let sessions = sessions.as_array().unwrap().iter();
    sessions
        .map(|session| ["id", "participant_sid", "joined_at"].map(|field| &session[field]))
        .collect()
}

#[test]
fn calls_of_both_media_planes_go_on_while_postgresql_is_away_and_all_is_as_before_when_it_is_back()
{
    if Cluster::installed().is_none() {
        return;
    }
    let cluster = Cluster::start(ClusterOptions::default());
    let (database, other, double) = (cluster.database(), cluster.database(), Double::start());
    let embedded = Server::start(
        Deployment::new()
            .sharing(database.url())
            .with("CONCLAVE_MEDIA__RTC__ADDRESSES", "127.0.0.1"),
    );
    let livekit = Server::start(
        Deployment::new()
            .sharing(other.url())
            .with("CONCLAVE_MEDIA__KIND", "livekit")
            .with("CONCLAVE_MEDIA__URL", double.url())
            .with("CONCLAVE_MEDIA__API_KEY", double.api_key.clone())
            .with("CONCLAVE_MEDIA__API_SECRET", double.api_secret.clone()),
    );
    double.send_to(&format!("{}/media/livekit/webhook", livekit.running.api));
    for token in livekit.tokens() {
        double.connect(&token).unwrap();
    }
    let call = Call::start(&embedded.running.api, embedded.tokens());
    let servers = [&embedded, &livekit];
    let before = servers.map(Server::sessions);
    // The room, two joins, and a track that only the embedded media plane has.
    embedded.receiver.types(4);
    livekit.receiver.types(3);

    cluster.stop();
    call.wait_for(PACKETS, || {
        servers.iter().for_each(|server| server.assert_refuses());
    });
    for server in servers {
        assert_eq!(server.lease(), "unconfirmed");
        server
            .running
            .get("/v1/rooms")
            .send()
            .expect_error(503, "database_unavailable", None);
        server.running.admin("GET", "/readyz").send().expect(503);
        server.running.admin("GET", "/healthz").send().expect(200);
    }

    cluster.start_again();
    servers.iter().for_each(|server| server.wait_until_back());
    call.wait_for(50, || {});
    for (server, before) in servers.iter().zip(&before) {
        assert_eq!(fixed(&server.sessions()), fixed(before));
    }
    let rooms = double.rooms();
    assert_eq!(
        double.room(&rooms[0]).unwrap().num_participants,
        2,
        "{rooms:?}"
    );
    drop(call);
    let mut reported = embedded.receiver.types(3);
    reported.sort_unstable();
    assert_eq!(
        reported,
        ["participant.left", "participant.left", "track.unpublished"]
    );
}

#[test]
fn a_postgresql_that_does_not_answer_moves_nothing() {
    let Some(cluster) = Cluster::installed() else {
        return;
    };
    let (database, proxy) = (cluster.database(), Proxy::start(cluster.address()));
    let url = database.url_at(proxy.address());
    let active = Server::start(Deployment::new().sharing(url.clone()));
    let second = Deployment::new().sharing(url);
    second.copy_keys(&active.deployment);
    let _standby = second.spawn();
    let standby = Waiting::of(&second);
    standby.until_role("standby");
    let database_of_standby = || standby.readiness()["parts"]["database"].clone();
    eventually(|| database_of_standby() == "ok");

    proxy.stall();
    // Far longer than the lease lasts: the response timeout.
    active.assert_refuses();
    eventually(|| active.lease() == "unconfirmed" && database_of_standby() == "unavailable");
    proxy.resume();

    active.wait_until_back();
    eventually(|| database_of_standby() == "ok");
    assert_eq!(standby.readiness()["role"], "standby");
    assert_eq!(database.run("SELECT epoch FROM leadership"), "1");
}
