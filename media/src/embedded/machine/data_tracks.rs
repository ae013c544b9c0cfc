//! Data tracks: published and ended by requests of their publishers, and known to each subscriber by a handle.
//!
//! In records, reports and lists they are tracks of the kind `data`, and the rules of all tracks hold for them.

use conclave_model::event::TrackSummary;
use conclave_model::{ParticipantSid, Timestamp, TrackSid};
use conclave_sfu::PeerCommand;
use livekit_protocol::{DataTrackInfo, PublishDataTrackRequest};

use super::{Machine, unused_id};
use crate::embedded::client::Client;
use crate::embedded::data_track::{self, DataHandle, DataTrackError};
use crate::embedded::effect::ClientNotice;
use crate::embedded::publish::check_data;
use crate::port::MediaEvent;

impl Machine {
    /// Publishes a data track of a client. Returns the track as clients see it.
    pub fn publish_data_track(
        &mut self,
        sid: &ParticipantSid,
        request: &PublishDataTrackRequest,
        now: Timestamp,
    ) -> Result<DataTrackInfo, DataTrackError> {
        let publisher = self.present(sid).map_err(|_| DataTrackError::NotAllowed)?;
        check_data(&publisher.grants).map_err(|_| DataTrackError::NotAllowed)?;
        let client = publisher
            .client
            .as_ref()
            .ok_or(DataTrackError::NotAllowed)?;
        let handle = data_track::check(request)?;
        if client.data_tracks.contains_key(&handle) {
            return Err(DataTrackError::DuplicateHandle);
        } else if client
            .data_tracks
            .values()
            .any(|track| track.name == request.name)
        {
            return Err(DataTrackError::DuplicateName);
        } else if client.track_count() >= self.common.max_tracks {
            return Err(DataTrackError::LimitExceeded);
        }
        let is_used = |track: &TrackSid| {
            client
                .data_tracks
                .values()
                .any(|known| known.sid == track.as_str())
        };
        let track: TrackSid = unused_id("DTR_", is_used);
        let info = data_track::info(request, &track);
        self.admit_data_track(sid, &track, handle, info.clone(), now);
        Ok(info)
    }

    fn admit_data_track(
        &mut self,
        sid: &ParticipantSid,
        track: &TrackSid,
        handle: u16,
        info: DataTrackInfo,
        now: Timestamp,
    ) {
        let Some(publisher) = self.participants.get_mut(sid) else {
            return;
        };
        let Some(client) = publisher.client.as_mut() else {
            return;
        };
        let published = data_track::published(track.clone(), &info.name);
        client.data_tracks.insert(handle, info);
        let summary = TrackSummary::from(&published);
        publisher.add_track(published);
        let (participant, is_active) = (publisher.to_ref(), publisher.is_active());
        self.command(
            sid,
            PeerCommand::PublishDataTrack {
                track: track.clone(),
                handle,
            },
        );
        if is_active {
            self.report(
                now,
                MediaEvent::TrackPublished {
                    participant,
                    track: summary,
                },
            );
        }
        self.notify_changed(sid);
        self.refresh_publisher(sid);
    }

    /// Ends a data track of a client. Returns the track as clients saw it; `None` if it has no such track.
    pub fn unpublish_data_track(
        &mut self,
        sid: &ParticipantSid,
        handle: u32,
        now: Timestamp,
    ) -> Option<DataTrackInfo> {
        let handle = u16::try_from(handle).ok()?;
        let publisher = self.participants.get_mut(sid)?;
        let info = publisher.client.as_mut()?.data_tracks.remove(&handle)?;
        let track: TrackSid = info.sid.parse().ok()?;
        self.command(sid, PeerCommand::UnpublishDataTrack(track.clone()));
        let publisher = self.participants.get_mut(sid)?;
        if let Ok(ended) = publisher.remove_track(&track) {
            let (participant, is_active) = (publisher.to_ref(), publisher.is_active());
            if is_active {
                let track = TrackSummary::from(&ended);
                self.report(now, MediaEvent::TrackUnpublished { participant, track });
            }
            self.notify_changed(sid);
            self.refresh_publisher(sid);
        }
        Some(info)
    }

    /// Ends the data tracks of a client whose grants forbid them: at the media worker, and at the client.
    pub(super) fn end_forbidden_data_tracks(&mut self, sid: &ParticipantSid) {
        let Some(publisher) = self.participants.get_mut(sid) else {
            return;
        };
        let Some(client) = publisher
            .client
            .as_mut()
            .filter(|_| check_data(&publisher.grants).is_err())
        else {
            return;
        };
        for info in std::mem::take(&mut client.data_tracks).into_values() {
            if let Ok(track) = info.sid.parse() {
                self.command(sid, PeerCommand::UnpublishDataTrack(track));
            }
            self.notify(sid, ClientNotice::DataTrackUnpublished(info));
        }
    }

    /// Returns the data tracks that a client receives, each with its handle and the identity of its publisher.
    pub fn data_handles(&self, sid: &ParticipantSid) -> Vec<(TrackSid, DataHandle, String)> {
        let Some(client) = self
            .client(sid)
            .filter(|client| client.data_handles.are_used())
        else {
            return Vec::new();
        };
        let known = client.data_handles.iter();
        let named = known.map(|(track, known)| {
            let publisher = self.participants.get(&known.publisher);
            let identity = publisher
                .map(|publisher| publisher.identity().to_string())
                .unwrap_or_default();
            (track.clone(), known.clone(), identity)
        });
        named.collect()
    }

    /// Returns whether a client has ever received a data track.
    pub fn uses_data_handles(&self, sid: &ParticipantSid) -> bool {
        self.client(sid)
            .is_some_and(|client| client.data_handles.are_used())
    }

    /// Returns whether a client has published this data track.
    pub fn has_data_track(&self, sid: &ParticipantSid, track: &str) -> bool {
        self.client(sid)
            .is_some_and(|client| client.data_tracks.values().any(|known| known.sid == track))
    }

    fn client(&self, sid: &ParticipantSid) -> Option<&Client> {
        self.participants.get(sid)?.client.as_deref()
    }

    /// Gives a data track a handle for a subscriber, and returns the command to forward it.
    pub(super) fn assign_handle(
        &mut self,
        receiver: &ParticipantSid,
        track: TrackSid,
        publisher: ParticipantSid,
    ) -> Option<PeerCommand> {
        let client = self.participants.get_mut(receiver)?.client.as_mut()?;
        let handle = client
            .data_handles
            .assign(track.clone(), publisher.clone())?;
        Some(PeerCommand::SubscribeDataTrack {
            publisher,
            track,
            handle,
        })
    }
}
