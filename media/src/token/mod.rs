//! Room tokens: HS256 JWTs that every LiveKit client can carry and a LiveKit server accepts.
//!
//! A [`TokenSigner`] has the media plane's API key and secret, and is the only code that signs or verifies a token. The
//! control plane mints tokens from a [`TokenRequest`]; the media plane verifies them into [`Claims`]. The caller passes
//! the time: the JWT library's checks, which read the system clock, are switched off, so that tests can move the clock.
//! No error in this module contains any part of a token.

mod claims;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use conclave_model::non_null::Object;
use conclave_model::participant::{
    EXCHANGE_ATTRIBUTE, MAX_KBPS_ATTRIBUTE, ParticipantKind, REVOCATION_ATTRIBUTE, ROLE_ATTRIBUTE,
    ROLE_CHANGE_ATTRIBUTE,
};
use conclave_model::secret::{BASE62, unique_text};
use conclave_model::{
    Identity, NamespacedRoom, RevocationId, RoleChangeId, RoleName, Secret, Timestamp,
};
use hmac::{Hmac, KeyInit as _, Mac as _};
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, DecodingKey, TokenData, Validation};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::Sha256;

pub use claims::{Claims, ExchangeId, Grants, RoomConfig};
use claims::{Payload, RoomConfigClaim, VideoGrant};

/// Seconds that the media plane keeps an empty room beyond its `empty_timeout`, so that the control plane's timer ends
/// the room first.
const ROOM_GRACE_SECONDS: u32 = 30;

/// Time before its `nbf` from which a token is accepted.
const NOT_BEFORE_LEEWAY: Duration = Duration::from_secs(60);

/// Contents of a token to be minted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRequest {
    /// The room that it allows to join.
    pub room: NamespacedRoom,
    /// The identity to join as.
    pub identity: Identity,
    /// Display name; empty if there is none.
    pub name: String,
    /// The participant's metadata; empty if there is none.
    pub metadata: String,
    /// The participant's attributes, except the server's own.
    pub attributes: BTreeMap<String, String>,
    /// The role to join with.
    pub role: Option<RoleName>,
    /// The identity's last role change in the room, which this token includes.
    pub role_change: Option<RoleChangeId>,
    /// The last revocation of the identity's tokens for the room, which this token is newer than.
    pub revocation: Option<RevocationId>,
    /// The room code exchange that issues it, if the code is not locked to an identity.
    pub exchange: Option<ExchangeId>,
    /// Limit for the total published bitrate, in kbit/s; `None` for no limit.
    pub max_kbps: Option<u32>,
    /// The participant's permissions.
    pub grants: Grants,
    /// Lifetime, rounded down to whole seconds.
    pub ttl: Duration,
    /// The room's `empty_timeout`.
    pub empty_timeout_seconds: u32,
    /// The room's effective maximum number of participants; `None` or 0 for no limit.
    pub max_participants: Option<u32>,
}

/// A signed token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedToken {
    /// The signed JWT, which clients send to the media plane.
    pub token: Secret,
    /// The token's `exp`, in whole seconds.
    pub expires_at: Timestamp,
}

/// Reason why a token was refused or could not be signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// Not a JWT, or with an unreadable header or claims.
    #[error("the token is malformed")]
    Malformed,
    /// Signed with an algorithm other than HS256.
    #[error("the token is signed with an algorithm that is not accepted")]
    Algorithm,
    /// Signed with another secret.
    #[error("the token's signature does not match")]
    Signature,
    /// `iss` is not this server's API key.
    #[error("the token is issued under another key")]
    Issuer,
    /// `exp` has passed.
    #[error("the token has expired")]
    Expired,
    /// `nbf` has not been reached.
    #[error("the token is not valid yet")]
    NotYetValid,
    /// Does not grant a valid identity to join a valid room.
    #[error("the token opens no room")]
    NoRoom,
    /// The claims could not be serialized.
    #[error("the token could not be signed")]
    Unsignable,
}

/// Every token's header, before base64 encoding.
const HEADER: &str = r#"{"typ":"JWT","alg":"HS256"}"#;
/// Initial buffer capacity for claims, in bytes. Most tokens need less.
const CLAIMS_CAPACITY: usize = 640;
/// Length of a signature, in characters.
const SIGNATURE_LENGTH: usize = 43;

/// Signs and verifies room tokens with one API key and secret.
pub struct TokenSigner {
    api_key: Box<str>,
    /// Encoded header with its dot, the signed prefix of every token.
    header: Box<str>,
    /// Prepared with the secret, which takes as long as signing a small token.
    mac: Hmac<Sha256>,
    decoding: DecodingKey,
    validation: Validation,
}

