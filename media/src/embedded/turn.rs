//! TURN servers, which relay the media of clients whose network lets nothing else through: the one in this process, and external ones.
//! Clients get their urls with credentials that expire, as coturn checks them with `use-auth-secret`.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use conclave_model::{Clock, ParticipantSid, Secret, Timestamp};
use conclave_sfu::Workers;
use conclave_turn::credentials::{password, username};
use conclave_turn::{
    ALLOCATION_TIMEOUT, TurnMetrics, TurnRefusal, TurnServer, TurnSettings, UdpRelay,
};
use livekit_protocol::IceServer;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Error, IntCounter, IntCounterVec, IntGauge, Opts, Registry};

/// TURN servers that share a secret with this server. `Debug` shows no secret.
#[derive(Debug, Clone)]
pub struct TurnServers {
    /// Their urls, such as `turn:turn.example.com:3478?transport=udp`.
    pub urls: Vec<String>,
    /// The shared secret (coturn's `static-auth-secret`).
    pub secret: Secret,
    /// How long credentials are valid.
    pub ttl: Duration,
}

/// TURN servers with credentials for one participant. `Debug` shows no credential.
#[derive(Debug, Clone)]
pub struct TurnCredentials {
    /// The urls of the servers, `turn:` or `turns:`.
    pub urls: Vec<String>,
    /// The user name.
    pub username: String,
    /// The password: an HMAC of the user name under the shared secret.
    pub credential: Secret,
}

/// The TURN server in this process, and its thread for clients by UDP if it has one. It ends when this is dropped.
pub struct OwnTurn {
    /// What answers clients, over each transport.
    pub server: TurnServer,
    /// The urls that clients are given.
    pub urls: Vec<String>,
    udp: Option<UdpRelay>,
}

impl From<TurnCredentials> for IceServer {
    fn from(server: TurnCredentials) -> Self {
        let TurnCredentials {
            urls,
            username,
            credential,
        } = server;
        Self {
            urls,
            username,
            credential: credential.reveal().to_owned(),
        }
    }
}

impl TurnServers {
    /// Returns the servers with credentials for a participant.
    pub(super) fn for_participant(&self, sid: &ParticipantSid, now: Timestamp) -> TurnCredentials {
        let username = username(sid.as_str(), now.after(self.ttl));
        let credential = password(&self.secret, &username);
        TurnCredentials {
            urls: self.urls.clone(),
            username,
            credential,
        }
    }
}

impl OwnTurn {
    /// A server that relays to these media workers. It has no clients yet.
    pub(super) fn new(
        secret: Secret,
        workers: &Workers,
        clock: Clock,
        max_allocations: usize,
    ) -> Self {
        let peers = workers.udp_addresses();
        let settings = TurnSettings {
            secret,
            peers: &peers,
            clock,
            allocation_timeout: ALLOCATION_TIMEOUT,
            max_allocations,
        };
        Self {
            server: TurnServer::new(settings),
            urls: Vec::new(),
            udp: None,
        }
    }

    /// Serves clients by UDP at this port of the addresses that the media workers listen on; at a free one for 0. Returns the port.
    ///
    /// # Errors
    /// It cannot be bound, or the thread cannot be started.
    pub fn serve_udp(&mut self, addresses: &[IpAddr], port: u16) -> io::Result<u16> {
        let relay = self.server.serve_udp(addresses, port)?;
        let port = relay.addresses().first().map_or(port, SocketAddr::port);
        self.udp = Some(relay);
        Ok(port)
    }
}

impl OwnTurn {
    /// Registers its metrics.
    ///
    /// # Errors
    /// They are registered already.
    pub fn register_metrics(&self, registry: &Registry) -> Result<(), Error> {
        registry.register(Box::new(TurnCollector::new(self.server.metrics())?))
    }
}

/// Reads the counters of the server when the metrics are shown.
struct TurnCollector {
    descriptions: Vec<Desc>,
    metrics: Arc<TurnMetrics>,
}

/// The metrics with their present values.
struct Shown {
    allocations: IntGauge,
    bytes: IntCounterVec,
    dropped: IntCounter,
    refused: IntCounterVec,
}

