//! A request's context: the caller, its permissions, and the shared state that a handler needs.
//!
//! API keys and operators hold every permission. A room token has the permissions of its acting role: the role that its identity
//! currently holds in the room, otherwise the role that it would join with. A room code that is not locked to an identity lets its
//! holder choose one, including a connected participant's. So a token from such a code has the current role only if that very
//! participant joined with it; otherwise it has at most its own role.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use actix_web::web::Bytes;
use conclave_db::{Credential, TokenActor};
use conclave_media::MediaError;
use conclave_media::token::Claims;
use conclave_model::event::ChangedBy;
use conclave_model::idempotency::{IdempotencyRecord, Response, ResponseRecorder};
use conclave_model::plan::Plan;
use conclave_model::role::{Permission, RolePermissions};
use conclave_model::{ErrorCode, Problem, ProjectId};
use serde::Serialize;
use utoipa::ToSchema;

use super::error::ApiError;
use super::quota::{self, QuotaOwner};
use super::response::{Json, Success};
use super::spec::OperationSpec;
use crate::http::api::input::parameters::RequestSource;
use crate::http::state::AppState;

/// Authenticated caller.
pub enum Caller {
    /// Server, by its project's API key.
    Key(Arc<Credential>),
    /// Participant, by a room token.
    RoomToken(Box<Claims>),
    /// Operator, who acts for a project in the console.
    Operator(ProjectId),
    /// Client without a credential, on an open operation.
    Anonymous,
}

impl Caller {
    /// Returns the caller's project.
    pub fn project(&self) -> Option<ProjectId> {
        match self {
            Self::Key(credential) => Some(credential.project_id.clone()),
            // A room token names its project in its room's name, which the signature covers.
            Self::RoomToken(claims) => Some(claims.room.split().0),
            Self::Operator(project) => Some(project.clone()),
            Self::Anonymous => None,
        }
    }
}

/// Request that passed the frame's checks (credential, rate, payload). Boxed, because it moves through several futures.
pub struct RequestContext(Box<RequestParts>);

/// Fields in a [`RequestContext`].
pub struct RequestParts {
    /// The called operation's declaration.
    pub spec: &'static OperationSpec,
    /// The server's shared state.
    pub state: Arc<AppState>,
    /// Authenticated caller.
    pub caller: Caller,
    /// Requested path and query.
    pub(in crate::http) source: RequestSource,
    /// Raw body; empty if there is none.
    pub(in crate::http) body: Bytes,
    /// Record to store the response in, for a request with an `Idempotency-Key`.
    pub(in crate::http) record: Option<IdempotencyRecord>,
    /// Calling project with its plan, after the first lookup.
    pub(in crate::http) owner: Option<QuotaOwner>,
}

impl Deref for RequestContext {
    type Target = RequestParts;

    fn deref(&self) -> &RequestParts {
        &self.0
    }
}

impl DerefMut for RequestContext {
    fn deref_mut(&mut self) -> &mut RequestParts {
        &mut self.0
    }
}

impl RequestContext {
    /// Creates a context from its fields.
    pub(in crate::http) fn new(parts: RequestParts) -> Self {
        Self(Box::new(parts))
    }

    /// Returns the caller's name for change logs.
    ///
    /// # Errors
    /// 500 for a request without a credential: no such request makes a logged change.
    pub fn changed_by(&self) -> Result<ChangedBy, ApiError> {
        match &self.caller {
            // The prefix identifies a key in the change log without revealing it (contract).
            Caller::Key(credential) => Ok(ChangedBy::ApiKey(credential.prefix.clone())),
            Caller::RoomToken(claims) => Ok(ChangedBy::Identity(claims.identity.clone())),
            Caller::Operator(_) => Ok(ChangedBy::Operator),
            Caller::Anonymous => Err(without_credential()),
        }
    }

    /// Returns the project whose resources this request can reach.
    pub fn project(&self) -> ProjectId {
        // The default is a fresh id that no project has, so every lookup with it finds nothing.
        self.caller.project().unwrap_or_default()
    }

    /// Makes a change whose result is the response's body. For a request with an `Idempotency-Key`, `change` gets a recorder that
    /// stores the response in the change's own transaction.
    ///
    /// # Errors
    /// The change's errors, and the conversion's to `B`.
    pub async fn recorded<T, B, E, F, const STATUS: u16>(
        &self,
        change: impl FnOnce(Option<ResponseRecorder<T>>) -> F,
    ) -> Result<Json<B, STATUS>, ApiError>
    where
        T: Clone,
        B: TryFrom<T, Error: Into<ApiError>> + Serialize + ToSchema + 'static,
        F: Future<Output = Result<T, E>>,
        ApiError: From<E>,
    {
        // Change and response commit together. If the process dies before the client has the response, a retry replays it; if it dies
        // before the commit, a retry makes the change.
        let render: fn(&T) -> Response = |changed| match B::try_from(changed.clone()) {
            Ok(body) => Json::<B, STATUS>(body).into_response(),
            Err(error) => error.into().to_response(),
        };
        let recorder = self
            .record
            .clone()
            .map(|record| ResponseRecorder { record, render });
        B::try_from(change(recorder).await?)
            .map(Json)
            .map_err(Into::into)
    }

