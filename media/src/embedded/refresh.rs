//! Refreshed tokens of connected participants.

use std::time::Duration;

use conclave_model::Timestamp;

use super::local_participant::LocalParticipant;
use crate::token::{Claims, SignedToken, TokenError, TokenSigner};

/// Least lifetime of a refreshed token.
const LIFETIME: Duration = Duration::from_secs(600);

/// Signs the claims that a connected participant has now, valid for ten minutes or as long as its token is.
pub(super) fn refreshed_token(
    signer: &TokenSigner,
    local: &LocalParticipant,
    now: Timestamp,
) -> Result<SignedToken, TokenError> {
    let claims = local.claims();
    signer.refresh(&claims, token_expiry(&claims, true, now), now)
}

/// Returns the expiry of a client's token, which is extended while the participant is connected.
pub(super) fn token_expiry(claims: &Claims, is_connected: bool, now: Timestamp) -> Timestamp {
    if is_connected { claims.expires_at.max(now.after(LIFETIME)) } else { claims.expires_at }
}
