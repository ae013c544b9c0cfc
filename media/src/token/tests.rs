use conclave_model::participant::TrackSource;
use jsonwebtoken::{EncodingKey, Header, encode};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_750);

fn signer() -> TokenSigner {
    TokenSigner::new("APIkey", &Secret::new("a secret of the media plane"))
}

fn request() -> TokenRequest {
    TokenRequest {
        room: "prj_0123456789ab.stand-up".parse().unwrap(),
        identity: "alice@example.org".parse().unwrap(),
        name: "Alice".into(),
        metadata: r#"{"a":1}"#.into(),
        attributes: std::collections::BTreeMap::new(),
        role: Some("host".parse().unwrap()),
        role_change: None,
        revocation: None,
        exchange: None,
        max_kbps: Some(900),
        grants: Grants {
            sources: vec![TrackSource::Camera, TrackSource::ScreenShareAudio],
            ..Grants::default()
        },
        ttl: Duration::from_secs(600),
        empty_timeout_seconds: 300,
        max_participants: Some(12),
    }
}

fn payload_of(token: &Secret) -> Value {
    jsonwebtoken::dangerous::insecure_decode::<Value>(token.reveal())
        .unwrap()
        .claims
}

/// Signs any payload with the signer's secret.
fn signed(payload: &Value) -> String {
    encode(
        &Header::default(),
        payload,
        &EncodingKey::from_secret(b"a secret of the media plane"),
    )
    .unwrap()
}

#[test]
fn a_token_is_signed_as_the_jwt_library_signs_it() {
    for size in [1, 700, 10_000] {
        let payload = json!({"name": "n".repeat(size)});
        assert_eq!(
            signer().encode(&payload).unwrap().reveal(),
            signed(&payload)
        );
    }
}

fn minimal_payload() -> Value {
    json!({"iss": "APIkey", "sub": "alice", "exp": 1_700_000_600,
           "video": {"room": "prj_0123456789ab.r", "roomJoin": true}})
}

#[test]
fn a_token_has_the_claims_that_livekit_reads() {
    let minted = signer().mint(&request(), NOW).unwrap();
    let mut payload = payload_of(&minted.token);
    assert_eq!(payload["jti"].as_str().unwrap().len(), 16);
    payload.as_object_mut().unwrap().remove("jti");
    assert_eq!(
        payload,
        json!({
            "iss": "APIkey", "sub": "alice@example.org", "name": "Alice", "nbf": 1_700_000_000, "exp": 1_700_000_600,
            "metadata": "{\"a\":1}", "attributes": {"svc.role": "host", "svc.publish.max_kbps": "900"},
            "video": {"room": "prj_0123456789ab.stand-up", "roomJoin": true, "canPublish": true, "canSubscribe": true,
                      "canPublishData": true, "canPublishSources": ["camera", "screen_share_audio"]},
            "roomConfig": {"emptyTimeout": 330, "departureTimeout": 330, "maxParticipants": 12}
        })
    );
    assert_eq!(minted.expires_at, Timestamp::from_millis(1_700_000_600_000));
}

#[test]
fn no_attribute_of_a_role_replaces_one_of_the_server() {
    let attributes = [("svc.role", "owner"), ("team", "blue")]
        .map(|(name, value)| (name.into(), value.into()))
        .into();
    let minted = signer()
        .mint(
            &TokenRequest {
                attributes,
                ..request()
            },
            NOW,
        )
        .unwrap();
    let expected = json!({"svc.role": "host", "svc.publish.max_kbps": "900", "team": "blue"});
    assert_eq!(payload_of(&minted.token)["attributes"], expected);
}

#[test]
fn a_token_says_that_its_holder_may_change_its_own_metadata_only_if_it_may() {
    let grants = Grants {
        can_update_own_metadata: true,
        ..Grants::default()
    };
    let minted = signer()
        .mint(
            &TokenRequest {
                grants: grants.clone(),
                ..request()
            },
            NOW,
        )
        .unwrap();
    assert_eq!(
        payload_of(&minted.token)["video"]["canUpdateOwnMetadata"],
        true
    );
    assert_eq!(
        signer().verify(minted.token.reveal(), NOW).unwrap().grants,
        grants
    );
}

#[test]
fn a_minted_token_verifies_to_the_same_claims() {
    let minted = signer().mint(&request(), NOW).unwrap();
    let claims = signer().verify(minted.token.reveal(), NOW).unwrap();
    let request = request();
    assert_eq!(
        (&claims.room, &claims.identity, &claims.name),
        (&request.room, &request.identity, &request.name)
    );
    assert_eq!(
        (&claims.grants, &claims.metadata),
        (&request.grants, &request.metadata)
    );
    assert_eq!(
        (claims.role(), claims.max_kbps()),
        (request.role, Some(900))
    );
    assert_eq!(
        (claims.max_participants(), claims.expires_at),
        (Some(12), minted.expires_at)
    );
}

