//! Who receives whom.

use std::collections::BTreeMap;

use conclave_media::livekit::WebhookOutcome;
use conclave_media::token::Grants;
use conclave_media::{MediaPlane, RoleGrant};
use conclave_model::RoleName;
use livekit_double::{Fault, Joining};
use livekit_protocol as proto;
use proto::{TrackSource, TrackType, UpdateSubscriptionsRequest};

use super::{ROOM, Stage, eventually, room};

fn role(name: &str) -> RoleName {
    name.parse().unwrap()
}

fn guests_receive_hosts() -> BTreeMap<RoleName, Option<Vec<RoleName>>> {
    BTreeMap::from([(role("guest"), Some(vec![role("host")])), (role("deaf"), Some(vec![]))])
}

fn join(stage: &Stage, identity: &str, role: &str) -> String {
    stage.double.join(ROOM, &Joining { attributes: &[("svc.role", role)], ..Joining::participant(identity) })
}

fn publish(stage: &Stage, identity: &str) -> String {
    stage.double.publish(ROOM, identity, TrackType::Audio, TrackSource::Microphone)
}

fn changes(stage: &Stage) -> Vec<UpdateSubscriptionsRequest> {
    stage.double.calls("UpdateSubscriptions")
}

async fn hand_over(stage: &Stage) {
    for webhook in stage.double.webhooks() {
        let outcome = stage.plane.handle_webhook(&webhook.authorization, &webhook.body).await;
        assert!(matches!(outcome, WebhookOutcome::Accepted | WebhookOutcome::Ignored));
    }
}

#[tokio::test]
async fn a_guest_is_kept_from_other_guests_and_from_no_host() {
    let stage = Stage::new();
    stage.plane.set_subscription_rules(&room(), guests_receive_hosts()).await.unwrap();
    join(&stage, "host", "host");
    join(&stage, "deaf", "deaf");
    join(&stage, "one", "guest");
    let two = join(&stage, "two", "guest");
    publish(&stage, "host");
    let track = publish(&stage, "two");
    hand_over(&stage).await;
    eventually(|| !changes(&stage).is_empty()).await;
    for change in changes(&stage) {
        assert_eq!((change.identity.as_str(), change.subscribe), ("one", false));
        assert_eq!(change.participant_tracks[0].participant_sid, two);
        assert_eq!(change.participant_tracks[0].track_sids.as_slice(), std::slice::from_ref(&track));
        assert_eq!(change.participant_tracks.len(), 1);
    }
}

#[tokio::test]
async fn another_role_gives_what_was_withheld() {
    let stage = Stage::new();
    join(&stage, "one", "guest");
    join(&stage, "two", "guest");
    let track = publish(&stage, "two");
    stage.plane.set_subscription_rules(&room(), guests_receive_hosts()).await.unwrap();
    eventually(|| changes(&stage).len() == 1).await;
    let host = RoleGrant { role: role("host"), grants: Grants::default(), max_kbps: None };
    stage.plane.set_role(&room(), &"one".parse().unwrap(), host).await.unwrap();
    eventually(|| changes(&stage).iter().any(|change| change.subscribe)).await;
    let given = changes(&stage).into_iter().find(|change| change.subscribe).unwrap();
    assert_eq!((given.identity.as_str(), &given.participant_tracks[0].track_sids[0]), ("one", &track));
}

#[tokio::test]
async fn rules_that_could_not_be_applied_are_applied_when_said_again() {
    let stage = Stage::new();
    join(&stage, "one", "guest");
    join(&stage, "two", "guest");
    publish(&stage, "two");
    stage.double.fail("UpdateSubscriptions", Fault::ProxyPage(502));
    stage.plane.set_subscription_rules(&room(), guests_receive_hosts()).await.unwrap();
    stage.plane.participants(&room()).await.unwrap();
    stage.double.heal();
    stage.plane.set_subscription_rules(&room(), guests_receive_hosts()).await.unwrap();
    eventually(|| !changes(&stage).is_empty()).await;
}

#[tokio::test]
async fn one_who_cannot_be_reached_keeps_nobody_from_the_rules() {
    let stage = Stage::new();
    join(&stage, "lost", "guest");
    join(&stage, "one", "guest");
    join(&stage, "two", "guest");
    publish(&stage, "two");
    stage.double.make_ghost(ROOM, "lost");
    stage.plane.set_subscription_rules(&room(), guests_receive_hosts()).await.unwrap();
    eventually(|| changes(&stage).iter().any(|change| change.identity == "one" && !change.subscribe)).await;
    assert_eq!(changes(&stage)[0].identity, "lost", "who was asked first, and did not answer");
}

#[tokio::test]
async fn a_room_without_rules_costs_no_call() {
    let stage = Stage::new();
    join(&stage, "one", "guest");
    publish(&stage, "one");
    hand_over(&stage).await;
    assert!(stage.double.calls::<proto::ListParticipantsRequest>("ListParticipants").is_empty());
}
