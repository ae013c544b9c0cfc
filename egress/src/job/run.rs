//! The loop of an egress, around what it does.

use std::sync::mpsc::{RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

use conclave_model::egress::EgressStatus;
use conclave_rtc::RecordedPacket;

use super::handle::{Attendee, Inputs, JobEvent, News};

/// What an egress does with packets. An `Err` has the reason of a failure.
pub trait Job {
    /// How often [`Job::tick`] is called.
    fn interval(&self) -> Duration;

    /// Takes a packet of a track.
    fn packet(&mut self, packet: RecordedPacket) -> Result<(), String>;

    /// Takes the participants and tracks that the egress contains from now on. Returns whether it goes on.
    fn attend(&mut self, attendees: Vec<Attendee>) -> Result<bool, String>;

    /// Does what is due now.
    fn tick(&mut self, now: Instant) -> Result<(), String>;

    /// Returns whether media is written or sent.
    fn is_active(&self) -> bool;

    /// Ends the output at this moment; returns whether anything is in it.
    fn finish(self: Box<Self>, now: Instant) -> Result<bool, String>;
}

/// Runs an egress until it is stopped, fails, or has lasted as long as it may. It begins with the first news, before which
/// there are no events; the last event is its end.
pub fn run(
    make: impl FnOnce() -> Result<Box<dyn Job>, String>,
    inputs: &Inputs,
    longest: Duration,
    mut on_event: impl FnMut(JobEvent),
) {
    let Ok(first) = inputs.news.recv() else { return };
    let mut job = match make() {
        Ok(job) => job,
        Err(error) => return on_event(JobEvent::Ended { status: EgressStatus::Failed, error: Some(error) }),
    };
    let ended = begin(&mut *job, first).and_then(|goes_on| match goes_on {
        true => run_until_end(&mut *job, inputs, longest, &mut on_event),
        false => Ok(End::Stopped),
    });
    let was_active = job.is_active();
    let finished = job.finish(Instant::now());
    let (status, error) = match (ended, finished) {
        (Err(error), _) | (Ok(_), Err(error)) => (EgressStatus::Failed, Some(error)),
        (Ok(End::Limit), Ok(_)) => (EgressStatus::LimitReached, None),
        (Ok(End::Stopped), Ok(true)) if was_active => (EgressStatus::Complete, None),
        (Ok(End::Stopped), Ok(_)) => (EgressStatus::Aborted, None),
    };
    on_event(JobEvent::Ended { status, error });
}

/// Why an egress ends without a failure.
enum End {
    Stopped,
    Limit,
}

/// Takes the first news. Returns whether the egress goes on.
fn begin(job: &mut dyn Job, first: News) -> Result<bool, String> {
    match first {
        News::Attendance(attendees) => job.attend(attendees),
        News::Stop => Ok(false),
    }
}

fn run_until_end(
    job: &mut dyn Job,
    inputs: &Inputs,
    longest: Duration,
    on_event: &mut impl FnMut(JobEvent),
) -> Result<End, String> {
    let start = Instant::now();
    let (mut tick, mut was_active) = (start, false);
    loop {
        if !take_news(job, inputs)? {
            return Ok(End::Stopped);
        }
        take_packets(job, inputs, tick)?;
        let now = Instant::now();
        if now >= tick {
            job.tick(now)?;
            // Ticks that were missed are not made up for.
            tick = (tick + job.interval()).max(now);
        }
        if now.saturating_duration_since(start) >= longest {
            return Ok(End::Limit);
        }
        if !was_active && job.is_active() {
            was_active = true;
            on_event(JobEvent::Active);
        }
    }
}

/// Takes all news. Returns whether the egress goes on.
fn take_news(job: &mut dyn Job, inputs: &Inputs) -> Result<bool, String> {
    loop {
        match inputs.news.try_recv() {
            Ok(News::Attendance(attendees)) => {
                if !job.attend(attendees)? {
                    return Ok(false);
                }
            }
            Err(TryRecvError::Empty) => return Ok(true),
            Ok(News::Stop) | Err(TryRecvError::Disconnected) => return Ok(false),
        }
    }
}

/// Takes packets until a moment, at least those that are there.
fn take_packets(job: &mut dyn Job, inputs: &Inputs, until: Instant) -> Result<(), String> {
    loop {
        let wait = until.saturating_duration_since(Instant::now());
        match inputs.packets.recv_timeout(wait) {
            Ok(packet) => job.packet(packet)?,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return Ok(()),
        }
        if wait.is_zero() {
            // The tick is due; the packets that are left come after it.
            return Ok(());
        }
    }
}