#[test]
fn a_room_without_a_limit_has_no_max_participants_claim() {
    for cap in [None, Some(0)] {
        let minted = signer()
            .mint(
                &TokenRequest {
                    max_participants: cap,
                    ..request()
                },
                NOW,
            )
            .unwrap();
        assert!(
            payload_of(&minted.token)["roomConfig"]
                .get("maxParticipants")
                .is_none()
        );
    }
}

#[test]
fn a_refreshed_token_has_the_same_claims_and_a_later_end() {
    let minted = signer().mint(&request(), NOW).unwrap();
    let claims = signer().verify(minted.token.reveal(), NOW).unwrap();
    let later = NOW.after(Duration::from_secs(700));
    let refreshed = signer()
        .refresh(&claims, later.after(Duration::from_secs(60)), later)
        .unwrap();
    let again = signer().verify(refreshed.token.reveal(), later).unwrap();
    assert_eq!(
        again,
        Claims {
            expires_at: refreshed.expires_at,
            ..claims
        }
    );
}

#[test]
fn a_refreshed_token_keeps_the_kind_and_has_an_id_of_its_own() {
    let mut agent = minimal_payload();
    agent["kind"] = json!("agent");
    let claims = signer().verify(&signed(&agent), NOW).unwrap();
    let refreshed = [(); 2].map(|()| {
        payload_of(
            &signer()
                .refresh(&claims, claims.expires_at, NOW)
                .unwrap()
                .token,
        )
    });
    assert_eq!(
        (&refreshed[0]["kind"], &refreshed[0]["nbf"]),
        (&json!("agent"), &json!(1_700_000_000))
    );
    assert_ne!(refreshed[0]["jti"], refreshed[1]["jti"]);
}

#[test]
fn a_token_is_valid_from_a_minute_before_its_first_second_until_its_last() {
    let minted = signer().mint(&request(), NOW).unwrap();
    let at = |millis| {
        signer()
            .verify(minted.token.reveal(), Timestamp::from_millis(millis))
            .map(|_| ())
    };
    assert_eq!(at(1_699_999_939_999), Err(TokenError::NotYetValid));
    assert_eq!(
        (at(1_699_999_940_000), at(1_700_000_000_000)),
        (Ok(()), Ok(()))
    );
    assert_eq!(at(1_700_000_599_999), Ok(()));
    assert_eq!(at(1_700_000_600_000), Err(TokenError::Expired));
}

/// Proves S-48.
#[test]
fn a_token_for_an_identity_that_paths_cannot_have_opens_no_room() {
    for (identity, verified) in [
        (".", Err(TokenError::NoRoom)),
        ("..", Err(TokenError::NoRoom)),
        ("...", Ok(())),
    ] {
        let mut payload = minimal_payload();
        payload["sub"] = json!(identity);
        assert_eq!(
            signer().verify(&signed(&payload), NOW).map(|_| ()),
            verified,
            "{identity}"
        );
    }
}

#[test]
fn absent_grants_have_livekits_defaults() {
    let claims = signer().verify(&signed(&minimal_payload()), NOW).unwrap();
    assert_eq!(
        (claims.grants, claims.room_config),
        (Grants::default(), None)
    );
    let mut unlimited = minimal_payload();
    unlimited["roomConfig"] = json!({"emptyTimeout": 7, "maxParticipants": 0});
    let config = signer()
        .verify(&signed(&unlimited), NOW)
        .unwrap()
        .room_config
        .unwrap();
    assert_eq!(
        (config.empty_timeout_seconds, config.max_participants),
        (7, None)
    );
    let mut listener = minimal_payload();
    listener["video"]["canPublish"] = json!(false);
    let grants = signer().verify(&signed(&listener), NOW).unwrap().grants;
    assert_eq!(
        (
            grants.can_publish,
            grants.can_publish_data,
            grants.can_subscribe
        ),
        (false, false, true)
    );
}

/// Proves R-39.
#[test]
fn claims_are_read_from_objects_and_from_nothing_else() {
    let video = json!(["prj_0123456789ab.r", true]);
    let payload = json!([
        "APIkey",
        "alice",
        "",
        null,
        1_700_000_600,
        "",
        null,
        "",
        {},
        minimal_payload()["video"],
        null
    ]);
    assert_eq!(
        signer().verify(&signed(&payload), NOW),
        Err(TokenError::Malformed)
    );
    for (claim, value) in [("video", video), ("roomConfig", json!([7, 7]))] {
        let mut payload = minimal_payload();
        payload[claim] = value;
        assert_eq!(
            signer().verify(&signed(&payload), NOW),
            Err(TokenError::Malformed),
            "{claim}"
        );
    }
}

