//! Running egresses: the loop on an egress's thread, around either pipeline.
//!
//! - `handle` is the interface to the rest of the server: a queue for packets, a queue for
//!   messages, and the callbacks in [`EgressHost`].
//! - [`run`] is the loop. Packets and messages come in; at each tick, the pipeline does what is
//!   due.
//! - `pauses` maps the call's time to the output's, which has no pauses.
//! - `track` records one track without decoding it.
//! - `composition` decodes tracks, composes frames and mixes audio.

mod composition;
mod handle;
mod pauses;
mod track;

use std::ops::ControlFlow;
use std::sync::mpsc::TryRecvError;
use std::time::{Duration, Instant};

use conclave_model::egress::EgressStatus;
use conclave_sfu::RecordedPacket;

pub(crate) use composition::{Arrangement, CompositeConfig, CompositePipeline};
use handle::EgressMessage;
pub use handle::{EgressEvent, EgressHandle, EgressHost, InputParticipant, InputTrack};
pub(crate) use handle::{EgressQueues, egress_queues};
pub(crate) use track::TrackPipeline;

/// Media processing in an egress. An `Err` holds the failure's reason, which the API shows.
pub trait Pipeline {
    /// Returns the interval between calls to [`Pipeline::tick`].
    fn interval(&self) -> Duration;

    /// Processes a packet.
    fn packet(&mut self, packet: RecordedPacket) -> Result<(), String>;

    /// Replaces the recorded participants and tracks. Breaks if the egress is complete.
    fn set_inputs(&mut self, inputs: Vec<InputParticipant>) -> Result<ControlFlow<()>, String>;

    /// Leaves out media captured from `at` on, or includes it again. A repeated request changes nothing.
    fn set_paused(&mut self, paused: bool, at: Instant);

    /// Does the work that is due at `now`.
    fn tick(&mut self, now: Instant) -> Result<(), String>;

    /// Returns whether media is being written or sent.
    fn is_active(&self) -> bool;

    /// Finishes the output at `end`, which may be in the past. Returns whether it has any content.
    fn finish(self: Box<Self>, end: Instant) -> Result<bool, String>;
}

/// Maximum time for which a message waits while packets are processed.
const MESSAGE_INTERVAL: Duration = Duration::from_millis(20);

/// Time limits for an egress.
#[derive(Debug, Clone, Copy)]
pub struct EgressLimits {
    /// Maximum duration.
    pub max_duration: Duration,
    /// Maximum time in a room without participants.
    pub empty_timeout: Duration,
}

/// Runs an egress until it is stopped, fails, or reaches a limit. The pipeline is created at the
/// first message, so that no event precedes it; the last event is [`EgressEvent::Ended`].
pub fn run(
    make: impl FnOnce() -> Result<Box<dyn Pipeline>, String>,
    queues: &EgressQueues,
    limits: EgressLimits,
    mut on_event: impl FnMut(EgressEvent),
) {
    // Without a first message, the egress was never announced: no event may be sent.
    let Ok(first) = queues.messages.recv() else {
        return;
    };
    let mut pipeline = match make() {
        Ok(pipeline) => pipeline,
        Err(error) => {
            return on_event(EgressEvent::Ended {
                status: EgressStatus::Failed,
                error: Some(error),
            });
        }
    };
    let mut room = RoomOccupancy::default();
    let result = room
        .apply(&mut *pipeline, first)
        .and_then(|flow| match flow {
            ControlFlow::Continue(()) => {
                run_until_end(&mut *pipeline, room, queues, limits, &mut on_event)
            }
            ControlFlow::Break(at) => Ok(StopReason::Stopped(at)),
        });
    let result = result.and_then(|end| process_before_stop(&mut *pipeline, queues, end));
    let was_active = pipeline.is_active();
    let result = result.and_then(|end| process_queued(&mut *pipeline, queues).map(|()| end));
    let finished = pipeline.finish(if let Ok(StopReason::Stopped(at)) = result {
        at
    } else {
        Instant::now()
    });
    let (status, error) = match (result, finished) {
        (Err(error), _) | (Ok(_), Err(error)) => (EgressStatus::Failed, Some(error)),
        (Ok(StopReason::Limit), Ok(_)) => (EgressStatus::LimitReached, None),
        // Without content, there is nothing to call complete: an empty file is removed.
        (Ok(StopReason::Stopped(_)), Ok(true)) if was_active => (EgressStatus::Complete, None),
        (Ok(StopReason::Stopped(_)), Ok(_)) => (EgressStatus::Aborted, None),
    };
    on_event(EgressEvent::Ended { status, error });
}

