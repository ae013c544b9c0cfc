//! Uploads to a storage whose responses are lost, or mean "try again".

use test_http_server::Fault;

use super::uploads::{PADDING, Recorded, recording, wait_for_status};

/// Records a file, uploads it, and checks the stored object.
fn upload(recorded: &mut Recorded) {
    let id = recorded.record("a.ogg");
    recorded.stop(&id);
    wait_for_status(&recorded.call.app, &id, "complete");
    let object = recorded.storage.object("calls/2026/a.ogg").unwrap();
    assert!(object.len() > PADDING);
    assert!(recording(&recorded.call.app, &id).get("error").is_none());
}

#[test]
fn an_upload_whose_completion_was_carried_out_and_not_answered_is_complete() {
    let mut recorded = Recorded::start();
    recorded.storage.lose_completions(1);
    upload(&mut recorded);
    assert_eq!(
        recorded.storage.counts(),
        (1, 3, 0, 0),
        "it is not uploaded again"
    );
}

#[test]
fn answers_that_mean_that_a_part_is_to_be_sent_again_are_followed() {
    for refusal in [
        (400, "RequestTimeout"),
        (503, "SlowDown"),
        (400, "BadDigest"),
        (400, "SlowDown"),
    ] {
        let mut recorded = Recorded::start();
        recorded
            .storage
            .fail_parts(&[Fault::Refusal(refusal.0, refusal.1); 2]);
        upload(&mut recorded);
        assert_eq!(
            recorded.storage.counts(),
            (1, 3, 0, 0),
            "{refusal:?}: within one upload"
        );
    }
}

#[test]
fn an_upload_that_the_storage_has_lost_is_begun_anew() {
    let mut recorded = Recorded::start();
    recorded
        .storage
        .fail_parts(&[Fault::Refusal(404, "NoSuchUpload")]);
    let id = recorded.record("a.ogg");
    recorded.stop(&id);
    crate::support::eventually(|| {
        recorded.call.app.advance(std::time::Duration::from_secs(1));
        recording(&recorded.call.app, &id)["status"] == "complete"
    });
    assert_eq!(recorded.storage.counts(), (2, 3, 0, 0));
}

#[test]
fn a_bucket_with_object_lock_takes_the_parts() {
    let mut recorded = Recorded::start();
    recorded.storage.require_checksums();
    upload(&mut recorded);
}
