//! Metrics of WebRTC clients and media workers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use conclave_sfu::{DropReason, WorkerMetrics};
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{
    CounterVec, Error, GaugeVec, Histogram, HistogramOpts, IntCounterVec, Opts, Registry,
};

use super::signal::Excess;

/// Bucket bounds for the time to the first frame, in seconds.
const BUCKETS: &[f64] = &[0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 1., 2., 5., 10., 30.];

/// Metrics of joins by outcome, of receivers' waiting time for video, and of the media workers.
#[derive(Clone)]
pub struct RtcMetrics {
    joins: IntCounterVec,
    first_frame: Histogram,
    excesses: IntCounterVec,
}

/// Outcome of a client's join; each is a value of the `outcome` label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JoinOutcome {
    /// Refused before its WebSocket was opened.
    Refused,
    /// Media did not connect.
    NotConnected,
    /// Refused by the control plane after media had connected.
    Rejected,
    /// The participant became active.
    Joined,
}

impl JoinOutcome {
    const fn label(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::NotConnected => "not_connected",
            Self::Rejected => "rejected",
            Self::Joined => "joined",
        }
    }
}

impl RtcMetrics {
    /// Creates the metrics, including these workers' counters, and registers them.
    ///
    /// # Errors
    /// If metrics with these names are already registered.
    pub fn new(registry: &Registry, workers: Vec<Arc<WorkerMetrics>>) -> Result<Self, Error> {
        let joins = Opts::new(
            "conclave_rtc_joins_total",
            "Joins of WebRTC clients, by outcome",
        );
        let first_frame = HistogramOpts::new(
            "conclave_rtc_first_frame_seconds",
            "From the subscription of a published video to the first frame that is sent to the subscriber",
        );
        let excesses = Opts::new(
            "conclave_rtc_excesses_total",
            "Clients that were disconnected for what they sent or left unread, by limit",
        );
        let metrics = Self {
            joins: IntCounterVec::new(joins, &["outcome"])?,
            first_frame: Histogram::with_opts(first_frame.buckets(BUCKETS.to_vec()))?,
            excesses: IntCounterVec::new(excesses, &["limit"])?,
        };
        // A label value exists only after its first use, and alerts need the zero before.
        Excess::ALL
            .iter()
            .for_each(|excess| drop(metrics.excesses.with_label_values(&[excess.label()])));
        registry.register(Box::new(metrics.joins.clone()))?;
        registry.register(Box::new(metrics.first_frame.clone()))?;
        registry.register(Box::new(metrics.excesses.clone()))?;
        registry.register(Box::new(WorkerCollector::new(workers)?))?;
        Ok(metrics)
    }

    pub(super) fn record_join(&self, outcome: JoinOutcome) {
        self.joins.with_label_values(&[outcome.label()]).inc();
    }

    pub(super) fn record_excess(&self, excess: Excess) {
        self.excesses.with_label_values(&[excess.label()]).inc();
    }

    pub(super) fn record_first_frame(&self, after: Duration) {
        self.first_frame.observe(after.as_secs_f64());
    }
}

/// A metric of every worker.
struct WorkerMetric {
    name: &'static str,
    help: &'static str,
    /// Whether it only increases.
    is_counter: bool,
    /// Divisor for the worker's number.
    divisor: f64,
    /// Name of an additional label; empty for none.
    label: &'static str,
    /// Values of that label, each with the worker's number.
    values: &'static [(&'static str, ReadNumber)],
}

/// Accessor of a worker's number.
type ReadNumber = fn(&WorkerMetrics) -> &AtomicU64;

