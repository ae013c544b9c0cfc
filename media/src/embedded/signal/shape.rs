//! Shapes of Protocol Buffers messages: maximum size, fields and list entries. Shapes are checked before decoding, since an entry of two
//! bytes may take hundreds in memory.
//!
//! The limits fit a client with 1,000 tracks in a room of 1,000 participants.

/// A message's maximum shape.
#[derive(Debug)]
pub struct Shape {
    /// Maximum size in bytes.
    bytes: usize,
    /// Maximum number of fields, not counting nested messages.
    fields: usize,
    /// Nested messages whose shapes are limited, too.
    parts: &'static [Part],
}

/// Limit for a nested message.
#[derive(Debug)]
struct Part {
    field: u32,
    /// Maximum occurrences.
    max: usize,
    shape: &'static Shape,
}

/// Reason for not decoding a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShapeError {
    /// Not in the wire format.
    Malformed,
    /// Larger, or with more fields or entries, than permitted.
    TooLarge,
}

const KIB: usize = 1024;
/// A client's tracks, or a room's participants.
const MANY: usize = 1_000;

const fn part(field: u32, max: usize, shape: &'static Shape) -> Part {
    Part { field, max, shape }
}

const fn flat(bytes: usize) -> Shape {
    Shape {
        bytes,
        fields: 64,
        parts: &[],
    }
}

/// A message with few numbers and short texts.
static SMALL: Shape = flat(4 * KIB);
/// A session description, with its track ids by section. The text itself is checked by its parser.
static DESCRIPTION: Shape = Shape {
    bytes: 2 * KIB * KIB,
    fields: 2 * MANY + 8,
    // A map's entries are nested messages in the wire format, so field 4, `mid_to_track_id`, is a list.
    parts: &[part(4, 2 * MANY, &SMALL)],
};
/// `SimulcastCodec`, with its layers.
static CODEC: Shape = Shape {
    bytes: 4 * KIB,
    fields: 32,
    parts: &[part(4, 16, &SMALL)],
};
/// `AddTrackRequest`, with layers and codecs.
static ADD_TRACK: Shape = Shape {
    bytes: 16 * KIB,
    fields: 64,
    parts: &[part(9, 16, &SMALL), part(10, 8, &CODEC)],
};
/// `ParticipantTracks` and similar: a participant, and a list of tracks.
static PARTICIPANT_TRACKS: Shape = Shape {
    bytes: 64 * KIB,
    fields: MANY + 8,
    parts: &[],
};
/// `UpdateSubscription`: tracks are listed twice, alone and by participant.
static SUBSCRIPTION: Shape = Shape {
    bytes: 128 * KIB,
    fields: 2 * MANY + 8,
    parts: &[part(3, MANY, &PARTICIPANT_TRACKS)],
};
/// `UpdateTrackSettings`: a list of tracks.
static TRACK_SETTINGS: Shape = Shape {
    bytes: 64 * KIB,
    fields: MANY + 16,
    parts: &[],
};
/// `SubscriptionPermission`, with an entry per participant.
static PERMISSION: Shape = Shape {
    bytes: 128 * KIB,
    fields: MANY + 8,
    parts: &[part(2, MANY, &PARTICIPANT_TRACKS)],
};
/// `LeaveRequest`, with the regions that a server may list.
static LEAVE: Shape = Shape {
    bytes: 16 * KIB,
    fields: 16,
    parts: &[part(4, 4, &PARTICIPANT_TRACKS)],
};
/// `TrackPublishedResponse` with a `TrackInfo`, for each of the client's own tracks.
static PUBLISHED: Shape = Shape {
    bytes: 32 * KIB,
    fields: 8,
    parts: &[part(2, 1, &TRACK_INFO)],
};
static TRACK_INFO: Shape = Shape {
    bytes: 32 * KIB,
    fields: 64,
    parts: &[part(10, 16, &SMALL), part(13, 8, &CODEC)],
};
/// `SyncState`. Its descriptions are ignored.
static SYNC_STATE: Shape = Shape {
    bytes: 2 * KIB * KIB,
    fields: 3 * MANY,
    parts: &[
        part(1, 1, &DESCRIPTION),
        part(2, 1, &SUBSCRIPTION),
        part(3, 256, &PUBLISHED),
        part(4, 16, &SMALL),
        part(5, 1, &DESCRIPTION),
        part(7, MANY, &SMALL),
        part(8, 256, &SMALL),
        part(9, 1, &DATA_SUBSCRIPTION),
    ],
};
/// `UpdateParticipantMetadata`, with its attributes. Larger than a participant's metadata may be, so that the client
/// gets a response with the reason.
static METADATA: Shape = Shape {
    bytes: KIB * KIB,
    fields: MANY + 8,
    parts: &[part(3, MANY, &ATTRIBUTE)],
};
// As large as the whole: a single attribute may have all the text.
static ATTRIBUTE: Shape = flat(KIB * KIB);
/// `UpdateDataSubscription`, with an entry per track.
static DATA_SUBSCRIPTION: Shape = Shape {
    bytes: 128 * KIB,
    fields: MANY,
    parts: &[part(1, MANY, &SMALL)],
};
/// A message that is refused or ignored.
static UNUSED: Shape = Shape {
    bytes: 64 * KIB,
    fields: MANY + 8,
    parts: &[],
};

