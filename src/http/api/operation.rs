//! Operations: their declaration, and what runs behind it.
//!
//! An operation is declared once, by [`operation`] and the methods of [`Declaration`]. The types of its handler say what it reads and
//! what it returns: they parse the request, write the response, and describe both. [`Declaration::call`] parses the input, then checks
//! the declared permission and quota, then calls the handler, so that no handler can forget a check.
//!
//! The table of operations has declarations of many types, as [`Operation`]. The console, which knows a handler's types, gets its
//! declaration back, and calls it without a response to read again.

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

/// One operation of the API: a [`Declaration`] whose types are erased, for the table of all.
pub trait Operation: Any + Send + Sync {
    /// The path, the credential, and the checks before the operation runs.
    fn spec(&self) -> &OperationSpec;

    /// The texts and schemas of the OpenAPI description.
    fn doc(&self) -> &OperationDoc;

    /// Runs the operation, and writes its response.
    ///
    /// # Errors
    /// Those of [`Declaration::call`].
    fn run(&'static self, context: RequestContext) -> LocalFuture<'static, Response>;

    /// Refuses a participant that may not see the stored response to a request like its own, made by another caller.
    ///
    /// # Errors
    /// 403 `permission_denied`, 404 for an egress of another room.
    fn permit_replay<'a>(&'a self, context: &'a RequestContext) -> LocalFuture<'a, ()>;
}

impl dyn Operation {
    /// Returns the declaration, if `H` is the handler.
    pub fn typed<H: Handler<I>, I: FromRequest>(&self) -> Option<&Declaration<H, I>> {
        let operation: &dyn Any = self;
        operation.downcast_ref()
    }
}

/// A future of a worker's thread.
pub type LocalFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, ApiError>> + 'a>>;

/// The permission that a request needs, chosen by its content.
pub type ChoosePermission<I> = fn(&I) -> Permission;

/// A check that refuses a request or lets it pass.
pub type Check<I> = for<'a> fn(&'a RequestContext, &'a I) -> CheckResult<'a>;

/// The result of a [`Check`].
pub type CheckResult<'a> = LocalFuture<'a, ()>;

/// A handler: an asynchronous function of a request and its input. Its types describe the operation.
pub trait Handler<I>: Send + Sync + 'static {
    /// What it returns when it succeeds.
    type Success: Success;

    /// Does what the request asks for.
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
        self(context, input)
    }
}

/// A declared operation, with the types of its handler.
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
            access: Access::Key,
            idempotent: false,
            secret_response: false,
            secret_path: None,
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
    /// Its tag and its summary in the description.
    #[must_use]
    pub fn about(mut self, tag: &'static str, summary: &'static str) -> Self {
        (self.doc.tag, self.doc.summary) = (tag, summary);
        self
    }

    /// An example of its body.
    #[must_use]
    pub fn example(mut self, example: Value) -> Self {
        self.doc.body_example = Some(example);
        self
    }

    /// A rule between the fields of its body, as keywords of JSON Schema.
    #[must_use]
    pub fn body_rule(mut self, keyword: &'static str, rule: Value) -> Self {
        if let Some(body) = &mut self.doc.body {
            body.add_rule(keyword, rule);
        }
        self
    }

    /// An example of the body of its response; of an item, if that is a page.
    #[must_use]
    pub fn responds(mut self, example: Value) -> Self {
        self.response_example = example;
        self
    }

    /// A success leads to these operations, which take `parameters`: their names, each with the OpenAPI runtime expression
    /// of its value.
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

    /// The error codes of its own: those of its handler, and of a service that it asks.
    #[must_use]
    pub fn errors(mut self, codes: &'static [ErrorCode]) -> Self {
        self.spec.errors = codes;
        self
    }

    /// It takes an `Idempotency-Key`.
    #[must_use]
    pub fn idempotent(mut self) -> Self {
        self.spec.idempotent = true;
        self
    }

    /// Its response shows a secret.
    #[must_use]
    pub fn secret_response(mut self) -> Self {
        self.spec.secret_response = true;
        self
    }

    /// The path parameter `name` is a secret.
    #[must_use]
    pub fn secret_path(mut self, name: &'static str) -> Self {
        self.spec.secret_path = Some(name);
        self
    }

    /// It takes no credential: the path parameter `secret` replaces one, under `rates`.
    #[must_use]
    pub fn open(mut self, secret: &'static str, rates: OpenRates) -> Self {
        self.spec.access = Access::Open(OpenAccess { secret, rates });
        self
    }

    /// A room token may call it, too, with this one permission.
    #[must_use]
    pub fn room_token(mut self, permission: &'static [Permission; 1]) -> Self {
        self.spec.access = Access::KeyOrRoomToken(permission);
        self
    }

    /// A room token may call it, too, with the one of these permissions that `choose` takes for the request.
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

    /// It changes nothing, although its method is not `GET`.
    #[must_use]
    pub fn only_reads(mut self) -> Self {
        self.spec.only_reads = true;
        self
    }

    /// It starts work: the plan and the wallet of the project must cover it.
    #[must_use]
    pub fn starts_work(mut self) -> Self {
        self.spec.starts_work = true;
        self
    }

    /// The plan must include `feature`; see [`RequestContext::require_feature`].
    #[must_use]
    pub fn feature(mut self, feature: Feature) -> Self {
        self.spec.feature = Some(feature);
        self
    }

    /// A path that does not parse names nothing, and the operation lists no 400 for it: it is `problem`.
    #[must_use]
    pub fn malformed_path(mut self, problem: fn() -> Problem) -> Self {
        self.malformed_path = Some(problem);
        self
    }

    /// A check of the input that takes more than parsing. It runs before the permission is checked.
    #[must_use]
    pub fn check(mut self, check: Check<I>) -> Self {
        self.check = Some(check);
        self
    }

    /// A check of a participant that asks for the stored response of another caller, beyond the permission.
    #[must_use]
    pub fn replay_check(mut self, check: Check<I>) -> Self {
        self.replay_check = Some(check);
        self
    }

    /// The declared operation.
    #[must_use]
    pub fn build(mut self) -> Box<dyn Operation> {
        self.doc.response = H::Success::describe(mem::take(&mut self.response_example));
        self.spec.parse_errors = self.doc.parse_errors(self.malformed_path.is_none());
        Box::new(self)
    }

    /// Parses the request, checks what is declared, and calls the handler.
    ///
    /// # Errors
    /// Those of parsing, of the checks and of the handler, in the order that [`frame`](crate::http::frame) documents.
    pub async fn call(&self, mut context: RequestContext) -> Result<H::Success, ApiError> {
        let input = self.parse(&context)?;
        if let Some(check) = self.check {
            check(&context, &input).await?;
        }
        self.require_permission(&context, &input).await?;
        if self.spec.starts_work {
            let owner = context.owner().await?;
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
        Box::pin(async move {
            let Ok(input) = self.parse(context) else {
                return require_every_permission(context).await;
            };
            self.require_permission(context, &input).await?;
            match self.replay_check {
                Some(check) => check(context, &input).await,
                None => Ok(()),
            }
        })
    }
}

/// A request that does not parse was refused for what every caller would be refused for; which permission it needs is unknown.
async fn require_every_permission(context: &RequestContext) -> Result<(), ApiError> {
    for permission in context.spec.permissions() {
        context.require_permission(*permission).await?;
    }
    Ok(())
}
