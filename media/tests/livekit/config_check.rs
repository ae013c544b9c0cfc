//! Check of LiveKit's configuration.

use conclave_media::livekit::ConfigCheck;
use livekit_double::{Fault, Settings};
use livekit_protocol as proto;

use super::webhooks::deliver_to;
use super::{ROOM, TestPlane, message};

async fn check_of(settings: Settings) -> ConfigCheck {
    let test = TestPlane::new();
    test.double.configure(settings);
    let check = test.plane.check_config().await.unwrap();
    assert_eq!(test.double.rooms(), Vec::<String>::new());
    for webhook in test.double.webhooks() {
        deliver_to(&test.plane, &webhook.authorization, &webhook.body).await;
    }
    assert!(
        test.sink.take_reports().is_empty(),
        "the check causes no reports"
    );
    check
}

fn advice(check: &ConfigCheck) -> Vec<(&str, bool)> {
    assert_eq!(check.unknown, Vec::<String>::new());
    check
        .problems
        .iter()
        .map(|mismatch| (mismatch.advice.as_str(), mismatch.is_fatal))
        .collect()
}

#[tokio::test]
async fn a_suitable_configuration_is_ok() {
    let check = check_of(Settings::default()).await;
    assert!(check.is_ok(), "{check}");
    assert_eq!(check.to_string(), "ok");
}

#[tokio::test]
async fn each_unsuitable_setting_is_named() {
    let check = check_of(Settings {
        remote_unmute: false,
        ..Settings::default()
    })
    .await;
    let [(unmute, false)] = advice(&check)[..] else {
        panic!("{check}")
    };
    assert!(unmute.contains("room.enable_remote_unmute"));
    let check = check_of(Settings {
        redis: false,
        ..Settings::default()
    })
    .await;
    let [(redis, false)] = advice(&check)[..] else {
        panic!("{check}")
    };
    assert!(redis.contains("set redis"));
    let check = check_of(Settings {
        auto_create: false,
        remote_unmute: false,
        redis: false,
        ..Settings::default()
    })
    .await;
    let [(create, true), (_, false), (_, false)] = advice(&check)[..] else {
        panic!("{check}")
    };
    assert!(create.contains("room.auto_create"));
}

#[tokio::test]
async fn what_cannot_be_checked_is_unknown() {
    for (method, fault) in [
        ("rtc", Fault::ProxyPage(502)),
        ("rtc", Fault::ProxyPage(404)),
        ("MutePublishedTrack", Fault::NoResponse),
        ("MutePublishedTrack", Fault::Dropped),
    ] {
        let test = TestPlane::new();
        test.double.fail(method, fault.clone());
        let check = test.plane.check_config().await.unwrap();
        assert!(
            check.problems.is_empty() && check.unknown.len() == 1,
            "{fault:?}: {check}"
        );
        assert_eq!(test.double.rooms(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn the_check_fails_if_the_server_does_not_answer() {
    let test = TestPlane::new();
    test.double.fail_all(Fault::NoResponse);
    assert!(message(test.plane.check_config().await.unwrap_err()).contains("no response"));
}

#[tokio::test]
async fn the_room_of_the_check_belongs_to_no_project_and_closes_by_itself() {
    let test = TestPlane::new();
    test.double.configure(Settings {
        auto_create: false,
        ..Settings::default()
    });
    test.double
        .fail("DeleteRoom", Fault::Twirp(500, "internal", "not now"));
    test.plane.check_config().await.unwrap_err();
    let created: Vec<proto::CreateRoomRequest> = test.double.calls("CreateRoom");
    assert!(created[0].name != ROOM && created[0].name.starts_with("conclave.check-"));
    assert!(
        created[0]
            .name
            .parse::<conclave_model::NamespacedRoom>()
            .is_err()
    );
    assert!(
        (1..60).contains(&created[0].empty_timeout)
            && (1..60).contains(&created[0].departure_timeout)
    );
}
