//! Room tokens: HS256 JWTs that any LiveKit client can carry and a LiveKit server accepts (decisions, section 2).
//!
//! A [`TokenSigner`] holds the media plane's API key and secret and is the one place that signs or checks a token. The
//! control plane mints from a [`TokenRequest`]; whoever lets people in verifies and reads [`Claims`]. Time is always the
//! caller's: the library's own look at the system's clock is switched off, so that tests and a moved clock agree with
//! what is decided here. No error of this module holds the token or any part of it.

mod claims;
mod grants;
mod wire;

use std::fmt;
use std::time::Duration;

use conclave_model::participant::{MAX_KBPS_ATTRIBUTE, ParticipantKind, ROLE_ATTRIBUTE};
use conclave_model::secret::{BASE62, random_text};
use conclave_model::{Identity, NamespacedRoom, RoleName, Secret, Timestamp};
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use claims::{Claims, RoomConfig};
pub use grants::Grants;
use wire::Payload;

/// How much longer than the record's own timer the media plane keeps its copy of an empty room, so that the control
/// plane's timer is the one that decides (decisions, section 5).
const ROOM_GRACE_SECONDS: u32 = 30;

/// What a token is to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRequest {
    /// The room it opens.
    pub room: NamespacedRoom,
    /// Who carries it.
    pub identity: Identity,
    /// Display name; empty for none.
    pub name: String,
    /// The participant's metadata; empty for none.
    pub metadata: String,
    /// The role it gives.
    pub role: Option<RoleName>,
    /// Ceiling over everything published, in kilobits a second.
    pub max_kbps: Option<u32>,
    /// What its holder may do.
    pub grants: Grants,
    /// How long it lives; cut to whole seconds.
    pub ttl: Duration,
    /// How long the record stays open with nobody in it.
    pub empty_timeout_seconds: u32,
    /// The effective cap of the room; `None` is no cap.
    pub max_participants: Option<u32>,
}

/// A token that was just signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedToken {
    /// The JWT.
    pub token: Secret,
    /// The very instant of its `exp`, a whole second.
    pub expires_at: Timestamp,
}

/// Why a token is not good for anything. Never holds the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// Not a JWT, or one whose header or claims do not read.
    #[error("the token is malformed")]
    Malformed,
    /// Signed with another algorithm than HS256.
    #[error("the token is signed with an algorithm that is not accepted")]
    Algorithm,
    /// The signature is not ours.
    #[error("the token's signature does not match")]
    Signature,
    /// Issued under another API key.
    #[error("the token is issued under another key")]
    Issuer,
    /// Past its `exp`.
    #[error("the token has expired")]
    Expired,
    /// Before its `nbf`.
    #[error("the token is not valid yet")]
    NotYetValid,
    /// It does not say that somebody may join some room.
    #[error("the token opens no room")]
    NoRoom,
    /// Signing failed; a fault of the library, not of the caller.
    #[error("the token could not be signed")]
    Unsignable,
}

/// Signs and checks room tokens. Its keys are made once.
pub struct TokenSigner {
    api_key: Box<str>,
    header: Header,
    encoding: EncodingKey,
    decoding: DecodingKey,
    validation: Validation,
}

impl fmt::Debug for TokenSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenSigner").field("api_key", &self.api_key).finish_non_exhaustive()
    }
}

impl TokenSigner {
    /// A signer for the media plane's API key and secret.
    #[must_use]
    pub fn new(api_key: impl Into<Box<str>>, secret: &Secret) -> Self {
        let secret = secret.reveal().as_bytes();
        Self {
            api_key: api_key.into(),
            header: Header::new(Algorithm::HS256),
            encoding: EncodingKey::from_secret(secret),
            decoding: DecodingKey::from_secret(secret),
            validation: signature_only(),
        }
    }

    /// Signs a token that is valid from `now` on.
    ///
    /// # Errors
    /// [`TokenError::Unsignable`] when the library fails, which it has no reason to for any request.
    pub fn mint(&self, request: &TokenRequest, now: Timestamp) -> Result<SignedToken, TokenError> {
        let expires_at = whole_second(now).after(whole_seconds(request.ttl));
        let ceiling = request.max_kbps.map(|kbps| kbps.to_string());
        let role = request.role.as_ref().map(|role| (ROLE_ATTRIBUTE, role.as_str()));
        let ceiling = ceiling.as_deref().map(|kbps| (MAX_KBPS_ATTRIBUTE, kbps));
        let timeout = request.empty_timeout_seconds.saturating_add(ROOM_GRACE_SECONDS);
        let payload = Payload {
            name: request.name.as_str().into(),
            metadata: request.metadata.as_str().into(),
            attributes: role.into_iter().chain(ceiling).map(|(k, v)| (k.into(), v.into())).collect(),
            video: wire::Video::of(&request.room, &request.grants),
            room_config: Some(wire::Config {
                empty_timeout: timeout,
                departure_timeout: timeout,
                max_participants: request.max_participants.filter(|cap| *cap > 0),
            }),
            ..self.blank(&request.identity, ParticipantKind::Standard, now, expires_at)
        };
        self.sign(&payload, expires_at)
    }

