//! Calls of the API's operations by an operator: the same checks, handlers and responses, without HTTP.

use std::sync::Arc;

use actix_web::web::Bytes;
use conclave_model::ProjectId;
use serde_json::Value;
use url::form_urlencoded::Serializer;

use super::json;
use super::visit::Visit;
use crate::http::context::{Caller, RequestContext};
use crate::http::error::ApiError;
use crate::http::operation::Operation;
use crate::http::source::RequestSource;
use crate::http::spec::Method;
use crate::http::state::AppState;
use crate::http::v1;

/// A call that is being put together.
pub struct OperatorCall {
    state: Arc<AppState>,
    operation: Option<&'static Operation>,
    project: ProjectId,
    path: Vec<(&'static str, String)>,
    query: Serializer<'static, String>,
    body: Option<Value>,
}

impl Visit {
    /// Begins a call of the operation with an id, for a project.
    pub fn call(&self, operation: &'static str, project: &ProjectId) -> OperatorCall {
        OperatorCall {
            state: Arc::clone(&self.state),
            operation: v1::operations().iter().find(|known| known.spec.id == operation),
            project: project.clone(),
            path: Vec::new(),
            query: Serializer::new(String::new()),
            body: None,
        }
    }
}

impl OperatorCall {
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
        self.query("limit", Some(&limit.to_string())).query("offset", Some(&offset.to_string()))
    }

    /// Sets the body.
    pub fn body(mut self, body: Value) -> Self {
        self.body = Some(body);
        self
    }

    /// Runs the operation, and returns the body of its response; null if it has none. A change is logged, and runs to its end
    /// also if the browser goes away.
    ///
    /// # Errors
    /// Those of the operation.
    pub async fn send(mut self) -> Result<Value, ApiError> {
        let operation = self.operation.ok_or_else(|| ApiError::internal("the console calls an unknown operation"))?;
        let context = RequestContext {
            spec: &operation.spec,
            state: self.state,
            caller: Caller::Operator(self.project.clone()),
            source: RequestSource::Console { path: self.path, query: self.query.finish() },
            body: self.body.map_or_else(Bytes::new, |body| body.to_string().into()),
            record: None,
            owner: None,
        };
        let response = if operation.spec.method == Method::Get {
            operation.run(context).await?
        } else {
            let response = actix_web::rt::spawn(operation.run(context)).await??;
            log_change(operation.spec.id, &self.project);
            response
        };
        if response.body.is_empty() {
            return Ok(Value::Null);
        }
        json::read(&response.body).map_err(ApiError::internal)
    }
}

/// Logs a change that an operator has made.
pub fn log_change(change: &str, project: &ProjectId) {
    log::info!(caller = "operator", operation = change, project_id = project.as_str(); "changed in the console");
}
