//! Metrics of the TURN server in this process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use conclave_turn::{TurnMetrics, TurnRefusal};
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Error, IntCounter, IntCounterVec, IntGauge, Opts, Registry};

use super::turn::OwnTurn;

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
