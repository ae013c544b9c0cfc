//! The egress actor: follows one recording or broadcast until its status is final, and uploads the file of a recording with a destination
//! (`upload.rs`).
//!
//! Only this actor changes the record, after reports of the media plane, replies to its polls, and stops. Each change is written with its
//! event before anyone is notified.
//!
//! Limits: an egress whose room has ended, or that was stopped, is polled every 5 s until it has ended on the media plane.
//!
//! Supervision: the project actor starts it with the egress, and rebuilds it from the record after a failure. It stops when the egress is
//! final and its file has been uploaded, or never can be.

mod follow;
mod upload;
mod upload_machine;

use std::sync::Arc;

use conclave_db::RunningEgress;
use conclave_media::ReportError;
use conclave_model::egress::{Egress, EgressState, EgressStatus};
use conclave_model::idempotency::ResponseRecorder;
use conclave_model::{EgressId, Timestamp};
use conclave_outbound::upload::UploadFailure;
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::context::ActorContext;
use crate::error::TreeError;
use crate::follow::{Follower, LastReply};
use crate::info::ActorInfo;
use crate::mailbox::{Mailbox, Timer};
use crate::registry::{InspectMessage, Inspection};
use upload::Upload;

/// Reply with the record of a recording or a broadcast.
pub type EgressReply = RpcReplyPort<Result<Egress, TreeError>>;

/// Message to an egress actor.
#[derive(Debug, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum EgressMsg {
    /// The media plane reports a state.
    Report {
        /// State reported by the media plane.
        state: EgressState,
        /// Report time, by the media plane's clock.
        at: Timestamp,
        /// Replied to once the state is durable.
        answer: oneshot::Sender<Result<(), ReportError>>,
    },
    /// Poll the media plane, then return the record.
    Refresh(EgressReply),
    /// Stop the egress.
    Stop {
        /// Response to store with the change.
        recorder: Option<ResponseRecorder<Egress>>,
        /// Replied to once the change is durable.
        reply: EgressReply,
    },
    /// Pause the recording, or resume it.
    SetPaused {
        /// True pauses, false resumes.
        paused: bool,
        /// Response to store with the change.
        recorder: Option<ResponseRecorder<Egress>>,
        /// Replied to once the change is durable.
        reply: EgressReply,
    },
    /// The room has ended.
    RoomEnded,
    /// Poll the media plane, in case a report was lost.
    Poll,
    /// An attempt to upload the file has finished.
    Uploaded(Result<(), UploadFailure>),
    /// The next attempt is due.
    UploadDue,
    /// Return a snapshot.
    Inspect(RpcReplyPort<Inspection>),
}

impl InspectMessage for EgressMsg {
    fn inspect(reply: RpcReplyPort<Inspection>) -> Self {
        Self::Inspect(reply)
    }
}

/// Arguments for an egress actor, set once by the project.
pub struct EgressActor {
    /// Services and settings shared by all actors.
    pub context: Arc<ActorContext>,
    /// Identity and counters.
    pub info: Arc<ActorInfo>,
    /// Id of the recording or broadcast.
    pub id: EgressId,
}

/// Recording or broadcast with an actor: the last written record, the timer, the upload, and the media plane's last reply.
pub struct LiveEgress {
    context: Arc<ActorContext>,
    me: Mailbox<EgressMsg>,
    id: EgressId,
    egress: Egress,
    room_open: bool,
    settle: Option<Timer>,
    /// Upload of its file; `None` if there is nothing to upload.
    upload: Option<Upload>,
    last_answer: Option<LastReply<EgressStatus>>,
}

impl LiveEgress {
    fn new(actor: &EgressActor, me: ActorRef<EgressMsg>, running: RunningEgress) -> Self {
        let RunningEgress {
            egress,
            room_open,
            upload,
        } = running;
        Self {
            upload: upload.map(|pending| Upload::new(&egress, pending, &actor.context)),
            context: Arc::clone(&actor.context),
            me: Mailbox::new(me, Arc::clone(&actor.info)),
            id: actor.id.clone(),
            egress,
            room_open,
            settle: None,
            last_answer: None,
        }
    }

