//! The two phases of a join as the driver runs them: the control plane is awaited without the room's lock.

use std::sync::Arc;

use conclave_model::{NamespacedRoom, ParticipantSid, Timestamp};

use crate::embedded::error::RoomStateError;
use crate::embedded::plane::core::{PlaneCore, await_replies};
use crate::embedded::room::Room;
use crate::embedded::room_state::RoomState;
use crate::embedded::rtc_metrics::JoinOutcome;
use crate::port::{ReportError, ReportReply};

/// Runs the first phase. `request` reports the request and reserves a seat for the returned join, whose participant
/// `sid` selects. Returns the room with the seat. If the control plane refuses, the seat is released.
pub(in crate::embedded) async fn request<Join, Refused>(
    inner: &Arc<PlaneCore>,
    name: &NamespacedRoom,
    request: impl FnOnce(&mut RoomState, Timestamp) -> Result<Join, RoomStateError>,
    sid: impl Fn(&Join) -> &ParticipantSid,
) -> Result<(Arc<Room>, Join), Refused>
where
    Refused: From<RoomStateError> + From<ReportError>,
{
    let (room, requested, answers) = inner.enter(name, request);
    let join = requested?;
    // The room's lock is free here: the room actor may call the media plane before it replies.
    if let Err(refused) = await_replies(answers).await {
        inner.call_in(&room, |room_state, _| room_state.cancel_request(sid(&join)));
        return Err(refused.into());
    }
    Ok((room, join))
}

/// Runs the second phase. Completes or aborts a join according to the `answers` to its report, and counts the outcome.
pub(in crate::embedded) async fn conclude(
    inner: Arc<PlaneCore>,
    room: Arc<Room>,
    sid: ParticipantSid,
    answers: Vec<ReportReply>,
) {
    let outcome = match conclude_uncounted(Arc::clone(&inner), room, sid, answers).await {
        Ok(()) => JoinOutcome::Joined,
        Err(_) => JoinOutcome::Rejected,
    };
    inner.record(|metrics| metrics.record_join(outcome));
}

/// Like [`conclude`], but uncounted, for sandbox participants.
pub(in crate::embedded) async fn conclude_uncounted(
    inner: Arc<PlaneCore>,
    room: Arc<Room>,
    sid: ParticipantSid,
    answers: Vec<ReportReply>,
) -> Result<(), ReportError> {
    let completed = conclude_with(&inner, &room, &sid, answers, |room_state, now| {
        room_state.complete_join(&sid, now);
    });
    completed.await.map(|_| ())
}

/// Like [`conclude_uncounted`], with `complete` in place of the completion. Returns its result, and the answers to its
/// reports.
pub(in crate::embedded) async fn conclude_with<T>(
    inner: &Arc<PlaneCore>,
    room: &Arc<Room>,
    sid: &ParticipantSid,
    answers: Vec<ReportReply>,
    complete: impl FnOnce(&mut RoomState, Timestamp) -> T,
) -> Result<(T, Vec<ReportReply>), ReportError> {
    let concluded = match await_join_answer(answers).await {
        Ok(()) => Ok(inner.call_in(room, complete)),
        Err(refused) => {
            inner.call_in(room, |room_state, now| room_state.abort_join(sid, now));
            Err(refused)
        }
    };
    // Calls of the API that concern this participant wait for this: a client may make them before its join is written.
    room.end_join();
    concluded
}

/// Returns the control plane's verdict on a join. The join's answer is the last one; earlier ones concern the replaced
/// participant.
async fn await_join_answer(mut answers: Vec<ReportReply>) -> Result<(), ReportError> {
    let joined = answers.pop();
    // Ignored: if the replaced participant's leave was not recorded, reconciliation records it, and the join is
    // unaffected.
    let _ = await_replies(answers).await;
    await_replies(joined.into_iter().collect()).await
}
