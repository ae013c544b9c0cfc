//! What is known of an actor from outside: its card, and the mailbox that counts what goes in.
//!
//! A card outlives the actor it speaks of: a child that fails and is restored keeps it, with its restarts and its last
//! failure. The registry is the list of all cards, for the debug endpoint alone; actors find each other through the tree.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use conclave_model::{ProjectId, Timestamp};
use ractor::rpc::CallResult;
use ractor::{ActorRef, Message, RpcReplyPort};
use serde::Serialize;

use crate::egress::EgressMsg;
use crate::ingress::IngressMsg;
use crate::project::ProjectMsg;
use crate::room::RoomMsg;
use crate::system::SystemMsg;
use crate::timer::TimerView;
use crate::webhook_endpoint::EndpointMsg;

/// Steps of its history that a card keeps.
const HISTORY: usize = 16;

/// What an actor is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The root.
    System,
    /// A project's supervisor.
    Project,
    /// An open room.
    Room,
    /// A recording or a broadcast.
    Egress,
    /// An endpoint for an encoder.
    Ingress,
    /// A webhook receiver.
    WebhookEndpoint,
}

impl Kind {
    /// Every kind, from the root down.
    pub const ALL: [Self; 6] =
        [Self::System, Self::Project, Self::Room, Self::Egress, Self::Ingress, Self::WebhookEndpoint];

    /// The kind's name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Project => "project",
            Self::Room => "room",
            Self::Egress => "egress",
            Self::Ingress => "ingress",
            Self::WebhookEndpoint => "webhook_endpoint",
        }
    }
}

/// A card.
#[derive(Debug)]
pub struct Card {
    /// The path: `prj_…/room/standup`.
    pub id: Box<str>,
    /// What it is.
    pub kind: Kind,
    /// The path of its supervisor.
    pub parent: Option<Arc<str>>,
    /// Whose it is.
    pub project_id: Option<ProjectId>,
    started_at: AtomicI64,
    restarts: AtomicU32,
    sent: AtomicU64,
    handled: AtomicU64,
    story: Mutex<Story>,
}

#[derive(Debug, Default)]
struct Story {
    last_failure: Option<Failure>,
    history: VecDeque<Step>,
}

/// How an actor failed.
#[derive(Debug, Clone, Serialize)]
pub struct Failure {
    /// When.
    pub at: Timestamp,
    /// Why, as far as it said.
    pub reason: String,
}

/// A message that was handled.
#[derive(Debug, Clone, Serialize)]
pub struct Step {
    /// When.
    pub at: Timestamp,
    /// Which.
    pub message: &'static str,
}

impl Card {
    /// A card for an actor about to be spawned.
    #[must_use]
    pub fn new(id: String, kind: Kind, parent: Option<Arc<str>>, project_id: Option<ProjectId>) -> Arc<Self> {
        Arc::new(Self {
            id: id.into(),
            kind,
            parent,
            project_id,
            started_at: AtomicI64::new(0),
            restarts: AtomicU32::new(0),
            sent: AtomicU64::new(0),
            handled: AtomicU64::new(0),
            story: Mutex::default(),
        })
    }

    /// The last part of the path.
    #[must_use]
    pub fn name(&self) -> &str {
        self.id.rsplit('/').next().unwrap_or(&self.id)
    }

    /// Notes a start.
    pub fn started(&self, at: Timestamp) {
        self.started_at.store(at.millis(), Ordering::Relaxed);
    }

    /// Notes a failure; the actor is about to be restored.
    pub fn failed(&self, at: Timestamp, reason: String) {
        self.restarts.fetch_add(1, Ordering::Relaxed);
        // What was in the mailbox of a failed actor is gone.
        self.handled.store(self.sent.load(Ordering::Relaxed), Ordering::Relaxed);
        self.story().last_failure = Some(Failure { at, reason });
    }

    /// Notes a message that is being handled.
    pub fn handling(&self, at: Timestamp, message: &'static str) {
        self.handled.fetch_add(1, Ordering::Relaxed);
        let mut story = self.story();
        if story.history.len() == HISTORY {
            story.history.pop_front();
        }
        story.history.push_back(Step { at, message });
    }

    /// When it was last started.
    #[must_use]
    pub fn started_at(&self) -> Timestamp {
        Timestamp::from_millis(self.started_at.load(Ordering::Relaxed))
    }

    /// Times it failed and was restored.
    #[must_use]
    pub fn restarts(&self) -> u32 {
        self.restarts.load(Ordering::Relaxed)
    }

    /// Messages handled.
    #[must_use]
    pub fn handled(&self) -> u64 {
        self.handled.load(Ordering::Relaxed)
    }

    /// Messages waiting.
    #[must_use]
    pub fn mailbox(&self) -> u64 {
        self.sent.load(Ordering::Relaxed).saturating_sub(self.handled())
    }

    /// How it last failed.
    #[must_use]
    pub fn last_failure(&self) -> Option<Failure> {
        self.story().last_failure.clone()
    }

    /// The latest messages, oldest first.
    #[must_use]
    pub fn history(&self) -> Vec<Step> {
        self.story().history.iter().cloned().collect()
    }

