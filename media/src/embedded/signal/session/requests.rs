//! What the client asks for.

use std::collections::HashSet;
use std::time::Duration;

use conclave_model::{ParticipantSid, TrackSid};
use conclave_rtc::{FailureReason, PeerCommand, Quality, TrackSettings};
use livekit_protocol as proto;
use proto::request_response::{Reason, Request};
use proto::signal_request;
use proto::signal_response::Message;

use super::{Session, Turn};
use crate::embedded::client::{PublisherPermission, ReceiverPermission};
use crate::embedded::signal::messages;

/// How long a track that a client wants may take to be published.
const TRACK_TIMEOUT: Duration = Duration::from_secs(60);
/// The most entries of a list of a client that count.
const MAX_LIST: usize = 1_000;

impl Session {
    /// Handles a request of the client. A request that cannot be understood, or that an older client would not have sent, is
    /// ignored.
    #[expect(deprecated, reason = "clients send the older of two messages as well")]
    pub fn handle_request(&mut self, turn: &mut Turn<'_>, request: proto::SignalRequest) {
        self.heard_at = turn.machine.reading();
        let Some(message) = request.message else { return };
        match message {
            signal_request::Message::Offer(offer) => self.offer(turn, offer.id, offer.sdp),
            signal_request::Message::Answer(answer) => {
                self.describe(turn, PeerCommand::Answer { offer_id: answer.id, sdp: answer.sdp });
            }
            signal_request::Message::AddTrack(request) => self.announce(turn, &request),
            signal_request::Message::Mute(mute) => self.mute(turn, &mute),
            signal_request::Message::Subscription(wish) => self.subscribe(turn, wish),
            signal_request::Message::TrackSetting(settings) => self.apply_settings(turn, &settings),
            signal_request::Message::SubscriptionPermission(permission) => self.permit(turn, permission),
            signal_request::Message::Leave(_) => self.end(turn, true),
            signal_request::Message::SyncState(state) => self.sync(turn, state),
            signal_request::Message::Ping(_) => self.send(Message::Pong(turn.now.millis())),
            signal_request::Message::PingReq(ping) => self.pong(turn, &ping),
            signal_request::Message::Simulate(request) => self.simulate(turn, request),
            signal_request::Message::UpdateMetadata(update) => {
                let request_id = update.request_id;
                let named = proto::UpdateParticipantMetadata { request_id, ..Default::default() };
                self.send(messages::refusal(request_id, Reason::NotAllowed, Request::UpdateMetadata(named)));
            }
            signal_request::Message::PublishDataTrackRequest(request) => {
                let named = proto::PublishDataTrackRequest { pub_handle: request.pub_handle, ..Default::default() };
                self.send(messages::refusal(0, Reason::UnsupportedType, Request::PublishDataTrack(named)));
            }
            // The server has its own candidates in the descriptions and needs none of the client's; the rest changes nothing.
            signal_request::Message::Trickle(_)
            | signal_request::Message::UpdateLayers(_)
            | signal_request::Message::UpdateAudioTrack(_)
            | signal_request::Message::UpdateVideoTrack(_)
            | signal_request::Message::UnpublishDataTrackRequest(_)
            | signal_request::Message::UpdateDataSubscription(_)
            | signal_request::Message::StoreDataBlobRequest(_)
            | signal_request::Message::GetDataBlobRequest(_) => {}
        }
    }

    pub(super) fn offer(&self, turn: &mut Turn<'_>, offer_id: u32, sdp: String) {
        self.describe(turn, PeerCommand::Offer { offer_id, sdp });
    }

    /// Hands a description on. Of one that is too large the media worker learns only that the participant has failed.
    fn describe(&self, turn: &mut Turn<'_>, command: PeerCommand) {
        let is_too_large = match &command {
            PeerCommand::Offer { sdp, .. } | PeerCommand::Answer { sdp, .. } => {
                conclave_rtc::check_description(sdp).is_err()
            }
            _ => false,
        };
        self.command(turn, if is_too_large { PeerCommand::Fail(FailureReason::Negotiation) } else { command });
    }

    /// Admits a track, and answers with its sid or the reason why not.
    pub(super) fn announce(&mut self, turn: &mut Turn<'_>, request: &proto::AddTrackRequest) {
        let message = match turn.machine.announce_track(&self.sid, request) {
            Ok(track) => {
                let cid = request.cid.clone();
                Message::TrackPublished(proto::TrackPublishedResponse { cid, track: Some(track) })
            }
            Err(error) => {
                let named = proto::AddTrackRequest { cid: request.cid.clone(), ..Default::default() };
                messages::refusal(0, messages::announce_reason(error), Request::AddTrack(named))
            }
        };
        self.send(message);
    }

