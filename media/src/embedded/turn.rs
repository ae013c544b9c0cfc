//! TURN servers, which relay media for clients whose network permits nothing else: the embedded one, and external ones.
//! Clients get their URLs with credentials that expire, as coturn verifies them with `use-auth-secret`.

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

/// TURN servers that share a secret with this server. `Debug` does not show the secret.
#[derive(Debug, Clone)]
pub struct TurnServers {
    /// URLs, such as `turn:turn.example.com:3478?transport=udp`.
    pub urls: Vec<String>,
    /// Shared secret (coturn's `static-auth-secret`).
    pub secret: Secret,
    /// Validity of credentials.
    pub ttl: Duration,
}

/// TURN servers with one participant's credentials. `Debug` does not show them.
#[derive(Debug, Clone)]
pub struct TurnCredentials {
    /// URLs with the scheme `turn:` or `turns:`.
    pub urls: Vec<String>,
    /// User name: expiry time and participant's sid.
    pub username: String,
    /// Password: HMAC of the user name under the shared secret.
    pub credential: Secret,
}

/// The embedded TURN server, and its thread for UDP clients if it has one. Dropping it stops the thread.
pub struct OwnTurn {
    /// The server, for clients on every transport.
    pub server: TurnServer,
    /// URLs for clients.
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
    /// Returns the servers with a participant's credentials.
    pub(super) fn for_participant(&self, sid: &ParticipantSid, now: Timestamp) -> TurnCredentials {
        // The expiry is part of the signed user name, so the TURN server needs no state for it.
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
    /// Creates a server that relays to these media workers. It has no clients yet.
    pub(super) fn new(
        secret: Secret,
        workers: &Workers,
        clock: Clock,
        max_allocations: usize,
    ) -> Self {
        let peers = workers.udp_addresses();
        let settings = TurnSettings {
            secret,
            // The relay accepts no other peers, so it cannot be used to reach other hosts.
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

    /// Serves UDP clients at this port on the media workers' addresses; port 0 selects a free one. Returns the port.
    ///
    /// # Errors
    /// If the port cannot be bound, or the thread cannot be started.
    pub fn serve_udp(&mut self, addresses: &[IpAddr], port: u16) -> io::Result<u16> {
        let relay = self.server.serve_udp(addresses, port)?;
        // With port 0, the system has chosen the port.
        let port = relay.addresses().first().map_or(port, SocketAddr::port);
        // Kept, since dropping it stops the thread.
        self.udp = Some(relay);
        Ok(port)
    }
}

impl OwnTurn {
    /// Registers the TURN metrics.
    ///
    /// # Errors
    /// If metrics with these names are already registered.
    pub fn register_metrics(&self, registry: &Registry) -> Result<(), Error> {
        registry.register(Box::new(TurnCollector::new(self.server.metrics())?))
    }
}

/// Reads the server's counters at each scrape.
struct TurnCollector {
    descriptions: Vec<Desc>,
    metrics: Arc<TurnMetrics>,
}

/// The metrics with their current values.
struct TurnSnapshot {
    allocations: IntGauge,
    bytes: IntCounterVec,
    dropped: IntCounter,
    refused: IntCounterVec,
}

impl TurnSnapshot {
    fn new(metrics: &TurnMetrics) -> Result<Self, Error> {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let snapshot = Self {
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
        // New collectors each time: the counters live in the TURN server, so these only carry a snapshot.
        snapshot
            .allocations
            // A gauge, since allocations end; the others only grow.
            .set(i64::try_from(read(&metrics.allocations)).unwrap_or(i64::MAX));
        for (direction, counter) in [
            ("from_clients", &metrics.from_clients),
            ("to_clients", &metrics.to_clients),
        ] {
            snapshot
                .bytes
                .with_label_values(&[direction])
                .inc_by(read(counter));
        }
        snapshot.dropped.inc_by(read(&metrics.dropped));
        for reason in TurnRefusal::ALL {
            snapshot
                .refused
                .with_label_values(&[reason.label()])
                .inc_by(read(metrics.refused(reason)));
        }
        Ok(snapshot)
    }

    fn collectors(&self) -> [&dyn Collector; 4] {
        [&self.allocations, &self.bytes, &self.dropped, &self.refused]
    }
}

impl TurnCollector {
    fn new(metrics: Arc<TurnMetrics>) -> Result<Self, Error> {
        let snapshot = TurnSnapshot::new(&metrics)?;
        let descriptions = snapshot
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
        // Cannot fail: names and labels were accepted when the metrics were described.
        let Ok(snapshot) = TurnSnapshot::new(&self.metrics) else {
            return Vec::new();
        };
        snapshot
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
                text.lines().any(|snapshot| snapshot == line),
                "{line} is not in {text}"
            );
        }
    }
}
