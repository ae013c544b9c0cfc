//! A stand-in for a LiveKit server: the part of its API that the control plane calls, with the published types and with rooms,
//! participants, egresses and ingresses behind it; its webhooks, signed as LiveKit signs them; and faults, set per method. No media is
//! transmitted: the test makes participants join and publish.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod clients;
mod faults;
mod methods;
mod neighbours;
mod participants;
mod sids;
mod signalling;
mod webhook_workers;
mod webhooks;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use livekit_protocol as proto;
use parking_lot::{Mutex, MutexGuard};

pub use clients::Refused;
pub use faults::Fault;
pub use participants::Joining;
pub use webhook_workers::{LostWebhook, WebhookOutcomes};
pub use webhooks::Webhook;

/// The double. Cheap to clone; all clones share their state. Its server ends with the process.
#[derive(Clone)]
pub struct Double {
    /// The one API key that the double accepts.
    pub api_key: String,
    /// The API key's secret.
    pub api_secret: String,
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// Number of ids assigned.
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
    participants: BTreeMap<String, proto::ParticipantInfo>,
    /// The room's node has failed.
    node_is_dead: bool,
    /// Listed identities without a live node.
    ghosts: BTreeSet<String>,
    /// Connected identities that are missing from the list of participants.
    unlisted: BTreeSet<String>,
}

/// LiveKit's configuration, as far as it affects the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// `room.auto_create`.
    pub auto_create: bool,
    /// `room.enable_remote_unmute`.
    pub remote_unmute: bool,
    /// Whether Redis is connected; without it there is no egress and no ingress.
    pub redis: bool,
    /// `api.enable_psrpc_for_get_list_participants`: participants are listed by the
    /// room's node.
    pub node_lists: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            auto_create: true,
            remote_unmute: true,
            redis: true,
            node_lists: false,
        }
    }
}

impl Double {
    /// Starts a double on a free port.
    #[must_use]
    pub fn start() -> Self {
        let (api_key, api_secret) = (
            "APIdouble".to_owned(),
            "the-secret-of-the-double-long-enough-for-LiveKit".to_owned(),
        );
        let state = Arc::<Mutex<State>>::default();
        let (listener, address) = test_http_server::bind();
        let double = Self {
            api_key,
            api_secret,
            address,
            state,
        };
        let server = double.clone();
        test_http_server::serve_on(listener, move |request, stream| {
            server.handle(&request, stream);
        });
        double
    }

    /// Returns the URL of the API.
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

    /// Replaces the settings.
    pub fn configure(&self, settings: Settings) {
        self.lock().settings = settings;
    }

    /// Returns the authorized requests to a method, in order.
    #[must_use]
    pub fn calls<M: prost::Message + Default>(&self, method: &str) -> Vec<M> {
        let state = self.lock();
        let calls = state.calls.iter().filter(|(called, _)| called == method);
        calls
            .map(|(_, body)| M::decode(body.as_slice()).expect("the request reads"))
            .collect()
    }

    /// Returns the names of the live rooms.
    #[must_use]
    pub fn rooms(&self) -> Vec<String> {
        self.lock().rooms.keys().cloned().collect()
    }

    /// Returns a room's current state.
    #[must_use]
    pub fn room(&self, name: &str) -> Option<proto::Room> {
        self.lock().rooms.get(name).map(|room| room.info.clone())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl State {
    fn id(&mut self, prefix: &str) -> String {
        self.ids += 1;
        format!("{prefix}{:010}", self.ids)
    }
}
