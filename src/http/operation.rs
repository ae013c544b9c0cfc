//! Operations: a declaration, its description, and the handler behind them.
//!
//! An operation is declared once. The types of its handler's [`Input`] say what it reads, and serve to parse and to describe
//! it; everything else is said by the methods of [`Declaration`]. [`Operation::run`] parses the input, then checks the
//! declared permission and quota, then calls the handler, so that no handler can forget a check.

use std::future::Future;
use std::pin::Pin;

use conclave_model::plan::Feature;
use conclave_model::role::Permission;
use conclave_model::{ErrorCode, Problem};
use serde::de::DeserializeOwned;
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::context::RequestContext;
use super::description::{Link, OperationDoc, ResponseDoc};
use super::error::ApiError;
use super::input::{FromBody, FromQuery, Input, ParameterDocs, path};
use super::quota;
use super::response::Response;
use super::spec::{Access, Method, OpenAccess, OpenRates, OperationSpec};

/// A future of a worker's thread.
type LocalFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, ApiError>> + 'a>>;

/// A handler, boxed.
type Handler<P, Q, B> = Box<dyn Fn(RequestContext, Input<P, Q, B>) -> LocalFuture<'static, Response> + Send + Sync>;

/// The permission that a request needs, chosen by its content.
type ChoosePermission<P, Q, B> = fn(&Input<P, Q, B>) -> Permission;

/// A check that refuses a request or lets it pass.
pub type Check<P, Q, B> = for<'a> fn(&'a RequestContext, &'a Input<P, Q, B>) -> CheckResult<'a>;

/// The result of a [`Check`].
pub type CheckResult<'a> = LocalFuture<'a, ()>;

/// One operation of the API, its input types erased.
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
    /// Those of parsing, of the checks and of the handler, in the order that [`super::frame`] documents.
    pub fn run(&'static self, context: RequestContext) -> impl Future<Output = Result<Response, ApiError>> {
        self.endpoint.run(context)
    }

    /// Refuses a participant that may not see the stored response to a request like its own, made by another caller.
    ///
    /// # Errors
    /// 403 `permission_denied`, 404 for an egress of another room.
    pub fn permit_replay<'a>(&'a self, context: &'a RequestContext) -> impl Future<Output = Result<(), ApiError>> + 'a {
        self.endpoint.permit_replay(context)
    }
}

/// What runs behind a declaration.
trait Endpoint: Send + Sync {
    fn run(&'static self, context: RequestContext) -> LocalFuture<'static, Response>;
    fn permit_replay<'a>(&'a self, context: &'a RequestContext) -> LocalFuture<'a, ()>;
}

/// An operation that is being declared; its input types are those of its handler.
pub struct Declaration<P, Q, B> {
    spec: OperationSpec,
    doc: OperationDoc,
    typed: Typed<P, Q, B>,
}

/// The typed part of an operation.
struct Typed<P, Q, B> {
    handler: Handler<P, Q, B>,
    permission: Option<ChoosePermission<P, Q, B>>,
    malformed_path: Option<fn() -> Problem>,
    check: Option<Check<P, Q, B>>,
    replay_check: Option<Check<P, Q, B>>,
}

/// Declares an operation by its method, path, id and handler.
pub fn operation<P, Q, B, F>(
    method: Method,
    path: &'static str,
    id: &'static str,
    handler: impl Fn(RequestContext, Input<P, Q, B>) -> F + Send + Sync + 'static,
) -> Declaration<P, Q, B>
where
    P: DeserializeOwned + IntoParams + 'static,
    Q: FromQuery + 'static,
    B: FromBody + 'static,
    F: Future<Output = Result<Response, ApiError>> + 'static,
{
    let doc = OperationDoc::new(ParameterDocs::path::<P>(), Q::describe(), B::describe());
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
            success: &[204],
            errors: &[],
            takes_body: doc.body.is_some(),
        },
        doc,
        typed: Typed {
            handler: Box::new(move |context, input| Box::pin(handler(context, input))),
            permission: None,
            malformed_path: None,
            check: None,
            replay_check: None,
        },
    }
}

impl<P, Q, B> Declaration<P, Q, B>
where
    P: DeserializeOwned + IntoParams + 'static,
    Q: FromQuery + 'static,
    B: FromBody + 'static,
{
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

    /// It responds with the body `R`. An operation that says nothing responds with 204.
    #[must_use]
    pub fn responds<R: ToSchema>(mut self, success: &'static [u16], example: Value) -> Self {
        self.spec.success = success;
        self.doc.response = Some(ResponseDoc::of::<R>(example));
        self
    }

    /// It responds with a page of `R` under the name `collection`.
    #[must_use]
    pub fn responds_page<R: ToSchema>(mut self, collection: &'static str, example: Value) -> Self {
        self.spec.success = &[200];
        self.doc.response = Some(ResponseDoc::page::<R>(collection, example));
        self
    }

    /// A success leads to these operations, which take `parameters`: their names, each with the OpenAPI runtime expression
    /// of its value.
    #[must_use]
    pub fn links(mut self, operations: &[&'static str], parameters: &'static [(&'static str, &'static str)]) -> Self {
        self.doc.links.extend(operations.iter().map(|operation| Link { operation, parameters }));
        self
    }

    /// The error codes of its own.
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
    pub fn room_token_by(mut self, permissions: &'static [Permission], choose: ChoosePermission<P, Q, B>) -> Self {
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
    pub fn check(mut self, check: Check<P, Q, B>) -> Self {
        self.typed.check = Some(check);
        self
    }

    /// A check of a participant that asks for the stored response of another caller, beyond the permission.
    #[must_use]
    pub fn replay_check(mut self, check: Check<P, Q, B>) -> Self {
        self.typed.replay_check = Some(check);
        self
    }

    /// The declared operation.
    #[must_use]
    pub fn build(self) -> Operation {
        Operation { spec: self.spec, doc: self.doc, endpoint: Box::new(self.typed) }
    }
}

impl<P: DeserializeOwned, Q: FromQuery, B: FromBody> Typed<P, Q, B> {
    fn parse(&self, context: &RequestContext) -> Result<Input<P, Q, B>, ApiError> {
        let path = path::read(&context.source).map_err(|problem| match self.malformed_path {
            Some(malformed) => malformed(),
            None => problem,
        })?;
        let query = Q::from_query(context.source.query_string())?;
        Ok(Input { path, query, body: B::from_body(&context.body)? })
    }

    async fn require_permission(&self, context: &RequestContext, input: &Input<P, Q, B>) -> Result<(), ApiError> {
        let chosen = self.permission.map(|choose| choose(input));
        match chosen.or_else(|| context.spec.permissions().first().copied()) {
            Some(permission) => context.require_permission(permission).await,
            None => Ok(()),
        }
    }
}

impl<P, Q, B> Endpoint for Typed<P, Q, B>
where
    P: DeserializeOwned + 'static,
    Q: FromQuery + 'static,
    B: FromBody + 'static,
{
    fn run(&'static self, mut context: RequestContext) -> LocalFuture<'static, Response> {
        Box::pin(async move {
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
            (self.handler)(context, input).await
        })
    }

    fn permit_replay<'a>(&'a self, context: &'a RequestContext) -> LocalFuture<'a, ()> {
        Box::pin(async move {
            let Ok(input) = self.parse(context) else { return require_every_permission(context).await };
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
