//! What the control side tells the media workers.
//!
//! Commands of one room are handled in the order in which they are sent, by each of its workers, and rooms take turns. Of changes of the same thing, such
//! as two offers of a participant, only the newest is handled: an offer that was replaced gets no answer. A participant whose client
//! causes more than the worker keeps fails ([`TooManyCommands`](FailureReason::TooManyCommands)). A command that names a peer or a track that the
//! worker does not know is ignored: the peer may have failed in the meantime, and its [`Failed`](crate::PeerEvent::Failed)
//! is on its way.
//!
//! # A connection in commands and events
//!
//! 1. [`AddPeer`](Command::AddPeer) when the participant is admitted, after `JoinResponse` was sent.
//! 2. Dual mode: the worker sends [`Offered`](crate::PeerEvent::Offered) at once, and after each change of the peer's
//!    subscriptions; the client's answers come back as [`Answer`](PeerCommand::Answer). The client's own offers are
//!    [`Offer`](PeerCommand::Offer)s, answered by [`Answered`](crate::PeerEvent::Answered).
//!    Single mode: only `Offer` and `Answered`; the worker asks for an offer by
//!    [`MediaSectionsRequired`](crate::PeerEvent::MediaSectionsRequired).
//! 3. [`Connected`](crate::PeerEvent::Connected): the participant is ACTIVE.
//! 4. For each `AddTrackRequest` that is granted: [`PublishTrack`](PeerCommand::PublishTrack) before `TrackPublishedResponse` is
//!    sent, so that the worker knows the track when the offer with its media section arrives. In single mode a join
//!    request can hold tracks and an offer: publish first, then offer. [`TrackPublished`](crate::PeerEvent::TrackPublished)
//!    follows when the section is negotiated; only then is the track announced to others.
//! 5. [`Subscribe`](PeerCommand::Subscribe) after the subscriber was sent the `ParticipantUpdate` that names the track, since
//!    clients drop media of a participant they do not know.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use conclave_model::participant::DataKind;
use conclave_model::{EgressId, Identity, ParticipantSid, TrackSid};

use crate::codec::Codec;
use crate::event::FailureReason;
use crate::recorder::PacketSink;
use crate::snapshot::PeerSnapshot;
use crate::track::{NewTrack, Quality};

/// An instruction for the workers of a room. [`RoomHandle::send`](crate::RoomHandle::send) names the room.
#[derive(Debug)]
pub enum Command {
    /// It concerns one participant.
    Peer {
        /// The sid of the participant.
        peer: ParticipantSid,
        /// What the worker has to do.
        command: PeerCommand,
    },
    /// Creates the transports of a participant.
    AddPeer(NewPeer),
    /// Removes all peers and forgets the room. Dropping a [`RoomHandle`](crate::RoomHandle) sends it.
    CloseRoom,
    /// Sets whether user messages of participants are reported by [`MessageSent`](crate::PeerEvent::MessageSent), for
    /// receivers without transports. They are not at first.
    ReportMessages {
        /// Whether they are.
        enabled: bool,
    },
    /// Sends a message of the server, without a sender, to participants that are connected.
    SendData(ServerMessage),
    /// Reports the state of participants' transports and tracks, without those that are not in the room. Packets wait
    /// meanwhile, so a caller asks about a few participants at a time.
    Snapshot {
        /// The sids of the participants.
        peers: Vec<ParticipantSid>,
        /// Where the state goes.
        reply: Reply<Vec<PeerSnapshot>>,
    },
}

