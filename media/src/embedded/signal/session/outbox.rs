//! The messages for a client, in order, of which the last ones may be held back for a while.

use std::time::Duration;

use livekit_protocol::signal_response::Message;

/// The messages that are to be sent on a client's websocket.
#[derive(Debug, Default)]
pub struct Outbox {
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
    pub fn push(&mut self, message: Message) {
        self.held
            .as_mut()
            .map_or(&mut self.messages, |held| &mut held.messages)
            .push(message);
    }

    /// Holds back what is added from now on.
    pub fn hold_back(&mut self, until: Duration) {
        self.held = Some(Held {
            until,
            messages: Vec::new(),
        });
    }

    /// Returns until when messages are held back.
    pub fn held_until(&self) -> Option<Duration> {
        self.held.as_ref().map(|held| held.until)
    }

    /// Holds nothing back any more.
    pub fn release(&mut self) {
        self.messages
            .extend(self.held.take().into_iter().flat_map(|held| held.messages));
    }

    /// Drops all messages.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Returns the messages that are not held back.
    pub fn take(&mut self) -> Vec<Message> {
        std::mem::take(&mut self.messages)
    }
}