impl fmt::Debug for TokenSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenSigner")
            .field("api_key", &self.api_key)
            .finish_non_exhaustive()
    }
}

impl TokenSigner {
    /// Creates a signer with the media plane's API key and secret.
    #[expect(clippy::expect_used, reason = "HMAC accepts keys of every length")]
    pub fn new(api_key: impl Into<Box<str>>, secret: &Secret) -> Self {
        let secret = secret.reveal().as_bytes();
        Self {
            api_key: api_key.into(),
            header: format!("{}.", URL_SAFE_NO_PAD.encode(HEADER)).into(),
            mac: Hmac::new_from_slice(secret).expect("HMAC takes a key of any length"),
            decoding: DecodingKey::from_secret(secret),
            validation: signature_only(),
        }
    }

    /// Signs a token that is valid from `now` on.
    ///
    /// # Errors
    /// [`TokenError::Unsignable`] if its claims cannot be serialized, which no request is known to cause.
    pub fn mint(&self, request: &TokenRequest, now: Timestamp) -> Result<SignedToken, TokenError> {
        // JWT times are whole seconds. Rounding down never extends a token's life.
        let expires_at = floor_to_second(now).after(whole_seconds(request.ttl));
        let max_kbps = request.max_kbps.map(|kbps| kbps.to_string());
        let role = request
            .role
            .as_ref()
            .map(|role| (ROLE_ATTRIBUTE, role.as_str()));
        let max_kbps = max_kbps.as_deref().map(|kbps| (MAX_KBPS_ATTRIBUTE, kbps));
        let role_change = request.role_change.map(|change| change.to_string());
        let role_change = role_change
            .as_deref()
            .map(|change| (ROLE_CHANGE_ATTRIBUTE, change));
        let revocation = request.revocation.map(|revocation| revocation.to_string());
        let revocation = revocation
            .as_deref()
            .map(|revocation| (REVOCATION_ATTRIBUTE, revocation));
        let exchange = request
            .exchange
            .as_ref()
            .map(|exchange| (EXCHANGE_ATTRIBUTE, exchange.as_str()));
        let own = request
            .attributes
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        // The server's attributes come last, so that no others replace them.
        let attributes = own
            .chain(role)
            .chain(max_kbps)
            .chain(role_change)
            .chain(revocation)
            .chain(exchange);
        // Without the extra time, LiveKit and the control plane would race to end the empty room.
        let timeout = request
            .empty_timeout_seconds
            .saturating_add(ROOM_GRACE_SECONDS);
        let payload = Payload {
            name: request.name.as_str().into(),
            metadata: request.metadata.as_str().into(),
            attributes: attributes.map(|(k, v)| (k.into(), v.into())).collect(),
            video: VideoGrant::new(&request.room, &request.grants),
            room_config: Some(Object(RoomConfigClaim {
                empty_timeout: timeout,
                departure_timeout: timeout,
                max_participants: request.max_participants.filter(|cap| *cap > 0),
            })),
            ..self.base_payload(
                &request.identity,
                ParticipantKind::Standard,
                now,
                expires_at,
            )
        };
        self.sign(&payload, expires_at)
    }

    /// Signs a verified token's claims again, valid until `expires_at` (rounded down to a whole second). Connected
    /// participants receive such refreshed tokens.
    ///
    /// # Errors
    /// Fails as [`TokenSigner::mint`] does.
    pub fn refresh(
        &self,
        claims: &Claims,
        expires_at: Timestamp,
        now: Timestamp,
    ) -> Result<SignedToken, TokenError> {
        let expires_at = floor_to_second(expires_at);
        let payload = Payload {
            name: claims.name.as_str().into(),
            metadata: claims.metadata.as_str().into(),
            attributes: claims
                .attributes
                .iter()
                .map(|(k, v)| (k.as_str().into(), v.as_str().into()))
                .collect(),
            video: VideoGrant::new(&claims.room, &claims.grants),
            // Kept, since a client that joins again with this token may open the room anew.
            room_config: claims.room_config.map(|config| Object(config.into())),
            ..self.base_payload(&claims.identity, claims.kind, now, expires_at)
        };
        self.sign(&payload, expires_at)
    }

