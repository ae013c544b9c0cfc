//! Which commands replace each other, and which are caused by a client.

use conclave_model::{ParticipantSid, TrackSid};

use crate::command::{Command, PeerCommand};

/// What a command changes as a whole, so that only the newest one counts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Slot {
    peer: ParticipantSid,
    subject: Subject,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Subject {
    Offer,
    Answer,
    Permissions,
    Muted(TrackSid),
    Subscription(TrackSid),
    Settings(TrackSid),
}

/// Returns what a command changes as a whole; `None` if none replaces another.
pub fn slot_of(command: &Command) -> Option<Slot> {
    let Command::Peer { peer, command } = command else {
        return None;
    };
    let subject = match command {
        PeerCommand::Offer { .. } => Subject::Offer,
        PeerCommand::Answer { .. } => Subject::Answer,
        PeerCommand::SetPermissions(_) => Subject::Permissions,
        PeerCommand::SetMuted { track, .. } => Subject::Muted(track.clone()),
        PeerCommand::Subscribe(track)
        | PeerCommand::Unsubscribe(track)
        | PeerCommand::SubscribeDataTrack { track, .. }
        | PeerCommand::UnsubscribeDataTrack { track, .. } => Subject::Subscription(track.clone()),
        PeerCommand::SetTrackSettings { track, .. } => Subject::Settings(track.clone()),
        _ => return None,
    };
    Some(Slot {
        peer: peer.clone(),
        subject,
    })
}

/// Returns the participant whose client can cause any number of such commands.
pub fn client_of(command: &Command) -> Option<&ParticipantSid> {
    let Command::Peer { peer, command } = command else {
        return None;
    };
    let is_of_client = matches!(
        command,
        PeerCommand::Offer { .. }
            | PeerCommand::Answer { .. }
            | PeerCommand::Resume
            | PeerCommand::ReplayData { .. }
            | PeerCommand::PublishTrack(_)
            | PeerCommand::UnpublishTrack(_)
            | PeerCommand::UnpublishBackup { .. }
            | PeerCommand::PublishDataTrack { .. }
            | PeerCommand::UnpublishDataTrack(_)
            | PeerCommand::SetTrackSettings { .. }
            | PeerCommand::Packets { .. }
    );
    is_of_client.then_some(peer)
}

/// Returns the length of a command's session description.
pub fn sdp_bytes(command: &Command) -> usize {
    match command {
        Command::Peer {
            command: PeerCommand::Offer { sdp, .. } | PeerCommand::Answer { sdp, .. },
            ..
        } => sdp.len(),
        _ => 0,
    }
}
