//! Requests from the client.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use conclave_model::event::Departure;
use conclave_model::{ParticipantSid, TrackSid};
use conclave_sfu::{FailureReason, PeerCommand, Quality, TrackSettings};
use livekit_protocol as proto;
use proto::DisconnectReason;
use proto::leave_request::Action;
use proto::request_response::{Reason, Request};
use proto::signal_request;
use proto::signal_response::Message;
use proto::simulate_scenario::Scenario;

use super::link::ClosedResume;
use super::{Context, Session};
use crate::embedded::announcement;
use crate::embedded::client::{PublisherPermission, ReceiverPermission};
use crate::embedded::local_participant::LocalParticipant;
use crate::embedded::publish::allowed_codecs;
use crate::embedded::room_state::media_tracks::AnnounceError;
use crate::embedded::signal::messages;

/// Maximum wait for a requested track to be published.
const TRACK_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum entries that are read from a client's list.
const MAX_LIST: usize = 1_000;

impl Session {
    /// Handles a request. Ignores requests without a known message.
    #[expect(deprecated, reason = "clients send the older of two messages as well")]
    pub fn handle_request(&mut self, context: &mut Context<'_>, request: proto::SignalRequest) {
        // Any frame is a sign of life, even with an unknown message.
        self.link.record_frame(context.room_state.reading());
        let Some(message) = request.message else {
            return;
        };
        match message {
            signal_request::Message::Offer(offer) => self.offer(context, offer.id, offer.sdp),
            signal_request::Message::Answer(answer) => {
                self.describe(
                    context,
                    PeerCommand::Answer {
                        offer_id: answer.id,
                        sdp: answer.sdp,
                    },
                );
            }
            signal_request::Message::AddTrack(request) => self.announce(context, &request),
            signal_request::Message::Mute(mute) => self.mute(context, &mute),
            signal_request::Message::Subscription(wish) => self.subscribe(context, wish),
            signal_request::Message::TrackSetting(settings) => {
                self.apply_settings(context, &settings);
            }
            signal_request::Message::SubscriptionPermission(permission) => {
                self.permit(context, permission);
            }
            signal_request::Message::Leave(_) => self.end(context, Departure::Left),
            signal_request::Message::SyncState(state) => self.sync(context, state),
            // Superseded by `PingReq`. SDKs send both.
            signal_request::Message::Ping(_) => self.send(Message::Pong(context.now.millis())),
            signal_request::Message::PingReq(ping) => self.pong(context, &ping),
            signal_request::Message::Simulate(request) => self.simulate(context, request),
            signal_request::Message::UpdateMetadata(update) => {
                self.update_metadata(context, update);
            }
            signal_request::Message::PublishDataTrackRequest(request) => {
                self.publish_data_track(context, &request);
            }
            signal_request::Message::UnpublishDataTrackRequest(request) => {
                self.unpublish_data_track(context, request);
            }
            signal_request::Message::UpdateDataSubscription(requested) => {
                self.subscribe_data(context, requested);
            }
            // Not supported. The response identifies these requests by their ids alone.
            signal_request::Message::StoreDataBlobRequest(request) => {
                self.send(messages::refusal(
                    request.request_id,
                    Reason::NotAllowed,
                    None,
                ));
            }
            signal_request::Message::GetDataBlobRequest(request) => {
                self.send(messages::refusal(
                    request.request_id,
                    Reason::NotAllowed,
                    None,
                ));
            }
            // Ignored: the server is the only side that needs to be reachable, so the client's candidates are not
            // needed. The others change nothing.
            signal_request::Message::Trickle(_)
            | signal_request::Message::UpdateLayers(_)
            | signal_request::Message::UpdateAudioTrack(_)
            | signal_request::Message::UpdateVideoTrack(_) => {}
        }
    }

    pub(super) fn offer(&self, context: &mut Context<'_>, offer_id: u32, sdp: String) {
        self.describe(
            context,
            PeerCommand::Offer {
                offer_id,
                sdp: self.device.usable_offer(sdp),
            },
        );
    }

    /// Forwards a session description. If it is too large, the media worker only receives the participant's failure.
    fn describe(&self, context: &mut Context<'_>, command: PeerCommand) {
        // Checked here, so that its bytes are not copied into a media worker's queue.
        let is_too_large = match &command {
            PeerCommand::Offer { sdp, .. } | PeerCommand::Answer { sdp, .. } => {
                conclave_sfu::check_description(sdp).is_err()
            }
            _ => false,
        };
        self.command(
            context,
            if is_too_large {
                PeerCommand::Fail(FailureReason::Negotiation)
            } else {
                command
            },
        );
    }

