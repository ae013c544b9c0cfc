//! Ingress endpoints.

use conclave_media::{IngressRequest, KnownIngress, MediaPlane};
use conclave_model::ingress::{IngressStatus, InputType, StreamKeyHash};
use livekit_protocol as proto;
use proto::ingress_state::Status;

use super::{ROOM, TestPlane, room};

#[tokio::test]
async fn an_endpoint_is_created_read_and_deleted() {
    let test = TestPlane::new();
    let request = IngressRequest {
        room: room(),
        max_participants: Some(8),
        input_type: InputType::Whip,
        identity: "encoder".parse().unwrap(),
        name: Some("Stage".into()),
        enable_transcoding: Some(true),
        public_url: None,
    };
    let created = test.plane.create_ingress(request).await.unwrap();
    assert_eq!(created.url, "http://127.0.0.1:8080/w");
    assert_eq!(
        test.double.room(ROOM).unwrap().max_participants,
        8,
        "otherwise the encoder would open it without a maximum"
    );
    assert!(!created.stream_key.reveal().is_empty());
    let request = test
        .double
        .calls::<proto::CreateIngressRequest>("CreateIngress")
        .remove(0);
    assert_eq!(
        (request.input_type, request.enable_transcoding),
        (1, Some(true))
    );
    assert_eq!(
        (
            request.participant_identity.as_str(),
            request.participant_name.as_str()
        ),
        ("encoder", "Stage")
    );

    let known = KnownIngress {
        ingress_id: created.ingress_id.clone(),
        room: room(),
        identity: "encoder".parse().unwrap(),
        name: None,
        input_type: InputType::Whip,
        key_hash: StreamKeyHash::from_key(created.stream_key.reveal()),
    };
    let status = async || {
        test.plane
            .ingress(&known)
            .await
            .unwrap()
            .map(|state| state.status)
    };
    assert_eq!(status().await, Some(IngressStatus::Inactive));
    for (reported, converted) in [
        (Status::EndpointBuffering, IngressStatus::Buffering),
        (Status::EndpointPublishing, IngressStatus::Publishing),
        (Status::EndpointError, IngressStatus::Error),
        // The endpoint waits for the next encoder.
        (Status::EndpointComplete, IngressStatus::Inactive),
    ] {
        test.double
            .set_ingress_status(created.ingress_id.as_str(), reported, "");
        assert_eq!(status().await, Some(converted));
    }
    let inventory = test.plane.inventory().await.unwrap();
    assert_eq!(inventory.ingresses.len(), 1);
    test.plane
        .delete_ingress(&created.ingress_id)
        .await
        .unwrap();
    test.plane
        .delete_ingress(&created.ingress_id)
        .await
        .unwrap();
    assert_eq!(status().await, None);
}