    /// Returns the calling project with its status and plan. An API key's credential contains them; for other callers they are read.
    ///
    /// # Errors
    /// The store's errors.
    pub async fn owner(&self) -> Result<QuotaOwner, ApiError> {
        if let Some(owner) = &self.owner {
            return Ok(owner.clone());
        }
        match &self.caller {
            Caller::Key(credential) => Ok(QuotaOwner {
                project: credential.project_id.clone(),
                status: credential.project_status,
                plan: Arc::clone(&credential.plan),
            }),
            // A room token names its project only, and its project's plan may have changed since it was minted.
            Caller::RoomToken(_) | Caller::Operator(_) => {
                // Boxed, as in `require_permission`.
                let project = Box::pin(self.state.store.projects().get(self.project())).await?;
                let project =
                    project.ok_or_else(|| ApiError::internal("a caller without a project"))?;
                Ok(QuotaOwner {
                    project: project.id,
                    status: project.status,
                    plan: project.plan.into(),
                })
            }
            Caller::Anonymous => Err(without_credential()),
        }
    }

    /// Returns the WebSocket URL at which this request's client reaches the media plane.
    pub fn media_url(&self) -> Arc<str> {
        self.state.media_url.or_fixed(self.derived_media_url())
    }

    /// Like [`media_url`](Self::media_url), but `None` if the URL is the same for all clients.
    pub fn derived_media_url(&self) -> Option<String> {
        // Clients know a server that listens on all addresses by different hosts (`media_url`).
        match &self.source {
            RequestSource::Http { request, .. } => self.state.media_url.derived(request),
            // A call by the console is no request to the API listener, so its page has derived the URL.
            RequestSource::Console { media_url, .. } => media_url.clone(),
        }
    }

    /// Returns the calling project's plan.
    ///
    /// # Errors
    /// The store's errors.
    pub async fn plan(&self) -> Result<&Plan, ApiError> {
        match &self.owner {
            Some(owner) => quota::plan(&self.state.plans, &owner.plan),
            None => quota::plan(&self.state.plans, &self.owner().await?.plan),
        }
    }

    /// Refuses the request unless the plan includes the operation's declared feature. Called by the handler: in the order of checks,
    /// it comes after 404 and 409.
    ///
    /// # Errors
    /// 402 `feature_not_in_plan`, `field` the feature.
    pub async fn require_feature(&self) -> Result<(), ApiError> {
        match self.spec.feature {
            Some(feature) => Ok(self.plan().await?.features.ensure_included(feature)?),
            None => Ok(()),
        }
    }

    /// Refuses a participant whose acting role lacks the permission. API keys and operators hold every permission.
    ///
    /// # Errors
    /// 403 `permission_denied`, `field` the permission; 503 if the decision needs the media plane and it is unreachable.
    pub async fn require_permission(&self, permission: Permission) -> Result<(), ApiError> {
        // Before any look-up: most callers are backends.
        let Caller::RoomToken(claims) = &self.caller else {
            return Ok(());
        };
        // Boxed: otherwise every operation's future would contain this one, which a backend's requests never await.
        if Box::pin(acting_role_allows(&self.state, claims, permission)).await? {
            return Ok(());
        }
        let message = format!(
            "the acting role lacks the permission {}",
            permission.as_str()
        );
        // By the contract, `field` names the missing permission.
        Err(Problem::new(ErrorCode::PermissionDenied, message)
            .at(permission.as_str())
            .into())
    }
}

fn without_credential() -> ApiError {
    ApiError::internal("a request without a credential reached an operation that needs one")
}

/// Returns the permissions of a room token's acting role.
///
/// # Errors
/// The store's errors.
pub async fn acting_permissions(
    state: &AppState,
    claims: &Claims,
) -> Result<RolePermissions, ApiError> {
    // If the media plane is unreachable, the token's own role still applies.
    let is_limited =
        claims.exchange().is_some() && !is_connected_by(state, claims).await.unwrap_or(false);
    permissions_of(state, claims, is_limited).await
}

/// Returns whether a room token's acting role has a permission.
///
/// # Errors
/// The store's and the media plane's errors.
async fn acting_role_allows(
    state: &AppState,
    claims: &Claims,
    permission: Permission,
) -> Result<bool, ApiError> {
    // The media plane is queried last: the records decide most requests.
    let is_limited = claims.exchange().is_some();
    if permissions_of(state, claims, is_limited)
        .await?
        .allows(permission)
    {
        return Ok(true);
    }
    // The current role would not allow it either, so the query could not change the result.
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
    let revocation = claims.revocation();
    let actor = TokenActor {
        // Limited: the token of an open room code gets at most its own role (S-47).
        identity,
        role,
        role_change,
        revocation,
        is_limited,
    };
    Ok(state
        .store
        .rooms()
        .effective_permissions(project, room, actor)
        .await?)
}

/// Returns whether the connected participant with the token's identity joined with this token, or with one refreshed from it.
async fn is_connected_by(state: &AppState, claims: &Claims) -> Result<bool, MediaError> {
    let connected = state
        .media
        .participant(&claims.room, &claims.identity)
        .await?;
    // Compared by exchange, because the holder of an open room code chooses the identity (S-47).
    Ok(connected.is_some_and(|participant| participant.exchange() == claims.exchange()))
}
