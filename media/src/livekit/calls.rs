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

/// Declares calls: for each, its name, its request, its response and its method. Those of one group have the service, the grant and
/// the timeout in common.
macro_rules! calls {
    ($service:literal, $grant:expr, $timeout:ident:
     $($name:ident($request:ident) -> $response:ident = $method:literal;)+) => {$(
        pub(super) fn $name(request: &proto::$request) -> Call<proto::$response> {
            let grant: fn(&proto::$request) -> ApiGrant = $grant;
            Call {
                path: concat!($service, "/", $method),
                grant: grant(request),
                body: request.encode_to_vec(),
                timeout: CallTimeout::$timeout,
                response: PhantomData,
            }
        }
    )+};
}

calls! { "RoomService", |_| ApiGrant::room_create(), Configured:
    create_room(CreateRoomRequest) -> Room = "CreateRoom";
    delete_room(DeleteRoomRequest) -> DeleteRoomResponse = "DeleteRoom";
}

calls! { "RoomService", |_| ApiGrant::room_list(), Configured:
    list_rooms(ListRoomsRequest) -> ListRoomsResponse = "ListRooms";
}

calls! { "RoomService", |request| ApiGrant::room_admin(&request.room), Configured:
    list_participants(ListParticipantsRequest) -> ListParticipantsResponse = "ListParticipants";
    get_participant(RoomParticipantIdentity) -> ParticipantInfo = "GetParticipant";
    remove_participant(RoomParticipantIdentity) -> RemoveParticipantResponse = "RemoveParticipant";
    mute_track(MuteRoomTrackRequest) -> MuteRoomTrackResponse = "MutePublishedTrack";
    update_participant(UpdateParticipantRequest) -> ParticipantInfo = "UpdateParticipant";
    update_subscriptions(UpdateSubscriptionsRequest) -> UpdateSubscriptionsResponse = "UpdateSubscriptions";
    send_data(SendDataRequest) -> SendDataResponse = "SendData";
}

calls! { "Egress", |_| ApiGrant::room_record(), Extended:
    start_room_composite(RoomCompositeEgressRequest) -> EgressInfo = "StartRoomCompositeEgress";
    start_participant(ParticipantEgressRequest) -> EgressInfo = "StartParticipantEgress";
    start_track(TrackEgressRequest) -> EgressInfo = "StartTrackEgress";
}

calls! { "Egress", |_| ApiGrant::room_record(), Configured:
    list_egress(ListEgressRequest) -> ListEgressResponse = "ListEgress";
    stop_egress(StopEgressRequest) -> EgressInfo = "StopEgress";
    update_stream(UpdateStreamRequest) -> EgressInfo = "UpdateStream";
}

calls! { "Ingress", |_| ApiGrant::ingress_admin(), Configured:
    create_ingress(CreateIngressRequest) -> IngressInfo = "CreateIngress";
    list_ingress(ListIngressRequest) -> ListIngressResponse = "ListIngress";
    delete_ingress(DeleteIngressRequest) -> IngressInfo = "DeleteIngress";
}