    fn story(&self) -> std::sync::MutexGuard<'_, Story> {
        self.story.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What an actor tells of itself when asked.
#[derive(Debug, Clone, Serialize)]
pub struct Inspection {
    /// Its timers.
    pub timers: Vec<TimerView>,
    /// Its own snapshot; never a secret.
    pub state: serde_json::Value,
}

/// The way into an actor's mailbox, counted on its card.
#[derive(Debug)]
pub struct Mailbox<M> {
    actor: ActorRef<M>,
    card: Arc<Card>,
}

impl<M> Clone for Mailbox<M> {
    fn clone(&self) -> Self {
        Self { actor: self.actor.clone(), card: Arc::clone(&self.card) }
    }
}

/// The actor is gone, or did not answer in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the actor did not answer")]
pub struct NoAnswer;

impl<M: Message> Mailbox<M> {
    /// The mailbox of an actor that carries this card.
    #[must_use]
    pub fn new(actor: ActorRef<M>, card: Arc<Card>) -> Self {
        Self { actor, card }
    }

    /// The actor's card.
    #[must_use]
    pub fn card(&self) -> &Arc<Card> {
        &self.card
    }

    /// The actor itself.
    #[must_use]
    pub fn actor(&self) -> &ActorRef<M> {
        &self.actor
    }

    /// Sends and does not wait. Gives the message back when the actor is gone.
    ///
    /// # Errors
    /// The message.
    pub fn cast(&self, message: M) -> Result<(), Option<M>> {
        self.card.sent.fetch_add(1, Ordering::Relaxed);
        self.actor.send_message(message).map_err(|error| match error {
            ractor::MessagingErr::SendErr(message) => Some(message),
            ractor::MessagingErr::ChannelClosed | ractor::MessagingErr::InvalidActorType => None,
        })
    }

    /// Sends and waits for the answer.
    ///
    /// # Errors
    /// The actor is gone, or takes longer than `timeout`.
    pub async fn call<T, F>(&self, message: F, timeout: Duration) -> Result<T, NoAnswer>
    where
        T: Send + 'static,
        F: FnOnce(RpcReplyPort<T>) -> M,
    {
        self.card.sent.fetch_add(1, Ordering::Relaxed);
        match self.actor.call(message, Some(timeout)).await {
            Ok(CallResult::Success(answer)) => Ok(answer),
            _ => Err(NoAnswer),
        }
    }
}

/// An actor that can be asked about itself.
#[derive(Clone)]
pub enum Inspectable {
    /// The root.
    System(Mailbox<SystemMsg>),
    /// A project.
    Project(Mailbox<ProjectMsg>),
    /// A room.
    Room(Mailbox<RoomMsg>),
    /// A room that nobody is in, which has no actor until its deadline or a message comes.
    RoomAtRest(Timestamp),
    /// A recording or a broadcast.
    Egress(Mailbox<EgressMsg>),
    /// An ingress endpoint.
    Ingress(Mailbox<IngressMsg>),
    /// A receiver.
    WebhookEndpoint(Mailbox<EndpointMsg>),
}

impl Inspectable {
    /// Asks for a snapshot; `None` when there is no answer in time.
    pub async fn inspect(&self, timeout: Duration) -> Option<Inspection> {
        let answer = match self {
            Self::System(actor) => actor.call(SystemMsg::Inspect, timeout).await,
            Self::Project(actor) => actor.call(ProjectMsg::Inspect, timeout).await,
            Self::Room(actor) => actor.call(RoomMsg::Inspect, timeout).await,
            Self::RoomAtRest(deadline) => return Some(crate::room::inspect_at_rest(*deadline)),
            Self::Egress(actor) => actor.call(EgressMsg::Inspect, timeout).await,
            Self::Ingress(actor) => actor.call(IngressMsg::Inspect, timeout).await,
            Self::WebhookEndpoint(actor) => actor.call(EndpointMsg::Inspect, timeout).await,
        };
        answer.ok()
    }
}

/// An entry of the registry: the card, and the actor while it runs.
#[derive(Clone)]
pub struct Entry {
    /// The card.
    pub card: Arc<Card>,
    /// The actor; `None` while it waits to be restored.
    pub actor: Option<Inspectable>,
}

/// Who is alive. Ordered by path, so that a project's actors stand together.
#[derive(Default)]
pub struct Registry(Mutex<BTreeMap<Arc<str>, Entry>>);

impl Registry {
    /// Lists an actor, running or waiting to be restored.
    pub fn list(&self, card: &Arc<Card>, actor: Option<Inspectable>) {
        let entry = Entry { card: Arc::clone(card), actor };
        self.entries().insert((*card.id).into(), entry);
    }

    /// Strikes an actor that has stopped for good.
    pub fn strike(&self, card: &Card) {
        self.entries().remove(&*card.id);
    }

    /// One entry.
    #[must_use]
    pub fn find(&self, id: &str) -> Option<Entry> {
        self.entries().get(id).cloned()
    }

    /// Lets `visit` look at every entry, in the order of their paths.
    pub fn each(&self, mut visit: impl FnMut(&Entry)) {
        self.entries().values().for_each(&mut visit);
    }

    fn entries(&self) -> std::sync::MutexGuard<'_, BTreeMap<Arc<str>, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