/// `SignalRequest`: one message from a client, of any kind.
pub static REQUEST: Shape = Shape {
    bytes: 2 * KIB * KIB,
    // A request is a `oneof`, so a client encodes one field. Field 14, `ping`, is a number and needs no limit.
    fields: 1,
    parts: &[
        part(1, 1, &DESCRIPTION),
        part(2, 1, &DESCRIPTION),
        part(3, 1, &SMALL),
        part(4, 1, &ADD_TRACK),
        part(5, 1, &SMALL),
        part(6, 1, &SUBSCRIPTION),
        part(7, 1, &TRACK_SETTINGS),
        part(8, 1, &LEAVE),
        part(10, 1, &CODEC),
        part(11, 1, &PERMISSION),
        part(12, 1, &SYNC_STATE),
        part(13, 1, &SMALL),
        part(15, 1, &METADATA),
        part(16, 1, &SMALL),
        part(17, 1, &SMALL),
        part(18, 1, &SMALL),
        part(19, 1, &SMALL),
        part(20, 1, &SMALL),
        part(21, 1, &DATA_SUBSCRIPTION),
        part(22, 1, &UNUSED),
        part(23, 1, &SMALL),
    ],
};

/// `JoinRequest`, which is part of a URL.
pub static JOIN: Shape = Shape {
    bytes: 256 * KIB,
    fields: 256,
    parts: &[
        part(1, 1, &SMALL),
        part(2, 1, &SMALL),
        part(4, 64, &SMALL),
        part(5, 64, &ADD_TRACK),
        part(6, 1, &DESCRIPTION),
        part(10, 1, &SYNC_STATE),
    ],
};

impl Shape {
    /// Returns a message's maximum size in bytes.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Checks a message without decoding it, and returns its number of fields.
    ///
    /// # Errors
    /// See [`ShapeError`].
    pub fn check(&self, message: &[u8]) -> Result<usize, ShapeError> {
        // The cheapest check first.
        if message.len() > self.bytes {
            return Err(ShapeError::TooLarge);
        }
        let (mut rest, mut fields, mut in_parts) = (message, 0, 0);
        // On the stack: the check itself allocates nothing.
        let mut seen = [0; MAX_PARTS];
        while !rest.is_empty() {
            let (number, content) = next_field(&mut rest)?;
            fields += 1;
            if fields > self.fields {
                return Err(ShapeError::TooLarge);
            }
            let limited = self
                .parts
                .iter()
                .zip(&mut seen)
                .find(|(part, _)| part.field == number);
            // Fields without their own limit are bounded by their message's limits.
            // A field with the wrong type has no content. The decoder rejects it.
            if let (Some((part, seen)), Some(content)) = (limited, content) {
                *seen += 1;
                if *seen > part.max {
                    return Err(ShapeError::TooLarge);
                }
                // The shapes above bound the recursion, whatever the message.
                in_parts += part.shape.check(content)?;
            }
        }
        Ok(fields + in_parts)
    }
}

