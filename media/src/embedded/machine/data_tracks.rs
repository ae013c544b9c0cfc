//! The data tracks of one client: published and ended by its requests.
//!
//! In records, reports and lists they are tracks of the kind `data`, and the rules of all tracks hold for them.

use std::collections::BTreeMap;

use conclave_model::TrackSid;
use livekit_protocol::{DataTrackInfo, PublishDataTrackRequest};

use super::unused_id;
use crate::embedded::data_track::{self, DataTrackError};

/// The data tracks of a client, by the handles that it gave them.
#[derive(Debug, Default)]
pub(in crate::embedded) struct DataTracks(BTreeMap<u16, DataTrackInfo>);

/// A data track that was admitted.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::embedded) struct NewDataTrack {
    pub sid: TrackSid,
    /// How the client's packets name it.
    pub handle: u16,
    /// The track as clients see it.
    pub info: DataTrackInfo,
}

impl DataTracks {
    /// Returns the number of tracks.
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

    /// Admits a track; not if `is_full`, because the client has as many tracks as one may have.
    pub fn publish(
        &mut self,
        request: &PublishDataTrackRequest,
        is_full: bool,
    ) -> Result<NewDataTrack, DataTrackError> {
        let handle = data_track::check(request)?;
        if self.0.contains_key(&handle) {
            return Err(DataTrackError::DuplicateHandle);
        } else if self.iter().any(|track| track.name == request.name) {
            return Err(DataTrackError::DuplicateName);
        } else if is_full {
            return Err(DataTrackError::LimitExceeded);
        }
        let sid: TrackSid = unused_id("DTR_", |track: &TrackSid| self.contains(track.as_str()));
        let info = data_track::info(request, &sid);
        self.0.insert(handle, info.clone());
        Ok(NewDataTrack { sid, handle, info })
    }

    /// Removes a track. Returns it as clients saw it; `None` if there is none with this handle.
    pub fn unpublish(&mut self, handle: u32) -> Option<DataTrackInfo> {
        self.0.remove(&u16::try_from(handle).ok()?)
    }

    /// Removes all tracks, and returns them as clients saw them.
    pub fn take_all(&mut self) -> impl Iterator<Item = DataTrackInfo> + use<> {
        std::mem::take(&mut self.0).into_values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(pub_handle: u32, name: &str) -> PublishDataTrackRequest {
        PublishDataTrackRequest {
            pub_handle,
            name: name.into(),
            ..PublishDataTrackRequest::default()
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
}
