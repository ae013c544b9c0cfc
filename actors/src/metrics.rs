//! Actor metrics. Actors and queued messages are counted when the metrics are read.

use std::collections::BTreeMap;

use conclave_outbound::upload::Uploader;
use prometheus::{
    Error, Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts,
    Registry,
};

use crate::info::ActorKind;
use crate::registry::{ActorRegistry, ActorStatus};
use crate::report_queue::ReportQueues;

/// Actor metrics.
#[derive(Clone)]
pub struct ActorMetrics {
    /// Delivery attempts, by outcome.
    pub(crate) deliveries: IntCounterVec,
    /// Seconds from an attempt's due time until its outcome is written.
    pub(crate) delivery_lag: Histogram,
    /// Attempts to upload a recording, by outcome.
    uploads: IntCounterVec,
    upload_sent: IntGaugeVec,
    upload_size: IntGaugeVec,
    actors: IntGaugeVec,
    mailbox: IntGaugeVec,
    restarts: IntCounterVec,
    reports: IntGauge,
    /// Reports refused because their participant fills its room's queue.
    pub(crate) reports_refused: IntCounter,
}

impl ActorMetrics {
    /// Registers the metrics in `registry`.
    ///
    /// # Errors
    /// If `registry` has metrics with these names already.
    pub fn new(registry: &Registry) -> Result<Self, Error> {
        let lag = HistogramOpts::new(
            "conclave_webhook_delivery_lag_seconds",
            "From when an attempt was due until its outcome was written; a tick's wait is part of it",
        );
        let metrics = Self {
            deliveries: IntCounterVec::new(
                Opts::new(
                    "conclave_webhook_attempts_total",
                    "Attempts to deliver a webhook, by outcome",
                ),
                &["outcome"],
            )?,
            delivery_lag: Histogram::with_opts(
                lag.buckets(vec![0.1, 0.5, 1., 2.5, 5., 10., 30., 60., 300., 1800.]),
            )?,
            uploads: IntCounterVec::new(
                Opts::new(
                    "conclave_upload_attempts_total",
                    "Attempts to upload a recording, by outcome",
                ),
                &["outcome"],
            )?,
            upload_sent: IntGaugeVec::new(
                Opts::new(
                    "conclave_upload_sent_bytes",
                    "Bytes of a recording that its running upload has sent",
                ),
                &["egress_id"],
            )?,
            upload_size: IntGaugeVec::new(
                Opts::new(
                    "conclave_upload_size_bytes",
                    "The size of a recording that is uploaded",
                ),
                &["egress_id"],
            )?,
            actors: IntGaugeVec::new(
                Opts::new("conclave_actors", "Actors, by kind and status"),
                &["kind", "status"],
            )?,
            mailbox: IntGaugeVec::new(
                Opts::new("conclave_actor_mailbox", "Messages that wait, by kind"),
                &["kind"],
            )?,
            restarts: IntCounterVec::new(
                Opts::new(
                    "conclave_actor_restarts_total",
                    "Actors that failed and were rebuilt, by kind",
                ),
                &["kind"],
            )?,
            reports: IntGauge::new(
                "conclave_reports_waiting",
                "Reports of the media plane that wait for their rooms",
            )?,
            reports_refused: IntCounter::new(
                "conclave_reports_refused_total",
                "Reports refused because too many about the same participant wait, who is removed",
            )?,
        };
        registry.register(Box::new(metrics.deliveries.clone()))?;
        registry.register(Box::new(metrics.delivery_lag.clone()))?;
        registry.register(Box::new(metrics.uploads.clone()))?;
        registry.register(Box::new(metrics.upload_sent.clone()))?;
        registry.register(Box::new(metrics.upload_size.clone()))?;
        registry.register(Box::new(metrics.actors.clone()))?;
        registry.register(Box::new(metrics.mailbox.clone()))?;
        registry.register(Box::new(metrics.restarts.clone()))?;
        registry.register(Box::new(metrics.reports.clone()))?;
        registry.register(Box::new(metrics.reports_refused.clone()))?;
        // Series exist from the start, so that a rate can be computed from their first increment.
        for kind in ActorKind::ALL {
            metrics.restarts.with_label_values(&[kind.as_str()]);
        }
        for outcome in ["delivered", "retried", "failed"] {
            metrics.deliveries.with_label_values(&[outcome]);
        }
        for outcome in ["uploaded", "retried", "failed"] {
            metrics.uploads.with_label_values(&[outcome]);
        }
        Ok(metrics)
    }

    /// Counts an actor that has failed and will be rebuilt.
    pub(crate) fn restarted(&self, kind: ActorKind) {
        self.restarts.with_label_values(&[kind.as_str()]).inc();
    }

    /// Counts an attempt to upload a recording, by outcome.
    pub(crate) fn uploaded(&self, outcome: &str) {
        self.uploads.with_label_values(&[outcome]).inc();
    }

    /// Sets the gauges of running uploads, and removes finished ones.
    pub fn update_upload_gauges(&self, uploads: &Uploader) {
        // Uploads come and go, and their series with them.
        self.upload_sent.reset();
        self.upload_size.reset();
        let gauge = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        for upload in uploads.running() {
            self.upload_sent
                .with_label_values(&[upload.egress.as_str()])
                .set(gauge(upload.sent()));
            self.upload_size
                .with_label_values(&[upload.egress.as_str()])
                .set(gauge(upload.size()));
        }
    }

    /// Sets the gauge of queued reports.
    pub fn update_report_gauge(&self, reports: &ReportQueues) {
        self.reports
            .set(i64::try_from(reports.waiting()).unwrap_or(i64::MAX));
    }

    /// Sets the gauges of actors and queued messages.
    pub fn update_gauges(&self, registry: &ActorRegistry) {
        let mut alive: BTreeMap<(ActorKind, &str), i64> = BTreeMap::new();
        let mut waiting: BTreeMap<ActorKind, i64> = ActorKind::ALL.map(|kind| (kind, 0)).into();
        registry.for_each(|entry| {
            let status = match entry.status {
                ActorStatus::Restarting => "restarting",
                ActorStatus::Hibernating(_) => "hibernating",
                ActorStatus::Running(_) => "running",
            };
            *alive.entry((entry.info.kind, status)).or_default() += 1;
            *waiting.entry(entry.info.kind).or_default() +=
                i64::try_from(entry.info.mailbox()).unwrap_or(i64::MAX);
        });
        // Every kind and status, so that a series falls to 0 rather than keeping its last value.
        for kind in ActorKind::ALL {
            for status in ["running", "hibernating", "restarting"] {
                // Absent in the registry means none.
                let count = alive.get(&(kind, status)).copied().unwrap_or(0);
                self.actors
                    .with_label_values(&[kind.as_str(), status])
                    .set(count);
            }
        }
        for (kind, count) in waiting {
            self.mailbox.with_label_values(&[kind.as_str()]).set(count);
        }
    }
}
