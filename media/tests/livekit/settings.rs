//! How LiveKit is set: found out by what it does, in a room that is gone afterwards.

use std::time::Duration;

use conclave_media::livekit::ConfigCheck;
use livekit_double::{Fault, Settings};
use livekit_protocol as proto;

use super::{ROOM, Stage, message};

async fn looked_at(settings: Settings) -> ConfigCheck {
    let stage = Stage::new();
    stage.double.configure(settings);
    let fit = stage.plane.check_config().await.unwrap();
    assert_eq!(stage.double.rooms(), Vec::<String>::new());
    for webhook in stage.double.webhooks() {
        stage.plane.handle_webhook(&webhook.authorization, &webhook.body).await;
    }
    assert!(stage.sink.take().is_empty(), "nobody hears of it");
    fit
}

fn advice(fit: &ConfigCheck) -> Vec<(&str, bool)> {
    assert_eq!(fit.unknown, Vec::<String>::new());
    fit.problems.iter().map(|mismatch| (mismatch.advice.as_str(), mismatch.is_fatal)).collect()
}

#[tokio::test]
async fn settings_that_fit_are_found_to() {
    let fit = looked_at(Settings::default()).await;
    assert!(fit.is_ok(), "{fit}");
    assert_eq!(fit.to_string(), "ok");
}

#[tokio::test]
async fn each_setting_that_does_not_fit_is_named() {
    let fit = looked_at(Settings { remote_unmute: false, ..Settings::default() }).await;
    let [(unmute, false)] = advice(&fit)[..] else { panic!("{fit}") };
    assert!(unmute.contains("room.enable_remote_unmute"));
    let fit = looked_at(Settings { redis: false, ..Settings::default() }).await;
    let [(redis, false)] = advice(&fit)[..] else { panic!("{fit}") };
    assert!(redis.contains("set redis"));
    let fit =
        looked_at(Settings { auto_create: false, remote_unmute: false, redis: false, ..Settings::default() }).await;
    let [(create, true), (_, false), (_, false)] = advice(&fit)[..] else { panic!("{fit}") };
    assert!(create.contains("room.auto_create"));
}

#[tokio::test]
async fn what_cannot_be_looked_at_is_no_mismatch() {
    for (method, fault) in [
        ("rtc", Fault::ProxyPage(502)),
        ("rtc", Fault::ProxyPage(404)),
        ("MutePublishedTrack", Fault::NoResponse),
        ("MutePublishedTrack", Fault::Dropped),
    ] {
        let stage = Stage::new();
        stage.double.fail(method, fault.clone());
        let fit = stage.plane.check_config().await.unwrap();
        assert!(fit.problems.is_empty() && fit.unknown.len() == 1, "{fault:?}: {fit}");
        assert_eq!(stage.double.rooms(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn a_server_that_does_not_answer_has_no_settings() {
    let stage = Stage::with_timeout(Duration::from_millis(300));
    stage.double.fail_all(Fault::NoResponse);
    assert!(message(stage.plane.check_config().await.unwrap_err()).contains("no response"));
}

#[tokio::test]
async fn the_room_to_look_around_in_is_nobodys_and_would_close_by_itself() {
    let stage = Stage::new();
    stage.double.configure(Settings { auto_create: false, ..Settings::default() });
    stage.double.fail("DeleteRoom", Fault::Twirp(500, "internal", "not now"));
    stage.plane.check_config().await.unwrap_err();
    let made: Vec<proto::CreateRoomRequest> = stage.double.calls("CreateRoom");
    assert!(made[0].name != ROOM && made[0].name.starts_with("conclave.check-"));
    assert!(made[0].name.parse::<conclave_model::NamespacedRoom>().is_err());
    assert!((1..60).contains(&made[0].empty_timeout) && (1..60).contains(&made[0].departure_timeout));
}
