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
    /// How many messages are in front of it.
    before: usize,
}

impl Outbox {
    /// Adds a message.
    pub fn push(&mut self, message: Message) {
        self.messages.push(message);
    }

    /// Holds back what is added from now on.
    pub fn hold_back(&mut self, until: Duration) {
        self.held = Some(Held { until, before: self.messages.len() });
    }

    /// Returns until when messages are held back.
    pub fn held_until(&self) -> Option<Duration> {
        self.held.as_ref().map(|held| held.until)
    }

    /// Holds nothing back if the time for that has passed.
    pub fn release(&mut self, reading: Duration) {
        if self.held_until().is_some_and(|until| until <= reading) {
            self.held = None;
        }
    }

    /// Drops all messages.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Returns the messages that may be sent: all of them if they are the last ones.
    pub fn take(&mut self, are_last: bool) -> Vec<Message> {
        match &mut self.held {
            Some(held) if !are_last => {
                let rest = self.messages.split_off(std::mem::take(&mut held.before));
                std::mem::replace(&mut self.messages, rest)
            }
            _ => std::mem::take(&mut self.messages),
        }
    }
}
