//! Uploads to an object storage with a certificate from a private authority.

use std::time::Duration;

use super::uploads::{Recorded, recording, status, wait_for_status};
use crate::private_authorities::PrivateAuthority;
use crate::support::eventually;

#[test]
fn a_storage_with_a_certificate_of_a_private_authority_is_trusted_by_a_setting() {
    let authority = PrivateAuthority::new();
    let mut recorded = Recorded::start_with(
        |config| config.egress.root_certs = Some(authority.root()),
        |url| authority.in_front_of(&url),
    );
    let id = recorded.record("a.ogg");
    recorded.stop(&id);
    wait_for_status(&recorded.call.app, &id, "complete");
    assert!(recorded.storage.object("calls/2026/a.ogg").is_some());
}

/// Proves S-75.
#[test]
fn without_the_setting_the_recording_says_what_is_missing() {
    let authority = PrivateAuthority::new();
    let mut recorded = Recorded::start_with(
        // Webhook receivers have separate trust settings.
        |config| config.webhooks.root_certs = Some(authority.root()),
        |url| authority.in_front_of(&url),
    );
    let id = recorded.record("a.ogg");
    recorded.stop(&id);
    eventually(|| {
        // Retry delays follow the clock, and their requests follow real time.
        recorded.call.app.advance(Duration::from_secs(300));
        status(&recorded.call.app, &id) == "failed"
    });
    let shown = recording(&recorded.call.app, &id);
    let error = shown["error"].as_str().unwrap();
    assert!(
        error.contains("of an issuer that is not trusted (egress.root_certs, SSL_CERT_FILE)"),
        "{error}"
    );
    assert!(recorded.storage.names().is_empty());
}