    fn mute(&self, turn: &mut Turn<'_>, mute: &proto::MuteTrackRequest) {
        if let Ok(track) = mute.sid.parse() {
            turn.machine.mute_by_client(&self.sid, &track, mute.muted, turn.now);
        }
    }

    pub(super) fn subscribe(&mut self, turn: &mut Turn<'_>, wish: proto::UpdateSubscription) {
        let listed = wish.participant_tracks.into_iter().flat_map(|of| of.track_sids);
        let tracks = parse_tracks(wish.track_sids.into_iter().chain(listed));
        let unknown = if wish.subscribe { turn.machine.unpublished(&tracks) } else { Vec::new() };
        let until = turn.machine.reading() + TRACK_TIMEOUT;
        let room_for = MAX_LIST.saturating_sub(self.awaited.len());
        self.awaited.extend(unknown.into_iter().take(room_for).map(|track| (until, track.clone())));
        turn.machine.wish(&self.sid, tracks, wish.subscribe);
    }

    /// Tells the client of the tracks that it wants and that were not published in time.
    pub(super) fn give_up_tracks(&mut self, turn: &mut Turn<'_>) {
        while self.awaited.front().is_some_and(|(until, _)| *until <= turn.machine.reading()) {
            let Some((_, track)) = self.awaited.pop_front() else { return };
            if turn.machine.withdraw_wish(&self.sid, &track) {
                let err = proto::SubscriptionError::SeTrackNotfound.into();
                let response = proto::SubscriptionResponse { track_sid: track.to_string(), err };
                self.send(Message::SubscriptionResponse(response));
            }
        }
    }

    fn apply_settings(&self, turn: &mut Turn<'_>, settings: &proto::UpdateTrackSettings) {
        let wanted = TrackSettings {
            is_disabled: settings.disabled || settings.quality == i32::from(proto::VideoQuality::Off),
            quality: quality(settings.quality),
            width: settings.width,
            height: settings.height,
            fps: settings.fps,
            priority: settings.priority,
        };
        self.set_settings(turn, settings.track_sids.iter().cloned(), wanted);
    }

    pub(super) fn set_settings(
        &self,
        turn: &mut Turn<'_>,
        tracks: impl Iterator<Item = String>,
        settings: TrackSettings,
    ) {
        for track in parse_tracks(tracks) {
            self.command(turn, PeerCommand::SetTrackSettings { track, settings });
        }
    }

    fn permit(&self, turn: &mut Turn<'_>, permission: proto::SubscriptionPermission) {
        let entry = |entry: proto::TrackPermission| ReceiverPermission {
            identity: entry.participant_identity,
            sid: entry.participant_sid,
            tracks: (!entry.all_tracks).then(|| entry.track_sids.into_iter().take(MAX_LIST).collect::<HashSet<_>>()),
        };
        let permission = match permission.all_participants {
            true => PublisherPermission::default(),
            false => {
                let list = permission.track_permissions.into_iter().take(MAX_LIST).map(entry);
                PublisherPermission::listed(list.collect())
            }
        };
        turn.machine.set_publisher_permission(&self.sid, permission);
    }

    fn pong(&mut self, turn: &Turn<'_>, ping: &proto::Ping) {
        let pong = proto::Pong { last_ping_timestamp: ping.timestamp, timestamp: turn.now.millis() };
        self.send(Message::PongResp(pong));
    }

    /// Applies what a client that resumes says of its own state.
    pub(super) fn sync(&mut self, turn: &mut Turn<'_>, state: proto::SyncState) {
        let published = state.publish_tracks.iter().filter_map(|published| published.track.as_ref());
        if published.into_iter().any(|track| !turn.machine.has_announced(&self.sid, &track.sid)) {
            self.reconnect(turn);
            return;
        }
        if let Some(wish) = state.subscription {
            self.subscribe(turn, wish);
        }
        let disabled = TrackSettings { is_disabled: true, ..TrackSettings::default() };
        self.set_settings(turn, state.track_sids_disabled.into_iter(), disabled);
        let received = state.datachannel_receive_states.into_iter().take(MAX_LIST);
        let received = received.filter_map(|of| Some((of.publisher_sid.parse::<ParticipantSid>().ok()?, of.last_seq)));
        self.command(turn, PeerCommand::ReplayData { received: received.collect() });
    }
}

/// Returns the quality that a client names; the best for one that it does not.
fn quality(number: i32) -> Quality {
    usize::try_from(number).ok().and_then(|index| Quality::ALL.get(index).copied()).unwrap_or(Quality::High)
}

fn parse_tracks(tracks: impl Iterator<Item = String>) -> Vec<TrackSid> {
    tracks.take(MAX_LIST).filter_map(|track| track.parse().ok()).collect()
}
