//! WHIP sessions as tasks: admission, and requests from encoders.

use std::sync::Arc;
use std::time::Duration;

use conclave_model::event::Departure;
use conclave_model::ingress::{InputType, StreamKeyHash};
use conclave_model::secret::{BASE62, random_text};
use conclave_model::{ParticipantSid, Secret, Timestamp};
use conclave_sfu::PeerEvent;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::ice::{self, PatchOutcome, WhipPatch, WhipPatchError};
use super::offer::{OfferedProfiles, announced_tracks};
use super::session::WhipSession;
use super::transcoded::{TranscodedSession, TranscodedWake};
use super::{WhipAnswer, WhipRequest, WhipRestart, WhipSessionName};
use crate::embedded::error::RoomStateError;
use crate::embedded::ingress::admission;
use crate::embedded::ingress::encoder::EncoderPublisher;
use crate::embedded::ingress::refusal::EncoderRefusal;
use crate::embedded::join::phases;
use crate::embedded::plane::core::{PlaneCore, await_replies};
use crate::embedded::room::Room;
use crate::embedded::room_state::RoomState;
use crate::embedded::room_state::membership::EncoderJoin;
use crate::embedded::rtc_metrics::JoinOutcome;
use crate::embedded::signal::channels::SessionInput;

/// Session id length: 32 Base62 characters have 190 bits.
const ID_LENGTH: usize = 32;
/// Time limit for a media worker's answer to an offer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Connects a WHIP encoder with its SDP offer.
///
/// # Errors
/// The reason for refusing the encoder, which has then not joined.
pub(in crate::embedded) async fn connect(
    plane: &Arc<PlaneCore>,
    key: StreamKeyHash,
    offer: String,
) -> Result<WhipAnswer, EncoderRefusal> {
    // In a spawned task, so that the join is admitted or cancelled even if the encoder disconnects.
    let admitted = tokio::spawn(admit(Arc::clone(plane), key, offer));
    let admitted = admitted.await.map_err(|_| EncoderRefusal::Unavailable)?;
    if admitted.is_err() {
        plane.record(|metrics| metrics.record_join(JoinOutcome::Refused));
    }
    admitted
}

/// Handles an encoder's PATCH request. Returns the server's ICE credentials if ICE restarts.
///
/// # Errors
/// The reason for refusing the request.
pub(in crate::embedded) async fn patch(
    plane: &Arc<PlaneCore>,
    session: WhipSessionName<'_>,
    patch: WhipPatch,
) -> Result<Option<WhipRestart>, WhipPatchError> {
    let requests = find_session(plane, session).ok_or(WhipPatchError::NoSession)?;
    let (reply, patched) = oneshot::channel();
    requests
        .send(WhipRequest::Patch(patch, reply))
        .await
        .map_err(|_| WhipPatchError::NoSession)?;
    match timeout(ANSWER_TIMEOUT, patched).await {
        Ok(Ok(patched)) => patched,
        Ok(Err(_)) | Err(_) => Err(WhipPatchError::Unavailable),
    }
}

/// Ends an encoder's session. Returns whether there was one.
pub(in crate::embedded) async fn delete(
    plane: &Arc<PlaneCore>,
    session: WhipSessionName<'_>,
) -> bool {
    let Some(requests) = find_session(plane, session) else {
        return false;
    };
    let (reply, deleted) = oneshot::channel();
    requests.send(WhipRequest::Delete(reply)).await.is_ok() && deleted.await.is_ok()
}

pub(in crate::embedded) fn has_session(plane: &Arc<PlaneCore>, name: WhipSessionName<'_>) -> bool {
    find_session(plane, name).is_some()
}

fn find_session(
    plane: &Arc<PlaneCore>,
    name: WhipSessionName<'_>,
) -> Option<mpsc::Sender<WhipRequest>> {
    let sid = match name {
        WhipSessionName::Id(id) => plane.whip.by_id(id),
        WhipSessionName::Key(key) => {
            let room = plane.common.room_of_key(key).ok()?;
            plane
                .call(&room, |room_state, _| room_state.encoder_of(key))
                .0
        }
    };
    plane.whip.channel(&sid?)
}

