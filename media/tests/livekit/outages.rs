//! LiveKit away, in the way of a proxy, or set up otherwise: an error that names what to look at, and no secret.

use std::time::Duration;

use conclave_media::MediaPlane;
use livekit_double::{Double, Fault, Joining};

use super::{ROOM, Stage, message, plane, room};

async fn says(fault: Fault) -> String {
    let stage = Stage::with_timeout(Duration::from_millis(300));
    stage.double.join(ROOM, &Joining::participant("alice"));
    stage.double.fail_all(fault);
    let said = message(stage.plane.participants(&room()).await.unwrap_err());
    assert!(!said.contains("a secret of the proxy"), "{said}");
    stage.double.heal();
    stage.plane.participants(&room()).await.unwrap();
    said
}

#[tokio::test]
async fn whatever_stands_in_the_way_is_named() {
    for (fault, named) in [
        (Fault::PlainUnauthorized, "media.api_secret"),
        (Fault::Twirp(401, "unauthenticated", "permissions denied"), "media.api_secret"),
        (Fault::ProxyPage(502), "502"),
        (Fault::ProxyPage(413), "413"),
        (Fault::ProxyPage(404), "media.url"),
        (Fault::Answer(200, "text/html", "<html>"), "media.url"),
        (Fault::Answer(200, "application/protobuf", "\u{1}\u{1}nonsense"), "does not read"),
        (Fault::Answer(500, "application/json", "[1]"), "500"),
        (Fault::Answer(302, "text/html", ""), "302"),
        (Fault::Twirp(500, "internal", "a database is down"), "a database is down"),
        (Fault::Twirp(404, "bad_route", "no handler"), "version"),
        (Fault::Slow(Duration::from_secs(2)), "300ms"),
        (Fault::Dropped, "closed before an answer"),
    ] {
        let said = says(fault.clone()).await;
        assert!(said.contains(named), "{fault:?}: {said}");
    }
}

#[tokio::test]
async fn a_wrong_secret_is_told_as_such_and_not_shown() {
    let double = Double::start();
    let plane = plane(&double.url(), "another secret", Duration::from_secs(5));
    let said = message(plane.health().await.unwrap_err());
    assert!(said.contains("media.api_key") && !said.contains("another secret"), "{said}");
    assert!(!format!("{plane:?}").contains("secret"));
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told_as_such() {
    let nowhere = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let plane = plane(&format!("ws://{nowhere}"), "secret", Duration::from_secs(5));
    assert!(message(plane.health().await.unwrap_err()).contains("media.url"));
}
