//! Running egresses. Each has a thread, which takes packets out of a bounded queue and news of the room out of another one.
//!
//! 1. `handle`: the interface of a running egress: what the server tells it, and what it asks of the server.
//! 2. [`run`], below: its loop, around a [`Job`]: packets and news come in, and at each tick the job does what is due.
//! 3. `track`: the job that records one track as it is, without decoding.
//! 4. `composition`: the job that decodes tracks and composes pictures and mixed sound of them.

mod composition;
mod handle;
mod track;

use std::ops::ControlFlow;
use std::sync::mpsc::TryRecvError;
use std::time::{Duration, Instant};

use conclave_model::egress::EgressStatus;
use conclave_sfu::RecordedPacket;

pub(crate) use composition::{Arrangement, CompositeJob, Composition};
use handle::News;
pub use handle::{Attendee, AttendeeTrack, EgressHost, JobEvent, JobHandle};
pub(crate) use handle::{Inputs, channel};
pub(crate) use track::TrackJob;

/// What an egress does with packets. An `Err` has the reason of a failure.
pub trait Job {
    /// How often [`Job::tick`] is called.
    fn interval(&self) -> Duration;

    /// Takes a packet of a track.
    fn packet(&mut self, packet: RecordedPacket) -> Result<(), String>;

    /// Takes the participants and tracks that the egress contains from now on. Breaks if it is complete.
    fn attend(&mut self, attendees: Vec<Attendee>) -> Result<ControlFlow<()>, String>;

    /// Does what is due now.
    fn tick(&mut self, now: Instant) -> Result<(), String>;

    /// Returns whether media is written or sent.
    fn is_active(&self) -> bool;

    /// Ends the output at this moment, which may be past; returns whether anything is in it.
    fn finish(self: Box<Self>, end: Instant) -> Result<bool, String>;
}

/// How long an egress lasts at most.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The longest duration of the whole job.
    pub max_duration: Duration,
    /// In a room without participants.
    pub empty_timeout: Duration,
}

/// Runs an egress until it is stopped, fails, or has lasted as long as it may. It begins with the first news, before which
/// there are no events; the last event is its end.
pub fn run(
    make: impl FnOnce() -> Result<Box<dyn Job>, String>,
    inputs: &Inputs,
    limits: Limits,
    mut on_event: impl FnMut(JobEvent),
) {
    let Ok(first) = inputs.news.recv() else {
        return;
    };
    let mut job = match make() {
        Ok(job) => job,
        Err(error) => {
            return on_event(JobEvent::Ended {
                status: EgressStatus::Failed,
                error: Some(error),
            });
        }
    };
    let mut room = Room::default();
    let ended = room.take(&mut *job, first).and_then(|flow| match flow {
        ControlFlow::Continue(()) => run_until_end(&mut *job, room, inputs, limits, &mut on_event),
        ControlFlow::Break(at) => Ok(End::Stopped(at)),
    });
    let ended = ended.and_then(|end| take_rest(&mut *job, inputs, end));
    let was_active = job.is_active();
    let ended = ended.and_then(|end| take_queued(&mut *job, inputs).map(|()| end));
    let finished = job.finish(if let Ok(End::Stopped(at)) = ended {
        at
    } else {
        Instant::now()
    });
    let (status, error) = match (ended, finished) {
        (Err(error), _) | (Ok(_), Err(error)) => (EgressStatus::Failed, Some(error)),
        (Ok(End::Limit), Ok(_)) => (EgressStatus::LimitReached, None),
        (Ok(End::Stopped(_)), Ok(true)) if was_active => (EgressStatus::Complete, None),
        (Ok(End::Stopped(_)), Ok(_)) => (EgressStatus::Aborted, None),
    };
    on_event(JobEvent::Ended { status, error });
}

/// Why an egress ends without a failure.
enum End {
    /// It was stopped at this moment. One that is late notices that late.
    Stopped(Instant),
    Limit,
}

/// What an egress knows of its room.
#[derive(Default)]
struct Room {
    /// Since when it has no participants, if it has none.
    empty_since: Option<Instant>,
}

