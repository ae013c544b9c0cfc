//! Which commands replace each other, and which are caused by a client.

use conclave_model::{ParticipantSid, TrackSid};

use crate::command::Command;

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
    let (peer, subject) = match command {
        Command::Offer { peer, .. } => (peer, Subject::Offer),
        Command::Answer { peer, .. } => (peer, Subject::Answer),
        Command::SetPermissions { peer, .. } => (peer, Subject::Permissions),
        Command::SetMuted { peer, track, .. } => (peer, Subject::Muted(track.clone())),
        Command::Subscribe { peer, track } | Command::Unsubscribe { peer, track } => {
            (peer, Subject::Subscription(track.clone()))
        }
        Command::SetTrackSettings { peer, track, .. } => (peer, Subject::Settings(track.clone())),
        _ => return None,
    };
    Some(Slot { peer: peer.clone(), subject })
}

/// Returns the participant whose client can cause any number of such commands.
pub fn client_of(command: &Command) -> Option<&ParticipantSid> {
    match command {
        Command::Offer { peer, .. }
        | Command::Answer { peer, .. }
        | Command::Resume { peer }
        | Command::ReplayData { peer, .. }
        | Command::PublishTrack { peer, .. }
        | Command::UnpublishTrack { peer, .. }
        | Command::SetTrackSettings { peer, .. }
        | Command::Packets { peer, .. } => Some(peer),
        _ => None,
    }
}

/// Returns the length of a command's session description.
pub fn sdp_bytes(command: &Command) -> usize {
    match command {
        Command::Offer { sdp, .. } | Command::Answer { sdp, .. } => sdp.len(),
        _ => 0,
    }
}