    /// Admits a track, and replies with its sid or the reason for the refusal.
    pub(super) fn announce(&mut self, context: &mut Context<'_>, request: &proto::AddTrackRequest) {
        let codecs = context
            .room_state
            .present(&self.sid)
            .map(|own| allowed_codecs(&own.grants))
            .unwrap_or_default();
        let admitted =
            // LiveKit's Rust core sends the codec in its request, whatever the response contains, and ignores
            // `track_unpublished`. So it is refused here, where other clients switch to a permitted codec.
            if self.insists_on_codec && announcement::names_other_codecs(request, &codecs) {
                Err(AnnounceError::UnsupportedType)
            } else {
                context.room_state.announce_track(&self.sid, request)
            };
        let message = match admitted {
            Ok(track) => {
                // The client matches response and request by this id of its own.
                let cid = request.cid.clone();
                Message::TrackPublished(proto::TrackPublishedResponse {
                    cid,
                    track: Some(track),
                })
            }
            Err(error) => {
                let named = proto::AddTrackRequest {
                    cid: request.cid.clone(),
                    ..Default::default()
                };
                messages::refusal(
                    0,
                    messages::announce_reason(error),
                    Request::AddTrack(named),
                )
            }
        };
        self.send(message);
    }

    /// Updates the client's own metadata. [`Session::metadata_updated`] replies, once the update has been sent.
    fn update_metadata(
        &mut self,
        context: &mut Context<'_>,
        update: proto::UpdateParticipantMetadata,
    ) {
        let request_id = update.request_id;
        let updated = context
            .room_state
            .update_own_metadata(&self.sid, update.into(), request_id);
        // Others receive all its metadata with each change.
        self.change_weight = context
            .room_state
            .present(&self.sid)
            .map_or(1, LocalParticipant::change_weight);
        if let Err(error) = updated {
            let reason = messages::own_metadata_reason(error);
            self.send(messages::refusal(
                request_id,
                reason,
                named_update(request_id),
            ));
        }
    }

    /// Replies to an update of the client's own metadata, after the client has received the update itself.
    pub(super) fn metadata_updated(&mut self, context: &mut Context<'_>, request_id: u32) {
        // The token contains the metadata, so that a full reconnect keeps it.
        self.refresh_token(context);
        if self.expects_acceptance {
            self.send(messages::acceptance(request_id, named_update(request_id)));
        }
    }

    fn mute(&self, context: &mut Context<'_>, mute: &proto::MuteTrackRequest) {
        if let Ok(track) = mute.sid.parse() {
            context
                .room_state
                .mute_by_client(&self.sid, &track, mute.muted, context.now);
        }
    }

    pub(super) fn subscribe(&mut self, context: &mut Context<'_>, wish: proto::UpdateSubscription) {
        let listed = wish
            .participant_tracks
            .into_iter()
            .flat_map(|listed| listed.track_sids);
        let tracks = parse_tracks(wish.track_sids.into_iter().chain(listed));
        // SDKs may subscribe before they know that a track was published, or after it was unpublished.
        let unknown = if wish.subscribe {
            context.room_state.unpublished(&tracks)
        } else {
            Vec::new()
        };
        self.awaited
            .add(unknown, context.room_state.reading() + TRACK_TIMEOUT);
        context
            .room_state
            .set_wanted(&self.sid, tracks, wish.subscribe);
    }

    /// Reports a subscription error for each requested track that was not published in time.
    pub(super) fn give_up_tracks(&mut self, context: &mut Context<'_>) {
        while let Some(track) = self.awaited.take_due(context.room_state.reading()) {
            // Not if the client has unsubscribed meanwhile, or has the track by now.
            if context.room_state.withdraw_request(&self.sid, &track) {
                let err = proto::SubscriptionError::SeTrackNotfound.into();
                let response = proto::SubscriptionResponse {
                    track_sid: track.to_string(),
                    err,
                };
                self.send(Message::SubscriptionResponse(response));
            }
        }
    }

    fn apply_settings(&self, context: &mut Context<'_>, settings: &proto::UpdateTrackSettings) {
        let wanted = TrackSettings {
            // Clients express "no video" in either way.
            is_disabled: settings.disabled
                || settings.quality == i32::from(proto::VideoQuality::Off),
            quality: quality(settings.quality),
            width: settings.width,
            height: settings.height,
            fps: settings.fps,
            priority: settings.priority,
        };
        self.set_settings(context, settings.track_sids.iter().cloned(), wanted);
    }

    pub(super) fn set_settings(
        &self,
        context: &mut Context<'_>,
        tracks: impl Iterator<Item = String>,
        settings: TrackSettings,
    ) {
        // A media worker would ignore each of the others, one by one.
        for track in context
            .room_state
            .received_tracks(&self.sid, parse_tracks(tracks))
        {
            self.command(context, PeerCommand::SetTrackSettings { track, settings });
        }
    }

