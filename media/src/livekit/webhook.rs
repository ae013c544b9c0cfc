//! What LiveKit reports. It sends each event once, and again a few times for half a minute when it is not taken; so an event
//! is answered only after everything it causes is durable, and one that comes again changes nothing.
//!
//! - verified ([`verify`]): the token in `Authorization` is ours and names the hash of the very bytes that came.
//! - read ([`wire`]): leniently, since a newer LiveKit knows more words than we do.
//! - turned into reports ([`reports`]): in the order in which records have to be written, a leave that came too early behind
//!   its join ([`early`]).

mod early;
mod reports;
mod verify;
mod wire;

pub(super) use early::Early;

use conclave_model::{NamespacedRoom, ParticipantSid};
use tokio::sync::oneshot;

use super::plane::{Inner, LivekitPlane};
use super::recent::Begun;
use crate::port::{MediaEvent, Report, ReportAnswer, ReportError};

/// What became of a webhook, and so how it is to be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WebhookOutcome {
    /// What it reports is durable, or was before. 200.
    Accepted,
    /// It is none of ours, or nothing that needs a record. 200.
    Ignored,
    /// It is not signed with our key. 401.
    Unsigned,
    /// It is signed, and no event. 400.
    Malformed,
    /// It could not be written, and should be sent again. 503.
    Unavailable,
}

impl LivekitPlane {
    /// Takes a webhook in: `authorization` is the header's text, `raw` the body as it came.
    pub async fn handle_webhook(&self, authorization: &str, raw: &[u8]) -> WebhookOutcome {
        let inner = &*self.0;
        if let Err(refused) = verify::check(&inner.signer, authorization, raw, inner.clock.now()) {
            log::warn!("a webhook was refused: {refused}");
            return WebhookOutcome::Unsigned;
        }
        let Some(event) = wire::Event::read(raw) else {
            log::warn!("a signed webhook is no event of LiveKit's");
            return WebhookOutcome::Malformed;
        };
        let id = event.id();
        if id.is_empty() {
            return self.take(&event).await;
        }
        let turn = match inner.recent.begin(id) {
            Begun::New(turn) => turn,
            Begun::Taken => return WebhookOutcome::Accepted,
            // Whoever sent it twice at once gets the first one's answer the next time.
            Begun::UnderWay => return WebhookOutcome::Unavailable,
        };
        let outcome = self.take(&event).await;
        if outcome == WebhookOutcome::Accepted {
            turn.taken();
        }
        outcome
    }

    async fn take(&self, event: &wire::Event) -> WebhookOutcome {
        let mut reports = match reports::of(event, self.0.clock.now()) {
            Ok(reports) if reports.is_empty() => return WebhookOutcome::Ignored,
            Ok(reports) => reports,
            Err(reports::NoReport) => {
                log::warn!(event = event.name(), id = event.id(); "a signed webhook lacks what its event needs");
                return WebhookOutcome::Malformed;
            }
        };
        self.0.early.complete(&mut reports);
        // All are handed in before the first is waited for, so that nothing comes between them.
        let handed: Vec<_> = reports.into_iter().map(|report| self.0.hand_in(report)).collect();
        let mut outcome = WebhookOutcome::Accepted;
        for handed in handed {
            outcome = self.settle(handed).await.unwrap_or(outcome);
        }
        outcome
    }

    /// Waits for a report's answer and does what it asks for. Says so when the event is to be sent again.
    async fn settle(&self, handed: Handed) -> Option<WebhookOutcome> {
        match handed.answer.await.unwrap_or(Err(ReportError::Unavailable)) {
            Err(ReportError::Unavailable) => return Some(WebhookOutcome::Unavailable),
            Err(refusal @ (ReportError::RoomEnded | ReportError::RoleFull)) => {
                if let Some(joined) = &handed.joined {
                    self.0.turn_out(&handed.room, joined, refusal).await;
                }
            }
            Ok(()) if handed.changes_tracks => self.0.keep_subscriptions(&handed.room),
            Ok(()) => {}
        }
        None
    }
}

/// A report that was handed in.
struct Handed {
    room: NamespacedRoom,
    /// Who joined, if that is what it reports.
    joined: Option<ParticipantSid>,
    changes_tracks: bool,
    answer: ReportAnswer,
}

impl Inner {
    fn hand_in(&self, report: Report) -> Handed {
        let room = report.room.clone();
        let joined = match &report.event {
            MediaEvent::ParticipantJoined(participant) => Some(participant.sid.clone()),
            _ => None,
        };
        let changes_tracks = joined.is_some() || matches!(report.event, MediaEvent::TrackPublished { .. });
        let answer = match self.sink.get() {
            Some(sink) => sink.report(report),
            // Nobody answers: the sender is gone before it could.
            None => oneshot::channel().1,
        };
        Handed { room, joined, changes_tracks, answer }
    }

    /// Somebody was let in by LiveKit whom the records do not let in. One who stays is met again by reconciliation.
    async fn turn_out(&self, room: &NamespacedRoom, sid: &ParticipantSid, refusal: ReportError) {
        if let Err(error) = self.remove(room, sid).await {
            log::warn!(room = room.as_str(), sid = sid.as_str(); "a join that was refused ({refusal}) stays: {error}");
        }
    }
}
