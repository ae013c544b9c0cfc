use super::*;
use crate::ErrorCode;
use crate::Problem;

fn s3(config: Value) -> RecordingInput {
    RecordingInput::S3(serde_json::from_value(config).unwrap())
}

fn complete(
    input: RecordingInput,
    stored: Option<&DestinationConfig>,
) -> Result<DestinationConfig, Problem> {
    ConfigInput::Recording(input).complete(stored)
}

fn stored() -> DestinationConfig {
    let config = json!({
        "type": "s3", "bucket": "b", "region": "eu-west-1", "access_key": "AKIA", "secret": "hush", "session_token": "sst"
    });
    complete(s3(config), None).unwrap()
}

fn refused(result: Result<DestinationConfig, Problem>) -> String {
    let problem = result.unwrap_err();
    assert_eq!(problem.code, ErrorCode::InvalidRequest);
    problem.field.unwrap().into_owned()
}

#[test]
fn a_configuration_is_shown_without_its_secrets_and_without_what_is_not_set() {
    let shown = json!({
        "type": "s3", "bucket": "b", "region": "eu-west-1", "access_key": "AKIA", "secret": "***", "session_token": "***"
    });
    assert_eq!(stored().redacted(), shown);
    let gcp = json!({"type": "gcp", "bucket": "b", "prefix": "calls/", "credentials": "{\"private_key\":\"k\"}"});
    let gcp = complete(
        RecordingInput::Gcp(serde_json::from_value(gcp).unwrap()),
        None,
    )
    .unwrap();
    assert_eq!(
        gcp.redacted(),
        json!({"type": "gcp", "bucket": "b", "prefix": "calls/", "credentials": "***"})
    );
    let azure =
        json!({"type": "azure", "container": "c", "account_name": "acme", "account_key": "hush"});
    let azure = complete(
        RecordingInput::Azure(serde_json::from_value(azure).unwrap()),
        None,
    )
    .unwrap();
    let shown =
        json!({"type": "azure", "container": "c", "account_name": "acme", "account_key": "***"});
    assert_eq!(azure.redacted(), shown);
    for config in [stored(), gcp, azure] {
        assert!(!format!("{config:?} {}", config.redacted()).contains("hush"));
        assert_eq!(
            DestinationConfig::from_secret(DestinationKind::Recording, &config.to_secret()),
            Ok(config)
        );
    }
}

#[test]
fn the_urls_of_a_broadcast_are_shown_without_their_keys() {
    let urls = crate::rtmp::parse_urls("config.urls", &["rtmp://example.com/live/hush".to_owned()])
        .unwrap();
    let config = DestinationConfig::Rtmp(RtmpConfig { urls });
    assert_eq!(
        config.redacted(),
        json!({"urls": ["rtmp://example.com/live/REDACTED"]})
    );
    assert!(!format!("{config:?} {:?}", config.to_secret()).contains("hush"));
    assert_eq!(
        DestinationConfig::from_secret(DestinationKind::Rtmp, &config.to_secret()),
        Ok(config.clone())
    );
    assert_eq!(
        DestinationConfig::from_secret(DestinationKind::Recording, &config.to_secret()),
        Err(ParseDestinationConfigError)
    );
}

#[test]
fn credentials_left_out_or_hidden_are_kept_and_all_else_is_replaced() {
    for change in [
        json!({"type": "s3", "bucket": "new"}),
        json!({"type": "s3", "bucket": "new", "secret": "***", "session_token": "***"}),
        json!({"type": "s3", "bucket": "new", "access_key": "AKIA", "secret": "hush"}),
    ] {
        let DestinationConfig::Recording(RecordingConfig::S3(kept)) =
            complete(s3(change), Some(&stored())).unwrap()
        else {
            panic!("another type")
        };
        assert_eq!((kept.bucket.as_str(), kept.region), ("new", None));
        assert_eq!(
            (kept.secret.reveal(), kept.session_token.unwrap().reveal()),
            ("hush", "sst")
        );
        assert_eq!(kept.access_key.as_ref(), "AKIA");
    }
    let change = json!({"type": "s3", "bucket": "b", "secret": "other", "session_token": ""});
    let shown = complete(s3(change), Some(&stored())).unwrap().redacted();
    assert_eq!(
        shown,
        json!({"type": "s3", "bucket": "b", "access_key": "AKIA", "secret": "***"})
    );
}

#[test]
fn nothing_is_kept_from_another_type_or_from_nothing() {
    assert_eq!(
        refused(complete(s3(json!({"type": "s3", "bucket": "b"})), None)),
        "config.access_key"
    );
    for hidden in [json!("***"), json!("")] {
        let config = json!({"type": "s3", "bucket": "b", "access_key": "AKIA", "secret": hidden});
        assert_eq!(refused(complete(s3(config), None)), "config.secret");
    }
    let gcp = || {
        RecordingInput::Gcp(serde_json::from_value(json!({"type": "gcp", "bucket": "b"})).unwrap())
    };
    assert_eq!(
        refused(complete(gcp(), Some(&stored()))),
        "config.credentials"
    );
    let azure = json!({"type": "azure", "container": "c", "account_name": "a"});
    let azure = RecordingInput::Azure(serde_json::from_value(azure).unwrap());
    assert_eq!(refused(complete(azure, None)), "config.account_key");
}

#[test]
fn what_is_shown_tells_what_can_be_kept() {
    let shown =
        DestinationConfig::from_redacted(DestinationKind::Recording, &stored().redacted()).unwrap();
    assert!(shown.is_hidden() && !stored().is_hidden());
    let kept = complete(
        s3(json!({"type": "s3", "bucket": "b", "secret": "new"})),
        Some(&shown),
    )
    .unwrap();
    assert!(kept.is_hidden(), "the session token is still to be opened");
    let new = json!({"type": "s3", "bucket": "b", "secret": "new", "session_token": ""});
    assert!(!complete(s3(new), Some(&shown)).unwrap().is_hidden());
}

#[test]
fn what_can_become_part_of_a_host_holds_nothing_that_ends_one() {
    for bad in ["", "a/b", "a@b", "a#b", "a?b", "a b", "a\\b", "a:b", "ä"] {
        assert!(
            bad.parse::<BucketName>().is_err() && bad.parse::<StorageLabel>().is_err(),
            "{bad}"
        );
    }
    assert!("a.b".parse::<StorageLabel>().is_err() && "$web".parse::<BucketName>().is_ok());
    assert!(
        StorageText::try_from("a\nb".to_owned()).is_err()
            && StorageText::try_from("x".repeat(1_025)).is_err()
    );
}