const WORKER_METRICS: &[WorkerMetric] = &[
    WorkerMetric {
        name: "conclave_rtc_packets_total",
        help: "Packets that media workers received, sent, or dropped because a socket was busy",
        is_counter: true,
        divisor: 1.,
        label: "packets",
        values: &[
            ("received", |worker| &worker.received_packets),
            ("sent", |worker| &worker.sent_packets),
            ("dropped", |worker| &worker.dropped_packets),
        ],
    },
    WorkerMetric {
        name: "conclave_rtc_bytes_total",
        help: "Bytes that media workers received and sent",
        is_counter: true,
        divisor: 1.,
        label: "bytes",
        values: &[
            ("received", |worker| &worker.received_bytes),
            ("sent", |worker| &worker.sent_bytes),
        ],
    },
    WorkerMetric {
        name: "conclave_rtc_media_packets_total",
        help: "Media packets of admitted tracks, those forwarded, counted for each receiver, and those mirrored, counted for each other media worker",
        is_counter: true,
        divisor: 1.,
        label: "packets",
        values: &[
            ("published", |worker| &worker.published_packets),
            ("forwarded", |worker| &worker.forwarded_packets),
            ("mirrored", |worker| &worker.mirrored_packets),
        ],
    },
    WorkerMetric {
        name: "conclave_rtc_dropped_packets_total",
        help: "Packets that media workers did not forward, by reason; counted for each receiver that did not get one",
        is_counter: true,
        divisor: 1.,
        label: "reason",
        values: &[
            (DropReason::Stranger.label(), |worker| {
                worker.dropped(DropReason::Stranger)
            }),
            (DropReason::Malformed.label(), |worker| {
                worker.dropped(DropReason::Malformed)
            }),
            (DropReason::TooLarge.label(), |worker| {
                worker.dropped(DropReason::TooLarge)
            }),
            (DropReason::Unclaimed.label(), |worker| {
                worker.dropped(DropReason::Unclaimed)
            }),
            (DropReason::OtherCodec.label(), |worker| {
                worker.dropped(DropReason::OtherCodec)
            }),
            (DropReason::Muted.label(), |worker| {
                worker.dropped(DropReason::Muted)
            }),
            (DropReason::NotConnected.label(), |worker| {
                worker.dropped(DropReason::NotConnected)
            }),
            (DropReason::NotNegotiated.label(), |worker| {
                worker.dropped(DropReason::NotNegotiated)
            }),
            (DropReason::NotWanted.label(), |worker| {
                worker.dropped(DropReason::NotWanted)
            }),
            (DropReason::OtherLayer.label(), |worker| {
                worker.dropped(DropReason::OtherLayer)
            }),
            (DropReason::AwaitsKeyFrame.label(), |worker| {
                worker.dropped(DropReason::AwaitsKeyFrame)
            }),
            (DropReason::Padding.label(), |worker| {
                worker.dropped(DropReason::Padding)
            }),
            (DropReason::Late.label(), |worker| {
                worker.dropped(DropReason::Late)
            }),
            (DropReason::MalformedRedundancy.label(), |worker| {
                worker.dropped(DropReason::MalformedRedundancy)
            }),
            (DropReason::NoSource.label(), |worker| {
                worker.dropped(DropReason::NoSource)
            }),
            (DropReason::RecorderFull.label(), |worker| {
                worker.dropped(DropReason::RecorderFull)
            }),
            (DropReason::DataBacklog.label(), |worker| {
                worker.dropped(DropReason::DataBacklog)
            }),
            (DropReason::MirrorFull.label(), |worker| {
                worker.dropped(DropReason::MirrorFull)
            }),
        ],
    },
    WorkerMetric {
        name: "conclave_rtc_loss_ratio",
        help: "Mean share of packets that were lost on the way in the last second",
        is_counter: false,
        divisor: 1e6,
        label: "packets",
        values: &[
            ("received", |worker| &worker.received_loss),
            ("sent", |worker| &worker.sent_loss),
        ],
    },
    WorkerMetric {
        name: "conclave_rtc_key_frame_requests_total",
        help: "Key frames that were requested from publishers",
        is_counter: true,
        divisor: 1.,
        label: "",
        values: &[("", |worker| &worker.key_frame_requests)],
    },
    WorkerMetric {
        name: "conclave_rtc_clients_refused_total",
        help: "Clients that were disconnected because they sent more session descriptions or commands than they may",
        is_counter: true,
        divisor: 1.,
        label: "",
        values: &[("", |worker| &worker.refused_clients)],
    },
    WorkerMetric {
        name: "conclave_rtc_worker_busy_seconds_total",
        help: "Time in which a media worker did not wait",
        is_counter: true,
        divisor: 1e6,
        label: "",
        values: &[("", |worker| &worker.busy_microseconds)],
    },
    WorkerMetric {
        name: "conclave_rtc_reduced_ratio",
        help: "Share of a media worker's participants who get the lowest layers, because it has too much to do",
        is_counter: false,
        divisor: 100.,
        label: "",
        values: &[("", |worker| &worker.reduced_percent)],
    },
    WorkerMetric {
        name: "conclave_rtc_participants",
        help: "Participants on a media worker",
        is_counter: false,
        divisor: 1.,
        label: "",
        values: &[("", |worker| &worker.peers)],
    },
    WorkerMetric {
        name: "conclave_rtc_tcp_connections",
        help: "Open TCP connections of a media worker",
        is_counter: false,
        divisor: 1.,
        label: "",
        values: &[("", |worker| &worker.tcp_connections)],
    },
];

