//! What runs behind the declaration of an operation: its handler, and the checks before it.

use std::any::Any;
use std::future::Future;
use std::pin::Pin;

use conclave_model::Problem;
use conclave_model::role::Permission;

use super::context::RequestContext;
use super::error::ApiError;
use super::input::FromRequest;
use super::quota;
use super::response::{Response, Success};

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
