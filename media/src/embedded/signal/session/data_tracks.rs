//! Data tracks of the client, and those that it receives.

use conclave_model::TrackSid;
use livekit_protocol as proto;
use proto::request_response::{Reason, Request};
use proto::signal_response::Message;

use super::requests::{MAX_LIST, parse_tracks};
use super::{Context, Session};
use crate::embedded::data_track::DataHandle;
use crate::embedded::signal::messages;

impl Session {
    pub(super) fn publish_data_track(
        &mut self,
        context: &mut Context<'_>,
        request: &proto::PublishDataTrackRequest,
    ) {
        let message = match context
            .machine
            .publish_data_track(&self.sid, request, context.now)
        {
            Ok(info) => Message::PublishDataTrackResponse(proto::PublishDataTrackResponse {
                info: Some(info),
            }),
            Err(error) => {
                let named = proto::PublishDataTrackRequest {
                    pub_handle: request.pub_handle,
                    ..proto::PublishDataTrackRequest::default()
                };
                messages::refusal(
                    0,
                    messages::data_track_reason(error),
                    Request::PublishDataTrack(named),
                )
            }
        };
        self.send(message);
    }

    pub(super) fn unpublish_data_track(
        &mut self,
        context: &mut Context<'_>,
        request: proto::UnpublishDataTrackRequest,
    ) {
        match context
            .machine
            .unpublish_data_track(&self.sid, request.pub_handle, context.now)
        {
            Some(info) => self.data_track_unpublished(info),
            None => self.send(messages::refusal(
                0,
                Reason::NotFound,
                Request::UnpublishDataTrack(request),
            )),
        }
    }

    pub(super) fn data_track_unpublished(&mut self, info: proto::DataTrackInfo) {
        self.send(Message::UnpublishDataTrackResponse(
            proto::UnpublishDataTrackResponse { info: Some(info) },
        ));
    }

    /// Sets which data tracks the client wants to receive. A track that is not published yet is received once it is. How many frames
    /// a second it wants is not limited to.
    pub(super) fn subscribe_data(
        &self,
        context: &mut Context<'_>,
        wishes: proto::UpdateDataSubscription,
    ) {
        let (wanted, unwanted): (Vec<_>, Vec<_>) = wishes
            .updates
            .into_iter()
            .take(MAX_LIST)
            .partition(|update| update.subscribe);
        for (updates, is_wanted) in [(unwanted, false), (wanted, true)] {
            let tracks = parse_tracks(updates.into_iter().map(|update| update.track_sid));
            context.machine.wish(&self.sid, tracks, is_wanted);
        }
    }

    /// Tells the client by which handles it gets the packets of all data tracks that it receives.
    pub(super) fn send_data_handles(&mut self, context: &Context<'_>) {
        let handle = |(track, known, identity): (TrackSid, DataHandle, String)| {
            let published = proto::data_track_subscriber_handles::PublishedDataTrack {
                publisher_identity: identity,
                publisher_sid: known.publisher.to_string(),
                track_sid: track.to_string(),
            };
            (u32::from(known.handle), published)
        };
        let sub_handles = context
            .machine
            .data_handles(&self.sid)
            .into_iter()
            .map(handle)
            .collect();
        self.send(Message::DataTrackSubscriberHandles(
            proto::DataTrackSubscriberHandles { sub_handles },
        ));
    }
}
