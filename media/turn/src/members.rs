//! The participants that may use the TURN server: those that are in a room now.
//!
//! Credentials are valid for hours, so a client could go on relaying long after its participant has left. The media plane therefore admits
//! each participant here when it joins, and takes the admission back by dropping its [`RelayAccess`].

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use conclave_model::ProjectId;
use parking_lot::Mutex;

/// The interval in which messages of a participant are counted.
pub const WINDOW: Duration = Duration::from_millis(100);
/// The most messages of a participant in that interval, over all its connections: 5,000 a second. A camera and a shared screen of
/// 15 Mbit/s take 1,600.
pub const MESSAGES_OF_WINDOW: u32 = 500;
/// The most bytes of them: 21 Mbit/s.
pub const BYTES_OF_WINDOW: usize = 256 * 1_024;
/// After so many intervals in a row with all the messages that there may be, further ones are dropped instead of left waiting. A stream
/// that was held up by its network has caught up by then.
const PATIENCE: u32 = 10;

/// The participants that may use the TURN server, by the name in their credentials. Clones share them.
#[derive(Debug, Default, Clone)]
pub struct Members(Arc<Mutex<HashMap<Arc<str>, Arc<Member>>>>);

/// A participant that may use the TURN server, or might until it left.
#[derive(Debug)]
pub struct Member {
    /// The name in its credentials.
    pub name: Arc<str>,
    /// The project of its room.
    pub project: ProjectId,
    has_left: AtomicBool,
    window: Mutex<Window>,
}

/// The current interval of a participant's messages.
#[derive(Debug)]
struct Window {
    start: Instant,
    messages: u32,
    bytes: usize,
    /// How many intervals in a row before it were full.
    full_before: u32,
}

/// What is to be done about a message of a participant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// It is handled.
    Handle,
    /// It is dropped.
    Drop,
    /// It waits for the next interval, which begins in this time. Who cannot wait drops it.
    Wait(Duration),
}

/// A participant's access to the TURN server. Dropping it ends the participant's allocations, and its credentials are worth nothing from
/// then on.
pub struct RelayAccess {
    members: Members,
    member: Arc<Member>,
}

impl Members {
    /// Admits a participant.
    pub fn admit(&self, name: &str, project: ProjectId) -> RelayAccess {
        let member = Member::new(name, project);
        self.0
            .lock()
            .insert(Arc::clone(&member.name), Arc::clone(&member));
        RelayAccess {
            members: self.clone(),
            member,
        }
    }

    /// Returns the participant with this name, if it is in a room.
    pub fn get(&self, name: &str) -> Option<Arc<Member>> {
        self.0.lock().get(name).cloned()
    }
}

impl Member {
    fn new(name: &str, project: ProjectId) -> Arc<Self> {
        let window = Window {
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

    /// Returns whether the participant has left.
    pub fn has_left(&self) -> bool {
        self.has_left.load(Ordering::Relaxed)
    }

    /// Counts a message of so many bytes.
    pub fn pace(&self, bytes: usize) -> Pace {
        self.window.lock().pace(bytes, Instant::now())
    }
}

impl Window {
    fn pace(&mut self, bytes: usize, now: Instant) -> Pace {
        let elapsed = now.saturating_duration_since(self.start);
        if elapsed >= WINDOW {
            let was_full = self.messages >= MESSAGES_OF_WINDOW && elapsed < 2 * WINDOW;
            let full_before = if was_full { self.full_before + 1 } else { 0 };
            *self = Self {
                start: now,
                messages: 0,
                bytes: 0,
                full_before,
            };
        }
        let is_full = self.messages >= MESSAGES_OF_WINDOW;
        if self.bytes >= BYTES_OF_WINDOW || (is_full && self.full_before < PATIENCE) {
            return Pace::Wait(WINDOW.saturating_sub(now.saturating_duration_since(self.start)));
        }
        self.bytes += bytes;
        self.messages += u32::from(!is_full);
        if is_full { Pace::Drop } else { Pace::Handle }
    }
}

impl Drop for RelayAccess {
    fn drop(&mut self) {
        self.member.has_left.store(true, Ordering::Relaxed);
        let mut members = self.members.0.lock();
        // A later admission of the same name stays.
        if members
            .get(&self.member.name)
            .is_some_and(|known| Arc::ptr_eq(known, &self.member))
        {
            members.remove(&self.member.name);
        }
    }
}

impl fmt::Debug for RelayAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RelayAccess")
            .field(&self.member.name)
            .finish()
    }
}

#[cfg(test)]
pub fn member(name: &str, project: &str) -> Arc<Member> {
    Member::new(name, project.parse().unwrap())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts messages until one waits; returns how many were handled and dropped, and how long it waits.
    fn exhaust(window: &mut Window, bytes: usize, now: Instant) -> (u32, u32, Duration) {
        let (mut handled, mut dropped) = (0, 0);
        loop {
            match window.pace(bytes, now) {
                Pace::Handle => handled += 1,
                Pace::Drop => dropped += 1,
                Pace::Wait(time) => return (handled, dropped, time),
            }
        }
    }

    fn window(start: Instant) -> Window {
        Window {
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
        for _ in 0..PATIENCE {
            assert_eq!(
                exhaust(&mut window, 4, now),
                (MESSAGES_OF_WINDOW, 0, WINDOW)
            );
            now += WINDOW;
        }
        let (handled, dropped, _) = exhaust(&mut window, 4, now);
        assert_eq!(
            (handled, (handled + dropped) as usize),
            (MESSAGES_OF_WINDOW, BYTES_OF_WINDOW / 4)
        );
        now += WINDOW / 2;
        assert_eq!(exhaust(&mut window, 4, now), (0, 0, WINDOW / 2));
        now += 2 * WINDOW;
        assert_eq!(
            exhaust(&mut window, 4, now),
            (MESSAGES_OF_WINDOW, 0, WINDOW),
            "it has paused"
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
