//! Measured quality of sessions, from the media workers to the store.
//!
//! Media workers report each session's quality ([`QualityReport`]) on their own threads, so a report is only queued here. The server
//! takes the queue every few seconds and writes it in batches. Nothing waits for it: while the store is unavailable, the queue keeps
//! what fits, and the last report of a session, with its summary, is the last to be dropped.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::OnceLock;
use std::time::Duration;

use conclave_model::quality::{MediaConnection, QualitySample, QualitySummary};
use conclave_model::{Clock, NamespacedRoom, ParticipantSid, Timestamp};
use conclave_sfu::QualityReport;
use conclave_turn::TurnServer;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

/// Queued reports beyond which a report that is not a session's last one is dropped: 6,000 sessions for half a minute, in about 10 MB.
const CAPACITY: usize = 16_384;
/// Queued reports beyond which every report is dropped.
const CAPACITY_FOR_LAST: usize = 2 * CAPACITY;
/// Interval between checks whether all sessions have ended, at a stop.
const STOP_CHECK: Duration = Duration::from_millis(5);

/// Quality of a session in one interval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionQuality {
    /// The session's room.
    pub room: NamespacedRoom,
    /// The participant's sid, which identifies the session in its room.
    pub participant: ParticipantSid,
    /// End of the interval.
    pub at: Timestamp,
    /// Measurements.
    pub sample: QualitySample,
    /// Sum of the session's samples until then; not in every report.
    pub summary: Option<QualitySummary>,
    /// Whether no report of the session follows.
    pub is_last: bool,
}

/// Queue of reports. Its locks are held for one change, without taking another lock.
#[derive(Default)]
pub(super) struct QualityLog {
    queue: Mutex<Vec<SessionQuality>>,
    /// Connected sessions, each with whether its client may use the TURN server.
    sessions: Mutex<HashMap<ParticipantSid, bool>>,
    source: OnceLock<Source>,
}

/// Clock and TURN server by which a plane completes its workers' reports.
struct Source {
    clock: Clock,
    /// The embedded TURN server, if it is enabled, with the addresses from which it relays.
    relay: Option<(TurnServer, Vec<IpAddr>)>,
}

impl QualityLog {
    /// Starts to accept reports, with times by this clock. Only the first call has an effect.
    pub fn start(&self, clock: Clock, relay: Option<(TurnServer, Vec<IpAddr>)>) {
        // Ignored: a directory has one plane.
        let _ = self.source.set(Source { clock, relay });
    }

    /// Records that a participant's media is connected. Only such participants' reports are queued: private rooms of encoders have no
    /// session.
    pub fn connect(&self, sid: &ParticipantSid) {
        let relay = self.source.get().and_then(|source| source.relay.as_ref());
        // Asked now, since its allocations end before its last report.
        let may_relay = relay.is_some_and(|(turn, _)| turn.has_allocation(sid.as_str()));
        self.sessions.lock().insert(sid.clone(), may_relay);
    }

    /// Queues a report.
    pub fn add(&self, report: QualityReport) {
        let Some(source) = self.source.get() else {
            return;
        };
        let Some(may_relay) = self.session(&report.peer, report.is_last) else {
            return;
        };
        let QualityReport {
            room,
            peer,
            client_address,
            mut sample,
            mut summary,
            is_last,
        } = report;
        if may_relay && source.is_relay(client_address) {
            sample.connection = Some(MediaConnection::Turn);
            if let Some(summary) = &mut summary {
                summary.connection = sample.connection;
            }
        }
        let report = SessionQuality {
            room,
            participant: peer,
            at: source.clock.now(),
            sample,
            summary,
            is_last,
        };
        push(&mut self.queue.lock(), report);
    }

    /// Returns whether a session's client may use the TURN server; `None` for an unknown session. Forgets a session with its last report.
    fn session(&self, sid: &ParticipantSid, is_last: bool) -> Option<bool> {
        match self.sessions.lock().entry(sid.clone()) {
            Entry::Occupied(known) if is_last => Some(known.remove()),
            Entry::Occupied(known) => Some(*known.get()),
            Entry::Vacant(_) => None,
        }
    }

    /// Removes and returns the queued reports, oldest first.
    pub fn take(&self) -> Vec<SessionQuality> {
        std::mem::take(&mut self.queue.lock())
    }

    /// Queues reports again that could not be written, before newer ones.
    pub fn restore(&self, mut reports: Vec<SessionQuality>) {
        let mut queue = self.queue.lock();
        for report in queue.drain(..) {
            push(&mut reports, report);
        }
        *queue = reports;
    }

    /// Waits until each session's last report is queued, for at most `limit`. Returns whether that is so.
    pub async fn finish(&self, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        while !self.sessions.lock().is_empty() {
            if Instant::now() >= end {
                return false;
            }
            sleep(STOP_CHECK).await;
        }
        true
    }
}

impl Source {
    /// Returns whether a client's address is one from which the TURN server relays.
    fn is_relay(&self, address: Option<IpAddr>) -> bool {
        let addresses = self.relay.iter().flat_map(|(_, addresses)| addresses);
        address.is_some_and(|address| addresses.into_iter().any(|relay| *relay == address))
    }
}

/// Adds a report if there is room for it.
fn push(queue: &mut Vec<SessionQuality>, report: SessionQuality) {
    let capacity = if report.is_last {
        CAPACITY_FOR_LAST
    } else {
        CAPACITY
    };
    if queue.len() < capacity {
        queue.push(report);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(peer: &str, is_last: bool) -> QualityReport {
        QualityReport {
            room: "prj_0123456789ab.standup".parse().unwrap(),
            peer: peer.parse().unwrap(),
            client_address: None,
            sample: QualitySample::default(),
            summary: None,
            is_last,
        }
    }

    fn started() -> QualityLog {
        let log = QualityLog::default();
        log.start(Clock::system(), None);
        log
    }

    #[test]
    fn only_sessions_that_are_connected_are_queued_until_their_last_report() {
        let log = started();
        let sid = "PA_alice".parse().unwrap();
        log.add(report("PA_alice", false));
        assert_eq!(log.take().len(), 0);
        log.connect(&sid);
        for is_last in [false, true, false] {
            log.add(report("PA_alice", is_last));
        }
        let queued = log.take();
        let queued: Vec<_> = queued.iter().map(|report| report.is_last).collect();
        assert_eq!(queued, [false, true]);
        assert_eq!(log.take().len(), 0);
    }

    #[test]
    fn a_full_queue_keeps_last_reports_and_those_that_are_restored_come_first() {
        let log = started();
        for number in 0..CAPACITY + 2 {
            let sid = format!("PA_{number}");
            log.connect(&sid.parse().unwrap());
            log.add(report(&sid, number > CAPACITY));
        }
        let queued = log.take();
        assert_eq!(queued.len(), CAPACITY + 1);
        assert!(queued[CAPACITY].is_last);
        log.connect(&"PA_new".parse().unwrap());
        log.add(report("PA_new", true));
        log.restore(queued);
        let queued = log.take();
        assert_eq!(queued.len(), CAPACITY + 2);
        assert_eq!(queued[CAPACITY + 1].participant.as_str(), "PA_new");
    }

    #[tokio::test]
    async fn a_stop_waits_for_the_last_reports() {
        let log = started();
        log.connect(&"PA_alice".parse().unwrap());
        assert!(!log.finish(Duration::ZERO).await);
        log.add(report("PA_alice", true));
        assert!(log.finish(Duration::ZERO).await);
    }
}
