//! Operations: their declaration and execution.
//!
//! An operation is declared once, by [`operation`] and the methods of [`Declaration`]. The types of its handler define its input and
//! output: they parse the request, serialise the response, and describe both. [`Declaration::call`] parses the input, then checks the
//! declared permission and quota, then calls the handler, so that no handler can forget a check.
//!
//! The operations table holds declarations with many types as [`Operation`]s. The console, which knows a handler's types, downcasts
//! to the declaration and calls it without serialising the response.

use std::any::Any;
use std::future::Future;
use std::mem;
use std::pin::Pin;

use conclave_model::plan::Feature;
use conclave_model::role::Permission;
use conclave_model::{ErrorCode, Problem};
use serde_json::Value;

use super::context::RequestContext;
use super::error::ApiError;
use super::input::FromRequest;
use super::quota;
use super::response::{Response, Success};
use super::spec::{Access, Link, Method, OpenAccess, OpenRates, OperationDoc, OperationSpec};
use crate::http::measured::Measured;

/// API operation: a [`Declaration`] with erased types, for the operations table.
// `Any`, for the console's downcast; `Send + Sync`, because all workers share the table.
pub trait Operation: Any + Send + Sync {
    /// Returns path, credential, and the checks before the operation runs.
    fn spec(&self) -> &OperationSpec;

    /// Returns the texts and schemas for the OpenAPI description.
    fn doc(&self) -> &OperationDoc;

    /// Runs the operation and serialises its response.
    ///
    /// # Errors
    /// See [`Declaration::call`].
    fn run(&'static self, context: RequestContext) -> LocalFuture<'static, Response>;

    /// Refuses a participant that may not see the stored response to another caller's request with the same key.
    ///
    /// # Errors
    /// 403 `permission_denied`, 404 for another room's egress.
    fn permit_replay<'a>(&'a self, context: &'a RequestContext) -> LocalFuture<'a, ()>;
}

impl dyn Operation {
    /// Returns the declaration, if `H` is the handler.
    pub fn typed<H: Handler<I>, I: FromRequest>(&self) -> Option<&Declaration<H, I>> {
        let operation: &dyn Any = self;
        operation.downcast_ref()
    }
}

/// Future that stays on a worker's thread.
// Not `Send`: a request of actix-web is bound to its worker.
pub type LocalFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, ApiError>> + 'a>>;

/// Function that derives the required permission from the input.
pub type ChoosePermission<I> = fn(&I) -> Permission;

/// Check that refuses a request or passes it.
pub type Check<I> = for<'a> fn(&'a RequestContext, &'a I) -> CheckResult<'a>;

/// Result from a [`Check`].
pub type CheckResult<'a> = LocalFuture<'a, ()>;

/// Handler: an asynchronous function from a request and its input to a response. Its types describe the operation.
pub trait Handler<I>: Send + Sync + 'static {
    /// Success type.
    type Success: Success;

    /// Handles the request.
    fn handle(
        &self,
        context: RequestContext,
        input: I,
    ) -> impl Future<Output = Result<Self::Success, ApiError>> + 'static;
}

impl<H, F, S, I> Handler<I> for H
where
    H: Fn(RequestContext, I) -> F + Send + Sync + 'static,
    F: Future<Output = Result<S, ApiError>> + 'static,
    S: Success,
{
    type Success = S;

    fn handle(
        &self,
        context: RequestContext,
        input: I,
    ) -> impl Future<Output = Result<S, ApiError>> + 'static {
        // Not an `async fn`: the future must be `'static`, because it may outlive the request in a task of its own.
        self(context, input)
    }
}

/// Declared operation, with the types of its handler.
pub struct Declaration<H, I> {
    spec: OperationSpec,
    doc: OperationDoc,
    response_example: Value,
    handler: H,
    permission: Option<ChoosePermission<I>>,
    malformed_path: Option<fn() -> Problem>,
    check: Option<Check<I>>,
    replay_check: Option<Check<I>>,
}