#[test]
fn a_token_that_allows_no_valid_identity_to_join_a_valid_room_is_refused() {
    for (pointer, value) in [
        ("/video/roomJoin", json!(false)),
        ("/video/room", json!("")),
        ("/video/room", json!("stand-up")),
        ("/sub", json!("")),
        ("/sub", json!("a b")),
    ] {
        let mut payload = minimal_payload();
        *payload.pointer_mut(pointer).unwrap() = value;
        assert_eq!(
            signer().verify(&signed(&payload), NOW),
            Err(TokenError::NoRoom),
            "{pointer}"
        );
    }
    for missing in ["iss", "sub", "exp"] {
        let mut payload = minimal_payload();
        payload.as_object_mut().unwrap().remove(missing);
        assert_eq!(
            signer().verify(&signed(&payload), NOW),
            Err(TokenError::Malformed),
            "{missing}"
        );
    }
}

#[test]
fn another_key_another_secret_and_another_algorithm_are_refused() {
    let token = signed(&minimal_payload());
    let other = TokenSigner::new("APIother", &Secret::new("a secret of the media plane"));
    assert_eq!(other.verify(&token, NOW), Err(TokenError::Issuer));
    let other = TokenSigner::new("APIkey", &Secret::new("another secret"));
    assert_eq!(other.verify(&token, NOW), Err(TokenError::Signature));

    let key = EncodingKey::from_secret(b"a secret of the media plane");
    for algorithm in [Algorithm::HS384, Algorithm::HS512] {
        let token = encode(&Header::new(algorithm), &minimal_payload(), &key).unwrap();
        assert_eq!(signer().verify(&token, NOW), Err(TokenError::Algorithm));
    }
}

/// Proves S-41.
#[test]
fn an_unsigned_token_is_refused() {
    let token = signed(&minimal_payload());
    let payload = token.split('.').nth(1).unwrap();
    // {"alg":"none","typ":"JWT"}
    let none = "eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0";
    let header = token.split('.').next().unwrap();
    for unsigned in [
        format!("{none}.{payload}."),
        format!("{header}.{payload}."),
        format!("{header}.{payload}"),
    ] {
        assert!(signer().verify(&unsigned, NOW).is_err());
    }
}

#[test]
fn debug_shows_neither_secret_nor_token() {
    let shown = format!(
        "{:?} {:?}",
        signer(),
        signer().mint(&request(), NOW).unwrap()
    );
    assert!(!shown.contains("a secret") && !shown.contains("eyJ"));
}

proptest! {
    #[test]
    fn no_text_makes_the_verifier_panic(text in any::<String>()) {
        prop_assert!(signer().verify(&text, NOW).is_err());
    }

    #[test]
    fn no_three_parts_make_the_verifier_panic(text in "[A-Za-z0-9_-]{0,40}\\.[A-Za-z0-9_-]{0,40}\\.[A-Za-z0-9_-]{0,44}") {
        prop_assert!(signer().verify(&text, NOW).is_err());
    }

    /// Proves S-41.
    #[test]
    fn a_token_with_one_character_changed_never_verifies(at in any::<prop::sample::Index>(), with in "[ -~]") {
        let token = signer().mint(&request(), NOW).unwrap().token;
        let at = at.index(token.reveal().len());
        let mut changed = token.reveal().to_owned();
        changed.replace_range(at..=at, &with);
        prop_assume!(changed != token.reveal());
        prop_assert!(signer().verify(&changed, NOW).is_err());
    }

    #[test]
    fn a_token_allows_to_join_the_room_it_was_minted_for(room in "[a-zA-Z0-9_-]{1,128}", ttl in 1u64..86_400) {
        let room: NamespacedRoom = format!("prj_0123456789ab.{room}").parse().unwrap();
        let request = TokenRequest { room: room.clone(), ttl: Duration::from_secs(ttl), ..request() };
        let minted = signer().mint(&request, NOW).unwrap();
        let claims = signer().verify(minted.token.reveal(), NOW).unwrap();
        prop_assert_eq!((claims.room, claims.expires_at), (room, minted.expires_at));
    }
}

#[test]
fn a_token_names_the_revocation_that_it_was_minted_after_and_so_does_its_refreshed_one() {
    let revocation = Some(conclave_model::RevocationId::new());
    let request = TokenRequest {
        revocation,
        ..request()
    };
    let minted = signer().mint(&request, NOW).unwrap();
    let claims = signer().verify(minted.token.reveal(), NOW).unwrap();
    let refreshed = signer()
        .refresh(&claims, NOW.after(Duration::from_secs(60)), NOW)
        .unwrap();
    let refreshed = signer().verify(refreshed.token.reveal(), NOW).unwrap();
    assert_eq!(
        (claims.revocation(), refreshed.revocation()),
        (revocation, revocation)
    );
}

#[test]
fn a_token_names_the_role_change_that_it_was_minted_after() {
    let change = conclave_model::RoleChangeId::new();
    let minted = |role_change| {
        signer()
            .mint(
                &TokenRequest {
                    role_change,
                    ..request()
                },
                NOW,
            )
            .unwrap()
            .token
    };
    let known = |role_change| {
        signer()
            .verify(minted(role_change).reveal(), NOW)
            .unwrap()
            .role_change()
    };
    assert_eq!((known(Some(change)), known(None)), (Some(change), None));
}
