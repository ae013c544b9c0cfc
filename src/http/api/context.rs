//! The context of a request: who calls, what the caller may do, and the shared parts that a handler needs to respond.
//!
//! API keys and operators hold every permission. The holder of a room token has those of its acting role: the one that the token's
//! identity holds live in the room, else the one that it would join with. Anyone who has a room code that is not locked to an identity
//! chooses the identity, so a token from such a code gives the live role only to the very participant that joined with it; otherwise it
//! gives no more than its own role.

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
use super::quota::{self, Owner};
use super::response::{Json, Success};
use super::spec::OperationSpec;
use crate::http::api::input::parameters::RequestSource;
use crate::http::state::AppState;

/// The authenticated caller.
pub enum Caller {
    /// A server, by its project's API key.
    Key(Arc<Credential>),
    /// A participant, by a room token.
    RoomToken(Box<Claims>),
    /// The operator, by the console, who acts for a project.
    Operator(ProjectId),
    /// A client without a credential, on an open operation.
    Anonymous,
}

impl Caller {
    /// The project that it belongs to.
    pub fn project(&self) -> Option<ProjectId> {
        match self {
            Self::Key(credential) => Some(credential.project_id.clone()),
            Self::RoomToken(claims) => Some(claims.room.split().0),
            Self::Operator(project) => Some(project.clone()),
            Self::Anonymous => None,
        }
    }
}

/// One request that passed the frame's checks of credential, rate and payload. It is moved through several futures, so it is boxed.
pub struct RequestContext(Box<RequestParts>);

/// The parts of a [`RequestContext`].
pub struct RequestParts {
    /// The declaration of the operation that is called.
    pub spec: &'static OperationSpec,
    /// The shared parts of the server.
    pub state: Arc<AppState>,
    /// The authenticated caller.
    pub caller: Caller,
    /// The path and the query that were asked for.
    pub(in crate::http) source: RequestSource,
    /// The raw body; empty when there is none.
    pub(in crate::http) body: Bytes,
    /// Where the response is to be stored, for a request with an `Idempotency-Key`.
    pub(in crate::http) record: Option<IdempotencyRecord>,
    /// The calling project with its plan, once it has been looked up.
    pub(in crate::http) owner: Option<Owner>,
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
    /// Returns the context of a request with these parts.
    pub(in crate::http) fn new(parts: RequestParts) -> Self {
        Self(Box::new(parts))
    }

    /// The caller as logs of changes name it.
    ///
    /// # Errors
    /// 500 for a request without a credential: none of those makes a change that is logged.
    pub fn changed_by(&self) -> Result<ChangedBy, ApiError> {
        match &self.caller {
            Caller::Key(credential) => Ok(ChangedBy::ApiKey(credential.prefix.clone())),
            Caller::RoomToken(claims) => Ok(ChangedBy::Identity(claims.identity.clone())),
            Caller::Operator(_) => Ok(ChangedBy::Operator),
            Caller::Anonymous => Err(without_credential()),
        }
    }

    /// The project whose resources this request can reach.
    pub fn project(&self) -> ProjectId {
        // A fresh id, which no project has: every lookup by it finds nothing.
        self.caller.project().unwrap_or_default()
    }

    /// Makes a change, whose result is the body of the response. The response to a request with an `Idempotency-Key` is stored in
    /// the transaction of the change, by the recorder that `change` gets.
    ///
    /// # Errors
    /// Those of the change, and of a result that cannot be shown as `B`.
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

    /// The calling project with its status and plan. An API key has brought them along; for other callers they are read.
    ///
    /// # Errors
    /// The store's own.
    pub async fn owner(&self) -> Result<Owner, ApiError> {
        if let Some(owner) = &self.owner {
            return Ok(owner.clone());
        }
        match &self.caller {
            Caller::Key(credential) => Ok(Owner {
                project: credential.project_id.clone(),
                status: credential.project_status,
                plan: credential.plan.clone(),
            }),
            Caller::RoomToken(_) | Caller::Operator(_) => {
                let project = self.state.store.projects().get(self.project()).await?;
                let project =
                    project.ok_or_else(|| ApiError::internal("a caller without a project"))?;
                Ok(Owner {
                    project: project.id,
                    status: project.status,
                    plan: project.plan,
                })
            }
            Caller::Anonymous => Err(without_credential()),
        }
    }

    /// The websocket url by which the client that this request came from reaches the media plane.
    pub fn media_url(&self) -> Arc<str> {
        self.state.media_url.or_fixed(self.derived_media_url())
    }

    /// The same; `None` if it is the same for all clients.
    pub fn derived_media_url(&self) -> Option<String> {
        match &self.source {
            RequestSource::Http { request, .. } => self.state.media_url.derived(request),
            RequestSource::Console { media_url, .. } => media_url.clone(),
        }
    }

    /// The plan of the calling project.
    ///
    /// # Errors
    /// The store's own.
    pub async fn plan(&self) -> Result<&Plan, ApiError> {
        match &self.owner {
            Some(owner) => quota::plan(&self.state.plans, &owner.plan),
            None => quota::plan(&self.state.plans, &self.owner().await?.plan),
        }
    }

    /// Refuses the request unless the plan includes the feature that the operation declares. It comes after 404 and 409
    /// in the order of checks, so the handler says when.
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
    /// 403 `permission_denied`, `field` the permission; 503 if the media plane has to be asked and does not answer.
    pub async fn require_permission(&self, permission: Permission) -> Result<(), ApiError> {
        let Caller::RoomToken(claims) = &self.caller else {
            return Ok(());
        };
        if acting_role_allows(&self.state, claims, permission).await? {
            return Ok(());
        }
        let message = format!(
            "the acting role lacks the permission {}",
            permission.as_str()
        );
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
/// Those of the store.
pub async fn acting_permissions(
    state: &AppState,
    claims: &Claims,
) -> Result<RolePermissions, ApiError> {
    // If the media plane does not answer, the token's own role is certain.
    let is_limited =
        claims.exchange().is_some() && !is_connected_by(state, claims).await.unwrap_or(false);
    permissions_of(state, claims, is_limited).await
}

/// Returns whether a room token's acting role has a permission. The media plane is asked only if it matters.
///
/// # Errors
/// Those of the store, and of the media plane.
async fn acting_role_allows(
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
