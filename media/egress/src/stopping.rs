//! The end of the server, as far as running egresses are concerned.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crate::process::Process;

/// How often a child is looked at that is to end.
const INTERVAL: Duration = Duration::from_millis(10);

/// The instant by which all files have to be final, once the server stops. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct StopDeadline(Arc<OnceLock<Instant>>);

impl StopDeadline {
    /// Sets the deadline. Only the first call has an effect.
    pub fn set(&self, at: Instant) {
        self.0.get_or_init(|| at);
    }

    /// Returns whether the server stops.
    pub fn is_set(&self) -> bool {
        self.0.get().is_some()
    }

    /// Waits for a child to end by itself, and kills it if it has read nothing for its usual time, or at the deadline. One that is late
    /// because the machine is busy catches up meanwhile.
    ///
    /// # Errors
    /// Why the child failed, as it says.
    pub fn finish(&self, mut process: Process, usual: Duration) -> Result<(), String> {
        process.close_input();
        let (mut unread, mut last_read) = (process.backlog(), Instant::now());
        while process.ended().is_none() {
            if self.is_set() {
                // The rest of the audio is worth more than the video that waits.
                process.hurry();
            }
            let (left, now) = (process.backlog(), Instant::now());
            if left < unread {
                (unread, last_read) = (left, now);
            }
            if now >= last_read + usual || self.0.get().is_some_and(|deadline| now >= *deadline) {
                break;
            }
            std::thread::sleep(INTERVAL);
        }
        process.finish(Duration::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_child_that_does_not_end_is_waited_for_until_the_server_has_to_stop() {
        let child = || {
            let mut command = Command::new("sleep");
            command.arg("600");
            Process::start(command, 1, None).unwrap()
        };
        let deadline = StopDeadline::default();
        assert!(deadline.finish(child(), Duration::ZERO).is_err());
        let stopping = deadline.clone();
        let waiting =
            std::thread::spawn(move || deadline.finish(child(), Duration::from_secs(600)));
        assert!(!waiting.is_finished());
        stopping.set(Instant::now());
        assert_eq!(
            waiting.join().unwrap(),
            Err("ffmpeg did not end in time".into())
        );
    }
}
