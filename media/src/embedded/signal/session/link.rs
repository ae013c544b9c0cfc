//! A client's WebSocket from its session's view: whether it is attached, the queued messages, and when it is closed.
//! Without a WebSocket, or while a resume is being prepared, messages are not queued, since a client that resumes
//! receives a full snapshot. Only leaves are recorded: the snapshot lists the participants in the room, so it cannot
//! report them.
//!
//! ```text
//!            attach                     finish_resume
//!    Lost ───────────▶ Resuming ─────────────────────▶ Attached
//!     ▲                   │        interrupt_resume        │
//!     └───────────────────┴──────────── detach ────────────┘
//! ```

use std::collections::HashMap;
use std::time::Duration;

use livekit_protocol::ParticipantInfo;
use livekit_protocol::signal_response::Message;

/// Maximum silence, in which not even a WebSocket pong arrived. Equals the client's own ping timeout.
const SILENCE: Duration = Duration::from_secs(15);
/// Maximum recorded leaves. A client learns of further ones only by the participants' absence from the snapshot.
const MAX_MISSED: usize = 1_000;

/// Reachability of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reachability {
    /// A WebSocket is attached and receives notices.
    Attached,
    /// A WebSocket is attached, while the media worker prepares the resume.
    Resuming,
    /// No WebSocket.
    Lost,
}

/// Point at which a simulation closes the next resume's WebSocket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClosedResume {
    /// Before any message.
    BeforeMessages,
    /// After the messages that the client has missed.
    AfterMessages,
}

/// The client's WebSocket and its queued messages.
#[derive(Debug)]
pub(super) struct Link {
    state: Reachability,
    /// Time of the client's last frame.
    last_frame_at: Duration,
    queue: MessageQueue,
    /// Whether the WebSocket must be closed after the messages.
    closes: bool,
    /// Whether the client has resumed and may send its state.
    awaits_sync: bool,
    /// Participants that left while the client was unreachable.
    missed_leaves: HashMap<String, ParticipantInfo>,
    /// Simulated end of the next resume.
    closed_resume: Option<ClosedResume>,
}

impl Link {
    /// Creates the link of a client whose WebSocket is about to be opened.
    pub fn new(reading: Duration) -> Self {
        Self {
            // Before the WebSocket is opened, so that the join response can be queued.
            state: Reachability::Attached,
            last_frame_at: reading,
            queue: MessageQueue::default(),
            closes: false,
            awaits_sync: false,
            missed_leaves: HashMap::new(),
            closed_resume: None,
        }
    }

    /// Returns whether a WebSocket is attached and receives notices.
    pub fn is_attached(&self) -> bool {
        self.state == Reachability::Attached
    }

    /// Returns whether no WebSocket is attached.
    pub fn is_lost(&self) -> bool {
        self.state == Reachability::Lost
    }

    /// Queues a message, unless the client is unreachable.
    pub fn send(&mut self, message: Message) {
        if self.is_attached() {
            self.queue.push(message);
        }
    }

    /// Delays all further messages, until a monotonic reading or until the WebSocket is closed.
    pub fn delay(&mut self, until: Duration) {
        self.queue.delay(until);
    }

    /// Returns the messages since the last call, in order, without delayed ones.
    pub fn take_messages(&mut self) -> Vec<Message> {
        // The last message, such as `leave`, must not be lost with the WebSocket.
        if self.closes {
            self.queue.release();
        }
        self.queue.take()
    }

    /// Requests that the WebSocket be closed after the messages.
    pub fn close(&mut self) {
        self.closes = true;
    }

    /// Returns whether the WebSocket must be closed. Returns true once per WebSocket.
    pub fn take_close(&mut self) -> bool {
        std::mem::take(&mut self.closes)
    }

    /// Records a frame from the client.
    pub fn record_frame(&mut self, reading: Duration) {
        self.last_frame_at = reading;
    }