    /// Verifies a token: signed with this secret and HS256, issued under this key, valid at `now`, and granting a join.
    /// A token is valid from a minute before its `nbf`, because another server may have signed it, or the clock may have
    /// been set back; `exp` has no such leeway.
    ///
    /// # Errors
    /// All variants of [`TokenError`] except [`TokenError::Unsignable`].
    pub fn verify(&self, token: &str, now: Timestamp) -> Result<Claims, TokenError> {
        // Verifies the signature first, so that no claim of an unsigned token is used.
        let payload: Payload<'static> = self.decode(token)?;
        if *payload.iss != *self.api_key {
            // Another key is not valid here, even with the same secret.
            return Err(TokenError::Issuer);
        }
        if now >= from_seconds(payload.exp) {
            return Err(TokenError::Expired);
        }
        if payload
            .nbf
            .is_some_and(|nbf| now.after(NOT_BEFORE_LEEWAY) < from_seconds(nbf))
        {
            return Err(TokenError::NotYetValid);
        }
        Claims::try_from(payload)
    }

    /// Returns the claims for issuer, subject and validity.
    fn base_payload<'a>(
        &'a self,
        identity: &'a Identity,
        kind: ParticipantKind,
        now: Timestamp,
        expires_at: Timestamp,
    ) -> Payload<'a> {
        Payload {
            iss: (&*self.api_key).into(),
            sub: identity.as_str().into(),
            nbf: Some(now.millis() / 1_000),
            exp: expires_at.millis() / 1_000,
            // Makes two tokens of the same second differ.
            jti: unique_text(16, BASE62).into(),
            kind: (kind != ParticipantKind::Standard).then(|| kind.as_str().into()),
            ..Payload::default()
        }
    }

    fn sign(
        &self,
        payload: &Payload<'_>,
        expires_at: Timestamp,
    ) -> Result<SignedToken, TokenError> {
        Ok(SignedToken {
            token: self.encode(payload)?,
            expires_at,
        })
    }

    /// Returns the API key, which is the `iss` of all tokens.
    pub(crate) fn api_key(&self) -> &str {
        &self.api_key
    }

    /// Signs a payload without adding claims.
    pub(crate) fn encode(&self, payload: &impl Serialize) -> Result<Secret, TokenError> {
        let mut claims = Vec::with_capacity(CLAIMS_CAPACITY);
        serde_json::to_writer(&mut claims, payload).map_err(|_| TokenError::Unsignable)?;
        // The exact length, so that the token is written without a second allocation.
        let length = base64::encoded_len(claims.len(), false).ok_or(TokenError::Unsignable)?;
        let mut token = String::with_capacity(self.header.len() + length + 1 + SIGNATURE_LENGTH);
        token.push_str(&self.header);
        URL_SAFE_NO_PAD.encode_string(&claims, &mut token);
        // A clone of the prepared MAC costs less than preparing the secret again.
        let signature = self.mac.clone().chain_update(&token).finalize();
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(signature.into_bytes(), &mut token);
        Ok(Secret::new(token))
    }

    /// Verifies a token's signature and reads its payload. The caller must check issuer and validity.
    pub(crate) fn decode<T: DeserializeOwned>(&self, token: &str) -> Result<T, TokenError> {
        jsonwebtoken::decode(token, &self.decoding, &self.validation)
            .map(
                |TokenData {
                     claims: Object(payload),
                     ..
                 }| payload,
            )
            .map_err(|error| TokenError::from(error.kind()))
    }
}

/// Returns a validation of algorithm and signature only. [`TokenSigner::verify`] checks everything that depends on the
/// time.
fn signature_only() -> Validation {
    let mut validation = Validation::new(Algorithm::HS256);
    // The library would require `exp`. The payload's deserialization requires it anyway.
    validation.required_spec_claims.clear();
    validation.validate_exp = false;
    validation.validate_nbf = false;
    // LiveKit's tokens have no audience.
    validation.validate_aud = false;
    validation
}

/// Drops the library's error itself, since it may quote the token.
impl From<&ErrorKind> for TokenError {
    fn from(kind: &ErrorKind) -> Self {
        match kind {
            ErrorKind::InvalidSignature => Self::Signature,
            ErrorKind::InvalidAlgorithm => Self::Algorithm,
            // Header and claims are not distinguished: the client can do nothing about either.
            _ => Self::Malformed,
        }
    }
}

fn from_seconds(seconds: i64) -> Timestamp {
    Timestamp::from_millis(seconds.saturating_mul(1_000))
}

fn floor_to_second(at: Timestamp) -> Timestamp {
    from_seconds(at.millis() / 1_000)
}

fn whole_seconds(span: Duration) -> Duration {
    Duration::from_secs(span.as_secs())
}

#[cfg(test)]
mod tests;
