//! The two phases of a join on the side of the driver, which asks the control plane and awaits its answers without a room's lock.

use std::sync::Arc;

use conclave_model::{NamespacedRoom, ParticipantSid, Timestamp};

use crate::embedded::error::RoomStateError;
use crate::embedded::plane::core::{PlaneCore, await_replies};
use crate::embedded::room::Room;
use crate::embedded::room_state::RoomState;
use crate::embedded::rtc_metrics::JoinOutcome;
use crate::port::{ReportError, ReportReply};

/// The first phase: `ask` asks the control plane, and holds a seat for the join that it returns, whose participant `sid` names. Returns the
/// room that holds the seat. If the control plane refuses, the seat is given back.
pub(in crate::embedded) async fn request<Join, Refused>(
    inner: &Arc<PlaneCore>,
    name: &NamespacedRoom,
    ask: impl FnOnce(&mut RoomState, Timestamp) -> Result<Join, RoomStateError>,
    sid: impl Fn(&Join) -> &ParticipantSid,
) -> Result<(Arc<Room>, Join), Refused>
where
    Refused: From<RoomStateError> + From<ReportError>,
{
    let (room, requested, answers) = inner.enter(name, ask);
    let join = requested?;
    if let Err(refused) = await_replies(answers).await {
        inner.call_in(&room, |machine, _| machine.cancel_request(sid(&join)));
        return Err(refused.into());
    }
    Ok((room, join))
}

/// The second phase: completes or aborts a join, whose report has these answers, as the control plane decides, and counts it.
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

/// As [`conclude`], for a participant of the sandbox, whose joins are not counted.
pub(in crate::embedded) async fn conclude_uncounted(
    inner: Arc<PlaneCore>,
    room: Arc<Room>,
    sid: ParticipantSid,
    answers: Vec<ReportReply>,
) -> Result<(), ReportError> {
    let completed = conclude_by(&inner, &room, &sid, answers, |machine, now| {
        machine.complete_join(&sid, now);
    });
    completed.await.map(|_| ())
}

/// As [`conclude_uncounted`], with what completes the join. Returns its result, and the answers to the reports that it caused.
pub(in crate::embedded) async fn conclude_by<T>(
    inner: &Arc<PlaneCore>,
    room: &Arc<Room>,
    sid: &ParticipantSid,
    answers: Vec<ReportReply>,
    complete: impl FnOnce(&mut RoomState, Timestamp) -> T,
) -> Result<(T, Vec<ReportReply>), ReportError> {
    let concluded = match await_join_answer(answers).await {
        Ok(()) => Ok(inner.call_in(room, complete)),
        Err(refused) => {
            inner.call_in(room, |machine, now| machine.abort_join(sid, now));
            Err(refused)
        }
    };
    room.end_join();
    concluded
}

/// Returns whether the control plane accepts a join. The answer to the join is the last one; those before it concern the
/// participant that was replaced.
async fn await_join_answer(mut answers: Vec<ReportReply>) -> Result<(), ReportError> {
    let joined = answers.pop();
    // If the leave of the replaced participant was not recorded, reconciliation records it, and the join is not affected.
    let _ = await_replies(answers).await;
    await_replies(joined.into_iter().collect()).await
}
