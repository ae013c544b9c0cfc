//! Operations: their declaration, and what runs behind it.
//!
//! An operation is declared once. The types of its handler say what it reads and what it returns: they parse the request, write
//! the response, and describe both. Everything else is said by the methods of [`Declaration`]. [`Operation::run`] parses the
//! input, then checks the declared permission and quota, then calls the handler, so that no handler can forget a check.

use std::any::Any;
use std::future::Future;
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

/// One operation of the API, its types erased.
pub struct Operation {
    /// The path, the credential, and the checks before the operation runs.
    pub spec: OperationSpec,
    /// The texts and schemas of the OpenAPI description.
    pub doc: OperationDoc,
    endpoint: Box<dyn Endpoint>,
}

impl Operation {
    /// Runs the operation: parses, checks what is declared, and calls the handler.
    ///
    /// # Errors
    /// Those of parsing, of the checks and of the handler, in the order that [`crate::http::frame`] documents.
    pub fn run(
        &'static self,
        context: RequestContext,
    ) -> impl Future<Output = Result<Response, ApiError>> {
        self.endpoint.run(context)
    }

    /// Refuses a participant that may not see the stored response to a request like its own, made by another caller.
    ///
    /// # Errors
    /// 403 `permission_denied`, 404 for an egress of another room.
    pub fn permit_replay<'a>(
        &'a self,
        context: &'a RequestContext,
    ) -> impl Future<Output = Result<(), ApiError>> + 'a {
        self.endpoint.permit_replay(context)
    }

    /// Returns the endpoint with the type of its success, if `H` is the handler.
    pub fn typed<H: Handler<I>, I: FromRequest>(
        &'static self,
    ) -> Option<&'static dyn TypedEndpoint<H::Success>> {
        let endpoint: &dyn Any = &*self.endpoint;
        endpoint
            .downcast_ref::<Typed<H, I>>()
            .map(|typed| typed as _)
    }
}

/// An operation that is being declared; its types are those of its handler.
pub struct Declaration<H, I> {
    spec: OperationSpec,
    doc: OperationDoc,
    response_example: Value,
    typed: Typed<H, I>,
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
            starts_work: false,
            feature: None,
            success: H::Success::STATUSES,
            errors: &[],
            parse_errors: Vec::new(),
            takes_body,
        },
        doc: OperationDoc::new(parameters, body),
        response_example: Value::Null,
        typed: Typed {
            handler,
            permission: None,
            malformed_path: None,
            check: None,
            replay_check: None,
        },
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
        self.typed.permission = Some(choose);
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
        self.typed.malformed_path = Some(problem);
        self
    }

    /// A check of the input that takes more than parsing. It runs before the permission is checked.
    #[must_use]
    pub fn check(mut self, check: Check<I>) -> Self {
        self.typed.check = Some(check);
        self
    }

    /// A check of a participant that asks for the stored response of another caller, beyond the permission.
    #[must_use]
    pub fn replay_check(mut self, check: Check<I>) -> Self {
        self.typed.replay_check = Some(check);
        self
    }

    /// The declared operation.
    #[must_use]
    pub fn build(mut self) -> Operation {
        self.doc.response = H::Success::describe(self.response_example);
        self.spec.parse_errors = self.doc.parse_errors(self.typed.malformed_path.is_none());
        Operation {
            spec: self.spec,
            doc: self.doc,
            endpoint: Box::new(self.typed),
        }
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

/// An endpoint, its types erased.
pub trait Endpoint: Any + Send + Sync {
    /// Parses the request, checks what is declared, and calls the handler.
    fn run(&'static self, context: RequestContext) -> LocalFuture<'static, Response>;

    /// Refuses a participant that may not see the stored response to a request like its own, made by another caller.
    fn permit_replay<'a>(&'a self, context: &'a RequestContext) -> LocalFuture<'a, ()>;
}

/// An endpoint, all but the type of its success erased.
pub trait TypedEndpoint<S> {
    /// Runs as [`Endpoint::run`] does, without writing the response.
    fn call(&'static self, context: RequestContext) -> LocalFuture<'static, S>;
}

/// A handler with the checks that are declared for it.
pub struct Typed<H, I> {
    pub(super) handler: H,
    pub(super) permission: Option<ChoosePermission<I>>,
    pub(super) malformed_path: Option<fn() -> Problem>,
    pub(super) check: Option<Check<I>>,
    pub(super) replay_check: Option<Check<I>>,
}

impl<H: Handler<I>, I: FromRequest> Typed<H, I> {
    async fn succeed(&self, mut context: RequestContext) -> Result<H::Success, ApiError> {
        let input = self.parse(&context)?;
        if let Some(check) = self.check {
            check(&context, &input).await?;
        }
        self.require_permission(&context, &input).await?;
        if context.spec.starts_work {
            let owner = context.owner().await?;
            quota::ensure_can_start_work(&context.state, &owner, context.spec).await?;
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
        match chosen.or_else(|| context.spec.permissions().first().copied()) {
            Some(permission) => context.require_permission(permission).await,
            None => Ok(()),
        }
    }
}

impl<H: Handler<I>, I: FromRequest> Endpoint for Typed<H, I> {
    fn run(&'static self, context: RequestContext) -> LocalFuture<'static, Response> {
        Box::pin(async move { self.succeed(context).await.map(Success::into_response) })
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

impl<H: Handler<I>, I: FromRequest> TypedEndpoint<H::Success> for Typed<H, I> {
    fn call(&'static self, context: RequestContext) -> LocalFuture<'static, H::Success> {
        Box::pin(self.succeed(context))
    }
}

/// A request that does not parse was refused for what every caller would be refused for; which permission it needs is unknown.
async fn require_every_permission(context: &RequestContext) -> Result<(), ApiError> {
    for permission in context.spec.permissions() {
        context.require_permission(*permission).await?;
    }
    Ok(())
}