/// Maximum number of limited nested messages in one shape.
const MAX_PARTS: usize = 24;

/// Field types in the wire format.
const VARINT: u8 = 0;
const FIXED_64: u8 = 1;
const LENGTH_DELIMITED: u8 = 2;
const FIXED_32: u8 = 5;

/// Reads the next field: its number, and its content if it is delimited by its length.
fn next_field<'a>(rest: &mut &'a [u8]) -> Result<(u32, Option<&'a [u8]>), ShapeError> {
    let key = varint(rest)?;
    // Field numbers have 29 bits.
    let number = u32::try_from(key >> 3).map_err(|_| ShapeError::Malformed)?;
    // A key's low three bits are the type, the others the number.
    // The conversion cannot fail for three bits.
    let content = match u8::try_from(key & 7).unwrap_or_default() {
        VARINT => varint(rest).map(|_| None)?,
        FIXED_64 => take(rest, 8).map(|_| None)?,
        FIXED_32 => take(rest, 4).map(|_| None)?,
        LENGTH_DELIMITED => {
            let length = usize::try_from(varint(rest)?).map_err(|_| ShapeError::Malformed)?;
            Some(take(rest, length)?)
        }
        // Groups are deprecated, and no message here has any.
        _ => return Err(ShapeError::Malformed),
    };
    Ok((number, content))
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Result<&'a [u8], ShapeError> {
    let (taken, after) = rest.split_at_checked(length).ok_or(ShapeError::Malformed)?;
    *rest = after;
    Ok(taken)
}

