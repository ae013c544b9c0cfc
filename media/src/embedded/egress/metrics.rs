//! Metrics of recordings and broadcasts that run with ffmpeg.

use std::sync::Weak;
use std::sync::atomic::{AtomicU64, Ordering};

use conclave_egress::EgressTotals;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Error, GaugeVec, IntCounter, Opts, Registry};

use super::jobs::{JobProgress, Jobs};
use crate::embedded::plane::core::PlaneCore;

/// Value of a running egress.
struct EgressMetric {
    name: &'static str,
    help: &'static str,
    value: fn(&JobProgress) -> f64,
}

const METRICS: &[EgressMetric] = &[
    EgressMetric {
        name: "conclave_egress_media_seconds",
        help: "Media that a running recording or broadcast has written or sent",
        value: |progress| progress.media.as_secs_f64(),
    },
    EgressMetric {
        name: "conclave_egress_bytes",
        help: "Bytes that a running recording or broadcast has written or sent",
        value: |progress| progress.bytes as f64,
    },
    EgressMetric {
        name: "conclave_egress_frames",
        help: "Frames of video of a running recording or broadcast",
        value: |progress| progress.frames as f64,
    },
    EgressMetric {
        name: "conclave_egress_dropped_frames",
        help: "Frames of video that a running recording or broadcast has left out because this machine was too slow",
        value: |progress| progress.dropped_frames as f64,
    },
    EgressMetric {
        name: "conclave_egress_buffered_bytes",
        help: "Bytes on disk that the encoder of a running recording or broadcast has not read yet",
        value: |progress| progress.buffered_bytes as f64,
    },
    EgressMetric {
        name: "conclave_egress_speed",
        help: "Media of a running recording or broadcast for each second that it has run: 1 if it keeps up",
        value: |progress| progress.speed,
    },
    EgressMetric {
        name: "conclave_egress_connected_targets",
        help: "Receivers of a running broadcast that are connected",
        value: |progress| progress.connected_targets() as f64,
    },
];

/// Total of all egresses since the server's start. Includes egresses that ran only between two scrapes.
struct TotalMetric {
    name: &'static str,
    help: &'static str,
    value: fn(&EgressTotals) -> &AtomicU64,
}

const TOTALS: &[TotalMetric] = &[
    TotalMetric {
        name: "conclave_egress_frames_total",
        help: "Frames of video of recordings and broadcasts",
        value: |totals| &totals.frames,
    },
    TotalMetric {
        name: "conclave_egress_dropped_frames_total",
        help: "Frames of video that recordings and broadcasts have left out because this machine was too slow",
        value: |totals| &totals.dropped_frames,
    },
];

/// Collects the running egresses' values at each scrape.
struct EgressCollector {
    plane: Weak<PlaneCore>,
    /// One for each of [`METRICS`].
    gauges: Vec<GaugeVec>,
    /// One for each of [`TOTALS`].
    counters: Vec<IntCounter>,
}

/// Registers a plane's egress metrics.
///
/// # Errors
/// If metrics with these names are already registered.
pub(in crate::embedded) fn register(
    plane: Weak<PlaneCore>,
    registry: &Registry,
) -> Result<(), Error> {
    let gauge =
        // By id: an operator must see which recording cannot keep up.
        |metric: &EgressMetric| GaugeVec::new(Opts::new(metric.name, metric.help), &["egress_id"]);
    let gauges = METRICS.iter().map(gauge).collect::<Result<_, _>>()?;
    let counter = |metric: &TotalMetric| IntCounter::new(metric.name, metric.help);
    let counters = TOTALS.iter().map(counter).collect::<Result<_, _>>()?;
    registry.register(Box::new(EgressCollector {
        plane,
        gauges,
        counters,
    }))
}

impl Collector for EgressCollector {
    fn desc(&self) -> Vec<&Desc> {
        self.gauges
            .iter()
            .flat_map(Collector::desc)
            .chain(self.counters.iter().flat_map(Collector::desc))
            .collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        // Weak: the registry lives as long as the process, and must not keep a stopped plane.
        let plane = self.plane.upgrade();
        let jobs = plane.as_ref().and_then(|plane| plane.jobs.as_ref());
        let running = jobs.map(Jobs::running).unwrap_or_default();
        let mut families = Vec::new();
        for (metric, gauge) in METRICS.iter().zip(&self.gauges) {
            // Removes the egresses that have ended.
            gauge.reset();
            // One reading for all metrics, so that an egress's values belong together.
            for (id, progress) in &running {
                gauge
                    .with_label_values(&[id.as_str()])
                    .set((metric.value)(progress));
            }
            families.extend(gauge.collect());
        }
        for (metric, counter) in TOTALS.iter().zip(&self.counters) {
            let total = jobs.map_or(0, |jobs| {
                (metric.value)(jobs.engine().totals()).load(Ordering::Relaxed)
            });
            // The engine counts; the Prometheus counter, which can only be incremented, catches up.
            counter.inc_by(total.saturating_sub(counter.get()));
            families.extend(counter.collect());
        }
        families
    }
}
