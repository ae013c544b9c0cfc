//! Failed calls: the error names the setting to check, and contains no secret.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use conclave_media::livekit::{LivekitPlane, LivekitSettings};
use conclave_media::token::TokenSigner;
use conclave_media::{MediaError, MediaPlane, ReportInlet};
use conclave_model::{Clock, LeaseCheck, Secret};
use livekit_double::{Double, Fault, Joining};

use super::{AMPLE, ROOM, TestPlane, message, plane, room, settings};

async fn error_of(fault: Fault) -> String {
    // Short for the call that waits in vain only: on a busy machine, another one takes longer.
    let timeout = if matches!(fault, Fault::Slow(_)) {
        Duration::from_millis(300)
    } else {
        AMPLE
    };
    let test = TestPlane::with_timeout(timeout);
    test.double.join(ROOM, &Joining::participant("alice"));
    test.double.fail_all(fault);
    let error = message(test.plane.participants(&room()).await.unwrap_err());
    assert!(!error.contains("a secret of the proxy"), "{error}");
    test.double.heal();
    while let Err(again) = test.plane.participants(&room()).await {
        let again = message(again);
        assert!(again.contains("300ms"), "{again}");
    }
    error
}

#[tokio::test]
async fn the_error_names_the_fault() {
    for (fault, expected) in [
        (Fault::PlainUnauthorized, "media.api_secret"),
        (
            Fault::Twirp(401, "unauthenticated", "permissions denied"),
            "media.api_secret",
        ),
        (Fault::ProxyPage(502), "502"),
        (Fault::ProxyPage(413), "413"),
        (Fault::ProxyPage(404), "media.url"),
        (Fault::Answer(200, "text/html", "<html>"), "media.url"),
        (
            Fault::Answer(200, "application/protobuf", "\u{1}\u{1}nonsense"),
            "unreadable",
        ),
        (Fault::Answer(500, "application/json", "[1]"), "500"),
        (Fault::Answer(302, "text/html", ""), "302"),
        (
            Fault::Twirp(500, "internal", "a database is down"),
            "a database is down",
        ),
        (Fault::Twirp(404, "bad_route", "no handler"), "version"),
        (Fault::Slow(Duration::from_secs(2)), "300ms"),
        (Fault::Dropped, "closed before a response"),
    ] {
        let error = error_of(fault.clone()).await;
        assert!(error.contains(expected), "{fault:?}: {error}");
    }
}

#[tokio::test]
async fn the_error_of_a_wrong_secret_names_the_setting_and_not_the_secret() {
    let double = Double::start();
    let plane = plane(&double.url(), "another secret", AMPLE);
    let error = message(plane.health().await.unwrap_err());
    assert!(
        error.contains("media.api_key") && !error.contains("another secret"),
        "{error}"
    );
    assert!(!format!("{plane:?}").contains("secret"));
}

#[tokio::test]
async fn the_error_of_a_missing_server_names_its_url() {
    let nowhere = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let plane = plane(&format!("ws://{nowhere}"), "secret", AMPLE);
    assert!(message(plane.health().await.unwrap_err()).contains("media.url"));
}

/// Proves R-22.
#[tokio::test]
async fn a_server_without_a_confirmed_lease_calls_nothing_and_behaves_as_in_an_outage() {
    let (double, is_valid) = (Double::start(), Arc::new(AtomicBool::new(false)));
    let of_lease = Arc::clone(&is_valid);
    let lease = LeaseCheck::new(move || of_lease.load(Ordering::SeqCst));
    let signer = Arc::new(TokenSigner::new(
        "APIdouble",
        &Secret::new(double.api_secret.as_str()),
    ));
    let settings = LivekitSettings {
        lease,
        ..settings(&double.url(), AMPLE)
    };
    let plane = LivekitPlane::new(
        settings,
        signer,
        Clock::system(),
        Arc::new(ReportInlet::default()),
    );
    double.join(ROOM, &Joining::participant("alice"));

    let refused = [
        plane.close_room(&room()).await.unwrap_err(),
        plane.health().await.unwrap_err(),
    ];
    assert!(
        refused
            .iter()
            .all(|error| matches!(error, MediaError::Unavailable(_))),
        "{refused:?}"
    );
    assert_eq!(double.rooms(), [ROOM]);

    is_valid.store(true, Ordering::SeqCst);
    plane.close_room(&room()).await.unwrap();
    assert!(double.rooms().is_empty());
}
