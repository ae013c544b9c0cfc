//! A client's data tracks: its published ones, and handles for its received ones.
//!
//! In records, reports and lists they are tracks with the kind `data`, and rules for tracks apply to them.

use std::collections::BTreeMap;

use conclave_model::participant::{Track, TrackKind, TrackSource};
use conclave_model::{ParticipantSid, TrackSid};
use livekit_protocol as proto;
use proto::{
    DataTrackInfo, PublishDataTrackRequest, data_track_frame_encoding, data_track_schema_encoding,
};

use super::ids::unused_id;

/// Maximum length of a track's or schema's name, in characters.
const MAX_NAME: usize = 256;
/// Maximum length of an encoding's name, in characters.
const MAX_ENCODING: usize = 32;

/// Reason why a data track is not admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataTrackError {
    /// Not granted, or the participant is gone.
    NotAllowed,
    /// The handle does not fit into packets: it is 0 or above 65,535.
    InvalidHandle,
    /// The name is empty or too long.
    InvalidName,
    /// A schema's or encoding's name is empty or too long.
    InvalidRequest,
    /// Another data track of the participant has the handle.
    DuplicateHandle,
    /// Another data track of the participant has the name.
    DuplicateName,
    /// The participant has the maximum number of tracks.
    LimitExceeded,
}

/// Validates a request. Returns the track's handle.
fn check(request: &PublishDataTrackRequest) -> Result<u16, DataTrackError> {
    let handle = u16::try_from(request.pub_handle)
        .ok()
        // Packets carry the handle in 16 bits, and 0 is invalid.
        .filter(|handle| *handle != 0);
    let handle = handle.ok_or(DataTrackError::InvalidHandle)?;
    if !is_name(&request.name, MAX_NAME) {
        return Err(DataTrackError::InvalidName);
    }
    let frames = request
        .frame_encoding
        .as_ref()
        .and_then(|encoding| encoding.value.as_ref());
    let schema = request.schema.as_ref();
    let schema_encoding = schema.and_then(|schema| schema.encoding.as_ref()?.value.as_ref());
    // Standard encodings are enumerated and need no check; only custom ones have a name.
    let names = [
        match frames {
            Some(data_track_frame_encoding::Value::Custom(name)) => Some((name, MAX_ENCODING)),
            _ => None,
        },
        // Enumerated encodings are as bounded as a number; a custom name is the client's own text.
        match schema_encoding {
            Some(data_track_schema_encoding::Value::Custom(name)) => Some((name, MAX_ENCODING)),
            _ => None,
        },
        schema.map(|schema| (&schema.name, MAX_NAME)),
    ];
    let are_names = names
        .into_iter()
        .flatten()
        .all(|(name, most)| is_name(name, most));
    if are_names {
        Ok(handle)
    } else {
        Err(DataTrackError::InvalidRequest)
    }
}

fn is_name(name: &str, most: usize) -> bool {
    !name.is_empty() && name.chars().count() <= most
}

/// Returns a requested track as clients see it.
fn info(request: &PublishDataTrackRequest, sid: &TrackSid) -> DataTrackInfo {
    DataTrackInfo {
        pub_handle: request.pub_handle,
        sid: sid.to_string(),
        name: request.name.clone(),
        encryption: request.encryption,
        // Subscribers need encoding and schema to decode the frames; the server does not.
        frame_encoding: request.frame_encoding.clone(),
        schema: request.schema.clone(),
    }
}

/// Returns a data track as reports and lists show it.
pub(super) fn published(sid: TrackSid, name: &str) -> Track {
    Track {
        sid,
        kind: TrackKind::Data,
        source: TrackSource::Unknown,
        // The protocol has no mute for data tracks.
        muted: false,
        name: Some(name.to_owned()),
        width: None,
        height: None,
        simulcast: None,
        mime_type: None,
    }
}

/// A client's published data tracks, by the handles that it chose.
#[derive(Debug, Default)]
pub(super) struct DataTracks(BTreeMap<u16, DataTrackInfo>);

