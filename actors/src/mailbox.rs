//! The way into an actor's mailbox. Each message sent is counted on the actor's [`ActorInfo`].

use std::sync::Arc;
use std::time::Duration;

use ractor::rpc::CallResult;
use ractor::{ActorRef, Message, RpcReplyPort};

use crate::info::ActorInfo;

/// A counted handle of an actor's mailbox.
#[derive(Debug)]
pub struct Mailbox<M> {
    actor: ActorRef<M>,
    info: Arc<ActorInfo>,
}

impl<M> Clone for Mailbox<M> {
    fn clone(&self) -> Self {
        Self {
            actor: self.actor.clone(),
            info: Arc::clone(&self.info),
        }
    }
}

/// A call failed: the actor has stopped, or did not answer within the timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the actor did not answer")]
pub struct NoAnswer;

impl<M: Message> Mailbox<M> {
    /// Returns the mailbox of `actor`, which counts on `info`.
    pub fn new(actor: ActorRef<M>, info: Arc<ActorInfo>) -> Self {
        Self { actor, info }
    }

    /// Returns the actor's identity and counters.
    pub fn info(&self) -> &Arc<ActorInfo> {
        &self.info
    }

    /// Returns ractor's reference to the actor.
    pub fn actor(&self) -> &ActorRef<M> {
        &self.actor
    }

    /// Sends a message without waiting for it to be handled.
    ///
    /// # Errors
    /// The actor has stopped; holds the message, if ractor gives it back.
    pub fn cast(&self, message: M) -> Result<(), Option<M>> {
        self.info.record_sent();
        self.actor
            .send_message(message)
            .map_err(|error| match error {
                ractor::MessagingErr::SendErr(message) => Some(message),
                ractor::MessagingErr::ChannelClosed | ractor::MessagingErr::InvalidActorType => {
                    None
                }
            })
    }

    /// Sends a message and waits for its reply.
    ///
    /// # Errors
    /// The actor has stopped, or takes longer than `timeout`.
    pub async fn call<T, F>(&self, message: F, timeout: Duration) -> Result<T, NoAnswer>
    where
        T: Send + 'static,
        F: FnOnce(RpcReplyPort<T>) -> M,
    {
        self.info.record_sent();
        match self.actor.call(message, Some(timeout)).await {
            Ok(CallResult::Success(answer)) => Ok(answer),
            _ => Err(NoAnswer),
        }
    }
}