impl Shown {
    fn new(metrics: &TurnMetrics) -> Result<Self, Error> {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let shown = Self {
            allocations: IntGauge::new(
                "conclave_turn_allocations",
                "Allocations of clients of the TURN server",
            )?,
            bytes: IntCounterVec::new(
                Opts::new(
                    "conclave_turn_bytes_total",
                    "Bytes of datagrams that the TURN server relayed",
                ),
                &["direction"],
            )?,
            dropped: IntCounter::new(
                "conclave_turn_dropped_packets_total",
                "Datagrams that the TURN server did not relay, because the way to their receiver was busy",
            )?,
            refused: IntCounterVec::new(
                Opts::new(
                    "conclave_turn_refused_total",
                    "Requests and datagrams that the TURN server refused, by reason",
                ),
                &["reason"],
            )?,
        };
        shown
            .allocations
            .set(i64::try_from(read(&metrics.allocations)).unwrap_or(i64::MAX));
        for (direction, counter) in [
            ("from_clients", &metrics.from_clients),
            ("to_clients", &metrics.to_clients),
        ] {
            shown
                .bytes
                .with_label_values(&[direction])
                .inc_by(read(counter));
        }
        shown.dropped.inc_by(read(&metrics.dropped));
        for reason in TurnRefusal::ALL {
            shown
                .refused
                .with_label_values(&[reason.label()])
                .inc_by(read(metrics.refused(reason)));
        }
        Ok(shown)
    }

    fn collectors(&self) -> [&dyn Collector; 4] {
        [&self.allocations, &self.bytes, &self.dropped, &self.refused]
    }
}

impl TurnCollector {
    fn new(metrics: Arc<TurnMetrics>) -> Result<Self, Error> {
        let shown = Shown::new(&metrics)?;
        let descriptions = shown
            .collectors()
            .into_iter()
            .flat_map(Collector::desc)
            .cloned()
            .collect();
        Ok(Self {
            descriptions,
            metrics,
        })
    }
}

impl Collector for TurnCollector {
    fn desc(&self) -> Vec<&Desc> {
        self.descriptions.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        // The names and labels were accepted when the metrics were described.
        let Ok(shown) = Shown::new(&self.metrics) else {
            return Vec::new();
        };
        shown
            .collectors()
            .into_iter()
            .flat_map(Collector::collect)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use prometheus::TextEncoder;

    use super::*;

    fn servers(secret: &str) -> TurnServers {
        TurnServers {
            urls: vec!["turn:a".into()],
            secret: Secret::new(secret),
            ttl: Duration::from_secs(60),
        }
    }

    #[test]
    fn credentials_name_their_expiry_and_the_participant_and_depend_on_the_secret() {
        let now = Timestamp::from_millis(1_000_500);
        let given = servers("a").for_participant(&"PA_alice".parse().unwrap(), now);
        assert_eq!(
            (given.urls.as_slice(), given.username.as_str()),
            (["turn:a".to_owned()].as_slice(), "1060:PA_alice")
        );
        let other = servers("b").for_participant(&"PA_alice".parse().unwrap(), now);
        assert_eq!(
            given.credential,
            password(&Secret::new("a"), "1060:PA_alice")
        );
        assert_ne!(given.credential.reveal(), other.credential.reveal());
    }

    #[test]
    fn the_secret_is_not_shown() {
        assert!(!format!("{:?}", servers("hush")).contains("hush"));
    }

    #[test]
    fn the_counters_of_the_server_are_shown() {
        let metrics = Arc::new(TurnMetrics::default());
        metrics.allocations.store(3, Ordering::Relaxed);
        metrics.to_clients.store(1_200, Ordering::Relaxed);
        metrics
            .refused(TurnRefusal::Quota)
            .store(2, Ordering::Relaxed);
        let registry = Registry::new();
        registry
            .register(Box::new(TurnCollector::new(metrics).unwrap()))
            .unwrap();
        let text = TextEncoder::new()
            .encode_to_string(&registry.gather())
            .unwrap();
        for line in [
            "conclave_turn_allocations 3",
            "conclave_turn_bytes_total{direction=\"to_clients\"} 1200",
            "conclave_turn_bytes_total{direction=\"from_clients\"} 0",
            "conclave_turn_dropped_packets_total 0",
            "conclave_turn_refused_total{reason=\"quota\"} 2",
            "conclave_turn_refused_total{reason=\"peer\"} 0",
        ] {
            assert!(
                text.lines().any(|shown| shown == line),
                "{line} is not in {text}"
            );
        }
    }
}
