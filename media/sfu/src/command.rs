//! Commands from the control side to the media workers.
//!
//! Each of a room's workers handles the room's commands in the order in which they are sent; rooms are served
//! round-robin. If several queued commands set the same thing, such as two offers from a participant, only the newest
//! is handled: a replaced offer gets no answer. A participant whose client causes more commands than the worker queues
//! fails ([`TooManyCommands`](FailureReason::TooManyCommands)). A command for a peer or track that the worker does not
//! know is ignored: the peer may have failed in the meantime, and its [`Failed`](crate::PeerEvent::Failed) is on its
//! way.
//!
//! # A connection in commands and events
//!
//! 1. [`AddPeer`](Command::AddPeer) when the participant is admitted, after `JoinResponse` was sent.
//! 2. Dual mode: the worker sends [`Offered`](crate::PeerEvent::Offered) at once, and after each change of the peer's
//!    subscriptions; the client's answers come back as [`Answer`](PeerCommand::Answer). The client's own offers are
//!    [`Offer`](PeerCommand::Offer)s, answered by [`Answered`](crate::PeerEvent::Answered). Single mode: only `Offer`
//!    and `Answered`; the worker requests an offer by
//!    [`MediaSectionsRequired`](crate::PeerEvent::MediaSectionsRequired).
//! 3. [`Connected`](crate::PeerEvent::Connected): the participant is ACTIVE.
//! 4. For each granted `AddTrackRequest`: [`PublishTrack`](PeerCommand::PublishTrack) before `TrackPublishedResponse`
//!    is sent, so that the worker knows the track when the offer with its media section arrives. In single mode, a join
//!    request can contain both tracks and an offer: publish first, then offer.
//!    [`TrackPublished`](crate::PeerEvent::TrackPublished) follows when the section is negotiated; only then is the
//!    track announced to others.
//! 5. [`Subscribe`](PeerCommand::Subscribe) after the subscriber was sent the `ParticipantUpdate` with the track:
//!    clients drop media from unknown participants.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use conclave_model::participant::DataKind;
use conclave_model::quality::{ClientProgram, ReconnectReason};
use conclave_model::{EgressId, Identity, ParticipantSid, TrackSid};

use crate::codec::Codec;
use crate::event::FailureReason;
use crate::recorder::PacketSink;
use crate::snapshot::PeerSnapshot;
use crate::track::{NewTrack, Quality};

/// Command for a room's workers. [`RoomHandle::send`](crate::RoomHandle::send) selects the room.
#[derive(Debug)]
pub enum Command {
    /// Concerns one participant.
    Peer {
        /// The participant's sid.
        peer: ParticipantSid,
        /// Command for the participant.
        command: PeerCommand,
    },
    /// Creates a participant's transports.
    AddPeer(NewPeer),
    /// Removes all peers and the room. Sent when a [`RoomHandle`](crate::RoomHandle) is dropped.
    CloseRoom,
    /// Sets whether participants' user messages are reported by [`MessageSent`](crate::PeerEvent::MessageSent), for
    /// receivers without transports. Initially they are not.
    ReportMessages {
        /// Whether they are reported.
        enabled: bool,
    },
    /// Sends a message from the server, without a sender, to connected participants.
    SendData(ServerMessage),
    /// Reports participants' transports and tracks; unknown participants are omitted. Packets wait meanwhile, so
    /// callers request few participants at a time.
    Snapshot {
        /// The participants' sids.
        peers: Vec<ParticipantSid>,
        /// Receives the snapshots.
        reply: Reply<Vec<PeerSnapshot>>,
    },
}