    /// Returns the monotonic reading for the next [`Link::tick`], if any.
    pub fn next_deadline(&self) -> Option<Duration> {
        // Without a WebSocket, there is no silence to detect.
        let silence = (!self.is_lost()).then(|| self.last_frame_at + SILENCE);
        [silence, self.queue.delayed_until()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Releases messages after their delay. Closes a silent client's WebSocket and returns whether it did; the caller
    /// must then detach it.
    pub fn tick(&mut self, reading: Duration) -> bool {
        if self
            .queue
            .delayed_until()
            .is_some_and(|until| until <= reading)
        {
            self.queue.release();
        }
        // A suspended device or a lost network closes no WebSocket.
        let is_silent = !self.is_lost() && self.last_frame_at + SILENCE <= reading;
        self.closes |= is_silent;
        is_silent
    }

    /// Records the loss of the WebSocket.
    pub fn detach(&mut self) {
        self.state = Reachability::Lost;
        // Unsent messages would reach the client after newer ones: a resume sends a full snapshot.
        self.queue.clear();
    }

    /// Records a new WebSocket. No message is sent on it before [`Link::finish_resume`].
    pub fn attach(&mut self, reading: Duration) {
        self.last_frame_at = reading;
        self.state = Reachability::Resuming;
        // Clients send their state after each resume, and at no other time.
        self.awaits_sync = true;
        self.queue.clear();
        // A pending close concerned the previous WebSocket.
        self.closes = false;
    }

    /// Makes the client reachable by its new WebSocket. Returns whether a resume was being prepared.
    pub fn finish_resume(&mut self) -> bool {
        let is_resuming = self.state == Reachability::Resuming;
        if is_resuming {
            self.state = Reachability::Attached;
        }
        is_resuming
    }

    /// Cancels a resume that is being prepared. The client receives all further messages.
    pub fn interrupt_resume(&mut self) {
        self.finish_resume();
    }

    /// Returns whether the client may send its state. Returns true once per resume.
    pub fn take_sync(&mut self) -> bool {
        std::mem::take(&mut self.awaits_sync)
    }

    /// Records a leave for an unreachable client.
    pub fn record_leave(&mut self, info: ParticipantInfo) {
        // A large room may change a lot before the client returns.
        if self.missed_leaves.len() < MAX_MISSED {
            self.missed_leaves.insert(info.sid.clone(), info);
        }
    }

    /// Returns the recorded leaves, once.
    pub fn take_missed_leaves(&mut self) -> Vec<ParticipantInfo> {
        self.missed_leaves.drain().map(|(_, info)| info).collect()
    }

    /// Schedules a simulated end of the next resume.
    pub fn close_next_resume(&mut self, at: ClosedResume) {
        self.closed_resume = Some(at);
    }

    /// Closes a resume's WebSocket if its simulated end is this point. Returns whether it did.
    pub fn closes_resume(&mut self, at: ClosedResume) -> bool {
        // Once: the resume after the simulated one must succeed.
        let closes = self.closed_resume.take_if(|closed| *closed == at).is_some();
        self.closes |= closes;
        closes
    }
}

/// Queue of messages for a client's WebSocket. The last ones may be delayed.
#[derive(Debug, Default)]
struct MessageQueue {
    messages: Vec<Message>,
    delayed: Option<DelayedMessages>,
}

/// Delayed messages.
#[derive(Debug)]
struct DelayedMessages {
    /// Monotonic reading at which the delay is over.
    until: Duration,
    messages: Vec<Message>,
}

impl MessageQueue {
    fn push(&mut self, message: Message) {
        self.delayed
            .as_mut()
            .map_or(&mut self.messages, |delayed| &mut delayed.messages)
            .push(message);
    }

    /// Delays all further messages.
    fn delay(&mut self, until: Duration) {
        self.delayed = Some(DelayedMessages {
            until,
            messages: Vec::new(),
        });
    }

    /// Returns the end of the delay, if there is one.
    fn delayed_until(&self) -> Option<Duration> {
        self.delayed.as_ref().map(|delayed| delayed.until)
    }

    /// Ends the delay.
    fn release(&mut self) {
        // Appended, so that the order stays.
        self.messages.extend(
            self.delayed
                .take()
                .into_iter()
                .flat_map(|delayed| delayed.messages),
        );
    }

    fn clear(&mut self) {
        *self = Self::default();
    }

    /// Returns the messages that are not delayed.
    fn take(&mut self) -> Vec<Message> {
        std::mem::take(&mut self.messages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Duration = Duration::from_secs(100);

    fn message(number: u8) -> Message {
        Message::RefreshToken(number.to_string())
    }

    #[test]
    fn messages_are_queued_while_the_client_can_be_reached() {
        let mut link = Link::new(START);
        link.send(message(1));
        link.detach();
        assert!(link.take_messages().is_empty(), "they would come too late");
        link.send(message(2));
        link.attach(START);
        link.send(message(3));
        assert!(link.take_messages().is_empty());
        assert!(link.finish_resume());
        link.send(message(4));
        assert_eq!(link.take_messages(), [message(4)]);
        assert!(!link.finish_resume(), "there is nothing to resume");
    }

    #[test]
    fn messages_are_delayed_until_their_time_or_until_the_websocket_is_closed() {
        let until = START + Duration::from_millis(50);
        for closes in [false, true] {
            let mut link = Link::new(START);
            link.send(message(1));
            link.delay(until);
            link.send(message(2));
            assert_eq!(link.next_deadline(), Some(until));
            assert!(!link.tick(START));
            assert_eq!(link.take_messages(), [message(1)]);
            if closes {
                link.close();
            } else {
                assert!(!link.tick(until));
            }
            assert_eq!(link.take_messages(), [message(2)]);
            assert_eq!(link.take_close(), closes);
        }
    }

    #[test]
    fn a_silent_client_loses_its_websocket() {
        let mut link = Link::new(START);
        let last_frame_at = START + Duration::from_secs(5);
        link.record_frame(last_frame_at);
        assert!(!link.tick(START + SILENCE));
        assert_eq!(link.next_deadline(), Some(last_frame_at + SILENCE));
        assert!(link.tick(last_frame_at + SILENCE) && link.take_close());
        link.detach();
        assert!(!link.tick(last_frame_at + 2 * SILENCE) && link.next_deadline().is_none());
    }

    #[test]
    fn a_client_sends_its_state_once_per_resume_and_receives_the_missed_leaves() {
        let mut link = Link::new(START);
        assert!(!link.take_sync());
        link.detach();
        for number in 0..=MAX_MISSED {
            link.record_leave(ParticipantInfo {
                sid: format!("PA_{number}"),
                ..ParticipantInfo::default()
            });
        }
        link.attach(START);
        assert!(link.take_sync() && !link.take_sync());
        assert_eq!(link.take_missed_leaves().len(), MAX_MISSED);
        assert!(link.take_missed_leaves().is_empty());
    }

    #[test]
    fn a_simulation_closes_one_resume_at_its_point() {
        let mut link = Link::new(START);
        link.close_next_resume(ClosedResume::AfterMessages);
        assert!(!link.closes_resume(ClosedResume::BeforeMessages) && !link.take_close());
        assert!(link.closes_resume(ClosedResume::AfterMessages) && link.take_close());
        assert!(!link.closes_resume(ClosedResume::AfterMessages));
    }
}