impl Room {
    /// Takes news. Breaks with the moment at which the egress ends.
    fn take(&mut self, job: &mut dyn Job, news: News) -> Result<ControlFlow<Instant>, String> {
        match news {
            News::Attendance {
                attendees,
                is_room_empty,
            } => {
                self.empty_since =
                    is_room_empty.then(|| self.empty_since.unwrap_or_else(Instant::now));
                Ok(job.attend(attendees)?.map_break(|()| Instant::now()))
            }
            News::Stop(at) => Ok(ControlFlow::Break(at)),
        }
    }

    /// Takes all news. Breaks with the moment at which the egress ends.
    fn take_all(
        &mut self,
        job: &mut dyn Job,
        inputs: &Inputs,
    ) -> Result<ControlFlow<Instant>, String> {
        loop {
            let flow = match inputs.news.try_recv() {
                Ok(news) => self.take(job, news)?,
                Err(TryRecvError::Empty) => return Ok(ControlFlow::Continue(())),
                Err(TryRecvError::Disconnected) => ControlFlow::Break(Instant::now()),
            };
            if flow.is_break() {
                return Ok(flow);
            }
        }
    }
}

fn run_until_end(
    job: &mut dyn Job,
    mut room: Room,
    inputs: &Inputs,
    limits: Limits,
    on_event: &mut impl FnMut(JobEvent),
) -> Result<End, String> {
    let start = Instant::now();
    let (mut tick, mut was_active) = (start, false);
    loop {
        take_packets(job, inputs, tick)?;
        // News that come later than this moment are of what the tick does not look at yet.
        let now = Instant::now();
        if let ControlFlow::Break(at) = room.take_all(job, inputs)? {
            return Ok(End::Stopped(at));
        }
        if now >= tick {
            job.tick(now)?;
            // Ticks that were missed are not made up for.
            tick = (tick + job.interval()).max(now);
        }
        if now.saturating_duration_since(start) >= limits.max_duration {
            return Ok(End::Limit);
        }
        if room
            .empty_since
            .is_some_and(|since| now.saturating_duration_since(since) >= limits.empty_timeout)
        {
            return Ok(End::Stopped(now));
        }
        if !was_active && job.is_active() {
            was_active = true;
            on_event(JobEvent::Active);
        }
    }
}

/// Takes the packets that are there.
fn take_queued(job: &mut dyn Job, inputs: &Inputs) -> Result<(), String> {
    // Those that come meanwhile are for the next time: a tick must not wait for ever.
    let waiting = inputs.packets.waiting();
    std::iter::from_fn(|| inputs.packets.take())
        .take(waiting)
        .try_for_each(|packet| job.packet(packet))
}

/// Takes the packets that arrived before the end and wait still.
fn take_rest(job: &mut dyn Job, inputs: &Inputs, end: End) -> Result<End, String> {
    if let End::Stopped(at) = end {
        let rest = std::iter::from_fn(|| inputs.packets.take()).take(inputs.packets.waiting());
        rest.filter(|packet| packet.arrived <= at)
            .try_for_each(|packet| job.packet(packet))?;
    }
    Ok(end)
}

