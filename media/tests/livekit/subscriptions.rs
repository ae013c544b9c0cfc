//! Subscription rules.

use std::collections::BTreeMap;

use conclave_media::livekit::WebhookOutcome;
use conclave_media::token::Grants;
use conclave_media::{MediaPlane, RoleGrant};
use conclave_model::RoleName;
use conclave_model::role::RoleSubscribe;
use livekit_double::{Fault, Joining};
use livekit_protocol as proto;
use proto::{TrackSource, TrackType, UpdateSubscriptionsRequest};

use super::webhooks::deliver_to;
use super::{ROOM, TestPlane, eventually, room};

fn role(name: &str) -> RoleName {
    name.parse().unwrap()
}

fn guests_receive_hosts() -> BTreeMap<RoleName, RoleSubscribe> {
    let to = |roles: Vec<RoleName>| RoleSubscribe {
        to_roles: Some(roles),
        max_kbps: None,
    };
    BTreeMap::from([
        (role("guest"), to(vec![role("host")])),
        (role("silenced"), to(vec![])),
    ])
}

fn join(test: &TestPlane, identity: &str, role: &str) -> String {
    test.double.join(
        ROOM,
        &Joining {
            attributes: &[("svc.role", role)],
            ..Joining::participant(identity)
        },
    )
}

fn publish(test: &TestPlane, identity: &str) -> String {
    test.double
        .publish(ROOM, identity, TrackType::Audio, TrackSource::Microphone)
}

fn changes(test: &TestPlane) -> Vec<UpdateSubscriptionsRequest> {
    test.double.calls("UpdateSubscriptions")
}

async fn deliver_webhooks(test: &TestPlane) {
    for webhook in test.double.webhooks() {
        let outcome = deliver_to(&test.plane, &webhook.authorization, &webhook.body).await;
        assert!(matches!(
            outcome,
            WebhookOutcome::Accepted | WebhookOutcome::Ignored
        ));
    }
}

#[tokio::test]
async fn a_guest_is_unsubscribed_from_other_guests_and_from_no_host() {
    let test = TestPlane::new();
    test.plane
        .set_subscription_rules(&room(), guests_receive_hosts())
        .await
        .unwrap();
    join(&test, "host", "host");
    join(&test, "silenced", "silenced");
    join(&test, "one", "guest");
    let two = join(&test, "two", "guest");
    publish(&test, "host");
    let track = publish(&test, "two");
    deliver_webhooks(&test).await;
    eventually(|| !changes(&test).is_empty()).await;
    for change in changes(&test) {
        assert_eq!((change.identity.as_str(), change.subscribe), ("one", false));
        assert_eq!(change.participant_tracks[0].participant_sid, two);
        assert_eq!(
            change.participant_tracks[0].track_sids.as_slice(),
            std::slice::from_ref(&track)
        );
        assert_eq!(change.participant_tracks.len(), 1);
    }
}

#[tokio::test]
async fn a_new_role_subscribes_to_the_tracks_that_were_withheld() {
    let test = TestPlane::new();
    join(&test, "one", "guest");
    join(&test, "two", "guest");
    let track = publish(&test, "two");
    test.plane
        .set_subscription_rules(&room(), guests_receive_hosts())
        .await
        .unwrap();
    eventually(|| changes(&test).len() == 1).await;
    let host = RoleGrant {
        role: role("host"),
        grants: Grants::default(),
        max_kbps: None,
    };
    test.plane
        .set_role(&room(), &"one".parse().unwrap(), host)
        .await
        .unwrap();
    eventually(|| changes(&test).iter().any(|change| change.subscribe)).await;
    let given = changes(&test)
        .into_iter()
        .find(|change| change.subscribe)
        .unwrap();
    assert_eq!(
        (
            given.identity.as_str(),
            &given.participant_tracks[0].track_sids[0]
        ),
        ("one", &track)
    );
}

#[tokio::test]
async fn rules_that_could_not_be_applied_are_applied_when_they_are_set_again() {
    let test = TestPlane::new();
    join(&test, "one", "guest");
    join(&test, "two", "guest");
    publish(&test, "two");
    test.double
        .fail("UpdateSubscriptions", Fault::ProxyPage(502));
    test.plane
        .set_subscription_rules(&room(), guests_receive_hosts())
        .await
        .unwrap();
    test.plane.participants(&room()).await.unwrap();
    test.double.heal();
    test.plane
        .set_subscription_rules(&room(), guests_receive_hosts())
        .await
        .unwrap();
    eventually(|| !changes(&test).is_empty()).await;
}

#[tokio::test]
async fn a_participant_that_cannot_be_reached_does_not_stop_the_changes_of_others() {
    let test = TestPlane::new();
    join(&test, "lost", "guest");
    join(&test, "one", "guest");
    join(&test, "two", "guest");
    publish(&test, "two");
    test.double.make_ghost(ROOM, "lost");
    test.plane
        .set_subscription_rules(&room(), guests_receive_hosts())
        .await
        .unwrap();
    eventually(|| {
        changes(&test)
            .iter()
            .any(|change| change.identity == "one" && !change.subscribe)
    })
    .await;
    assert_eq!(changes(&test)[0].identity, "lost", "the first call failed");
}

#[tokio::test]
async fn a_room_without_rules_causes_no_call() {
    let test = TestPlane::new();
    join(&test, "one", "guest");
    publish(&test, "one");
    deliver_webhooks(&test).await;
    assert!(
        test.double
            .calls::<proto::ListParticipantsRequest>("ListParticipants")
            .is_empty()
    );
}
