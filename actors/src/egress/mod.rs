//! The egress actor: follows one recording or broadcast until it is final.
//!
//! It is the one place where a job's record is moved: by reports of the media plane, by answers to questions it asked, by
//! a stop. Each move is written with its event before anybody is told. When its room has ended the job has nothing left to
//! take, so the actor sees to it that it settles. It stops once its job is final.

mod follow;

use std::sync::Arc;

use conclave_db::RunningEgress;
use conclave_media::ReportError;
use conclave_model::egress::{Egress, EgressState, EgressStatus};
use conclave_model::idempotency::ResponseRecorder;
use conclave_model::{EgressId, Timestamp};
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use serde_json::json;
use tokio::sync::oneshot;

use crate::answer::LastAnswer;
use crate::context::ActorContext;
use crate::error::TreeError;
use crate::info::ActorInfo;
use crate::inspection::{InspectMessage, Inspection};
use crate::mailbox::Mailbox;
use crate::timer::Timer;

/// The reply to whoever asked for a job, or for its end.
pub type EgressReply = RpcReplyPort<Result<Egress, TreeError>>;

/// What an egress actor understands.
#[derive(Debug)]
pub enum EgressMsg {
    /// The media plane says how the job stands.
    Report {
        /// How.
        said: EgressState,
        /// When that was, by the media plane's clock.
        at: Timestamp,
        /// Answered once it is durable.
        answer: oneshot::Sender<Result<(), ReportError>>,
    },
    /// Ask the media plane how the job stands, and give the record as it is then.
    Refresh(EgressReply),
    /// Tell the job to finish.
    Stop {
        /// The answer to keep with it.
        keep: Option<ResponseRecorder<Egress>>,
        /// Answered once it is durable.
        reply: EgressReply,
    },
    /// The room has ended.
    RoomEnded,
    /// Ask the media plane how the job stands; it may have said so and not been heard.
    Poll,
    /// Tell about yourself.
    Inspect(RpcReplyPort<Inspection>),
}

impl EgressMsg {
    const fn name(&self) -> &'static str {
        match self {
            Self::Report { .. } => "report",
            Self::Refresh(_) => "refresh",
            Self::Stop { .. } => "stop",
            Self::RoomEnded => "room_ended",
            Self::Poll => "poll",
            Self::Inspect(_) => "inspect",
        }
    }
}

impl InspectMessage for EgressMsg {
    fn inspect(reply: RpcReplyPort<Inspection>) -> Self {
        Self::Inspect(reply)
    }
}

/// The actor's read-only parts.
pub struct EgressActor {
    /// Shared parts.
    pub context: Arc<ActorContext>,
    /// Its info.
    pub info: Arc<ActorInfo>,
    /// Which job.
    pub id: EgressId,
}

/// The record as last written, and what the media plane last said.
pub struct EgressActorState {
    job: Egress,
    room_open: bool,
    settle: Option<Timer>,
    last_answer: Option<LastAnswer<EgressStatus>>,
}

impl EgressActorState {
    fn inspect(&self) -> Inspection {
        let state = json!({
            "job": self.job.kind().as_str(),
            "room": self.job.room,
            "room_open": self.room_open,
            "status": self.job.status,
            "last_answer": self.last_answer,
        });
        Inspection { timers: self.settle.iter().map(Timer::view).collect(), state }
    }
}

impl Actor for EgressActor {
    type Msg = EgressMsg;
    type State = EgressActorState;
    type Arguments = RunningEgress;

    async fn pre_start(
        &self,
        myself: ActorRef<EgressMsg>,
        running: RunningEgress,
    ) -> Result<EgressActorState, ActorProcessingErr> {
        self.info.record_start(self.context.clock.now());
        let me = Mailbox::new(myself, Arc::clone(&self.info));
        let RunningEgress { egress: job, room_open } = running;
        let mut state = EgressActorState { job, room_open, settle: None, last_answer: None };
        self.arm_settle(&me, &mut state);
        Ok(state)
    }

    async fn handle(
        &self,
        myself: ActorRef<EgressMsg>,
        message: EgressMsg,
        state: &mut EgressActorState,
    ) -> Result<(), ActorProcessingErr> {
        let me = Mailbox::new(myself, Arc::clone(&self.info));
        self.info.record_message(self.context.clock.now(), message.name());
        match message {
            EgressMsg::Report { said, at, answer } => {
                let taken = self.handle_report(state, said, at).await;
                // A reporter that stopped waiting reports again, or is asked.
                let _ = answer.send(taken);
            }
            EgressMsg::Refresh(reply) => {
                let refreshed = self.refresh(state).await;
                let _ = reply.send(refreshed);
            }
            EgressMsg::Stop { keep, reply } => {
                let stopped = self.stop(state, keep).await;
                let _ = reply.send(stopped);
            }
            EgressMsg::RoomEnded => state.room_open = false,
            EgressMsg::Poll => self.poll(state).await,
            EgressMsg::Inspect(reply) => {
                let _ = reply.send(state.inspect());
                return Ok(());
            }
        }
        self.arm_settle(&me, state);
        if state.job.status.is_final() {
            // What has been sent by now is handled first; what comes later finds the record.
            me.actor().drain()?;
        }
        Ok(())
    }
}
