//! What the holder of a room token may do to others: the permissions that its acting role has now.
//!
//! The acting role is the one that the token's identity holds live in the room, else the one that it would join with. Anyone who has a
//! room code that is not locked to an identity chooses the identity, so a token from such a code gives the live role only to the very
//! participant that joined with it; otherwise it gives no more than its own role.

use conclave_db::TokenActor;
use conclave_media::MediaError;
use conclave_media::token::Claims;
use conclave_model::role::{Permission, RolePermissions};

use super::error::ApiError;
use crate::http::state::AppState;

/// Returns the permissions of a room token's acting role.
///
/// # Errors
/// Those of the store.
pub async fn permissions(state: &AppState, claims: &Claims) -> Result<RolePermissions, ApiError> {
    // If the media plane does not answer, the token's own role is certain.
    let is_limited =
        claims.exchange().is_some() && !is_connected_by(state, claims).await.unwrap_or(false);
    permissions_of(state, claims, is_limited).await
}

/// Returns whether a room token's acting role has a permission. The media plane is asked only if it matters.
///
/// # Errors
/// Those of the store, and of the media plane.
pub async fn allows(
    state: &AppState,
    claims: &Claims,
    permission: Permission,
) -> Result<bool, ApiError> {
    let is_limited = claims.exchange().is_some();
    if permissions_of(state, claims, is_limited)
        .await?
        .allows(permission)
    {
        return Ok(true);
    }
    if !is_limited
        || !permissions_of(state, claims, false)
            .await?
            .allows(permission)
    {
        return Ok(false);
    }
    Ok(is_connected_by(state, claims).await?)
}

async fn permissions_of(
    state: &AppState,
    claims: &Claims,
    is_limited: bool,
) -> Result<RolePermissions, ApiError> {
    let (project, room) = claims.room.split();
    let (identity, role, role_change) =
        (claims.identity.clone(), claims.role(), claims.role_change());
    let actor = TokenActor {
        identity,
        role,
        role_change,
        is_limited,
    };
    Ok(state
        .store
        .rooms()
        .effective_permissions(project, room, actor)
        .await?)
}

/// Returns whether the participant that is connected with the token's identity has joined with this token, or one that was refreshed
/// from it.
async fn is_connected_by(state: &AppState, claims: &Claims) -> Result<bool, MediaError> {
    let connected = state
        .media
        .participant(&claims.room, &claims.identity)
        .await?;
    Ok(connected.is_some_and(|participant| participant.exchange() == claims.exchange()))
}