/// Reason why an egress ended without failure.
enum StopReason {
    /// Stopped at this moment, which a slow egress learns later.
    Stopped(Instant),
    Limit,
}

/// The egress's room.
#[derive(Default)]
struct RoomOccupancy {
    /// Time since which there are no participants; `None` while there are some.
    empty_since: Option<Instant>,
}

impl RoomOccupancy {
    /// Applies a message. Breaks with the moment at which the egress ends.
    fn apply(
        &mut self,
        pipeline: &mut dyn Pipeline,
        message: EgressMessage,
    ) -> Result<ControlFlow<Instant>, String> {
        match message {
            EgressMessage::Inputs {
                inputs,
                is_room_empty,
            } => {
                self.empty_since =
                    // Inputs may change while the room stays empty; the time without participants
                    // continues.
                    is_room_empty.then(|| self.empty_since.unwrap_or_else(Instant::now));
                Ok(pipeline.set_inputs(inputs)?.map_break(|()| Instant::now()))
            }
            EgressMessage::SetPaused(paused, at) => {
                pipeline.set_paused(paused, at);
                Ok(ControlFlow::Continue(()))
            }
            EgressMessage::Stop(at) => Ok(ControlFlow::Break(at)),
        }
    }

    /// Applies all queued messages. Breaks with the moment at which the egress ends.
    fn apply_all(
        &mut self,
        pipeline: &mut dyn Pipeline,
        queues: &EgressQueues,
    ) -> Result<ControlFlow<Instant>, String> {
        loop {
            let flow = match queues.messages.try_recv() {
                Ok(message) => self.apply(pipeline, message)?,
                Err(TryRecvError::Empty) => return Ok(ControlFlow::Continue(())),
                // The handle was dropped, which stops an egress like a request does.
                Err(TryRecvError::Disconnected) => ControlFlow::Break(Instant::now()),
            };
            if flow.is_break() {
                return Ok(flow);
            }
        }
    }
}

fn run_until_end(
    pipeline: &mut dyn Pipeline,
    mut room: RoomOccupancy,
    queues: &EgressQueues,
    limits: EgressLimits,
    on_event: &mut impl FnMut(EgressEvent),
) -> Result<StopReason, String> {
    let start = Instant::now();
    let (mut tick, mut was_active) = (start, false);
    loop {
        // Not always until the tick, which a track's recording has four times a second: media captured
        // after a pause should not be written.
        process_until(
            pipeline,
            queues,
            tick.min(Instant::now() + MESSAGE_INTERVAL),
        )?;
        // `now` is read before the messages: a change received later must not precede packets that
        // this tick has not seen.
        let now = Instant::now();
        if let ControlFlow::Break(at) = room.apply_all(pipeline, queues)? {
            return Ok(StopReason::Stopped(at));
        }
        if now >= tick {
            pipeline.tick(now)?;
            // Missed ticks are not made up for: each tick does all that is due.
            tick = (tick + pipeline.interval()).max(now);
        }
        if now.saturating_duration_since(start) >= limits.max_duration {
            return Ok(StopReason::Limit);
        }
        if room
            .empty_since
            .is_some_and(|since| now.saturating_duration_since(since) >= limits.empty_timeout)
        {
            return Ok(StopReason::Stopped(now));
        }
        if !was_active && pipeline.is_active() {
            was_active = true;
            on_event(EgressEvent::Active);
        }
    }
}

fn process_queued(pipeline: &mut dyn Pipeline, queues: &EgressQueues) -> Result<(), String> {
    // Only the packets queued at this point: under load, more would arrive while these are
    // processed, and the tick would never come.
    let waiting = queues.packets.waiting();
    std::iter::from_fn(|| queues.packets.take())
        .take(waiting)
        .try_for_each(|packet| pipeline.packet(packet))
}

/// Processes the queued packets that arrived before the egress was stopped.
fn process_before_stop(
    pipeline: &mut dyn Pipeline,
    queues: &EgressQueues,
    end: StopReason,
) -> Result<StopReason, String> {
    if let StopReason::Stopped(at) = end {
        let rest = std::iter::from_fn(|| queues.packets.take()).take(queues.packets.waiting());
        rest.filter(|packet| packet.arrived <= at)
            .try_for_each(|packet| pipeline.packet(packet))?;
    }
    Ok(end)
}

