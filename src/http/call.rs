//! A call that passed the gate: who calls, with what, and what a handler needs to answer.

use std::borrow::Cow;
use std::str::FromStr;
use std::sync::Arc;

use actix_web::HttpRequest;
use actix_web::web::Bytes;
use conclave_db::Credential;
use conclave_media::token::Claims;
use conclave_model::event::ChangedBy;
use conclave_model::idempotency::{IdempotencyRecord, Response, ResponseRecorder};
use conclave_model::plan::{Feature, Plan};
use conclave_model::project::ProjectStatus;
use conclave_model::role::Permission;
use conclave_model::{ErrorCode, Identity, ProjectId, RoomName};
use percent_encoding::percent_decode_str;
use serde::de::DeserializeOwned;

use super::body;
use super::operation::{Auth, Operation};
use super::problem::{Problem, of_store};
use super::query::Query;
use super::standing::{self, Owner};
use super::state::AppState;

/// Who calls.
pub enum Caller {
    /// A server, by its project's key.
    Key(Credential),
    /// A participant, by a room token.
    RoomToken(Box<Claims>),
    /// Nobody we know, on an open operation.
    Anyone,
}

/// A call, checked as far as the frame can.
pub struct Call {
    /// What is called.
    pub operation: &'static Operation,
    /// The shared parts.
    pub state: Arc<AppState>,
    /// Who calls.
    pub caller: Caller,
    /// The body; empty when there is none.
    pub body: Bytes,
    pub(super) request: HttpRequest,
    pub(super) keep: Option<IdempotencyRecord>,
}

impl Call {
    /// Who calls, as logs of changes name it.
    ///
    /// # Errors
    /// 500 for a call without a credential, which changes nothing that is logged so.
    pub fn changed_by(&self) -> Result<ChangedBy, Problem> {
        match &self.caller {
            Caller::Key(credential) => Ok(ChangedBy::ApiKey(credential.prefix.clone())),
            Caller::RoomToken(claims) => Ok(ChangedBy::Identity(claims.identity.clone())),
            Caller::Anyone => Err(Problem::internal().because("passed without a credential")),
        }
    }

    /// The project whose resources this call can reach.
    #[must_use]
    pub fn project(&self) -> ProjectId {
        match &self.caller {
            Caller::Key(credential) => credential.project_id.clone(),
            Caller::RoomToken(claims) => claims.room.split().0,
            // A project that nobody has: whatever is looked for in it is not there.
            Caller::Anyone => ProjectId::new(),
        }
    }

