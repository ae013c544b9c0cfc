//! Room tokens: the input is a token, or a payload that is signed here with the correct secret.
//!
//! Unsigned tokens are rejected. An accepted token is currently valid and names a room and an identity of the documented
//! patterns; signed again, it has the same claims.

#![no_main]

use std::sync::LazyLock;

use conclave_fuzz::jwt::{KEY, SECRET, sign, sign_hs256};
use conclave_fuzz::{json, seeds};
use conclave_media::token::{Claims, TokenError, TokenSigner};
use conclave_model::{Secret, Timestamp};
use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use serde_json::Value;

/// 2026-03-01T12:00:00Z in seconds.
const NOW: i64 = 1_772_366_400;

static SIGNER: LazyLock<TokenSigner> =
    LazyLock::new(|| TokenSigner::new(KEY, &Secret::new(SECRET)));

static WORDS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let words = "iss sub name nbf exp jti kind metadata attributes video roomConfig room roomJoin canPublish canSubscribe \
                 canPublishData canPublishSources hidden emptyTimeout departureTimeout maxParticipants svc.role host camera \
                 microphone screen_share standard agent ingress APIfuzz prj_5f2a9c01be34.standup alice svc.publish.max_kbps";
    words.split_whitespace().map(str::to_owned).collect()
});

fuzz_target!(init: write_seeds(), |data: &[u8]| run(data));

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    json::mutate(data, size, max_size, seed, &WORDS, |line| line == 0)
});

fn run(data: &[u8]) {
    let now = Timestamp::from_millis(NOW * 1_000);
    if let Ok(token) = std::str::from_utf8(data) {
        assert!(SIGNER.verify(token, now).is_err(), "it is not signed");
    }
    let token = sign_hs256(data);
    let Ok(claims) = SIGNER.verify(&token, now) else {
        return;
    };
    check(&claims, data);
    let again = SIGNER.refresh(&claims, claims.expires_at, now).unwrap();
    let refreshed = SIGNER.verify(again.token.reveal(), now).unwrap();
    assert_eq!(
        Claims {
            expires_at: claims.expires_at,
            ..refreshed
        },
        claims
    );
    for header in [
        r#"{"alg":"none"}"#,
        r#"{"typ":"JWT","alg":"HS512"}"#,
        r#"{"typ":"JWT","alg":"RS256"}"#,
    ] {
        assert_eq!(
            SIGNER
                .verify(&sign(header.as_bytes(), data), now)
                .unwrap_err(),
            TokenError::Algorithm.or(header)
        );
    }
    let (signed, _) = token.rsplit_once('.').unwrap();
    for forged in [
        format!("{signed}."),
        signed.to_owned(),
        format!("{token}x"),
        format!("{token}."),
    ] {
        assert!(SIGNER.verify(&forged, now).is_err(), "{forged}");
    }
}

/// Expected error for a header whose algorithm the library does not know.
trait OrMalformed {
    fn or(self, header: &str) -> Self;
}

impl OrMalformed for TokenError {
    fn or(self, header: &str) -> Self {
        if header.contains("none") {
            Self::Malformed
        } else {
            self
        }
    }
}

fn check(claims: &Claims, payload: &[u8]) {
    let of = |text: &str, allowed: &str| {
        text.bytes()
            .all(|b| b.is_ascii_alphanumeric() || allowed.as_bytes().contains(&b))
    };
    let identity = claims.identity.as_str();
    assert!(
        (1..=128).contains(&identity.len()) && of(identity, "_.@-"),
        "{identity:?}"
    );
    let (project, room) = claims.room.as_str().split_once('.').unwrap();
    assert!(!project.is_empty() && of(project, "_-"), "{project:?}");
    assert!(
        (1..=128).contains(&room.len()) && of(room, "_-"),
        "{room:?}"
    );
    // The parser of claims skips unknown fields, even if they are not quite JSON.
    let Ok(payload) = serde_json::from_slice::<Value>(payload) else {
        return;
    };
    assert!(
        payload["iss"] == KEY && payload["exp"].as_i64().unwrap() > NOW,
        "{payload}"
    );
    assert!(
        payload
            .get("nbf")
            .is_none_or(|nbf| nbf.as_i64().is_none_or(|nbf| nbf <= NOW)),
        "{payload}"
    );
    assert_eq!(payload["sub"], identity);
    assert_eq!(
        (&payload["video"]["room"], &payload["video"]["roomJoin"]),
        (&claims.room.as_str().into(), &true.into())
    );
}

fn write_seeds() {
    let exp = NOW + 3_600;
    let head = format!(r#""iss":"{KEY}","sub":"alice","exp":{exp},"nbf":{NOW}"#);
    let video = r#""video":{"room":"prj_5f2a9c01be34.standup","roomJoin":true"#;
    seeds::write(
        "room_token",
        [
            format!("{{{head},{video}}}}}"),
            format!(
                r#"{{{head},{video},"canPublish":true,"canPublishSources":["camera","microphone"],"hidden":true}},"kind":"agent"}}"#
            ),
            format!(
                r#"{{{head},{video}}},"name":"A","metadata":"m","attributes":{{"svc.role":"host","svc.publish.max_kbps":"500"}},"roomConfig":{{"emptyTimeout":330,"departureTimeout":330,"maxParticipants":4}}}}"#
            ),
            sign_hs256(b"{}").replace('.', " . "),
        ],
    );
}