impl WorkerMetric {
    fn labels(&self) -> Vec<&'static str> {
        ["worker", self.label]
            .into_iter()
            .filter(|label| !label.is_empty())
            .collect()
    }

    fn opts(&self) -> Opts {
        Opts::new(self.name, self.help)
    }

    fn collect(&self, workers: &[Arc<WorkerMetrics>]) -> Result<Vec<MetricFamily>, Error> {
        // Only one of the two is used: Prometheus has separate types for them.
        let (counter, gauge) = (
            CounterVec::new(self.opts(), &self.labels())?,
            GaugeVec::new(self.opts(), &self.labels())?,
        );
        // A worker's position is its label: workers have no names, and their number is fixed.
        for (index, worker) in workers.iter().enumerate() {
            let index = index.to_string();
            // Metrics without an additional label have only the label for the worker.
            for (value, number) in self.values {
                let labels = [index.as_str(), value];
                // Drops the empty additional label.
                let labels = &labels[..self.labels().len()];
                // Exact up to 53 bits.
                let number = number(worker).load(Ordering::Relaxed) as f64 / self.divisor;
                match self.is_counter {
                    true => counter.get_metric_with_label_values(labels)?.inc_by(number),
                    false => gauge.get_metric_with_label_values(labels)?.set(number),
                }
            }
        }
        Ok(if self.is_counter {
            counter.collect()
        } else {
            gauge.collect()
        })
    }
}

/// Reads the workers' counters at each scrape.
struct WorkerCollector {
    descriptions: Vec<Desc>,
    workers: Vec<Arc<WorkerMetrics>>,
}

impl WorkerCollector {
    fn new(workers: Vec<Arc<WorkerMetrics>>) -> Result<Self, Error> {
        let describe = |metric: &WorkerMetric| {
            // Described once, since the registry checks names and labels only at the registration.
            let labels = metric.labels().into_iter().map(str::to_owned).collect();
            Desc::new(
                metric.name.to_owned(),
                metric.help.to_owned(),
                labels,
                [].into(),
            )
        };
        Ok(Self {
            descriptions: WORKER_METRICS
                .iter()
                .map(describe)
                .collect::<Result<_, _>>()?,
            workers,
        })
    }
}

impl Collector for WorkerCollector {
    fn desc(&self) -> Vec<&Desc> {
        self.descriptions.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        // Errors cannot occur: names and labels were accepted when the metrics were described.
        WORKER_METRICS
            .iter()
            .filter_map(|metric| metric.collect(&self.workers).ok())
            .flatten()
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use prometheus::TextEncoder;

    use super::*;

    #[test]
    fn the_numbers_of_each_worker_are_shown_in_the_units_of_prometheus() {
        let registry = Registry::new();
        let text = || {
            TextEncoder::new()
                .encode_to_string(&registry.gather())
                .unwrap()
        };
        let workers: Vec<Arc<WorkerMetrics>> = vec![Arc::default(), Arc::default()];
        workers[1]
            .busy_microseconds
            .store(1_500_000, Ordering::Relaxed);
        // Parts per million.
        workers[1].sent_loss.store(50_000, Ordering::Relaxed);
        workers[0].received_packets.store(7, Ordering::Relaxed);
        workers[1]
            .dropped(DropReason::Muted)
            .store(3, Ordering::Relaxed);
        let metrics = RtcMetrics::new(&registry, workers).unwrap();
        for reason in DropReason::ALL {
            let line = format!(
                "conclave_rtc_dropped_packets_total{{reason=\"{}\",worker=\"0\"}} 0",
                reason.label()
            );
            assert!(
                text().lines().any(|shown| shown == line),
                "{line} is not shown"
            );
        }
        metrics.record_join(JoinOutcome::NotConnected);
        metrics.record_first_frame(Duration::from_millis(250));
        for line in [
            "conclave_rtc_worker_busy_seconds_total{worker=\"1\"} 1.5",
            "conclave_rtc_loss_ratio{packets=\"sent\",worker=\"1\"} 0.05",
            "conclave_rtc_packets_total{packets=\"received\",worker=\"0\"} 7",
            "conclave_rtc_dropped_packets_total{reason=\"muted\",worker=\"1\"} 3",
            "conclave_rtc_joins_total{outcome=\"not_connected\"} 1",
            // The first bucket whose bound is at least 0.25 s.
            "conclave_rtc_first_frame_seconds_bucket{le=\"0.3\"} 1",
        ] {
            assert!(
                text().lines().any(|shown| shown == line),
                "{line} is not in {}",
                text()
            );
        }
    }
}