/// An instruction that concerns one participant.
#[derive(Debug)]
pub enum PeerCommand {
    /// Closes the participant's transports; its tracks end. No event of the peer follows.
    Remove,
    /// Closes the participant's transports because its client sends more than it may; its tracks end. Reported by
    /// [`Failed`](crate::PeerEvent::Failed) with this reason.
    Fail(FailureReason),
    /// Handles an offer of the client: of the publisher connection in dual mode, of the only one in single mode.
    /// Answered by [`Answered`](crate::PeerEvent::Answered), or by [`Failed`](crate::PeerEvent::Failed) if the offer
    /// cannot be understood. An offer with new ICE credentials restarts ICE.
    Offer {
        /// The `id` of the `SessionDescription`; the answer repeats it.
        offer_id: u32,
        /// The SDP text.
        sdp: String,
    },
    /// Handles the client's answer to the last [`Offered`](crate::PeerEvent::Offered). Dual mode only; ignored otherwise.
    Answer {
        /// The `id` of the `SessionDescription`. Some clients do not repeat that of the offer and send 0.
        offer_id: u32,
        /// The SDP text.
        sdp: String,
    },
    /// Prepares a participant that resumes: answered by [`Resumed`](crate::PeerEvent::Resumed), which comes before the
    /// [`Offered`](crate::PeerEvent::Offered) that restarts ICE of the subscriber connection in dual mode.
    Resume,
    /// Sends a resumed participant again the reliable messages that it has missed (`datachannel_receive_states`).
    ReplayData {
        /// For each sender, the last sequence number that the participant has received.
        received: Vec<(ParticipantSid, u32)>,
    },
    /// Admits media of the publisher: a track, or a backup codec of one. Media that no admitted track claims is dropped.
    PublishTrack(NewTrack),
    /// Stops a track of the publisher at once, whatever the client sends. No [`TrackEnded`](crate::PeerEvent::TrackEnded)
    /// follows.
    UnpublishTrack(TrackSid),
    /// Stops a track of the publisher in one of its backup codecs, which it may not use any more. No
    /// [`BackupEnded`](crate::PeerEvent::BackupEnded) follows.
    UnpublishBackup {
        /// The sid of the track.
        track: TrackSid,
        /// One of its backup codecs.
        codec: Codec,
    },
    /// Stops or resumes the forwarding of a track. A track is muted while its publisher or a moderator mutes it.
    SetMuted {
        /// The sid of the track.
        track: TrackSid,
        /// Whether nothing of the track is forwarded.
        muted: bool,
    },
    /// Forwards a published track to the participant. The control side has decided that it may receive the track and wants it.
    Subscribe(TrackSid),
    /// Ends the forwarding of a track to the participant, from the next packet on.
    Unsubscribe(TrackSid),
    /// Applies what the subscriber asks of a track (`UpdateTrackSettings`).
    SetTrackSettings {
        /// The sid of the track.
        track: TrackSid,
        /// The request; it replaces the earlier one.
        settings: TrackSettings,
    },
    /// Forwards packets of a publisher in the mode [`ConnectionMode::Source`], in the order of the stream. Packets of a track
    /// that is not published are dropped.
    Packets {
        /// The sid of the track.
        track: TrackSid,
        /// The packets, oldest first.
        packets: Vec<SourcePacket>,
    },
    /// Gives a track of the publisher a recorder, which receives packets as long as the track is not muted, or changes the
    /// layer that its recorder wants. The track must be published.
    AttachRecorder {
        /// The sid of the track.
        track: TrackSid,
        /// The recorder, or what it wants from now on.
        recorder: NewRecorder,
    },
    /// Takes a recorder from a track of the publisher, from the next packet on.
    DetachRecorder {
        /// The sid of the track.
        track: TrackSid,
        /// The egress that recorded the track.
        egress: EgressId,
    },
    /// Requests a key frame of the layer that a recorder receives.
    RequestKeyFrame {
        /// The sid of the track.
        track: TrackSid,
        /// The egress that records the track.
        egress: EgressId,
    },
    /// Changes what the participant may do, from the next packet on.
    SetPermissions(PeerPermissions),
    /// Admits packets of a data track of the participant. Packets that name no admitted track are dropped.
    PublishDataTrack {
        /// The sid of the track.
        track: TrackSid,
        /// How the participant names it in packets.
        handle: u16,
    },
    /// Ends a data track of the participant.
    UnpublishDataTrack(TrackSid),
    /// Forwards a published data track to the participant. As for [`Subscribe`](Self::Subscribe), the control side has decided that
    /// it may receive the track and wants it.
    SubscribeDataTrack {
        /// The sid of the publisher.
        publisher: ParticipantSid,
        /// The sid of the track.
        track: TrackSid,
        /// How the participant knows it in packets.
        handle: u16,
    },
    /// Ends the forwarding of a data track to the participant, from the next packet on.
    UnsubscribeDataTrack {
        /// The sid of the publisher.
        publisher: ParticipantSid,
        /// The sid of the track.
        track: TrackSid,
    },
}

impl PeerCommand {
    /// Names the participant that the command is for.
    pub const fn for_peer(self, peer: ParticipantSid) -> Command {
        Command::Peer {
            peer,
            command: self,
        }
    }
}

