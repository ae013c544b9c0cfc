//! The client's websocket as its session knows it: whether there is one, what is to be sent on it, and when it is to be closed.
//!
//! While no websocket is attached, or a resume is being prepared, messages are not queued: a client that resumes receives
//! everything again. Only those who leave meanwhile are kept, because the client hears of them in no other way.
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

/// A client that has sent nothing for this long, not even the answer to a ping of its websocket, has lost its signalling.
const SILENCE: Duration = Duration::from_secs(15);
/// Number of leaves that are kept for a client without websocket; it learns the others from the list of those present.
const MAX_MISSED: usize = 1_000;

/// Whether the client can be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// A websocket is attached, and the client is notified of what happens.
    Attached,
    /// A websocket is attached, and the media worker prepares the resume.
    Resuming,
    /// There is none.
    Lost,
}

/// When the websocket of the next resume is closed, in a simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClosedResume {
    /// Before anything is sent on it.
    BeforeMessages,
    /// After the client got what it has missed.
    AfterMessages,
}

/// The client's websocket, and the messages for it.
#[derive(Debug)]
pub(super) struct Link {
    state: State,
    /// When the client was last heard of.
    heard_at: Duration,
    outbox: Outbox,
    /// Whether the websocket is to be closed once the messages are sent.
    closes: bool,
    /// Whether the client has resumed and may say what it knows.
    awaits_sync: bool,
    /// Participants that left while no websocket was attached.
    missed_leaves: HashMap<String, ParticipantInfo>,
    /// When the websocket of the next resume is closed, in a simulation.
    closed_resume: Option<ClosedResume>,
}

impl Link {
    /// Creates the link of a client whose websocket is about to be opened.
    pub fn new(reading: Duration) -> Self {
        Self {
            state: State::Attached,
            heard_at: reading,
            outbox: Outbox::default(),
            closes: false,
            awaits_sync: false,
            missed_leaves: HashMap::new(),
            closed_resume: None,
        }
    }

    /// Returns whether a websocket is attached on which the client is notified of what happens.
    pub fn is_attached(&self) -> bool {
        self.state == State::Attached
    }

    /// Returns whether there is no websocket.
    pub fn is_lost(&self) -> bool {
        self.state == State::Lost
    }

    /// Queues a message, unless the client cannot be reached.
    pub fn send(&mut self, message: Message) {
        if self.is_attached() {
            self.outbox.push(message);
        }
    }

    /// Holds back what is sent from now on, until a monotonic reading or until the websocket is closed.
    pub fn hold_back(&mut self, until: Duration) {
        self.outbox.hold_back(until);
    }

    /// Returns the messages since the last call, in order, but for those that are held back.
    pub fn take_messages(&mut self) -> Vec<Message> {
        if self.closes {
            self.outbox.release();
        }
        self.outbox.take()
    }

    /// Has the websocket closed once the messages are sent.
    pub fn close(&mut self) {
        self.closes = true;
    }

    /// Returns whether the websocket is to be closed, once for each websocket.
    pub fn take_close(&mut self) -> bool {
        std::mem::take(&mut self.closes)
    }

    /// Records that the client was heard of.
    pub fn hear(&mut self, reading: Duration) {
        self.heard_at = reading;
    }