    async fn handle(&mut self, message: EgressMsg) {
        match message {
            EgressMsg::Report { state, at, answer } => {
                let result = self.handle_report(state, at).await;
                // A reporter that has stopped waiting reports again, or is polled.
                let _ = answer.send(result);
            }
            EgressMsg::Refresh(reply) => {
                let refreshed = self.refresh().await;
                let _ = reply.send(refreshed);
            }
            EgressMsg::Stop { recorder, reply } => {
                let stopped = self.stop(recorder).await;
                let _ = reply.send(stopped);
            }
            EgressMsg::SetPaused {
                paused,
                recorder,
                reply,
            } => {
                let changed = self.set_paused(paused, recorder).await;
                let _ = reply.send(changed);
            }
            // `arm_settle` below arms a poll, which stops an egress whose room has ended.
            EgressMsg::RoomEnded => self.room_open = false,
            EgressMsg::Poll => self.poll().await,
            EgressMsg::Uploaded(result) => self.upload_ended(result).await,
            EgressMsg::UploadDue => self
                .upload
                .iter_mut()
                .for_each(|upload| upload.timer = None),
            EgressMsg::Inspect(reply) => {
                // Requested here, so that a snapshot shows the current progress.
                let progress = self.context.media.inspect_egress(&self.id).await;
                let _ = reply.send(self.inspect(progress));
                // An inspection changes nothing, so no timer or upload has to follow.
                return;
            }
        }
        // After every other message, since any of them may have changed the status or the room.
        self.arm_settle();
        self.drive_upload();
    }

    /// Returns the snapshot. A simulated egress has no progress.
    fn inspect(&self, progress: Option<Value>) -> Inspection {
        let mut state = json!({
            "kind": self.egress.kind().as_str(),
            "room": self.egress.room,
            "room_open": self.room_open,
            "status": self.egress.status,
            "last_answer": self.last_answer,
        });
        if let Some(progress) = progress {
            state["progress"] = progress;
        }
        if let Some(upload) = &self.upload {
            state["upload"] = upload.inspect();
        }
        let timers = self
            .settle
            .iter()
            .chain(self.upload.iter().flat_map(|upload| &upload.timer));
        Inspection {
            timers: timers.map(Timer::view).collect(),
            state,
        }
    }

    /// Returns whether the media plane has nothing more to report: the egress is final, or only its upload is not.
    fn has_ended_on_plane(&self) -> bool {
        self.egress.status.is_final()
            || self
                .upload
                .as_ref()
                .is_some_and(|upload| !upload.is_recording())
    }

    /// Returns whether this actor has nothing left to do.
    fn is_done(&self) -> bool {
        self.egress.status.is_final() && self.upload.as_ref().is_none_or(Upload::has_ended)
    }
}

impl Actor for EgressActor {
    type Msg = EgressMsg;
    type State = LiveEgress;
    type Arguments = RunningEgress;

    async fn pre_start(
        &self,
        myself: ActorRef<EgressMsg>,
        running: RunningEgress,
    ) -> Result<LiveEgress, ActorProcessingErr> {
        self.info.record_start(self.context.clock.now());
        let mut egress = LiveEgress::new(self, myself, running);
        egress.arm_settle();
        // A rebuilt actor continues an outstanding upload at once.
        egress.drive_upload();
        Ok(egress)
    }

    async fn handle(
        &self,
        myself: ActorRef<EgressMsg>,
        message: EgressMsg,
        egress: &mut LiveEgress,
    ) -> Result<(), ActorProcessingErr> {
        self.info.record_message(self.context.clock.now(), &message);
        let is_inspection = matches!(message, EgressMsg::Inspect(_));
        egress.handle(message).await;
        if !is_inspection && egress.is_done() {
            // Messages sent by now are handled first. Later ones get their reply from the record.
            myself.drain()?;
        }
        Ok(())
    }
}