/// Command that concerns one participant.
#[derive(Debug)]
pub enum PeerCommand {
    /// Closes the participant's transports and ends its tracks. No event of the peer follows.
    Remove,
    /// Closes the participant's transports and ends its tracks, because its client exceeded a limit. Reported by
    /// [`Failed`](crate::PeerEvent::Failed) with this reason.
    Fail(FailureReason),
    /// Handles an offer from the client: for the publisher connection in dual mode, for the only connection in single
    /// mode. Answered by [`Answered`](crate::PeerEvent::Answered), or by [`Failed`](crate::PeerEvent::Failed) if the
    /// offer is invalid. An offer with new ICE credentials restarts ICE.
    Offer {
        /// `id` of the `SessionDescription`; the answer repeats it.
        offer_id: u32,
        /// SDP text.
        sdp: String,
    },
    /// Handles the client's answer to the last [`Offered`](crate::PeerEvent::Offered). Ignored outside dual mode.
    Answer {
        /// `id` of the `SessionDescription`. Some clients do not repeat the offer's id, and send 0.
        offer_id: u32,
        /// SDP text.
        sdp: String,
    },
    /// Prepares a participant that resumes. Answered by [`Resumed`](crate::PeerEvent::Resumed), before the
    /// [`Offered`](crate::PeerEvent::Offered) that restarts ICE on the subscriber connection in dual mode.
    Resume,
    /// Records why the client resumes, for the session's quality. Sent before [`Resume`](Self::Resume), if the client
    /// states a reason.
    RecordReconnect(ReconnectReason),
    /// Repeats the reliable messages that a resumed participant has missed (`datachannel_receive_states`).
    ReplayData {
        /// Last sequence number that the participant has received, per sender.
        received: Vec<(ParticipantSid, u32)>,
    },
    /// Admits the publisher's media: a track, or a track's backup codec. Media without an admitted track is dropped.
    PublishTrack(NewTrack),
    /// Stops a publisher's track at once, whatever the client sends. No [`TrackEnded`](crate::PeerEvent::TrackEnded)
    /// follows.
    UnpublishTrack(TrackSid),
    /// Stops a publisher's track in a backup codec that it may no longer use. No
    /// [`BackupEnded`](crate::PeerEvent::BackupEnded) follows.
    UnpublishBackup {
        /// The track's sid.
        track: TrackSid,
        /// Backup codec of the track.
        codec: Codec,
    },
    /// Stops or resumes forwarding a track. A track is muted while its publisher or a moderator mutes it.
    SetMuted {
        /// The track's sid.
        track: TrackSid,
        /// Whether forwarding stops.
        muted: bool,
    },
    /// Forwards a published track to the participant. The control side has checked the permission and the subscription.
    Subscribe(TrackSid),
    /// Stops forwarding a track to the participant, from the next packet on.
    Unsubscribe(TrackSid),
    /// Applies the subscriber's settings for a track (`UpdateTrackSettings`).
    SetTrackSettings {
        /// The track's sid.
        track: TrackSid,
        /// Settings; they replace earlier ones.
        settings: TrackSettings,
    },
    /// Forwards packets of a publisher with [`ConnectionMode::Source`], in stream order. Packets of an unpublished
    /// track are dropped.
    Packets {
        /// The track's sid.
        track: TrackSid,
        /// Packets, oldest first.
        packets: Vec<SourcePacket>,
    },
    /// Attaches a recorder to the publisher's track, or changes the layer that the recorder gets. The recorder receives
    /// packets while the track is not muted. The track must be published.
    AttachRecorder {
        /// The track's sid.
        track: TrackSid,
        /// Recorder with its settings.
        recorder: NewRecorder,
    },
    /// Detaches a recorder from the publisher's track, from the next packet on.
    DetachRecorder {
        /// The track's sid.
        track: TrackSid,
        /// Egress that recorded the track.
        egress: EgressId,
    },
    /// Requests a key frame of the layer that a recorder receives.
    RequestKeyFrame {
        /// The track's sid.
        track: TrackSid,
        /// Egress that records the track.
        egress: EgressId,
    },
    /// Changes the participant's permissions, from the next packet on.
    SetPermissions(PeerPermissions),
    /// Admits packets of the participant's data track. Packets without an admitted track are dropped.
    PublishDataTrack {
        /// The track's sid.
        track: TrackSid,
        /// Number by which the participant names it in packets.
        handle: u16,
    },
    /// Ends the participant's data track.
    UnpublishDataTrack(TrackSid),
    /// Forwards a published data track to the participant. As for [`Subscribe`](Self::Subscribe), the control side has
    /// checked the permission and the subscription.
    SubscribeDataTrack {
        /// The publisher's sid.
        publisher: ParticipantSid,
        /// The track's sid.
        track: TrackSid,
        /// Number by which packets to the participant name it.
        handle: u16,
    },
    /// Stops forwarding a data track to the participant, from the next packet on.
    UnsubscribeDataTrack {
        /// The publisher's sid.
        publisher: ParticipantSid,
        /// The track's sid.
        track: TrackSid,
    },
}

impl PeerCommand {
    /// Addresses the command to a participant.
    pub const fn for_peer(self, peer: ParticipantSid) -> Command {
        Command::Peer {
            peer,
            command: self,
        }
    }
}