/// An admitted data track.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct NewDataTrack {
    pub sid: TrackSid,
    /// The track's handle in the client's packets.
    pub handle: u16,
    /// The track as clients see it.
    pub info: DataTrackInfo,
}

impl DataTracks {
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the tracks as clients see them.
    pub fn iter(&self) -> impl Iterator<Item = &DataTrackInfo> {
        self.0.values()
    }

    /// Returns whether the client has published this track.
    pub fn contains(&self, track: &str) -> bool {
        self.iter().any(|known| known.sid == track)
    }

    /// Admits a track, unless `is_full`: the client has the maximum number of tracks.
    pub fn publish(
        &mut self,
        request: &PublishDataTrackRequest,
        is_full: bool,
    ) -> Result<NewDataTrack, DataTrackError> {
        let handle = check(request)?;
        if self.0.contains_key(&handle) {
            // Handles identify tracks in packets, names in the client's API: both must be unique for the publisher.
            return Err(DataTrackError::DuplicateHandle);
        } else if self.iter().any(|track| track.name == request.name) {
            return Err(DataTrackError::DuplicateName);
        } else if is_full {
            return Err(DataTrackError::LimitExceeded);
        }
        let sid: TrackSid = unused_id("DTR_", |track: &TrackSid| self.contains(track.as_str()));
        let info = info(request, &sid);
        // Stored as requested: clients see their own encodings and schema unchanged.
        self.0.insert(handle, info.clone());
        Ok(NewDataTrack { sid, handle, info })
    }

    /// Removes a track. Returns it as clients saw it, or `None` if no track has this handle.
    pub fn unpublish(&mut self, handle: u32) -> Option<DataTrackInfo> {
        self.0.remove(&u16::try_from(handle).ok()?)
    }

    /// Removes all tracks. Returns them as clients saw them.
    pub fn take_all(&mut self) -> impl Iterator<Item = DataTrackInfo> + use<> {
        std::mem::take(&mut self.0).into_values()
    }
}

/// A subscriber's handles for the data tracks that it receives. A handle is reused as late as possible, since packets
/// of its previous track may still be in flight.
#[derive(Debug, Default)]
pub(super) struct DataHandles {
    by_track: BTreeMap<TrackSid, DataHandle>,
    last: u16,
}

/// A received data track's handle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DataHandle {
    /// The track's handle in packets.
    pub handle: u16,
    /// The track's publisher.
    pub publisher: ParticipantSid,
}

impl DataHandles {
    /// Assigns a handle to a track. `None` if it already has one, or none is left.
    pub fn assign(&mut self, track: TrackSid, publisher: ParticipantSid) -> Option<u16> {
        if self.by_track.contains_key(&track) || self.by_track.len() >= usize::from(u16::MAX) {
            return None;
        }
        let is_used =
            |handle: u16| handle == 0 || self.by_track.values().any(|known| known.handle == handle);
        let mut handle = self.last.wrapping_add(1);
        // Ends, since fewer than 65,535 handles are in use: 0 is invalid, all others are possible.
        while is_used(handle) {
            handle = handle.wrapping_add(1);
        }
        // Counting on, instead of taking the lowest free handle, delays its reuse by 65,535 assignments.
        self.last = handle;
        self.by_track
            .insert(track, DataHandle { handle, publisher });
        Some(handle)
    }

    /// Releases the handle of a track that is no longer received.
    pub fn release(&mut self, track: &TrackSid) -> Option<DataHandle> {
        self.by_track.remove(track)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&TrackSid, &DataHandle)> {
        self.by_track.iter()
    }