    /// Returns the monotonic reading at which [`Link::tick`] has to be called next, if ever.
    pub fn next_deadline(&self) -> Option<Duration> {
        let silence = (!self.is_lost()).then(|| self.heard_at + SILENCE);
        [silence, self.outbox.held_until()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Sends what was held back long enough. Closes the websocket of a client that is silent, and returns whether it is: then it has
    /// to be detached.
    pub fn tick(&mut self, reading: Duration) -> bool {
        if self
            .outbox
            .held_until()
            .is_some_and(|until| until <= reading)
        {
            self.outbox.release();
        }
        let is_silent = !self.is_lost() && self.heard_at + SILENCE <= reading;
        self.closes |= is_silent;
        is_silent
    }

    /// Records that the websocket is gone.
    pub fn detach(&mut self) {
        self.state = State::Lost;
        self.outbox.clear();
    }

    /// Records a new websocket. Nothing is sent on it before [`Link::finish_resume`].
    pub fn attach(&mut self, reading: Duration) {
        self.heard_at = reading;
        self.state = State::Resuming;
        self.awaits_sync = true;
        self.outbox.clear();
        self.closes = false;
    }

    /// Lets the client be reached by its new websocket. Returns whether there is one that awaited this.
    pub fn finish_resume(&mut self) -> bool {
        let is_resuming = self.state == State::Resuming;
        if is_resuming {
            self.state = State::Attached;
        }
        is_resuming
    }

    /// Gives up a resume that is being prepared: the client gets what is sent from now on.
    pub fn interrupt_resume(&mut self) {
        self.finish_resume();
    }

    /// Returns whether the client may say what it knows: once for each resume.
    pub fn take_sync(&mut self) -> bool {
        std::mem::take(&mut self.awaits_sync)
    }

    /// Keeps a leave for a client that cannot be reached.
    pub fn miss_leave(&mut self, info: ParticipantInfo) {
        if self.missed_leaves.len() < MAX_MISSED {
            self.missed_leaves.insert(info.sid.clone(), info);
        }
    }

    /// Returns the leaves that were kept, once.
    pub fn take_missed_leaves(&mut self) -> Vec<ParticipantInfo> {
        self.missed_leaves.drain().map(|(_, info)| info).collect()
    }

    /// Has the websocket of the next resume closed at a point of it.
    pub fn close_next_resume(&mut self, at: ClosedResume) {
        self.closed_resume = Some(at);
    }

    /// Closes the websocket of a resume if that is simulated at this point of it. Returns whether it does.
    pub fn closes_resume(&mut self, at: ClosedResume) -> bool {
        let closes = self.closed_resume.take_if(|closed| *closed == at).is_some();
        self.closes |= closes;
        closes
    }
}

/// The messages that are to be sent on a client's websocket, in order, of which the last ones may be held back for a while.
#[derive(Debug, Default)]
struct Outbox {
    messages: Vec<Message>,
    held: Option<Held>,
}

/// What is held back.
#[derive(Debug)]
struct Held {
    /// The monotonic reading until which it is.
    until: Duration,
    messages: Vec<Message>,
}

impl Outbox {
    /// Adds a message.
    fn push(&mut self, message: Message) {
        self.held
            .as_mut()
            .map_or(&mut self.messages, |held| &mut held.messages)
            .push(message);
    }

    /// Holds back what is added from now on.
    fn hold_back(&mut self, until: Duration) {
        self.held = Some(Held {
            until,
            messages: Vec::new(),
        });
    }

    /// Returns until when messages are held back.
    fn held_until(&self) -> Option<Duration> {
        self.held.as_ref().map(|held| held.until)
    }

    /// Holds nothing back any more.
    fn release(&mut self) {
        self.messages
            .extend(self.held.take().into_iter().flat_map(|held| held.messages));
    }

    /// Drops all messages.
    fn clear(&mut self) {
        *self = Self::default();
    }

    /// Returns the messages that are not held back.
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
    fn messages_are_held_back_until_their_time_or_until_the_websocket_is_closed() {
        let until = START + Duration::from_millis(50);
        for closes in [false, true] {
            let mut link = Link::new(START);
            link.send(message(1));
            link.hold_back(until);
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
        let heard_at = START + Duration::from_secs(5);
        link.hear(heard_at);
        assert!(!link.tick(START + SILENCE));
        assert_eq!(link.next_deadline(), Some(heard_at + SILENCE));
        assert!(link.tick(heard_at + SILENCE) && link.take_close());
        link.detach();
        assert!(!link.tick(heard_at + 2 * SILENCE) && link.next_deadline().is_none());
    }

    #[test]
    fn a_client_says_what_it_knows_once_for_each_resume_and_learns_who_left() {
        let mut link = Link::new(START);
        assert!(!link.take_sync());
        link.detach();
        for number in 0..=MAX_MISSED {
            link.miss_leave(ParticipantInfo {
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