/// Declares an operation by its method, path, id and handler.
pub fn operation<H: Handler<I>, I: FromRequest>(
    method: Method,
    path: &'static str,
    id: &'static str,
    handler: H,
) -> Declaration<H, I> {
    let (parameters, body) = I::describe();
    let takes_body = body.is_some();
    Declaration {
        spec: OperationSpec {
            id,
            method,
            path,
            // The strictest access, so that an operation opens up only by declaration.
            access: Access::Key,
            idempotent: false,
            secret_response: false,
            secret_path: None,
            // `only_reads` marks a POST that changes nothing.
            only_reads: method == Method::Get,
            starts_work: false,
            feature: None,
            success: H::Success::STATUSES,
            errors: &[],
            parse_errors: Vec::new(),
            takes_body,
        },
        doc: OperationDoc::new(parameters, body),
        response_example: Value::Null,
        handler,
        permission: None,
        malformed_path: None,
        check: None,
        replay_check: None,
    }
}

impl<H: Handler<I>, I: FromRequest> Declaration<H, I> {
    /// Sets tag and summary for the description.
    #[must_use]
    pub fn about(mut self, tag: &'static str, summary: &'static str) -> Self {
        (self.doc.tag, self.doc.summary) = (tag, summary);
        self
    }

    /// Sets an example body.
    #[must_use]
    pub fn example(mut self, example: Value) -> Self {
        self.doc.body_example = Some(example);
        self
    }

    /// Adds a rule between fields of the body, as a JSON Schema keyword.
    #[must_use]
    pub fn body_rule(mut self, keyword: &'static str, rule: Value) -> Self {
        if let Some(body) = &mut self.doc.body {
            body.add_rule(keyword, rule);
        }
        self
    }

    /// Sets an example response body, or an example item for a page.
    #[must_use]
    pub fn responds(mut self, example: Value) -> Self {
        self.response_example = example;
        self
    }

