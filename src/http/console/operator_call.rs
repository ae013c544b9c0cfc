//! Calls of the API's operations by an operator: the same checks and handlers, without HTTP and JSON responses.

use std::sync::Arc;

use actix_web::web::Bytes;
use conclave_model::ProjectId;
use serde_json::Value;
use url::form_urlencoded::Serializer;

use super::visit::Visit;
use crate::http::api::context::{Caller, RequestContext};
use crate::http::api::endpoint::{Handler, TypedEndpoint};
use crate::http::api::error::ApiError;
use crate::http::api::input::FromRequest;
use crate::http::api::input::source::RequestSource;
use crate::http::api::spec::{Method, OperationSpec};
use crate::http::api::v1;
use crate::http::state::AppState;

/// A call that is being put together, of a handler that returns `S`.
pub struct OperatorCall<S: 'static> {
    state: Arc<AppState>,
    operation: Option<(&'static OperationSpec, &'static dyn TypedEndpoint<S>)>,
    project: ProjectId,
    path: Vec<(&'static str, String)>,
    query: Serializer<'static, String>,
    body: Option<Value>,
    media_url: Option<String>,
}

impl Visit {
    /// Begins a call of the operation with a handler, for a project.
    pub fn call<H: Handler<I>, I: FromRequest>(
        &self,
        _: H,
        project: &ProjectId,
    ) -> OperatorCall<H::Success> {
        let mut operations = v1::operations().iter();
        OperatorCall {
            state: Arc::clone(&self.state),
            operation: operations.find_map(|known| Some((&known.spec, known.typed::<H, I>()?))),
            project: project.clone(),
            path: Vec::new(),
            query: Serializer::new(String::new()),
            body: None,
            media_url: self.derived_media_url(),
        }
    }
}

impl<S: 'static> OperatorCall<S> {
    /// Sets a path parameter.
    pub fn path(mut self, name: &'static str, value: &str) -> Self {
        self.path.push((name, value.to_owned()));
        self
    }

    /// Sets a query parameter, if there is a value.
    pub fn query(mut self, name: &str, value: Option<&str>) -> Self {
        if let Some(value) = value {
            self.query.append_pair(name, value);
        }
        self
    }

    /// Sets `limit` and `offset`.
    pub fn page(self, limit: u32, offset: u64) -> Self {
        self.query("limit", Some(&limit.to_string()))
            .query("offset", Some(&offset.to_string()))
    }

    /// Sets the body.
    pub fn body(mut self, body: Value) -> Self {
        self.body = Some(body);
        self
    }

    /// Runs the operation, and returns what its handler returns. A change is logged, and runs to its end also if the browser
    /// goes away.
    ///
    /// # Errors
    /// Those of the operation.
    pub async fn send(mut self) -> Result<S, ApiError> {
        let unknown = || ApiError::internal("the console calls a handler without an operation");
        let (spec, endpoint) = self.operation.ok_or_else(unknown)?;
        let context = RequestContext {
            spec,
            state: self.state,
            caller: Caller::Operator(self.project.clone()),
            source: RequestSource::Console {
                path: self.path,
                query: self.query.finish(),
                media_url: self.media_url,
            },
            body: self
                .body
                .map_or_else(Bytes::new, |body| body.to_string().into()),
            record: None,
            owner: None,
        };
        if spec.method == Method::Get {
            return endpoint.call(context).await;
        }
        let success = actix_web::rt::spawn(endpoint.call(context)).await??;
        log_change(spec.id, &self.project);
        Ok(success)
    }
}

/// Logs a change that an operator has made.
pub fn log_change(change: &str, project: &ProjectId) {
    log::info!(caller = "operator", operation = change, project_id = project.as_str(); "changed in the console");
}