/// Admits an encoder and starts its session, or refuses it. Returns once the media worker has answered the offer.
async fn admit(
    inner: Arc<PlaneCore>,
    key: StreamKeyHash,
    offer: String,
) -> Result<WhipAnswer, EncoderRefusal> {
    // Rewritten before the tracks are read, which skips codecs with an unsupported profile.
    let (offer, profiles) = if transcodes(&inner, &key)? {
        OfferedProfiles::replace(&offer)
    } else {
        (offer, OfferedProfiles::default())
    };
    let tracks = announced_tracks(&offer)?;
    let (room, join) = admission::request_encoder(&inner, &key, InputType::Whip).await?;
    // Before the admission, so that the session misses no notice.
    let inputs = room.sessions.add(&join.sid);
    let (started, _) = inner.call_in(&room, |room_state, now| {
        room_state.admit_encoder(&join.sid, now)?;
        let started = WhipSession::start(room_state, join.clone(), offer, &tracks);
        // The endpoint then shows why the stream could not be published.
        if let Err(EncoderRefusal::BadStream(reason)) = started {
            room_state.fail_encoder(&join.sid, reason, now);
        }
        started
    });
    let session = started.inspect_err(|_| room.sessions.remove(&join.sid))?;
    open(inner, room, join, (session, profiles), inputs).await
}

/// Returns whether the endpoint with a stream key transcodes all video.
fn transcodes(plane: &Arc<PlaneCore>, key: &StreamKeyHash) -> Result<bool, RoomStateError> {
    let room = plane.common.room_of_key(key)?;
    Ok(plane
        .call(&room, |room_state, _| room_state.transcodes(key))
        .0)
}

/// Runs a session, and returns the response to its encoder.
async fn open(
    inner: Arc<PlaneCore>,
    room: Arc<Room>,
    join: EncoderJoin,
    (session, profiles): (WhipSession, OfferedProfiles),
    inputs: mpsc::Receiver<SessionInput>,
) -> Result<WhipAnswer, EncoderRefusal> {
    let id = random_text(ID_LENGTH, BASE62);
    let requests = inner.whip.add(&id, &join.sid);
    let (reply, answered) = oneshot::channel();
    let sid = join.sid.clone();
    let publisher = EncoderPublisher::new(join);
    let turn = inner
        .turn
        .iter()
        .map(|turn| turn.for_participant(&sid, inner.clock.now()))
        .collect();
    let transcoded = session
        .intake()
        .map(|peer| TranscodedSession::open(&inner, &room, peer.clone(), (publisher, profiles)));
    let task = SessionTask {
        inner,
        room,
        sid,
        session,
        transcoded,
        reply: Some(PendingReply::Offer(reply)),
        was_connected: false,
    };
    tokio::spawn(task.run(inputs, requests));
    // After a timeout, the deadline for the join's media ends the session.
    let answer = timeout(ANSWER_TIMEOUT, answered)
        .await
        .map_err(|_| EncoderRefusal::Unavailable)?;
    let WhipRestart {
        etag,
        fragment: sdp,
    } = answer.map_err(|_| EncoderRefusal::Unavailable)??;
    Ok(WhipAnswer {
        session: Secret::new(id),
        etag,
        sdp,
        turn,
    })
}

/// Request that waits for the media worker's answer.
enum PendingReply {
    /// The request that opens the session. The response has the whole answer.
    Offer(oneshot::Sender<Result<WhipRestart, EncoderRefusal>>),
    /// A request that restarts ICE.
    Patch(oneshot::Sender<Result<Option<WhipRestart>, WhipPatchError>>),
}