    /// Signs what a verified token said once more, good until `expires_at` (cut to a whole second): the refreshed token
    /// of somebody who is connected.
    ///
    /// # Errors
    /// As [`TokenSigner::mint`].
    pub fn renew(&self, claims: &Claims, expires_at: Timestamp, now: Timestamp) -> Result<SignedToken, TokenError> {
        let expires_at = whole_second(expires_at);
        let payload = Payload {
            name: claims.name.as_str().into(),
            metadata: claims.metadata.as_str().into(),
            attributes: claims.attributes.iter().map(|(k, v)| (k.as_str().into(), v.as_str().into())).collect(),
            video: wire::Video::of(&claims.room, &claims.grants),
            room_config: claims.room_config.map(wire::Config::from),
            ..self.blank(&claims.identity, claims.kind, now, expires_at)
        };
        self.sign(&payload, expires_at)
    }

    /// Reads a token: signed by us with HS256, issued under our key, valid at `now` without leeway, and good for joining
    /// some room.
    ///
    /// # Errors
    /// Everything that [`TokenError`] tells apart, [`TokenError::Unsignable`] excepted.
    pub fn verify(&self, token: &str, now: Timestamp) -> Result<Claims, TokenError> {
        let payload: Payload<'static> = self.open(token)?;
        if *payload.iss != *self.api_key {
            return Err(TokenError::Issuer);
        }
        if now >= instant(payload.exp) {
            return Err(TokenError::Expired);
        }
        if payload.nbf.is_some_and(|nbf| now < instant(nbf)) {
            return Err(TokenError::NotYetValid);
        }
        Claims::try_from(payload)
    }

    /// The claims that need no request: who, from when, until when.
    fn blank<'a>(
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
            jti: random_text(16, BASE62).into(),
            kind: (kind != ParticipantKind::Standard).then(|| kind.as_str().into()),
            ..Payload::default()
        }
    }

    fn sign(&self, payload: &Payload<'_>, expires_at: Timestamp) -> Result<SignedToken, TokenError> {
        Ok(SignedToken { token: self.seal(payload)?, expires_at })
    }

    /// The key that names this signer: `iss` of everything it signs.
    pub(crate) fn api_key(&self) -> &str {
        &self.api_key
    }

    /// Signs a payload as it is.
    pub(crate) fn seal(&self, payload: &impl Serialize) -> Result<Secret, TokenError> {
        let token = jsonwebtoken::encode(&self.header, payload, &self.encoding).map_err(|_| TokenError::Unsignable)?;
        Ok(Secret::new(token))
    }

    /// Reads a payload that was signed with our secret. By whom and until when it holds is the caller's to ask.
    pub(crate) fn open<T: DeserializeOwned>(&self, token: &str) -> Result<T, TokenError> {
        jsonwebtoken::decode(token, &self.decoding, &self.validation)
            .map(|data| data.claims)
            .map_err(|error| refusal(error.kind()))
    }
}

/// Algorithm and signature by the library; everything that needs a clock or an answer of our own by us.
fn signature_only() -> Validation {
    let mut validation = Validation::new(Algorithm::HS256);
    validation.required_spec_claims.clear();
    validation.validate_exp = false;
    validation.validate_nbf = false;
    validation.validate_aud = false;
    validation
}

/// The library's errors can quote what they failed to read, so none of them travels on.
fn refusal(kind: &ErrorKind) -> TokenError {
    match kind {
        ErrorKind::InvalidSignature => TokenError::Signature,
        ErrorKind::InvalidAlgorithm => TokenError::Algorithm,
        _ => TokenError::Malformed,
    }
}

fn instant(seconds: i64) -> Timestamp {
    Timestamp::from_millis(seconds.saturating_mul(1_000))
}

fn whole_second(at: Timestamp) -> Timestamp {
    instant(at.millis() / 1_000)
}

fn whole_seconds(span: Duration) -> Duration {
    Duration::from_secs(span.as_secs())
}

#[cfg(test)]
mod tests;