/// Takes packets until a moment, at least those that are there: an egress that is late for its ticks must not fall behind the call, too.
fn take_packets(job: &mut dyn Job, inputs: &Inputs, until: Instant) -> Result<(), String> {
    loop {
        let wait = until.saturating_duration_since(Instant::now());
        if wait.is_zero() {
            return take_queued(job, inputs);
        }
        match inputs.packets.wait(wait) {
            Ok(packet) => job.packet(packet)?,
            Err(_) => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::thread;

    use conclave_sfu::Codec;

    use super::*;

    /// An egress that is active at once, and what was seen of it.
    #[derive(Clone, Default)]
    struct Idle(Arc<Mutex<Seen>>);

    #[derive(Default)]
    struct Seen {
        packets: usize,
        /// How many there were before the first tick.
        before_ticks: Option<usize>,
        end: Option<Instant>,
    }

    impl Job for Idle {
        fn interval(&self) -> Duration {
            Duration::from_millis(1)
        }

        fn packet(&mut self, _: RecordedPacket) -> Result<(), String> {
            self.0.lock().unwrap().packets += 1;
            Ok(())
        }

        fn attend(&mut self, _: Vec<Attendee>) -> Result<ControlFlow<()>, String> {
            Ok(ControlFlow::Continue(()))
        }

        fn tick(&mut self, _: Instant) -> Result<(), String> {
            let mut seen = self.0.lock().unwrap();
            seen.before_ticks = seen.before_ticks.or(Some(seen.packets));
            Ok(())
        }

        fn is_active(&self) -> bool {
            true
        }

        fn finish(self: Box<Self>, end: Instant) -> Result<bool, String> {
            self.0.lock().unwrap().end = Some(end);
            Ok(true)
        }
    }

    fn packet() -> RecordedPacket {
        RecordedPacket {
            track: "TR_1".parse().unwrap(),
            layer: 0,
            codec: Codec::Opus,
            sequence: 0,
            timestamp: 0,
            is_marked: true,
            is_entry_point: true,
            payload: Arc::default(),
            arrived: Instant::now(),
            report: None,
        }
    }

    #[test]
    fn the_output_ends_when_the_egress_was_stopped_and_not_when_it_notices_that() {
        let ((handle, inputs), job) = (channel(Arc::default()), Idle::default());
        let begun = Instant::now();
        handle.set_attendance(vec![], false);
        handle.stop();
        let stopped = Instant::now();
        run(
            || Ok(Box::new(job.clone())),
            &inputs,
            Limits {
                max_duration: HOUR,
                empty_timeout: HOUR,
            },
            |_| {},
        );
        assert!(
            job.0
                .lock()
                .unwrap()
                .end
                .is_some_and(|end| (begun..=stopped).contains(&end))
        );
    }

    #[test]
    fn an_egress_whose_tick_is_due_takes_all_packets_that_are_there_before_it() {
        let ((handle, inputs), job) = (channel(Arc::default()), Idle::default());
        handle.set_attendance(vec![], false);
        assert!((0..100).all(|_| handle.sink().try_send(packet())));
        run(
            || Ok(Box::new(job.clone())),
            &inputs,
            Limits {
                max_duration: Duration::ZERO,
                empty_timeout: HOUR,
            },
            |_| {},
        );
        assert_eq!(job.0.lock().unwrap().before_ticks, Some(100));
    }

    const HOUR: Duration = Duration::from_secs(3_600);

    /// Proves S-64.
    #[test]
    fn an_egress_is_complete_when_its_room_has_had_no_participants_for_long_enough() {
        let (handle, inputs) = channel(Arc::default());
        handle.set_attendance(vec![], true);
        let mut events = Vec::new();
        let limits = Limits {
            max_duration: HOUR,
            empty_timeout: Duration::from_millis(20),
        };
        run(
            || Ok(Box::new(Idle::default())),
            &inputs,
            limits,
            |event| events.push(event),
        );
        let complete = JobEvent::Ended {
            status: EgressStatus::Complete,
            error: None,
        };
        assert_eq!(events, [JobEvent::Active, complete]);
    }

    #[test]
    fn an_egress_goes_on_in_a_room_whose_participants_it_does_not_contain() {
        let (handle, inputs) = channel(Arc::default());
        handle.set_attendance(vec![], true);
        handle.set_attendance(vec![], false);
        let limits = Limits {
            max_duration: HOUR,
            empty_timeout: Duration::ZERO,
        };
        // The first news is that of an empty room, which the second one corrects before time is looked at.
        let running = thread::spawn(move || {
            let mut ended = None;
            run(
                || Ok(Box::new(Idle::default())),
                &inputs,
                limits,
                |event| ended = Some(event),
            );
            ended
        });
        for _ in 0..20 {
            assert!(!running.is_finished());
            thread::yield_now();
        }
        handle.set_attendance(vec![], true);
        assert_eq!(
            running.join().unwrap(),
            Some(JobEvent::Ended {
                status: EgressStatus::Complete,
                error: None
            })
        );
    }
}
