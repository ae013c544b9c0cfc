//! Metrics of the recordings and broadcasts that run with ffmpeg.

use std::sync::Weak;

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Error, GaugeVec, Opts, Registry};

use super::jobs::JobProgress;
use super::plane::{EmbeddedPlane, Inner};

/// A number of a running egress.
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

/// Shows the egresses that run when the metrics are read.
struct EgressCollector {
    plane: Weak<Inner>,
    /// One for each of [`METRICS`].
    gauges: Vec<GaugeVec>,
}

impl EmbeddedPlane {
    /// Registers the metrics of recordings and broadcasts.
    ///
    /// # Errors
    /// They are registered already.
    pub fn register_egress_metrics(&self, registry: &Registry) -> Result<(), Error> {
        let gauge = |metric: &EgressMetric| GaugeVec::new(Opts::new(metric.name, metric.help), &["egress_id"]);
        let gauges = METRICS.iter().map(gauge).collect::<Result<_, _>>()?;
        let plane = std::sync::Arc::downgrade(self.inner());
        registry.register(Box::new(EgressCollector { plane, gauges }))
    }
}

impl Collector for EgressCollector {
    fn desc(&self) -> Vec<&Desc> {
        self.gauges.iter().flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let running = self.plane.upgrade().and_then(|plane| Some(plane.jobs.as_ref()?.running())).unwrap_or_default();
        let mut families = Vec::new();
        for (metric, gauge) in METRICS.iter().zip(&self.gauges) {
            // Those that have ended are not shown any more.
            gauge.reset();
            for (id, progress) in &running {
                gauge.with_label_values(&[id.as_str()]).set((metric.value)(progress));
            }
            families.extend(gauge.collect());
        }
        families
    }
}
