//! A stand-in for a LiveKit server: the part of its API that the control plane calls, on the published types, with rooms,
//! people, egresses and ingresses behind it; its webhooks, signed as LiveKit signs them; and its ways of failing, switched
//! on one method at a time. Nothing is transmitted: who joins and publishes is said by the test.

mod clients;
mod faults;
mod methods;
mod people;
mod signalling;
mod webhooks;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use livekit_protocol as proto;

pub use clients::Refused;
pub use faults::Fault;
pub use people::Joining;
pub use webhooks::Webhook;

/// The double. Cheap to clone; all clones are the same. Its server ends with the process.
#[derive(Clone)]
pub struct Double {
    /// The API key it knows.
    pub api_key: String,
    /// That key's secret.
    pub api_secret: String,
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// Counts everything that gets an id.
    ids: u64,
    rooms: BTreeMap<String, LiveRoom>,
    egresses: BTreeMap<String, proto::EgressInfo>,
    ingresses: BTreeMap<String, proto::IngressInfo>,
    faults: BTreeMap<String, Fault>,
    calls: Vec<(String, Vec<u8>)>,
    webhooks: webhooks::Queue,
    settings: Settings,
}

#[derive(Default)]
struct LiveRoom {
    info: proto::Room,
    people: BTreeMap<String, proto::ParticipantInfo>,
    /// Its node has died.
    lost: bool,
    /// Who is listed and on no node.
    stranded: BTreeSet<String>,
}

/// What its configuration would say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// `room.auto_create`.
    pub auto_create: bool,
    /// `room.enable_remote_unmute`.
    pub remote_unmute: bool,
    /// Whether it is connected to Redis.
    pub redis: bool,
    /// `api.enable_psrpc_for_get_list_participants`: who is in a room is asked of the room's node.
    pub node_lists: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { auto_create: true, remote_unmute: true, redis: true, node_lists: false }
    }
}

impl Double {
    /// Starts one on a free port.
    #[must_use]
    pub fn start() -> Self {
        let (api_key, api_secret) =
            ("APIdouble".to_owned(), "the-secret-of-the-double-long-enough-for-LiveKit".to_owned());
        let state = Arc::<Mutex<State>>::default();
        let (listener, address) = test_http_server::bind();
        let double = Self { api_key, api_secret, address, state };
        let server = double.clone();
        test_http_server::serve_on(listener, move |request, stream| server.handle(&request, stream));
        double
    }

    /// Where it is reached.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Makes a method fail, such as `GetParticipant`, until [`Double::heal`].
    pub fn fail(&self, method: &str, fault: Fault) {
        self.lock().faults.insert(method.to_owned(), fault);
    }

    /// Makes every method fail.
    pub fn fail_all(&self, fault: Fault) {
        self.fail(faults::EVERY, fault);
    }

    /// Ends every failure.
    pub fn heal(&self) {
        self.lock().faults.clear();
    }

    /// Changes its configuration.
    pub fn configure(&self, settings: Settings) {
        self.lock().settings = settings;
    }

    /// The requests that came to a method and were let in, in their order.
    #[must_use]
    pub fn calls<M: prost::Message + Default>(&self, method: &str) -> Vec<M> {
        let state = self.lock();
        let calls = state.calls.iter().filter(|(called, _)| called == method);
        calls.map(|(_, body)| M::decode(body.as_slice()).expect("the request reads")).collect()
    }

    /// The names of the rooms that are live.
    #[must_use]
    pub fn rooms(&self) -> Vec<String> {
        self.lock().rooms.keys().cloned().collect()
    }

    /// A room as it stands.
    #[must_use]
    pub fn room(&self, name: &str) -> Option<proto::Room> {
        self.lock().rooms.get(name).map(|room| room.info.clone())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn id(&mut self, prefix: &str) -> String {
        self.ids += 1;
        format!("{prefix}{:010}", self.ids)
    }
}
