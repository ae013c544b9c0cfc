//! The calls of LiveKit's server API that Conclave makes: path, grant, request and response type of each.

use std::marker::PhantomData;

use livekit_protocol as proto;
use prost::Message;

use super::access_token::ApiGrant;

/// Which timeout applies to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallTimeout {
    /// The setting `media.timeout`.
    Configured,
    /// At least 30 seconds: LiveKit offers an egress to one worker after another.
    Extended,
}

/// An API call whose response is an `R`.
pub(super) struct Call<R> {
    /// Service and method, as in `RoomService/CreateRoom`.
    pub path: &'static str,
    /// The grant of the call's access token.
    pub grant: ApiGrant,
    /// The request, encoded as protobuf.
    pub body: Vec<u8>,
    /// Which timeout applies.
    pub timeout: CallTimeout,
    response: PhantomData<fn() -> R>,
}

fn call<R>(path: &'static str, grant: ApiGrant, request: &impl Message) -> Call<R> {
    Call { path, grant, body: request.encode_to_vec(), timeout: CallTimeout::Configured, response: PhantomData }
}

fn start_call<R>(path: &'static str, request: &impl Message) -> Call<R> {
    Call { timeout: CallTimeout::Extended, ..call(path, ApiGrant::room_record(), request) }
}

pub(super) fn create_room(request: &proto::CreateRoomRequest) -> Call<proto::Room> {
    call("RoomService/CreateRoom", ApiGrant::room_create(), request)
}

pub(super) fn delete_room(request: &proto::DeleteRoomRequest) -> Call<proto::DeleteRoomResponse> {
    call("RoomService/DeleteRoom", ApiGrant::room_create(), request)
}

pub(super) fn list_rooms(request: &proto::ListRoomsRequest) -> Call<proto::ListRoomsResponse> {
    call("RoomService/ListRooms", ApiGrant::room_list(), request)
}

pub(super) fn list_participants(request: &proto::ListParticipantsRequest) -> Call<proto::ListParticipantsResponse> {
    call("RoomService/ListParticipants", ApiGrant::room_admin(&request.room), request)
}

pub(super) fn get_participant(request: &proto::RoomParticipantIdentity) -> Call<proto::ParticipantInfo> {
    call("RoomService/GetParticipant", ApiGrant::room_admin(&request.room), request)
}

pub(super) fn remove_participant(request: &proto::RoomParticipantIdentity) -> Call<proto::RemoveParticipantResponse> {
    call("RoomService/RemoveParticipant", ApiGrant::room_admin(&request.room), request)
}

pub(super) fn mute_track(request: &proto::MuteRoomTrackRequest) -> Call<proto::MuteRoomTrackResponse> {
    call("RoomService/MutePublishedTrack", ApiGrant::room_admin(&request.room), request)
}

pub(super) fn update_participant(request: &proto::UpdateParticipantRequest) -> Call<proto::ParticipantInfo> {
    call("RoomService/UpdateParticipant", ApiGrant::room_admin(&request.room), request)
}

pub(super) fn update_subscriptions(
    request: &proto::UpdateSubscriptionsRequest,
) -> Call<proto::UpdateSubscriptionsResponse> {
    call("RoomService/UpdateSubscriptions", ApiGrant::room_admin(&request.room), request)
}

pub(super) fn send_data(request: &proto::SendDataRequest) -> Call<proto::SendDataResponse> {
    call("RoomService/SendData", ApiGrant::room_admin(&request.room), request)
}

pub(super) fn start_room_composite(request: &proto::RoomCompositeEgressRequest) -> Call<proto::EgressInfo> {
    start_call("Egress/StartRoomCompositeEgress", request)
}

pub(super) fn start_participant(request: &proto::ParticipantEgressRequest) -> Call<proto::EgressInfo> {
    start_call("Egress/StartParticipantEgress", request)
}

pub(super) fn start_track(request: &proto::TrackEgressRequest) -> Call<proto::EgressInfo> {
    start_call("Egress/StartTrackEgress", request)
}

pub(super) fn list_egress(request: &proto::ListEgressRequest) -> Call<proto::ListEgressResponse> {
    call("Egress/ListEgress", ApiGrant::room_record(), request)
}

pub(super) fn stop_egress(request: &proto::StopEgressRequest) -> Call<proto::EgressInfo> {
    call("Egress/StopEgress", ApiGrant::room_record(), request)
}

pub(super) fn update_stream(request: &proto::UpdateStreamRequest) -> Call<proto::EgressInfo> {
    call("Egress/UpdateStream", ApiGrant::room_record(), request)
}

pub(super) fn create_ingress(request: &proto::CreateIngressRequest) -> Call<proto::IngressInfo> {
    call("Ingress/CreateIngress", ApiGrant::ingress_admin(), request)
}

pub(super) fn list_ingress(request: &proto::ListIngressRequest) -> Call<proto::ListIngressResponse> {
    call("Ingress/ListIngress", ApiGrant::ingress_admin(), request)
}

pub(super) fn delete_ingress(request: &proto::DeleteIngressRequest) -> Call<proto::IngressInfo> {
    call("Ingress/DeleteIngress", ApiGrant::ingress_admin(), request)
}
