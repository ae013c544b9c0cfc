//! Participants that may use the TURN server, because they are in a room now.
//!
//! Credentials are valid for hours, so a client could relay long after its participant has left.
//! The media plane therefore admits each participant here when it joins, and revokes the admission
//! by dropping its [`RelayAccess`].

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use conclave_model::ProjectId;
use parking_lot::Mutex;

/// Interval in which a participant's messages are counted.
pub const WINDOW: Duration = Duration::from_millis(100);
/// Maximum messages per participant and interval, over all its connections: 5,000 per second. A
/// camera and a shared screen at 15 Mbit/s take 1,600.
pub const MESSAGES_PER_WINDOW: u32 = 500;
/// Maximum bytes per participant and interval: 21 Mbit/s.
pub const BYTES_PER_WINDOW: usize = 256 * 1_024;
/// Full intervals in a row after which further messages are dropped rather than delayed. A stream
/// that its network held back has caught up by then.
const MAX_FULL_WINDOWS: u32 = 10;

/// Admitted participants, by the name in their credentials. Clones share them.
#[derive(Debug, Default, Clone)]
pub struct AdmittedParticipants(Arc<Mutex<HashMap<Arc<str>, Arc<AdmittedParticipant>>>>);

/// Participant that may use the TURN server, until it leaves.
#[derive(Debug)]
pub struct AdmittedParticipant {
    /// Name in the credentials.
    pub name: Arc<str>,
    /// Project that the room belongs to.
    pub project: ProjectId,
    has_left: AtomicBool,
    window: Mutex<RateWindow>,
}

/// Current interval of a participant.
#[derive(Debug)]
struct RateWindow {
    start: Instant,
    messages: u32,
    bytes: usize,
    /// Number of full intervals directly before this one.
    full_before: u32,
}

/// Decision about a participant's message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// Handle the message.
    Handle,
    /// Drop the message.
    Drop,
    /// Wait for the next interval, which starts after this time. A datagram, which cannot wait, is
    /// dropped.
    Wait(Duration),
}

/// A participant's access to the TURN server. Dropping it ends the participant's allocations and
/// invalidates its credentials.
pub struct RelayAccess {
    participants: AdmittedParticipants,
    participant: Arc<AdmittedParticipant>,
}

impl AdmittedParticipants {
    /// Admits a participant.
    pub fn admit(&self, name: &str, project: ProjectId) -> RelayAccess {
        let participant = AdmittedParticipant::new(name, project);
        self.0
            .lock()
            .insert(Arc::clone(&participant.name), Arc::clone(&participant));
        RelayAccess {
            participants: self.clone(),
            participant,
        }
    }

    /// Returns the participant with this name, if it is admitted.
    pub fn get(&self, name: &str) -> Option<Arc<AdmittedParticipant>> {
        self.0.lock().get(name).cloned()
    }
}

impl AdmittedParticipant {
    fn new(name: &str, project: ProjectId) -> Arc<Self> {
        let window = RateWindow {
            start: Instant::now(),
            messages: 0,
            bytes: 0,
            full_before: 0,
        };
        Arc::new(Self {
            name: name.into(),
            project,
            has_left: AtomicBool::new(false),
            window: Mutex::new(window),
        })
    }

    pub fn has_left(&self) -> bool {
        // Checked per packet, so it must not take a lock.
        self.has_left.load(Ordering::Relaxed)
    }

    /// Counts a message with this length.
    pub fn pace(&self, bytes: usize) -> Pace {
        self.window.lock().pace(bytes, Instant::now())
    }
}

impl RateWindow {
    fn pace(&mut self, bytes: usize, now: Instant) -> Pace {
        let elapsed = now.saturating_duration_since(self.start);
        if elapsed >= WINDOW {
            // An interval that ended long ago does not count as the one directly before.
            let was_full = self.messages >= MESSAGES_PER_WINDOW && elapsed < 2 * WINDOW;
            let full_before = if was_full { self.full_before + 1 } else { 0 };
            *self = Self {
                start: now,
                messages: 0,
                bytes: 0,
                full_before,
            };
        }
        let is_full = self.messages >= MESSAGES_PER_WINDOW;
        // Too many bytes always wait, since TCP slows down large messages by itself. A flood with short ones is dropped after a second.
        if self.bytes >= BYTES_PER_WINDOW || (is_full && self.full_before < MAX_FULL_WINDOWS) {
            return Pace::Wait(WINDOW.saturating_sub(now.saturating_duration_since(self.start)));
        }
        self.bytes += bytes;
        // Above the maximum, only bytes are counted.
        self.messages += u32::from(!is_full);
        if is_full { Pace::Drop } else { Pace::Handle }
    }
}

impl Drop for RelayAccess {
    fn drop(&mut self) {
        // First the flag, which existing allocations check, then the map, which new ones need.
        self.participant.has_left.store(true, Ordering::Relaxed);
        let mut participants = self.participants.0.lock();
        // A participant that rejoins is admitted again before the old access is dropped; the new
        // admission stays.
        if participants
            .get(&self.participant.name)
            .is_some_and(|known| Arc::ptr_eq(known, &self.participant))
        {
            participants.remove(&self.participant.name);
        }
    }
}

impl fmt::Debug for RelayAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RelayAccess")
            .field(&self.participant.name)
            .finish()
    }
}

#[cfg(test)]
pub fn participant(name: &str, project: &str) -> Arc<AdmittedParticipant> {
    AdmittedParticipant::new(name, project.parse().unwrap())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends messages until one must wait. Returns how many were handled and dropped, and the wait.
    fn exhaust(window: &mut RateWindow, bytes: usize, now: Instant) -> (u32, u32, Duration) {
        let (mut handled, mut dropped) = (0, 0);
        loop {
            match window.pace(bytes, now) {
                Pace::Handle => handled += 1,
                Pace::Drop => dropped += 1,
                Pace::Wait(time) => return (handled, dropped, time),
            }
        }
    }

    fn window(start: Instant) -> RateWindow {
        RateWindow {
            start,
            messages: 0,
            bytes: 0,
            full_before: 0,
        }
    }

    /// Proves S-31.
    #[test]
    fn messages_wait_for_the_next_interval_and_those_of_a_flood_are_dropped_until_it_ends() {
        let mut now = Instant::now();
        let mut window = window(now);
        for _ in 0..MAX_FULL_WINDOWS {
            assert_eq!(
                exhaust(&mut window, 4, now),
                (MESSAGES_PER_WINDOW, 0, WINDOW)
            );
            now += WINDOW;
        }
        let (handled, dropped, _) = exhaust(&mut window, 4, now);
        assert_eq!(
            (handled, (handled + dropped) as usize),
            (MESSAGES_PER_WINDOW, BYTES_PER_WINDOW / 4)
        );
        now += WINDOW / 2;
        assert_eq!(exhaust(&mut window, 4, now), (0, 0, WINDOW / 2));
        now += 2 * WINDOW;
        assert_eq!(
            exhaust(&mut window, 4, now),
            (MESSAGES_PER_WINDOW, 0, WINDOW),
            "the client has paused"
        );
    }

    #[test]
    fn large_messages_are_limited_by_their_bytes() {
        let now = Instant::now();
        let mut window = window(now);
        assert_eq!(exhaust(&mut window, 4_096, now), (64, 0, WINDOW));
        assert_eq!(exhaust(&mut window, 4_096, now + WINDOW), (64, 0, WINDOW));
    }
}