/// A session with its room and the plane.
struct SessionTask {
    inner: Arc<PlaneCore>,
    room: Arc<Room>,
    sid: ParticipantSid,
    session: WhipSession,
    /// Media of the session, if its video is transcoded.
    transcoded: Option<TranscodedSession>,
    reply: Option<PendingReply>,
    /// Whether its media was connected, so that its join was reported.
    was_connected: bool,
}

/// Reason for a session's wake-up.
enum Wake {
    Input(Option<SessionInput>),
    Request(WhipRequest),
    Transcoded(TranscodedWake),
    Deadline,
}

impl SessionTask {
    /// Runs the session until its participant has left.
    async fn run(
        mut self,
        mut inputs: mpsc::Receiver<SessionInput>,
        mut requests: mpsc::Receiver<WhipRequest>,
    ) {
        self.send_commands();
        while !self.session.is_over() {
            let deadline = self.session.next_deadline();
            let wake = tokio::select! {
                input = inputs.recv() => Wake::Input(input),
                Some(request) = requests.recv() => Wake::Request(request),
                wake = next_transcoded(&mut self.transcoded) => Wake::Transcoded(wake),
                () = sleep_until(&self.inner, deadline) => Wake::Deadline,
            };
            match wake {
                Wake::Input(Some(input)) => self.handle_input(input),
                // It did not keep up, or its participant was removed before.
                Wake::Input(None) | Wake::Transcoded(TranscodedWake::Event(None)) => {
                    self.call(|session, room_state, now| {
                        session.end(room_state, Departure::Lost, now);
                    });
                    break;
                }
                Wake::Request(request) => self.handle_request(request),
                Wake::Transcoded(wake) => self.handle_transcoded(wake).await,
                Wake::Deadline => self.call(WhipSession::tick),
            }
            self.send_commands();
            self.reply_with_answer();
        }
        self.inner.whip.remove(&self.sid);
        self.room.sessions.remove(&self.sid);
        // The encoder still waits for its response if the session ended before an answer.
        if let Some(PendingReply::Offer(reply)) = self.reply.take() {
            let _ = reply.send(Err(self.session.refusal()));
        }
        if !self.was_connected {
            self.inner
                .record(|metrics| metrics.record_join(JoinOutcome::NotConnected));
        }
    }

    fn handle_input(&mut self, input: SessionInput) {
        match input {
            SessionInput::Notice(notice) => self.session.handle_notice(&notice),
            SessionInput::Media(event) => self.handle_media(event),
            SessionInput::PublishRate(kbps) => {
                // A rate before the join is accepted, or after the leave, is dropped.
                let _ = self.inner.call_in(&self.room, |room_state, now| {
                    room_state.set_bitrate(&self.sid, kbps, now)
                });
            }
            // An encoder receives no media and has no WebSocket. WHIP has no message that requests a new connection.
            SessionInput::Speakers(_)
            | SessionInput::Qualities(_)
            | SessionInput::Attach(_)
            | SessionInput::Stop => {}
        }
    }

    /// Handles a media worker's event about the visible participant.
    fn handle_media(&mut self, event: PeerEvent) {
        let (inner, session) = (&self.inner, &mut self.session);
        let transcoded = &self.transcoded;
        let (is_joining, answers) = inner.call_in(&self.room, |room_state, now| match transcoded {
            Some(transcoded) => transcoded.publisher.handle_media(room_state, event, now),
            None => session.handle_media(room_state, event, now),
        });
        if is_joining {
            self.was_connected = true;
            tokio::spawn(phases::conclude(
                Arc::clone(inner),
                Arc::clone(&self.room),
                self.sid.clone(),
                answers,
            ));
        }
    }