    fn permit(&self, context: &mut Context<'_>, permission: proto::SubscriptionPermission) {
        // Entries may outlive their participants, so sids are resolved to identities now.
        let room_state = &*context.room_state;
        let entry = |entry: proto::TrackPermission| {
            // An entry with a sid alone still applies after that participant has joined again, as in LiveKit.
            let sid = entry
                .participant_sid
                .parse()
                .ok()
                .filter(|_| entry.participant_identity.is_empty());
            let named = sid
                .and_then(|sid: ParticipantSid| room_state.present(&sid).ok())
                .map(LocalParticipant::identity);
            let tracks = || {
                entry
                    .track_sids
                    .into_iter()
                    .take(MAX_LIST)
                    .collect::<HashSet<_>>()
            };
            ReceiverPermission {
                identity: named.map_or(entry.participant_identity, ToString::to_string),
                sid: entry.participant_sid,
                tracks: (!entry.all_tracks).then(tracks),
            }
        };
        let permission = match permission.all_participants {
            true => PublisherPermission::default(),
            false => {
                let list = permission
                    .track_permissions
                    .into_iter()
                    .take(MAX_LIST)
                    .map(entry);
                PublisherPermission::listed(list.collect())
            }
        };
        context
            .room_state
            .set_publisher_permission(&self.sid, permission);
    }

    // Unlike `Pong`, it repeats the client's timestamp, from which the client computes its round-trip time.
    fn pong(&mut self, context: &Context<'_>, ping: &proto::Ping) {
        let pong = proto::Pong {
            last_ping_timestamp: ping.timestamp,
            timestamp: context.now.millis(),
        };
        self.send(Message::PongResp(pong));
    }

    /// Applies the client's own state after a resume, once. At other times the client has separate requests for each
    /// part.
    pub(super) fn sync(&mut self, context: &mut Context<'_>, state: proto::SyncState) {
        if !self.link.take_sync() {
            return;
        }
        let published = state
            .publish_tracks
            .iter()
            .filter_map(|published| published.track.as_ref());
        // The server never requests packets of a track that it does not know, so the client would wait forever.
        let is_unknown = published
            .into_iter()
            .any(|track| !context.room_state.has_announced(&self.sid, &track.sid));
        let data = state
            .publish_data_tracks
            .iter()
            .filter_map(|published| published.info.as_ref());
        if is_unknown
            || data
                .into_iter()
                .any(|track| !context.room_state.has_data_track(&self.sid, &track.sid))
        {
            self.reconnect(context);
            return;
        }
        if let Some(wish) = state.subscription {
            self.subscribe(context, wish);
        }
        if let Some(requested) = state.data_subscription {
            self.subscribe_data(context, requested);
        }
        let disabled = TrackSettings {
            is_disabled: true,
            ..TrackSettings::default()
        };
        self.set_settings(context, state.track_sids_disabled.into_iter(), disabled);
        // One entry per sender, the highest number: repeated entries would make the media worker search once for each.
        let states = state.datachannel_receive_states.into_iter().take(MAX_LIST);
        let mut received = HashMap::new();
        for (sender, last) in states.filter_map(|state| {
            Some((
                state.publisher_sid.parse::<ParticipantSid>().ok()?,
                state.last_seq,
            ))
        }) {
            let known = received.entry(sender).or_insert(last);
            *known = last.max(*known);
        }
        self.command(
            context,
            PeerCommand::ReplayData {
                received: received.into_iter().collect(),
            },
        );
    }

