//! The calls that are made to LiveKit: which method, with which grant, and what it answers.

use std::marker::PhantomData;

use livekit_protocol as proto;
use prost::Message;

use super::access::Grant;

/// How long a call may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    /// As long as the configuration says.
    Configured,
    /// At least 30 seconds: LiveKit asks one egress worker after another.
    Long,
}

/// A call that answers an `A`.
pub(super) struct Call<A> {
    /// Service and method.
    pub path: &'static str,
    /// What its token grants.
    pub grant: Grant,
    /// The request, encoded.
    pub body: Vec<u8>,
    /// How long it may take.
    pub patience: Patience,
    answer: PhantomData<fn() -> A>,
}

fn call<A>(path: &'static str, grant: Grant, request: &impl Message) -> Call<A> {
    Call { path, grant, body: request.encode_to_vec(), patience: Patience::Configured, answer: PhantomData }
}

fn long<A>(path: &'static str, request: &impl Message) -> Call<A> {
    Call { patience: Patience::Long, ..call(path, Grant::room_record(), request) }
}

pub(super) fn create_room(request: &proto::CreateRoomRequest) -> Call<proto::Room> {
    call("RoomService/CreateRoom", Grant::room_create(), request)
}

pub(super) fn delete_room(request: &proto::DeleteRoomRequest) -> Call<proto::DeleteRoomResponse> {
    call("RoomService/DeleteRoom", Grant::room_create(), request)
}

pub(super) fn list_rooms(request: &proto::ListRoomsRequest) -> Call<proto::ListRoomsResponse> {
    call("RoomService/ListRooms", Grant::room_list(), request)
}

pub(super) fn list_participants(request: &proto::ListParticipantsRequest) -> Call<proto::ListParticipantsResponse> {
    call("RoomService/ListParticipants", Grant::room_admin(&request.room), request)
}

pub(super) fn get_participant(request: &proto::RoomParticipantIdentity) -> Call<proto::ParticipantInfo> {
    call("RoomService/GetParticipant", Grant::room_admin(&request.room), request)
}

pub(super) fn remove_participant(request: &proto::RoomParticipantIdentity) -> Call<proto::RemoveParticipantResponse> {
    call("RoomService/RemoveParticipant", Grant::room_admin(&request.room), request)
}

pub(super) fn mute_track(request: &proto::MuteRoomTrackRequest) -> Call<proto::MuteRoomTrackResponse> {
    call("RoomService/MutePublishedTrack", Grant::room_admin(&request.room), request)
}

pub(super) fn update_participant(request: &proto::UpdateParticipantRequest) -> Call<proto::ParticipantInfo> {
    call("RoomService/UpdateParticipant", Grant::room_admin(&request.room), request)
}

pub(super) fn update_subscriptions(
    request: &proto::UpdateSubscriptionsRequest,
) -> Call<proto::UpdateSubscriptionsResponse> {
    call("RoomService/UpdateSubscriptions", Grant::room_admin(&request.room), request)
}

pub(super) fn send_data(request: &proto::SendDataRequest) -> Call<proto::SendDataResponse> {
    call("RoomService/SendData", Grant::room_admin(&request.room), request)
}

pub(super) fn start_room_composite(request: &proto::RoomCompositeEgressRequest) -> Call<proto::EgressInfo> {
    long("Egress/StartRoomCompositeEgress", request)
}

pub(super) fn start_participant(request: &proto::ParticipantEgressRequest) -> Call<proto::EgressInfo> {
    long("Egress/StartParticipantEgress", request)
}

pub(super) fn start_track(request: &proto::TrackEgressRequest) -> Call<proto::EgressInfo> {
    long("Egress/StartTrackEgress", request)
}

pub(super) fn list_egress(request: &proto::ListEgressRequest) -> Call<proto::ListEgressResponse> {
    call("Egress/ListEgress", Grant::room_record(), request)
}

pub(super) fn stop_egress(request: &proto::StopEgressRequest) -> Call<proto::EgressInfo> {
    call("Egress/StopEgress", Grant::room_record(), request)
}

pub(super) fn update_stream(request: &proto::UpdateStreamRequest) -> Call<proto::EgressInfo> {
    call("Egress/UpdateStream", Grant::room_record(), request)
}

pub(super) fn create_ingress(request: &proto::CreateIngressRequest) -> Call<proto::IngressInfo> {
    call("Ingress/CreateIngress", Grant::ingress_admin(), request)
}

pub(super) fn list_ingress(request: &proto::ListIngressRequest) -> Call<proto::ListIngressResponse> {
    call("Ingress/ListIngress", Grant::ingress_admin(), request)
}

pub(super) fn delete_ingress(request: &proto::DeleteIngressRequest) -> Call<proto::IngressInfo> {
    call("Ingress/DeleteIngress", Grant::ingress_admin(), request)
}