/// Participant whose media will be connected.
#[derive(Debug, Clone)]
pub struct NewPeer {
    /// Sid of this join.
    pub sid: ParticipantSid,
    /// Identity, by which data messages are addressed.
    pub identity: Identity,
    /// Number and direction of its peer connections.
    pub mode: ConnectionMode,
    /// Whether the subscriber connection determines [`Connected`](crate::PeerEvent::Connected)
    /// (`JoinResponse.subscriber_primary`). Ignored in single mode.
    pub is_subscriber_primary: bool,
    /// Whether the client requested a full ICE agent (`disable_ice_lite`).
    pub needs_full_ice: bool,
    /// Whether the server may pause videos when bandwidth is short (`subscriber_allow_pause`). Otherwise each video's
    /// lowest layer is always sent.
    pub allows_pause: bool,
    /// The participant's permissions.
    pub permissions: PeerPermissions,
    /// The client's program, for the session's quality; `None` if it is unknown.
    pub client: Option<Box<ClientProgram>>,
}

/// A client's peer connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionMode {
    /// `/rtc`: one for publishing, offered by the client, and one for subscribing, offered by the server.
    Dual,
    /// `/rtc/v1`: one for both directions, always offered by the client.
    Single,
    /// None: the control side has the media, and sends it by [`PeerCommand::Packets`]. The participant is
    /// [`Connected`](crate::PeerEvent::Connected) at once, its tracks are published when they are admitted, and it
    /// receives nothing. Requests for key frames are ignored: receivers wait for the next one.
    Source,
}

/// Packet of a participant without a connection.
#[derive(Debug, Clone)]
pub struct SourcePacket {
    /// RTP timestamp in ticks of the codec's clock.
    pub timestamp: u32,
    /// Capture time, with which receivers synchronise audio and video.
    pub captured: Instant,
    /// RTP payload, at most 1,400 bytes.
    pub payload: Arc<[u8]>,
    /// Whether it is the last packet of a video frame.
    pub is_last: bool,
}

/// A participant's permissions on its transports. [`PeerCommand::PublishTrack`] and [`PeerCommand::Subscribe`] select
/// its tracks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerPermissions {
    /// Whether its transcriptions of other participants' speech are forwarded.
    pub can_transcribe_others: bool,
    /// Whether its data messages are forwarded.
    pub can_publish_data: bool,
    /// Whether it receives other participants' data messages.
    pub can_subscribe: bool,
    /// Whether it is hidden: its messages carry no sender.
    pub is_hidden: bool,
    /// Maximum bitrate of video and audio sent to it, in kilobits per second; `None` for no limit.
    pub subscribe_max_kbps: Option<u32>,
}

/// A subscriber's settings for a track. The default requests the best quality.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrackSettings {
    /// Whether sending is disabled.
    pub is_disabled: bool,
    /// Highest quality to send, if the dimensions are 0.
    pub quality: Quality,
    /// Width at which the video is shown, in pixels. With `height` it takes precedence over `quality`; 0 if not given.
    pub width: u32,
    /// Height at which the video is shown, in pixels; 0 if not given.
    pub height: u32,
    /// Frame rate that is shown; 0 if not given. Reserved: layers have one frame rate.
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

/// Recorder of a track. There is at most one per egress and track.
#[derive(Clone)]
pub struct NewRecorder {
    /// Egress that records the track.
    pub egress: EgressId,
    /// Layer to record, in the form of a subscriber's settings.
    pub settings: TrackSettings,
    /// Receives the packets.
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

/// Message that the server sends on the data channels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerMessage {
    /// Receivers; empty for every participant that may receive data.
    pub to: Vec<Identity>,
    /// Reliable or lossy.
    pub kind: DataKind,
    /// Topic, if any.
    pub topic: Option<String>,
    /// Payload of the user packet.
    pub payload: Vec<u8>,
}

/// Receiver of a command's result. The function is called once on the worker's thread, so it must not block.
pub struct Reply<T>(Box<dyn FnOnce(T) + Send>);

impl<T> Reply<T> {
    /// Wraps the function that receives the result, for example a oneshot channel's sender.
    pub fn new(send: impl FnOnce(T) + Send + 'static) -> Self {
        Self(Box::new(send))
    }

    /// Sends the result.
    pub fn send(self, answer: T) {
        (self.0)(answer);
    }
}

impl<T> fmt::Debug for Reply<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reply")
    }
}
