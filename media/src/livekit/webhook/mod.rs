//! LiveKit's webhooks.
//!
//! LiveKit sends each event once, and repeats it for about half a minute while the response is an error. So a webhook
//! is acknowledged only after all its contents are durable, and a repetition has no effect.
//!
//! 1. [`checks`] verifies the signature before the body is read, and then the body's hash.
//! 2. [`wire`] reads the body leniently, since a newer LiveKit may send fields and values that this version does not
//!    know.
//! 3. [`WebhookDedup`], also in [`checks`], finds events that have been handled before.
//! 4. [`reports`] converts the event into reports, in the order in which they must be recorded.
//! 5. [`OutOfOrderEvents`], also in [`reports`], sends them, and after a join also reports that arrived before it.

mod checks;
mod reports;
mod wire;

use std::sync::Arc;

use conclave_model::{Clock, NamespacedRoom, ParticipantSid};

use self::checks::VerifyWebhookError;
pub use self::checks::WebhookSignature;
use self::checks::{DedupState, WebhookDedup};
use self::reports::{IncompleteEvent, OutOfOrderEvents};
use self::wire::WebhookEvent;
use super::participants::Participants;
use super::subscriptions::SubscriptionEnforcer;
use crate::port::{MediaEvent, Report, ReportError, ReportReply, ReportSink};
use crate::token::TokenSigner;

/// Outcome of a webhook, which determines the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WebhookOutcome {
    /// The event is durable. Response: 200.
    Accepted,
    /// The event's room is not owned by this server, or the event needs no record. Response: 200.
    Ignored,
    /// Not signed with this server's key. Response: 401.
    Unsigned,
    /// Signed, but the body is not a complete event. Response: 400.
    Malformed,
    /// The event could not be recorded, so LiveKit must repeat the webhook. Response: 503.
    Unavailable,
}

/// Receives webhooks and forwards their reports.
pub(super) struct WebhookReceiver {
    signer: Arc<TokenSigner>,
    clock: Clock,
    sink: Arc<dyn ReportSink>,
    dedup: WebhookDedup,
    out_of_order: OutOfOrderEvents,
    participants: Participants,
    subscriptions: SubscriptionEnforcer,
}

/// A report that the sink has received but not replied to.
struct PendingReport {
    room: NamespacedRoom,
    /// The participant, if the report is a join.
    joined: Option<JoinedParticipant>,
    /// Whether the report can change participants' subscriptions.
    affects_subscriptions: bool,
    reply: ReportReply,
}

/// Participant that has joined, in case the join is refused.
enum JoinedParticipant {
    Participant(ParticipantSid),
    /// A participant with this invalid identity.
    Invalid(String),
}

impl WebhookReceiver {
    pub fn new(
        signer: Arc<TokenSigner>,
        clock: Clock,
        sink: Arc<dyn ReportSink>,
        participants: Participants,
        subscriptions: SubscriptionEnforcer,
    ) -> Self {
        Self {
            signer,
            clock,
            sink,
            dedup: WebhookDedup::default(),
            out_of_order: OutOfOrderEvents::default(),
            participants,
            subscriptions,
        }
    }

    /// Verifies the `Authorization` header. `None` if it is not signed with this server's key.
    pub fn verify(&self, authorization: &str) -> Option<WebhookSignature> {
        // Logged here, since the caller only sees that it was refused.
        let verified = checks::verify_token(&self.signer, authorization, self.clock.now());
        verified.inspect_err(log_refusal).ok()
    }

    /// Handles a webhook with a verified signature; `body` contains the bytes as received.
    pub async fn handle(&self, signature: &WebhookSignature, body: &[u8]) -> WebhookOutcome {
        if let Err(error) = signature.verify_body(body) {
            log_refusal(&error);
            return WebhookOutcome::Unsigned;
        }
        let Some(event) = WebhookEvent::from_json(body) else {
            log::warn!("the body of a signed webhook is not a LiveKit event");
            return WebhookOutcome::Malformed;
        };
        // Without an id, a repetition is not recognized. Recording an event twice has no effect.
        if event.id().is_empty() {
            self.record(&event).await
        } else {
            self.record_once(&event).await
        }
    }

