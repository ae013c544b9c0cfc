//! Participants and tracks for tests, as the control side announces them.

use conclave_model::participant::TrackSource;
use conclave_sfu::{Codec, ConnectionMode, NewPeer, NewTrack, PeerPermissions, TrackMedium};
use str0m::media::MediaKind;

/// Creates a participant with all permissions. Its identity is its sid.
pub fn new_peer(name: &str, mode: ConnectionMode) -> NewPeer {
    NewPeer {
        sid: name.parse().unwrap(),
        identity: name.parse().unwrap(),
        mode,
        is_subscriber_primary: true,
        needs_full_ice: false,
        allows_pause: false,
        permissions: PeerPermissions {
            can_transcribe_others: false,
            can_publish_data: true,
            can_subscribe: true,
            is_hidden: false,
            subscribe_max_kbps: None,
        },
        client: None,
    }
}

/// Creates a microphone or camera track.
pub fn new_track(sid: &str, cid: &str, kind: MediaKind) -> NewTrack {
    NewTrack {
        sid: sid.parse().unwrap(),
        cid: cid.to_owned(),
        medium: if kind.is_audio() {
            TrackMedium::Audio
        } else {
            TrackMedium::Video
        },
        source: if kind.is_audio() {
            TrackSource::Microphone
        } else {
            TrackSource::Camera
        },
        codec: None,
        allowed_codecs: Codec::ALL.to_vec(),
        is_stereo: false,
        uses_dtx: true,
        uses_red: false,
        is_muted: false,
        layers: Vec::new(),
        backup_codecs: Vec::new(),
        prefers_backup: false,
        is_backup: false,
    }
}
