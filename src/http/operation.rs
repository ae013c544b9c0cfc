//! What an operation is, and the list of all.

use std::future::Future;
use std::pin::Pin;

use conclave_model::ErrorCode;
use conclave_model::role::Permission;

use super::answer::Response;
use super::call::Call;
use super::openapi::Doc;
use super::problem::Problem;
use super::v1;

/// Who may call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Auth {
    /// A project API key.
    Key,
    /// A project API key, or a room token whose role holds the permission; where there are several, the one that the
    /// request calls for.
    KeyOrRoomToken(&'static [Permission]),
    /// Anybody, without a credential. What is asked for is guarded by a secret in the path, and has rates of its own.
    Open,
}

/// HTTP methods of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Reads.
    Get,
    /// Makes, or does.
    Post,
    /// Makes or replaces.
    Put,
    /// Changes.
    Patch,
    /// Ends or removes.
    Delete,
}

impl Method {
    /// The method's name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }
}

/// What a handler comes to.
pub type Outcome = Pin<Box<dyn Future<Output = Result<Response, Problem>>>>;

/// What comes of looking whether a call may have an answer that is kept.
pub type Admission<'a> = Pin<Box<dyn Future<Output = Result<(), Problem>> + 'a>>;

/// One operation of the contract.
pub struct Operation {
    /// Its id in the description, in logs and in the scope of idempotency keys.
    pub id: &'static str,
    /// Its method.
    pub method: Method,
    /// Its path, with parameters in braces.
    pub path: &'static str,
    /// Who may call it.
    pub auth: Auth,
    /// Whether it takes an `Idempotency-Key`.
    pub idempotent: bool,
    /// Whether its answer holds a secret, so that a kept one is sealed.
    pub secret_answer: bool,
    /// Statuses of success.
    pub success: &'static [u16],
    /// The error codes of its own; those that every operation has are added by the description.
    pub codes: &'static [ErrorCode],
    /// Does the work.
    pub handler: fn(Call) -> Outcome,
    /// Lets those participants pass who may have the answer that is kept for a call like theirs, whoever made it first.
    pub replays_to: for<'a> fn(&'a Call) -> Admission<'a>,
    /// Describes it.
    pub doc: fn() -> Doc,
}

impl Operation {
    /// An operation that takes a key alone and has nothing special about it; what is special is said by the methods
    /// below.
    #[must_use]
    pub const fn new(
        id: &'static str,
        method: Method,
        path: &'static str,
        success: &'static [u16],
        handler: fn(Call) -> Outcome,
        doc: fn() -> Doc,
    ) -> Self {
        Self {
            id,
            method,
            path,
            auth: Auth::Key,
            idempotent: false,
            secret_answer: false,
            success,
            codes: &[],
            handler,
            replays_to: |call| Box::pin(call.permit_listed()),
            doc,
        }
    }

    /// Others than keys may call it.
    #[must_use]
    pub const fn auth(self, auth: Auth) -> Self {
        Self { auth, ..self }
    }

    /// It takes an `Idempotency-Key`.
    #[must_use]
    pub const fn idempotent(self) -> Self {
        Self { idempotent: true, ..self }
    }

    /// Its answer holds a secret.
    #[must_use]
    pub const fn secret_answer(self) -> Self {
        Self { secret_answer: true, ..self }
    }

    /// Who may have its kept answers is more than a matter of the one permission that it lists.
    #[must_use]
    pub const fn replays_to(self, admit: for<'a> fn(&'a Call) -> Admission<'a>) -> Self {
        Self { replays_to: admit, ..self }
    }

    /// It can answer with these error codes of its own.
    #[must_use]
    pub const fn codes(self, codes: &'static [ErrorCode]) -> Self {
        Self { codes, ..self }
    }
}

/// Every operation there is, in the order of the contract.
pub fn all() -> impl Iterator<Item = &'static Operation> {
    [
        v1::rooms::OPERATIONS,
        v1::participants::OPERATIONS,
        v1::moderation::OPERATIONS,
        v1::role_changes::OPERATIONS,
        v1::tokens::OPERATIONS,
        v1::templates::OPERATIONS,
        v1::roles::OPERATIONS,
        v1::destinations::OPERATIONS,
        v1::codes::OPERATIONS,
        v1::recordings::OPERATIONS,
        v1::broadcasts::OPERATIONS,
        v1::ingress::OPERATIONS,
        v1::sessions::OPERATIONS,
        v1::webhook_endpoints::OPERATIONS,
        v1::webhook_deliveries::OPERATIONS,
        v1::usage::OPERATIONS,
    ]
    .into_iter()
    .flatten()
}