/// Processes packets until a moment. Queued packets are processed even if the moment has passed: an
/// egress that is late for its ticks must not fall behind the call as well.
fn process_until(
    pipeline: &mut dyn Pipeline,
    queues: &EgressQueues,
    until: Instant,
) -> Result<(), String> {
    loop {
        let wait = until.saturating_duration_since(Instant::now());
        if wait.is_zero() {
            return process_queued(pipeline, queues);
        }
        match queues.packets.wait(wait) {
            Ok(packet) => pipeline.packet(packet)?,
            // A timeout, or the handle was dropped, which the messages show as well.
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

    /// Pipeline that is active at once and records its calls.
    #[derive(Clone, Default)]
    struct Idle(Arc<Mutex<Recorded>>);

    #[derive(Default)]
    struct Recorded {
        packets: usize,
        /// Packets processed before the first tick.
        before_ticks: Option<usize>,
        end: Option<Instant>,
    }

    impl Pipeline for Idle {
        fn interval(&self) -> Duration {
            Duration::from_millis(1)
        }

        fn packet(&mut self, _: RecordedPacket) -> Result<(), String> {
            self.0.lock().unwrap().packets += 1;
            Ok(())
        }

        fn set_inputs(&mut self, _: Vec<InputParticipant>) -> Result<ControlFlow<()>, String> {
            Ok(ControlFlow::Continue(()))
        }

        fn set_paused(&mut self, _: bool, _: Instant) {}

        fn tick(&mut self, _: Instant) -> Result<(), String> {
            let mut recorded = self.0.lock().unwrap();
            recorded.before_ticks = recorded.before_ticks.or(Some(recorded.packets));
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
    fn the_output_ends_at_the_time_of_the_stop_request() {
        let ((handle, queues), pipeline) = (egress_queues(Arc::default()), Idle::default());
        let started = Instant::now();
        handle.set_inputs(vec![], false);
        handle.stop();
        let stopped = Instant::now();
        run(
            || Ok(Box::new(pipeline.clone())),
            &queues,
            EgressLimits {
                max_duration: HOUR,
                empty_timeout: HOUR,
            },
            |_| {},
        );
        assert!(
            pipeline
                .0
                .lock()
                .unwrap()
                .end
                .is_some_and(|end| (started..=stopped).contains(&end))
        );
    }

    #[test]
    fn queued_packets_are_processed_before_a_due_tick() {
        let ((handle, queues), pipeline) = (egress_queues(Arc::default()), Idle::default());
        handle.set_inputs(vec![], false);
        assert!((0..100).all(|_| handle.sink().try_send(packet())));
        run(
            || Ok(Box::new(pipeline.clone())),
            &queues,
            EgressLimits {
                max_duration: Duration::ZERO,
                empty_timeout: HOUR,
            },
            |_| {},
        );
        assert_eq!(pipeline.0.lock().unwrap().before_ticks, Some(100));
    }

    const HOUR: Duration = Duration::from_secs(3_600);

    /// Proves S-64.
    #[test]
    fn an_egress_is_complete_when_its_room_has_had_no_participants_for_long_enough() {
        let (handle, queues) = egress_queues(Arc::default());
        handle.set_inputs(vec![], true);
        let mut events = Vec::new();
        let limits = EgressLimits {
            max_duration: HOUR,
            empty_timeout: Duration::from_millis(20),
        };
        run(
            || Ok(Box::new(Idle::default())),
            &queues,
            limits,
            |event| events.push(event),
        );
        let complete = EgressEvent::Ended {
            status: EgressStatus::Complete,
            error: None,
        };
        assert_eq!(events, [EgressEvent::Active, complete]);
    }

    #[test]
    fn an_egress_continues_while_the_room_has_participants_it_does_not_record() {
        let (handle, queues) = egress_queues(Arc::default());
        handle.set_inputs(vec![], true);
        handle.set_inputs(vec![], false);
        let limits = EgressLimits {
            max_duration: HOUR,
            empty_timeout: Duration::ZERO,
        };
        // The first message reports an empty room; the second corrects it before the timeout is
        // checked.
        let running = thread::spawn(move || {
            let mut result = None;
            run(
                || Ok(Box::new(Idle::default())),
                &queues,
                limits,
                |event| result = Some(event),
            );
            result
        });
        for _ in 0..20 {
            assert!(!running.is_finished());
            thread::yield_now();
        }
        handle.set_inputs(vec![], true);
        assert_eq!(
            running.join().unwrap(),
            Some(EgressEvent::Ended {
                status: EgressStatus::Complete,
                error: None
            })
        );
    }
}