    /// Returns whether the client has ever received a data track.
    pub const fn are_used(&self) -> bool {
        // Handles start at 1, so 0 means that none was ever assigned.
        self.last != 0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn request(handle: u32, name: &str) -> PublishDataTrackRequest {
        PublishDataTrackRequest {
            pub_handle: handle,
            name: name.to_owned(),
            ..Default::default()
        }
    }

    #[test]
    fn a_handle_and_a_name_are_used_once_until_the_track_has_ended() {
        let mut tracks = DataTracks::default();
        let first = tracks.publish(&request(1, "pose"), false).unwrap();
        assert!(first.sid.as_str().starts_with("DTR_") && tracks.contains(first.sid.as_str()));
        for (again, is_full, error) in [
            (request(1, "other"), true, DataTrackError::DuplicateHandle),
            (request(2, "pose"), true, DataTrackError::DuplicateName),
            (request(2, "other"), true, DataTrackError::LimitExceeded),
            (
                request(70_000, "other"),
                false,
                DataTrackError::InvalidHandle,
            ),
        ] {
            assert_eq!(tracks.publish(&again, is_full), Err(error));
        }
        assert_eq!(tracks.unpublish(1), Some(first.info));
        assert_eq!(
            (tracks.unpublish(1), tracks.unpublish(70_000)),
            (None, None)
        );
        assert!(tracks.publish(&request(1, "pose"), false).is_ok());
        assert_eq!((tracks.take_all().count(), tracks.len()), (1, 0));
    }

    #[test]
    fn a_handle_fits_into_packets_and_names_have_bounded_lengths() {
        for (handle, expected) in [
            (0, Err(DataTrackError::InvalidHandle)),
            (1, Ok(1)),
            (65_535, Ok(65_535)),
            (65_536, Err(DataTrackError::InvalidHandle)),
        ] {
            assert_eq!(check(&request(handle, "position")), expected, "{handle}");
        }
        for (name, expected) in [
            (String::new(), Err(DataTrackError::InvalidName)),
            // Characters count, not bytes.
            ("é".repeat(256), Ok(1)),
            ("n".repeat(257), Err(DataTrackError::InvalidName)),
        ] {
            assert_eq!(check(&request(1, &name)), expected);
        }
        let custom = |name: &str| {
            let value = Some(data_track_frame_encoding::Value::Custom(name.to_owned()));
            let frame_encoding = Some(proto::DataTrackFrameEncoding { value });
            check(&PublishDataTrackRequest {
                frame_encoding,
                ..request(1, "position")
            })
        };
        assert_eq!(custom("mine"), Ok(1));
        assert_eq!(
            (custom(""), custom(&"m".repeat(33))),
            (
                Err(DataTrackError::InvalidRequest),
                Err(DataTrackError::InvalidRequest)
            )
        );
        let schema = |name: &str, encoding: &str| {
            let value = Some(data_track_schema_encoding::Value::Custom(
                encoding.to_owned(),
            ));
            let encoding = Some(proto::DataTrackSchemaEncoding { value });
            let schema = Some(proto::DataTrackSchemaId {
                name: name.to_owned(),
                encoding,
            });
            check(&PublishDataTrackRequest {
                schema,
                ..request(1, "position")
            })
        };
        assert_eq!(schema("Position", "mine"), Ok(1));
        for (name, encoding) in [("", "mine"), ("Position", ""), (&*"n".repeat(257), "mine")] {
            assert_eq!(schema(name, encoding), Err(DataTrackError::InvalidRequest));
        }
    }

    proptest! {
        #[test]
        fn tracks_never_share_a_handle_and_none_is_0(steps in prop::collection::vec((0..20_usize, any::<bool>()), 0..200)) {
            // Close to the end of the range, so that it wraps around and skips 0.
            let mut handles = DataHandles { last: u16::MAX - 5, ..DataHandles::default() };
            for (track, assigns) in steps {
                let track: TrackSid = format!("DTR_{track}").parse().unwrap();
                let is_known = handles.by_track.contains_key(&track);
                if assigns {
                    let before = handles.last;
                    let assigned = handles.assign(track, "PA_1".parse().unwrap());
                    prop_assert_eq!(assigned.is_some(), !is_known);
                    prop_assert!(assigned.is_none_or(|handle| handle != before), "not used again at once");
                } else {
                    prop_assert_eq!(handles.release(&track).is_some(), is_known);
                }
                let mut used: Vec<_> = handles.iter().map(|(_, known)| known.handle).collect();
                used.sort_unstable();
                used.dedup();
                prop_assert_eq!(used.len(), handles.by_track.len());
                prop_assert!(!used.contains(&0));
            }
        }
    }
}