    /// Reads the body.
    ///
    /// # Errors
    /// 400 `invalid_request` at what is wrong.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        body::read(&self.body)
    }

    /// Reads a body that may be left out.
    ///
    /// # Errors
    /// 400 `invalid_request` at what is wrong.
    pub fn read_if_sent<T: DeserializeOwned + Default>(&self) -> Result<T, Problem> {
        if self.body.iter().all(u8::is_ascii_whitespace) { Ok(T::default()) } else { self.read() }
    }

    /// Refuses a body with anything in it, for calls that take none.
    ///
    /// # Errors
    /// 400 `invalid_request` at the first field.
    pub fn no_body(&self) -> Result<(), Problem> {
        #[derive(serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Nothing {}
        if self.body.iter().all(u8::is_ascii_whitespace) { Ok(()) } else { self.read::<Nothing>().map(|_| ()) }
    }

    /// The query parameters.
    ///
    /// # Errors
    /// One that is given twice.
    pub fn query(&self) -> Result<Query, Problem> {
        Query::parse(self.request.query_string())
    }

    /// Refuses query parameters, for calls that take none.
    ///
    /// # Errors
    /// 400 `invalid_request` at the first.
    pub fn no_query(&self) -> Result<(), Problem> {
        if self.request.query_string().is_empty() { Ok(()) } else { self.query()?.finish() }
    }

    fn segment(&self, name: &str) -> String {
        segment(&self.request, name)
    }

    /// A path parameter that parses.
    ///
    /// # Errors
    /// 400 `invalid_request` at the parameter.
    pub fn path<T: FromStr>(&self, name: &'static str) -> Result<T, Problem>
    where
        T::Err: std::fmt::Display,
    {
        self.segment(name).parse().map_err(|error: T::Err| Problem::invalid(name, error.to_string()))
    }

    /// The room a path names.
    ///
    /// # Errors
    /// 400 `invalid_room_name`.
    pub fn room(&self) -> Result<RoomName, Problem> {
        room_name("name", &self.segment("name"))
    }

    /// The identity a path names.
    ///
    /// # Errors
    /// 400 `invalid_identity`.
    pub fn identity(&self) -> Result<Identity, Problem> {
        identity("identity", &self.segment("identity"))
    }

    /// The request to keep this call's answer, for a write whose result renders as `render`.
    #[must_use]
    pub fn keep<T>(&self, render: fn(&T) -> Response) -> Option<ResponseRecorder<T>> {
        self.keep.clone().map(|keep| ResponseRecorder { record: keep, render })
    }

    /// The plan of the calling project, which must be allowed to start work.
    ///
    /// # Errors
    /// 402 `quota_exceeded` for a suspended project or a spent month, `insufficient_balance` for an empty wallet, 503
    /// `billing_unavailable` when the billing service does not say and the operation lists that.
    pub async fn plan_for_new_work(&self) -> Result<&Plan, Problem> {
        let (project, status, plan) = self.owner().await?;
        standing::permit_new_work(&self.state, Owner { project: &project, status, plan: &plan }, self.operation).await
    }

    /// The plan of the calling project.
    ///
    /// # Errors
    /// The store's own.
    pub async fn plan(&self) -> Result<&Plan, Problem> {
        let (_, _, plan) = self.owner().await?;
        standing::plan(&self.state.plans, &plan)
    }

    /// Lets a call pass only if the plan of its project includes the feature.
    ///
    /// # Errors
    /// 402 `feature_not_in_plan`, `field` the feature.
    pub async fn require_feature(&self, feature: Feature) -> Result<(), Problem> {
        self.plan().await?.features.ensure_included(feature)
    }

    /// The calling project, its status and its plan's id. A key has brought them along; for a participant they are looked up.
    async fn owner(&self) -> Result<(ProjectId, ProjectStatus, Cow<'_, str>), Problem> {
        match &self.caller {
            Caller::Key(credential) => {
                Ok((credential.project_id.clone(), credential.project_status, Cow::Borrowed(&credential.plan)))
            }
            Caller::RoomToken(_) => {
                let project = self.state.store.project(self.project()).await.map_err(of_store)?;
                let project = project.ok_or_else(|| Problem::internal().because("a room token without a project"))?;
                Ok((project.id, project.status, Cow::Owned(project.plan)))
            }
            Caller::Anyone => Err(Problem::internal().because("passed without a credential")),
        }
    }

    /// Lets a participant pass only if its acting role holds every permission that the operation lists.
    ///
    /// # Errors
    /// 403 `permission_denied`, `field` the first permission that it lacks.
    pub async fn permit_listed(&self) -> Result<(), Problem> {
        let Auth::KeyOrRoomToken(listed) = self.operation.auth else { return Ok(()) };
        for permission in listed {
            self.permit(*permission).await?;
        }
        Ok(())
    }

    /// Lets a participant pass only if its acting role holds the permission. Keys always pass. The acting
    /// role is the one held live in the room, else the token's; permissions are the template's of this moment.
    ///
    /// # Errors
    /// 403 `permission_denied`, `field` the permission.
    pub async fn permit(&self, permission: Permission) -> Result<(), Problem> {
        let Caller::RoomToken(claims) = &self.caller else { return Ok(()) };
        let (project, room) = claims.room.split();
        let held = self
            .state
            .store
            .effective_permissions(project, room, claims.identity.clone(), claims.role())
            .await
            .map_err(of_store)?;
        if held.allows(permission) {
            return Ok(());
        }
        let message = format!("the acting role lacks the permission {}", permission.as_str());
        Err(Problem::new(ErrorCode::PermissionDenied, message).at(permission.as_str()))
    }
}

/// A path parameter as text.
pub(super) fn segment(request: &HttpRequest, name: &str) -> String {
    let raw = request.match_info().query(name);
    percent_decode_str(raw).decode_utf8_lossy().into_owned()
}

/// Reads a room name that stands at `field`.
///
/// # Errors
/// 400 `invalid_room_name`.
pub fn room_name(field: &'static str, text: &str) -> Result<RoomName, Problem> {
    text.parse().map_err(|_| {
        let message = "a room name has 1 to 128 characters out of a-z, A-Z, 0-9, _ and -";
        Problem::new(ErrorCode::InvalidRoomName, message).at(field)
    })
}

/// Reads an identity that stands at `field`.
///
/// # Errors
/// 400 `invalid_identity`.
pub fn identity(field: impl Into<Cow<'static, str>>, text: &str) -> Result<Identity, Problem> {
    text.parse().map_err(|_| {
        let message = "an identity has 1 to 128 characters out of a-z, A-Z, 0-9, _, ., @ and -";
        Problem::new(ErrorCode::InvalidIdentity, message).at(field)
    })
}

/// Reads an id that stands in a body at `field`.
///
/// # Errors
/// 400 `invalid_request`.
pub fn id<T: FromStr>(field: &'static str, text: &str) -> Result<T, Problem>
where
    T::Err: std::fmt::Display,
{
    text.parse().map_err(|error: T::Err| Problem::invalid(field, error.to_string()))
}