    /// Records an event with an id, unless it has been recorded before.
    async fn record_once(&self, event: &WebhookEvent) -> WebhookOutcome {
        let ticket = match self.dedup.start(event.id()) {
            DedupState::New(ticket) => ticket,
            DedupState::Recorded => return WebhookOutcome::Accepted,
            // LiveKit repeats it later, and gets the first request's outcome then.
            DedupState::InProgress => return WebhookOutcome::Unavailable,
        };
        let outcome = self.record(event).await;
        if outcome == WebhookOutcome::Accepted {
            ticket.mark_recorded();
        }
        outcome
    }

    async fn record(&self, event: &WebhookEvent) -> WebhookOutcome {
        let reports = match reports::from_event(event, self.clock.now()) {
            Ok(reports) if reports.is_empty() => return WebhookOutcome::Ignored,
            Ok(reports) => reports,
            Err(IncompleteEvent) => {
                log::warn!(event = event.name(), id = event.id(); "a signed webhook lacks fields that its event needs");
                return WebhookOutcome::Malformed;
            }
        };
        // All reports are sent before the first reply is awaited, so that no other event's reports come between them.
        let pending = self
            .out_of_order
            .send_in_order(reports, |report| self.send(report, event.identity()));
        let mut outcome = WebhookOutcome::Accepted;
        for report in pending {
            // All replies are awaited even after a failure, so that refused participants are removed.
            outcome = self.complete(report).await.unwrap_or(outcome);
        }
        outcome
    }

    fn send(&self, report: Report, identity: &str) -> PendingReport {
        let room = report.room.clone();
        let joined = match &report.event {
            MediaEvent::ParticipantJoined(participant) => {
                // By sid: a newer join with the same identity must not be removed instead.
                Some(JoinedParticipant::Participant(participant.sid.clone()))
            }
            MediaEvent::InvalidIdentity => Some(JoinedParticipant::Invalid(identity.to_owned())),
            _ => None,
        };
        let affects_subscriptions =
            // A leave or an unpublished track only removes subscriptions, which LiveKit does itself.
            joined.is_some() || matches!(report.event, MediaEvent::TrackPublished { .. });
        PendingReport {
            room,
            joined,
            affects_subscriptions,
            reply: self.sink.report(report),
        }
    }

    /// Awaits a report's reply and acts on it. Returns an outcome if LiveKit must repeat the event.
    async fn complete(&self, report: PendingReport) -> Option<WebhookOutcome> {
        match report.reply.await.unwrap_or(Err(ReportError::Unavailable)) {
            Err(ReportError::Unavailable) => return Some(WebhookOutcome::Unavailable),
            Err(
                error @ (ReportError::RoomEnded
                | ReportError::RoleFull
                | ReportError::RoleRemoved
                | ReportError::Banned
                | ReportError::TokenRevoked
                | ReportError::InvalidIdentity),
            ) => match &report.joined {
                Some(JoinedParticipant::Participant(sid)) => {
                    self.remove_refused(&report.room, sid, error).await;
                }
                Some(JoinedParticipant::Invalid(identity)) => {
                    self.participants
                        .remove_invalid(&report.room, identity)
                        .await;
                }
                None => {}
            },
            Ok(()) if report.affects_subscriptions => self.subscriptions.spawn_apply(&report.room),
            // An unknown room is left to other users of the same LiveKit.
            Ok(()) | Err(ReportError::UnknownRoom) => {}
        }
        None
    }

    /// Disconnects a participant whose join the control plane refused. If that fails, reconciliation repeats it.
    async fn remove_refused(
        &self,
        room: &NamespacedRoom,
        sid: &ParticipantSid,
        refusal: ReportError,
    ) {
        if let Err(error) = self.participants.remove(room, sid).await {
            log::warn!(
                room = room.as_str(), sid = sid.as_str();
                "a participant whose join was refused ({refusal}) could not be removed: {error}"
            );
        }
    }
}

fn log_refusal(error: &VerifyWebhookError) {
    log::warn!("a webhook was refused: {error}");
}