/// A participant whose media is to be connected.
#[derive(Debug, Clone)]
pub struct NewPeer {
    /// The sid of this join.
    pub sid: ParticipantSid,
    /// The identity, by which data messages are addressed.
    pub identity: Identity,
    /// One or two peer connections.
    pub mode: ConnectionMode,
    /// Whether the client answers [`Connected`](crate::PeerEvent::Connected) by its subscriber connection
    /// (`JoinResponse.subscriber_primary`). Ignored in single mode.
    pub is_subscriber_primary: bool,
    /// Whether the client asked for a full ICE agent (`disable_ice_lite`).
    pub needs_full_ice: bool,
    /// Whether the client lets the server pause videos when bandwidth is short (`subscriber_allow_pause`). If not, the
    /// lowest layer of each video is sent in any case.
    pub allows_pause: bool,
    /// What the participant may do.
    pub permissions: PeerPermissions,
}

/// How many peer connections a client uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionMode {
    /// `/rtc`: one that the client offers for publishing, one that the server offers for subscribing.
    Dual,
    /// `/rtc/v1`: one in both directions, always offered by the client.
    Single,
    /// None: the control side has the media, and sends it by [`PeerCommand::Packets`]. The participant is
    /// [`Connected`](crate::PeerEvent::Connected) at once, its tracks are published when they are admitted, and it receives
    /// nothing. Requests for key frames are ignored: receivers wait for the next one.
    Source,
}

/// A packet of a participant without a connection.
#[derive(Debug, Clone)]
pub struct SourcePacket {
    /// The RTP timestamp, in ticks of the codec's clock.
    pub timestamp: u32,
    /// When it was captured, by which receivers keep sound and pictures together.
    pub captured: Instant,
    /// The RTP payload, at most 1,400 bytes.
    pub payload: Arc<[u8]>,
    /// Whether it is the last packet of a frame of video.
    pub is_last: bool,
}

/// What a participant may do on its transports. Which tracks it publishes and receives is a matter of
/// [`PeerCommand::PublishTrack`] and [`PeerCommand::Subscribe`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerPermissions {
    /// Whether its transcriptions of what others say are forwarded.
    pub can_transcribe_others: bool,
    /// Whether its data messages are forwarded.
    pub can_publish_data: bool,
    /// Whether it receives data messages of other participants.
    pub can_subscribe: bool,
    /// Whether it is hidden: its messages carry no sender.
    pub is_hidden: bool,
    /// The most video and audio that is sent to it, in kilobits a second; `None` for no limit.
    pub subscribe_max_kbps: Option<u32>,
}

/// What a subscriber asks of a track. The default asks for the best.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrackSettings {
    /// Whether nothing of the track is sent.
    pub is_disabled: bool,
    /// The best quality that is sent, if the dimensions are 0.
    pub quality: Quality,
    /// The width at which the video is shown, in pixels. With `height` it takes precedence over `quality`; 0 if not given.
    pub width: u32,
    /// The height at which the video is shown, in pixels; 0 if not given.
    pub height: u32,
    /// The frame rate that is shown; 0 if not given. Reserved: layers have one frame rate.
    pub fps: u32,
    /// The client's priority, 1 highest; 0 if not given.
    pub priority: u32,
}

impl Default for TrackSettings {
    fn default() -> Self {
        Self {
            is_disabled: false,
            quality: Quality::High,
            width: 0,
            height: 0,
            fps: 0,
            priority: 0,
        }
    }
}

/// What receives a track. There is at most one entry for each egress and track.
#[derive(Clone)]
pub struct NewRecorder {
    /// The egress that records the track.
    pub egress: EgressId,
    /// The layer that is wanted, as a subscriber asks for it.
    pub settings: TrackSettings,
    /// Where the packets go.
    pub sink: Arc<dyn PacketSink>,
}

impl fmt::Debug for NewRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewRecorder")
            .field("egress", &self.egress)
            .field("settings", &self.settings)
            .finish()
    }
}

/// A message that the server sends on the data channels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerMessage {
    /// The receivers; empty for every participant that may receive data.
    pub to: Vec<Identity>,
    /// Reliable or lossy.
    pub kind: DataKind,
    /// The topic, if any.
    pub topic: Option<String>,
    /// The content of the user packet.
    pub payload: Vec<u8>,
}

/// Where the answer to a command goes. The function is called once on the worker's thread, so it must not block.
pub struct Reply<T>(Box<dyn FnOnce(T) + Send>);

impl<T> Reply<T> {
    /// Wraps the function that takes the answer, for example the sending half of a oneshot channel.
    pub fn new(send: impl FnOnce(T) + Send + 'static) -> Self {
        Self(Box::new(send))
    }

    /// Gives the answer.
    pub fn send(self, answer: T) {
        (self.0)(answer);
    }
}

impl<T> fmt::Debug for Reply<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reply")
    }
}
