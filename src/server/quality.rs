//! Writes the measured quality of sessions, and deletes samples that are older than `quality.retention`.
//!
//! The embedded media plane queues measurements. Every ten seconds they are taken, shown in `/metrics`, and written in batches of all
//! projects. With LiveKit there is nothing to write: its server does not report such measurements.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use conclave_db::{NewQuality, Store, StoreError};
use conclave_media::embedded::{EmbeddedPlane, SessionQuality};
use conclave_model::quality::{QualitySample, loss};
use conclave_model::{Clock, ProjectId};
use prometheus::{Error, GaugeVec, Opts, Registry};

/// Interval between writes: each connected session has about one sample then.
const INTERVAL: Duration = Duration::from_secs(10);
/// Measurements per transaction: a few milliseconds of a file's only writer.
const BATCH: usize = 200;
/// Interval between deletions of old samples.
const DELETE_INTERVAL: Duration = Duration::from_secs(10 * 60);
/// Maximum time at a stop for the last measurements of the sessions that it ends.
const STOP_LIMIT: Duration = Duration::from_secs(1);
/// Projects with label values of their own: those with the most sessions. All others share one.
const MAX_PROJECTS: usize = 50;
/// Label value of the other projects.
const OTHER_PROJECTS: &str = "other";

/// Writer of measurements.
pub(super) struct QualityWriter {
    plane: Option<EmbeddedPlane>,
    store: Store,
    metrics: QualityMetrics,
}

impl QualityWriter {
    /// Creates the writer, and spawns its tasks, which end with it.
    ///
    /// # Errors
    /// If the metrics are registered already, which would be a bug.
    pub fn start(
        plane: Option<EmbeddedPlane>,
        store: &Store,
        clock: &Clock,
        retention: Duration,
        registry: &Registry,
    ) -> Result<Arc<Self>, Error> {
        let writer = Arc::new(Self {
            plane,
            store: store.clone(),
            metrics: QualityMetrics::new(registry)?,
        });
        let (weak, time) = (Arc::downgrade(&writer), clock.clone());
        tokio::spawn(async move {
            loop {
                // By the server's clock rather than a timer, so that tests can move it.
                time.sleep_until(time.now().after(INTERVAL)).await;
                match weak.upgrade() {
                    Some(writer) => writer.write().await,
                    None => return,
                }
            }
        });
        let (weak, time) = (Arc::downgrade(&writer), clock.clone());
        tokio::spawn(async move {
            while let Some(writer) = weak.upgrade() {
                // Also with LiveKit, in case the embedded media plane was used before.
                if let Err(error) = delete_old(&writer.store, retention).await {
                    log::warn!("old samples of session quality are deleted later: {error}");
                }
                drop(writer);
                time.sleep_until(time.now().after(DELETE_INTERVAL)).await;
            }
        });
        Ok(writer)
    }

    /// Writes the measurements of sessions that a stop has ended.
    pub async fn finish(&self) {
        let Some(plane) = &self.plane else {
            return;
        };
        if !plane.finish_quality(STOP_LIMIT).await {
            log::warn!("the last measurements of some sessions are not written");
        }
        self.write().await;
    }

    /// Writes what was measured since the last call.
    async fn write(&self) {
        let Some(plane) = &self.plane else {
            return;
        };
        let mut measured = plane.take_quality();
        self.metrics.show(&measured);
        while !measured.is_empty() {
            let rest = measured.split_off(measured.len().min(BATCH));
            let batch = measured.iter().map(new_quality).collect();
            if let Err(error) = self.store.quality().record(batch).await {
                log::warn!(sessions = measured.len() + rest.len(); "the quality of sessions is written later: {error}");
                measured.extend(rest);
                return plane.restore_quality(measured);
            }
            measured = rest;
        }
    }
}

fn new_quality(measured: &SessionQuality) -> NewQuality {
    NewQuality {
        room: measured.room.clone(),
        participant: measured.participant.clone(),
        at: measured.at,
        // A session may end right after its last sample.
        sample: Some(measured.sample).filter(|sample| {
            *sample
                != QualitySample {
                    millis: sample.millis,
                    connection: sample.connection,
                    ..QualitySample::default()
                }
        }),
        summary: measured.summary.clone(),
    }
}

/// Deletes samples in small steps until no old one is left.
async fn delete_old(store: &Store, retention: Duration) -> Result<(), StoreError> {
    while store.server().delete_quality_samples(retention).await? > 0 {}
    Ok(())
}

/// Quality of the connected sessions, by project.
struct QualityMetrics {
    score: GaugeVec,
    round_trip: GaugeVec,
    loss: GaugeVec,
}

impl QualityMetrics {
    fn new(registry: &Registry) -> Result<Self, Error> {
        let gauge = |name: &str, help: &str| {
            let gauge = GaugeVec::new(Opts::new(name, help), &["project", "quantile"])?;
            registry.register(Box::new(gauge.clone()))?;
            Ok::<_, Error>(gauge)
        };
        Ok(Self {
            score: gauge(
                "conclave_session_score",
                "Estimated opinion score of connected sessions, 1 to 4.5: median, and the score that 95 % exceed; for the 50 projects with the most sessions",
            )?,
            round_trip: gauge(
                "conclave_session_round_trip_seconds",
                "Round-trip time of connected sessions: median and 95th percentile, for the 50 projects with the most sessions",
            )?,
            loss: gauge(
                "conclave_session_loss_ratio",
                "Share of lost packets of connected sessions, in the worse direction: median and 95th percentile, for the 50 projects with the most sessions",
            )?,
        })
    }