    /// Handles an event of a transcoded session.
    async fn handle_transcoded(&mut self, wake: TranscodedWake) {
        let Some(transcoded) = &mut self.transcoded else {
            return;
        };
        let handled = match wake {
            TranscodedWake::Event(Some(event)) => {
                transcoded.handle_event(&self.inner, &self.room, &event);
                let session = &mut self.session;
                self.inner.call_in(&self.room, |room_state, now| {
                    session.handle_media(room_state, event, now)
                });
                Ok(())
            }
            TranscodedWake::Event(None) => Ok(()),
            TranscodedWake::Packet(packet) => {
                transcoded.push(&self.inner, &self.room, packet).await
            }
            TranscodedWake::Output(output) => output.map(|output| {
                transcoded.forward_output(&self.inner, &self.room, &output);
            }),
        };
        if let Err(error) = handled {
            let reason = format!("the video must be transcoded: {error}");
            log::info!(participant = self.sid.as_str(); "WHIP encoder disconnected: {reason}");
            self.inner.call_in(&self.room, |room_state, now| {
                room_state.fail_encoder(&self.sid, reason, now);
            });
            // Further packets are ignored until the disconnection notice arrives.
            self.transcoded = None;
        }
    }

    /// Sends the session's commands to its intake.
    fn send_commands(&mut self) {
        let commands = self.session.take_commands();
        if let Some(transcoded) = &self.transcoded {
            commands
                .into_iter()
                .for_each(|command| transcoded.send(command));
        }
    }

    fn handle_request(&mut self, request: WhipRequest) {
        match request {
            WhipRequest::Patch(patch, reply) => {
                let patched = self.call(|session, room_state, _| session.patch(room_state, &patch));
                match patched {
                    Ok(PatchOutcome::Restarting) => self.reply = Some(PendingReply::Patch(reply)),
                    // Fails if the encoder has hung up.
                    Ok(PatchOutcome::Accepted) => drop(reply.send(Ok(None))),
                    Err(error) => drop(reply.send(Err(error))),
                }
            }
            WhipRequest::Delete(reply) => {
                let (inner, session) = (&self.inner, &mut self.session);
                let ((), answers) = inner.call_in(&self.room, |room_state, now| {
                    session.end(room_state, Departure::Left, now);
                });
                // The response waits until the leave is recorded. Meanwhile, the session must handle the notice of its end.
                tokio::spawn(async move {
                    // Ignored: a leave that is not recorded now is recorded by reconciliation.
                    let _ = await_replies(answers).await;
                    let _ = reply.send(());
                });
            }
        }
    }

    /// Replies with the media worker's answer, if there is one.
    fn reply_with_answer(&mut self) {
        let Some(sdp) = self.session.take_answer() else {
            return;
        };
        let sdp = match &self.transcoded {
            Some(transcoded) => transcoded.profiles.restore(&sdp),
            None => sdp,
        };
        let etag = self.session.etag().to_owned();
        // Fails if the encoder has hung up.
        match self.reply.take() {
            Some(PendingReply::Offer(reply)) => drop(reply.send(Ok(WhipRestart {
                etag,
                fragment: sdp,
            }))),
            Some(PendingReply::Patch(reply)) => {
                drop(reply.send(Ok(Some(WhipRestart {
                    etag,
                    fragment: ice::ice_fragment(&sdp),
                }))));
            }
            None => {}
        }
    }

    fn call<T>(
        &mut self,
        call: impl FnOnce(&mut WhipSession, &mut RoomState, Timestamp) -> T,
    ) -> T {
        let (inner, session) = (&self.inner, &mut self.session);
        inner
            .call_in(&self.room, |room_state, now| call(session, room_state, now))
            .0
    }
}

/// Waits for a transcoded session's next event; pending forever without one.
async fn next_transcoded(transcoded: &mut Option<TranscodedSession>) -> TranscodedWake {
    match transcoded {
        Some(transcoded) => transcoded.next().await,
        None => std::future::pending().await,
    }
}

/// Waits until a monotonic reading; forever without one.
async fn sleep_until(inner: &PlaneCore, deadline: Option<Duration>) {
    match deadline {
        Some(deadline) => inner.clock.sleep_until_reading(deadline).await,
        None => std::future::pending().await,
    }
}