    fn publish_data_track(
        &mut self,
        context: &mut Context<'_>,
        request: &proto::PublishDataTrackRequest,
    ) {
        let message = match context
            .room_state
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

    fn unpublish_data_track(
        &mut self,
        context: &mut Context<'_>,
        request: proto::UnpublishDataTrackRequest,
    ) {
        match context
            .room_state
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

    /// Updates the client's data track subscriptions. A track that is not published yet is received once it is. The
    /// requested frame rate is ignored.
    fn subscribe_data(&self, context: &mut Context<'_>, requested: proto::UpdateDataSubscription) {
        let (wanted, unwanted): (Vec<_>, Vec<_>) = requested
            .updates
            .into_iter()
            .take(MAX_LIST)
            .partition(|update| update.subscribe);
        // Unwanted ones first: if a track is listed twice, the client is to receive it.
        for (updates, is_wanted) in [(unwanted, false), (wanted, true)] {
            let tracks = parse_tracks(updates.into_iter().map(|update| update.track_sid));
            context.room_state.set_wanted(&self.sid, tracks, is_wanted);
        }
    }
}

/// Server failures for tests: `simulateScenario` in LiveKit's SDKs. Permitted in development only.
impl Session {
    /// Simulates a failure, if permitted. Speech and a transport protocol change are not simulated.
    fn simulate(&mut self, context: &mut Context<'_>, request: proto::SimulateScenario) {
        let Some(scenario) = request.scenario.filter(|_| self.permits_simulations) else {
            return;
        };
        match scenario {
            // No message, and nothing to resume, as after the crash of a node.
            Scenario::NodeFailure(_) => self.end(context, Departure::Lost),
            Scenario::ServerLeave(_) => self.shut_down(),
            Scenario::LeaveRequestFullReconnect(_) => self.reconnect(context),
            Scenario::Migration(_) => {
                self.send(messages::leave(DisconnectReason::Migration, Action::Resume));
                self.link.close();
            }
            Scenario::DisconnectSignalOnResume(_) => {
                self.link.close_next_resume(ClosedResume::AfterMessages);
            }
            Scenario::DisconnectSignalOnResumeNoMessages(_) => {
                self.link.close_next_resume(ClosedResume::BeforeMessages);
            }
            Scenario::SubscriberBandwidth(bits_per_second) => {
                self.limit_bandwidth(context, bits_per_second);
            }
            Scenario::SpeakerUpdate(_) | Scenario::SwitchCandidateProtocol(_) => {}
        }
    }

    /// Limits the bitrate to the client, until its role changes. 0 removes the limit.
    fn limit_bandwidth(&self, context: &mut Context<'_>, bits_per_second: i64) {
        let Some(mut permissions) = context.room_state.peer_permissions(&self.sid) else {
            return;
        };
        let limit = u32::try_from(bits_per_second / 1_000)
            .ok()
            .filter(|_| bits_per_second > 0);
        // A simulation must not raise the limit from the role.
        permissions.subscribe_max_kbps = [limit, permissions.subscribe_max_kbps]
            .into_iter()
            .flatten()
            .min();
        self.command(context, PeerCommand::SetPermissions(permissions));
    }
}

/// Returns the request without its texts, for a response, which repeats it.
fn named_update(request_id: u32) -> Request {
    Request::UpdateMetadata(proto::UpdateParticipantMetadata {
        request_id,
        ..Default::default()
    })
}

/// Converts a `VideoQuality`; unknown numbers are the highest quality.
fn quality(number: i32) -> Quality {
    usize::try_from(number)
        .ok()
        .and_then(|index| Quality::ALL.get(index).copied())
        .unwrap_or(Quality::High)
}

/// Returns a list's valid track sids, each once, in order.
fn parse_tracks(tracks: impl Iterator<Item = String>) -> Vec<TrackSid> {
    let mut seen = HashSet::new();
    let parsed = tracks
        .take(MAX_LIST)
        .filter_map(|track| track.parse::<TrackSid>().ok());
    parsed.filter(|track| seen.insert(track.clone())).collect()
}

/// Requested tracks that were not published at the time, oldest first, each with the end of its wait.
#[derive(Debug, Default)]
pub(super) struct AwaitedTracks(VecDeque<(Duration, TrackSid)>);

impl AwaitedTracks {
    /// Adds tracks, up to [`MAX_LIST`].
    fn add(&mut self, tracks: Vec<&TrackSid>, until: Duration) {
        let room_for = MAX_LIST.saturating_sub(self.0.len());
        let tracks = tracks.into_iter().take(room_for);
        self.0.extend(tracks.map(|track| (until, track.clone())));
    }

    /// Returns the end of the first track's wait.
    pub fn next_deadline(&self) -> Option<Duration> {
        self.0.front().map(|(until, _)| *until)
    }

    /// Removes and returns a track whose wait is over.
    fn take_due(&mut self, reading: Duration) -> Option<TrackSid> {
        self.next_deadline().filter(|until| *until <= reading)?;
        self.0.pop_front().map(|(_, track)| track)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tracks_are_awaited_until_their_time_and_only_so_many() {
        let mut awaited = AwaitedTracks::default();
        let at = Duration::from_secs;
        let (first, second) = ("TR_1".parse().unwrap(), "TR_2".parse().unwrap());
        awaited.add(vec![&first], at(60));
        awaited.add(vec![&second], at(61));
        assert_eq!(awaited.next_deadline(), Some(at(60)));
        assert_eq!(awaited.take_due(at(59)), None);
        assert_eq!(awaited.take_due(at(60)), Some(first));
        assert_eq!(awaited.take_due(at(60)), None);
        assert_eq!(awaited.next_deadline(), Some(at(61)));
        awaited.add(vec![&second; 2 * MAX_LIST], at(62));
        assert_eq!(awaited.0.len(), MAX_LIST);
    }
}