    /// Links a success to `operations`, with the OpenAPI runtime expression for each of their `parameters`.
    #[must_use]
    pub fn links(
        mut self,
        operations: &[&'static str],
        parameters: &'static [(&'static str, &'static str)],
    ) -> Self {
        self.doc
            .links
            .extend(operations.iter().map(|operation| Link {
                operation,
                parameters,
            }));
        self
    }

    /// Sets the operation's own error codes: its handler's, and those from services that it calls.
    #[must_use]
    pub fn errors(mut self, codes: &'static [ErrorCode]) -> Self {
        self.spec.errors = codes;
        self
    }

    /// Accepts an `Idempotency-Key`.
    #[must_use]
    pub fn idempotent(mut self) -> Self {
        self.spec.idempotent = true;
        self
    }

    /// Marks the response as containing a secret.
    #[must_use]
    pub fn secret_response(mut self) -> Self {
        self.spec.secret_response = true;
        self
    }

    /// Marks the path parameter `name` as a secret.
    #[must_use]
    pub fn secret_path(mut self, name: &'static str) -> Self {
        self.spec.secret_path = Some(name);
        self
    }

    /// Requires no credential: the path parameter `secret` replaces one, limited by `rates`.
    #[must_use]
    pub fn open(mut self, secret: &'static str, rates: OpenRates) -> Self {
        self.spec.access = Access::Open(OpenAccess { secret, rates });
        self
    }

    /// Also accepts a room token with this one permission.
    #[must_use]
    // An array of one, because `require_permission` takes the first if there is no `choose`.
    pub fn room_token(mut self, permission: &'static [Permission; 1]) -> Self {
        self.spec.access = Access::KeyOrRoomToken(permission);
        self
    }

    /// Also accepts a room token with the permission that `choose` returns for the request, one of `permissions`.
    #[must_use]
    pub fn room_token_by(
        mut self,
        permissions: &'static [Permission],
        choose: ChoosePermission<I>,
    ) -> Self {
        self.spec.access = Access::KeyOrRoomToken(permissions);
        self.permission = Some(choose);
        self
    }

    /// Declares that the operation changes nothing, although its method is not `GET`.
    #[must_use]
    pub fn only_reads(mut self) -> Self {
        self.spec.only_reads = true;
        self
    }

    /// Declares that the operation starts work, which the project's plan and wallet must cover.
    #[must_use]
    pub fn starts_work(mut self) -> Self {
        self.spec.starts_work = true;
        self
    }

    /// Requires `feature` in the plan; see [`RequestContext::require_feature`].
    #[must_use]
    pub fn feature(mut self, feature: Feature) -> Self {
        self.spec.feature = Some(feature);
        self
    }

    /// Maps an unparsable path to `problem`, for an operation that lists no 400: such a path names nothing.
    #[must_use]
    pub fn malformed_path(mut self, problem: fn() -> Problem) -> Self {
        self.malformed_path = Some(problem);
        self
    }

    /// Adds an input check beyond parsing. It runs before the permission check.
    #[must_use]
    pub fn check(mut self, check: Check<I>) -> Self {
        self.check = Some(check);
        self
    }

    /// Adds a check beyond the permission, for a participant that replays another caller's stored response.
    #[must_use]
    pub fn replay_check(mut self, check: Check<I>) -> Self {
        self.replay_check = Some(check);
        self
    }

    /// Completes the declaration.
    #[must_use]
    pub fn build(mut self) -> Box<dyn Operation> {
        // Described last, since the example may be set at any point of the chain.
        self.doc.response = H::Success::describe(mem::take(&mut self.response_example));
        // A path with a refusal of its own causes no 400.
        self.spec.parse_errors = self.doc.parse_errors(self.malformed_path.is_none());
        Box::new(self)
    }

    /// Parses the request, runs the declared checks, and calls the handler.
    ///
    /// # Errors
    /// Errors from parsing, checks and handler, in the order that [`frame`](crate::http::frame) documents.
    pub async fn call(&self, mut context: RequestContext) -> Result<H::Success, ApiError> {
        let input = self.parse(&context)?;
        if let Some(check) = self.check {
            // Before the permission: a malformed request is a 400 for every caller.
            check(&context, &input).await?;
        }
        self.require_permission(&context, &input).await?;
        // 402 comes after 403 in the order of checks.
        if self.spec.starts_work {
            let owner = context.owner().await?;
            // The handler reuses the record, so plan and quota are decided on the same read.
            quota::ensure_can_start_work(&context.state, &owner, &self.spec).await?;
            context.owner = Some(owner);
        }
        self.handler.handle(context, input).await
    }

    fn parse(&self, context: &RequestContext) -> Result<I, Problem> {
        I::from_request(&context.source, &context.body, self.malformed_path)
    }

    async fn require_permission(
        &self,
        context: &RequestContext,
        input: &I,
    ) -> Result<(), ApiError> {
        // Without a choice there is at most one permission (see `room_token`).
        let chosen = self.permission.map(|choose| choose(input));
        match chosen.or_else(|| self.spec.permissions().first().copied()) {
            Some(permission) => context.require_permission(permission).await,
            None => Ok(()),
        }
    }
}

impl<H: Handler<I>, I: FromRequest> Operation for Declaration<H, I> {
    fn spec(&self) -> &OperationSpec {
        &self.spec
    }

    fn doc(&self) -> &OperationDoc {
        &self.doc
    }

    fn run(&'static self, context: RequestContext) -> LocalFuture<'static, Response> {
        let run = async move { self.call(context).await.map(Success::into_response) };
        Box::pin(Measured::new(run))
    }

    fn permit_replay<'a>(&'a self, context: &'a RequestContext) -> LocalFuture<'a, ()> {
        // The input checks of `call` are skipped: the stored response already contains their result.
        Box::pin(async move {
            let Ok(input) = self.parse(context) else {
                return require_every_permission(context).await;
            };
            // After parsing, since the permission may depend on the input: mute and unmute have one each.
            self.require_permission(context, &input).await?;
            match self.replay_check {
                Some(check) => check(context, &input).await,
                None => Ok(()),
            }
        })
    }
}

/// Checks the caller of a replay whose request does not parse. The permission that it needs is unknown, so all are required.
async fn require_every_permission(context: &RequestContext) -> Result<(), ApiError> {
    for permission in context.spec.permissions() {
        context.require_permission(*permission).await?;
    }
    Ok(())
}