fn varint(rest: &mut &[u8]) -> Result<u64, ShapeError> {
    let mut value = 0;
    // At most ten bytes, as for 64 bits. Bits beyond these are dropped, as by other decoders.
    for shift in (0..70).step_by(7) {
        let [byte] = *take(rest, 1)? else {
            return Err(ShapeError::Malformed);
        };
        value |= u64::from(byte & 0x7f)
            .checked_shl(shift)
            .unwrap_or_default();
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(ShapeError::Malformed)
}

#[cfg(test)]
mod tests {
    use livekit_protocol as proto;
    use proptest::prelude::*;
    use prost::Message as _;
    use proto::signal_request::Message as Request;

    use super::*;

    fn encoded(message: Request) -> Vec<u8> {
        proto::SignalRequest {
            message: Some(message),
        }
        .encode_to_vec()
    }

    fn sids(number: usize) -> Vec<String> {
        (0..number)
            .map(|at| format!("TR_AMab12cd34e{at}"))
            .collect()
    }

    fn subscription(tracks: usize) -> proto::UpdateSubscription {
        let by_participant = |sid: String| proto::ParticipantTracks {
            participant_sid: sid.clone(),
            track_sids: vec![sid],
        };
        let participant_tracks = sids(tracks).into_iter().map(by_participant).collect();
        proto::UpdateSubscription {
            track_sids: sids(tracks),
            subscribe: true,
            participant_tracks,
        }
    }

    fn permission(participants: usize) -> proto::SubscriptionPermission {
        let entry = |at: usize| proto::TrackPermission {
            participant_identity: format!("participant-of-the-company-{at}"),
            track_sids: sids(1),
            ..Default::default()
        };
        proto::SubscriptionPermission {
            track_permissions: (0..participants).map(entry).collect(),
            ..Default::default()
        }
    }

    fn state(tracks: usize) -> proto::SyncState {
        let received = |sid: String| proto::DataChannelReceiveState {
            publisher_sid: sid,
            last_seq: 7,
        };
        let published = proto::TrackPublishedResponse {
            cid: "camera".into(),
            track: Some(proto::TrackInfo::default()),
        };
        proto::SyncState {
            subscription: Some(subscription(tracks)),
            track_sids_disabled: sids(tracks),
            datachannel_receive_states: sids(tracks).into_iter().map(received).collect(),
            publish_tracks: vec![published; tracks.min(50)],
            offer: Some(proto::SessionDescription {
                sdp: "m".repeat(tracks * 1_000),
                ..Default::default()
            }),
            ..Default::default()
        }
    }

    /// Proves S-52.
    #[test]
    fn what_a_client_of_a_thousand_tracks_sends_is_within_the_limits() {
        let settings = proto::UpdateTrackSettings {
            track_sids: sids(1_000),
            width: 1_280,
            ..Default::default()
        };
        let mid_to_track_id = sids(1_000)
            .into_iter()
            .map(|sid| (sid.clone(), sid))
            .collect();
        let sdp = "m".repeat(1_500_000);
        for message in [
            Request::Subscription(subscription(1_000)),
            Request::SubscriptionPermission(permission(1_000)),
            Request::SyncState(state(1_000)),
            Request::TrackSetting(settings),
            Request::Offer(proto::SessionDescription {
                sdp,
                mid_to_track_id,
                ..Default::default()
            }),
            Request::Leave(proto::LeaveRequest::default()),
            Request::Ping(1),
        ] {
            let bytes = encoded(message);
            assert!(REQUEST.check(&bytes).is_ok(), "{} bytes", bytes.len());
        }
    }

    #[test]
    fn lists_that_are_longer_and_messages_that_are_larger_are_refused() {
        // One more than each limit.
        let entries = |count: usize| proto::SubscriptionPermission {
            track_permissions: vec![proto::TrackPermission::default(); count],
            ..Default::default()
        };
        let published = vec![proto::TrackPublishedResponse::default(); 257];
        let layers = vec![proto::VideoLayer::default(); 17];
        for message in [
            Request::Subscription(subscription(1_001)),
            Request::SubscriptionPermission(entries(1_001)),
            Request::SyncState(proto::SyncState {
                publish_tracks: published,
                ..Default::default()
            }),
            Request::AddTrack(proto::AddTrackRequest {
                layers,
                ..Default::default()
            }),
            Request::AddTrack(proto::AddTrackRequest {
                name: "n".repeat(20_000),
                ..Default::default()
            }),
            Request::Trickle(proto::TrickleRequest {
                candidate_init: "c".repeat(5_000),
                ..Default::default()
            }),
            Request::Mute(proto::MuteTrackRequest {
                sid: "s".repeat(5_000),
                muted: true,
            }),
        ] {
            assert_eq!(REQUEST.check(&encoded(message)), Err(ShapeError::TooLarge));
        }
    }

    #[test]
    fn a_join_of_a_million_empty_entries_is_refused() {
        let tracks = vec![proto::AddTrackRequest::default(); 65];
        let join = proto::JoinRequest {
            add_track_requests: tracks,
            ..Default::default()
        };
        assert_eq!(JOIN.check(&join.encode_to_vec()), Err(ShapeError::TooLarge));
        // Field 5, an empty message, again and again.
        let many = [0x2a, 0].repeat(100_000);
        assert_eq!(JOIN.check(&many), Err(ShapeError::TooLarge));
    }

    #[test]
    fn fields_that_end_early_and_groups_are_malformed() {
        for bytes in [
            &[0x0a, 5, 1][..],
            &[0x08],
            &[0x80; 11],
            &[0x0b],
            &[0x09, 1, 2],
            &[0x0d, 1],
        ] {
            assert_eq!(JOIN.check(bytes), Err(ShapeError::Malformed), "{bytes:?}");
        }
    }

    #[test]
    fn every_shape_has_room_for_the_counts_of_its_parts() {
        fn walk(shape: &Shape) {
            assert!(shape.parts.len() <= MAX_PARTS);
            shape.parts.iter().for_each(|part| walk(part.shape));
        }
        walk(&REQUEST);
        walk(&JOIN);
    }

    proptest! {
        #[test]
        fn no_bytes_cause_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = REQUEST.check(&bytes);
            let _ = JOIN.check(&bytes);
        }
    }
}