    /// Shows these measurements in place of the last ones.
    fn show(&self, measured: &[SessionQuality]) {
        // A project without sessions has no values, rather than its last ones.
        [&self.score, &self.round_trip, &self.loss]
            .into_iter()
            .for_each(GaugeVec::reset);
        for (project, samples) in by_project(measured) {
            let show = |gauge: &GaugeVec, values: Vec<f64>, quantiles: [(&str, f64); 2]| {
                for (label, quantile) in quantiles {
                    if let Some(value) = percentile(&values, quantile) {
                        gauge
                            .with_label_values(&[project.as_str(), label])
                            .set(value);
                    }
                }
            };
            let (median, high, low) = (("0.5", 0.5), ("0.95", 0.95), ("0.05", 0.05));
            let score = samples.iter().filter_map(|sample| sample.score);
            // A low score is the bad one.
            show(
                &self.score,
                sorted(score.map(|score| f64::from(score) / 100.0)),
                [median, low],
            );
            let round_trip = samples.iter().filter_map(|sample| sample.round_trip_ms);
            show(
                &self.round_trip,
                sorted(round_trip.map(|millis| f64::from(millis) / 1_000.0)),
                [median, high],
            );
            let losses = samples.iter().map(|sample| worse_loss(sample));
            show(&self.loss, sorted(losses), [median, high]);
        }
    }
}

fn worse_loss(sample: &QualitySample) -> f64 {
    let share =
        |packets: u32, lost: u32, is_to_client| loss(packets.into(), lost.into(), is_to_client);
    let sent = share(sample.sent.packets, sample.sent.lost, false);
    sent.max(share(sample.received.packets, sample.received.lost, true))
}

/// Returns each session's newest sample by the value of the project label.
fn by_project(measured: &[SessionQuality]) -> Vec<(String, Vec<&QualitySample>)> {
    let mut newest = HashMap::new();
    for report in measured {
        newest.insert((&report.room, &report.participant), &report.sample);
    }
    let mut projects = BTreeMap::<ProjectId, Vec<&QualitySample>>::new();
    for ((room, _), sample) in newest {
        projects.entry(room.split().0).or_default().push(sample);
    }
    let mut projects: Vec<_> = projects
        .into_iter()
        .map(|(project, samples)| (project.to_string(), samples))
        .collect();
    // Stable, so that projects with equally many sessions keep their values.
    projects.sort_by_key(|(_, samples)| std::cmp::Reverse(samples.len()));
    // Each value is a time series, so their number must not grow with the number of projects.
    let others = projects.split_off(projects.len().min(MAX_PROJECTS));
    if !others.is_empty() {
        let samples = others.into_iter().flat_map(|(_, samples)| samples);
        projects.push((OTHER_PROJECTS.to_owned(), samples.collect()));
    }
    projects
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

/// Returns the value at a quantile of sorted values by the nearest rank; `None` without values.
fn percentile(values: &[f64], quantile: f64) -> Option<f64> {
    let rank = (values.len() as f64 * quantile).ceil() as usize;
    values.get(rank.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use conclave_model::Timestamp;

    use super::*;

    fn measured(project: usize, participant: usize, score: u32) -> SessionQuality {
        SessionQuality {
            room: format!("prj_{project:012x}.standup").parse().unwrap(),
            participant: format!("PA_{participant}").parse().unwrap(),
            at: Timestamp::from_millis(0),
            sample: QualitySample {
                score: Some(score),
                ..QualitySample::default()
            },
            summary: None,
            is_last: false,
        }
    }

    #[test]
    fn a_percentile_is_a_value_of_a_session() {
        let values: Vec<f64> = (1..=100).map(f64::from).collect();
        let ranks = [0.05, 0.5, 0.95].map(|quantile| percentile(&values, quantile));
        assert_eq!(ranks, [Some(5.0), Some(50.0), Some(95.0)]);
        assert_eq!(percentile(&values[..1], 0.05), Some(1.0));
        assert_eq!(percentile(&[], 0.5), None);
    }

    #[test]
    fn the_newest_sample_of_each_session_is_shown_and_projects_share_labels_beyond_a_limit() {
        let registry = Registry::new();
        let metrics = QualityMetrics::new(&registry).unwrap();
        let mut all = vec![
            measured(0, 1, 100),
            measured(0, 1, 400),
            measured(0, 2, 300),
        ];
        all.extend((1..60).map(|project| measured(project, project, 250)));
        metrics.show(&all);
        let text = || {
            prometheus::TextEncoder::new()
                .encode_to_string(&registry.gather())
                .unwrap()
        };
        let line = |quantile: &str, project: &str, value: &str| {
            format!(
                "conclave_session_score{{project=\"{project}\",quantile=\"{quantile}\"}} {value}"
            )
        };
        for line in [
            line("0.5", "prj_000000000000", "3"),
            line("0.05", "prj_000000000000", "3"),
            line("0.5", OTHER_PROJECTS, "2.5"),
        ] {
            assert!(text().contains(&line), "{line} is not in {}", text());
        }
        let series = text()
            .lines()
            .filter(|line| line.starts_with("conclave_session_score{"))
            .count();
        assert_eq!(series, 2 * (MAX_PROJECTS + 1));
        metrics.show(&[]);
        assert!(!text().contains("conclave_session_score{"));
    }
}
