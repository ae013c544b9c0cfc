//! What an operation is declared with, apart from the code that runs it: data that the router, the frame, the limits, the
//! trace and the OpenAPI description read.

use conclave_model::ErrorCode;
use conclave_model::plan::Feature;
use conclave_model::role::Permission;

/// An HTTP method of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Reads, and changes nothing.
    Get,
    /// Creates a resource or runs an action.
    Post,
    /// Creates or replaces a resource.
    Put,
    /// Changes the fields that are sent.
    Patch,
    /// Ends or deletes a resource.
    Delete,
}

impl Method {
    /// The method in upper case, as in a request line.
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

/// The credential an operation takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// A project API key.
    Key,
    /// A project API key, or a room token whose acting role holds the permission. Where several are listed, the request's
    /// content decides which one applies.
    KeyOrRoomToken(&'static [Permission]),
    /// No credential: the path holds a secret.
    Open(OpenAccess),
}

/// An operation without a credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenAccess {
    /// The path parameter that is the secret. Its value never reaches a log.
    pub secret: &'static str,
    /// The request rates by client address and by secret.
    pub rates: OpenRates,
}

/// Which configured rates an open operation has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenRates {
    /// `limits.exchange_per_second` and `limits.exchange_burst`.
    Exchange,
}

/// The declaration of one operation of the API.
#[derive(Debug)]
pub struct OperationSpec {
    /// The operation id: in the description, in logs, in metrics and in the scope of idempotency keys.
    pub id: &'static str,
    /// The HTTP method.
    pub method: Method,
    /// The path, with parameters in braces.
    pub path: &'static str,
    /// The credential that a request must have.
    pub access: Access,
    /// Whether it takes an `Idempotency-Key`.
    pub idempotent: bool,
    /// Whether its response shows a secret, so that a stored one is encrypted.
    pub secret_response: bool,
    /// The path parameter that is a secret although the operation takes a credential.
    pub secret_path: Option<&'static str>,
    /// Whether it starts work that the project's plan and wallet must cover.
    pub starts_work: bool,
    /// The feature that the plan must include.
    pub feature: Option<Feature>,
    /// The statuses of success.
    pub success: &'static [u16],
    /// Its own error codes; [`OperationSpec::error_codes`] adds those that follow from the rest of the declaration.
    pub errors: &'static [ErrorCode],
    /// The codes with which parameters and bodies are refused that do not parse.
    pub parse_errors: Vec<ErrorCode>,
    /// Whether it takes a body.
    pub takes_body: bool,
}

impl OperationSpec {
    /// The path parameter that no log may show, if there is one.
    pub const fn secret_parameter(&self) -> Option<&'static str> {
        match self.access {
            Access::Open(open) => Some(open.secret),
            Access::Key | Access::KeyOrRoomToken(_) => self.secret_path,
        }
    }

    /// Whether browsers of `http.browser_origins` may call it: what a room token can do, and the way to get one.
    pub const fn is_for_browsers(&self) -> bool {
        matches!(self.access, Access::KeyOrRoomToken(_) | Access::Open(_))
    }

    /// The permissions of which a room token needs one; none for an operation that takes keys alone.
    pub const fn permissions(&self) -> &'static [Permission] {
        match self.access {
            Access::KeyOrRoomToken(permissions) => permissions,
            Access::Key | Access::Open(_) => &[],
        }
    }

    /// Whether it acts on participants, recordings or broadcasts of the media plane, which nothing undoes. Those that a room token may call do.
    pub const fn acts_on_media_plane(&self) -> bool {
        matches!(self.access, Access::KeyOrRoomToken(_))
    }

    /// Every code the operation is described with, by status: its own, and those of the checks that it declares.
    pub fn error_codes(&self) -> Vec<ErrorCode> {
        let mut codes = vec![ErrorCode::RateLimited, ErrorCode::InternalError];
        if !matches!(self.access, Access::Open(_)) {
            codes.push(ErrorCode::Unauthorized);
        }
        if self.takes_body {
            codes.extend([ErrorCode::InvalidRequest, ErrorCode::PayloadTooLarge]);
        }
        if let Access::KeyOrRoomToken(_) = self.access {
            codes.push(ErrorCode::PermissionDenied);
        }
        if self.idempotent {
            codes.push(ErrorCode::IdempotencyKeyReuse);
        }
        if self.starts_work {
            codes.extend([ErrorCode::QuotaExceeded, ErrorCode::InsufficientBalance]);
        }
        if self.feature.is_some() {
            codes.push(ErrorCode::FeatureNotInPlan);
        }
        codes.extend(self.errors);
        codes.extend(&self.parse_errors);
        // An operation with a 400 refuses unknown query parameters, too.
        if codes.iter().any(|code| code.status() == 400) {
            codes.push(ErrorCode::InvalidRequest);
        }
        codes.sort_by_key(|code| (code.status(), code.as_str()));
        codes.dedup();
        codes
    }
}
