//! API error codes, as one enum that a test walks, and the problem that carries a code to the
//! client.

use std::borrow::Cow;
use std::fmt::Display;
use std::time::Duration;

use crate::schema::word_enum;

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $variant:ident = $status:literal $code:literal,)*) => {
        word_enum! {
            /// Stable code that clients branch on. The enum is the whole list.
            ErrorCode { $($(#[doc = $doc])+ $variant = $code),* }
        }

        impl ErrorCode {
            /// Returns the HTTP status that the code is sent with.
            pub const fn status(self) -> u16 {
                match self { $(Self::$variant => $status,)* }
            }
        }
    };
}

// In the contract's order. Codes are never renamed, since clients branch on them; unknown ones count as their status.
codes! {
    /// A field is missing, malformed or outside its allowed set.
    InvalidRequest = 400 "invalid_request",
    /// A room name outside its pattern.
    InvalidRoomName = 400 "invalid_room_name",
    /// An identity outside its pattern.
    InvalidIdentity = 400 "invalid_identity",
    /// Not a valid URL of an accepted scheme.
    InvalidUrl = 400 "invalid_url",
    /// A URL that resolves to an address that is not public.
    BlockedUrl = 400 "blocked_url",
    /// A recording path that is not a relative name inside the recording directory.
    InvalidFilepath = 400 "invalid_filepath",
    /// No usable credential.
    Unauthorized = 401 "unauthorized",
    /// The acting role lacks the permission that `field` names.
    PermissionDenied = 403 "permission_denied",
    /// A browser-origin call with an Authorization header.
    OriginRejected = 403 "origin_rejected",
    /// The plan's ceiling of concurrent rooms is taken.
    RoomLimitReached = 402 "room_limit_reached",
    /// The month's minutes are spent, the room has its maximum of participants, or the project is suspended.
    QuotaExceeded = 402 "quota_exceeded",
    /// The plan lacks the recording or streaming feature in `field`.
    FeatureNotInPlan = 402 "feature_not_in_plan",
    /// The wallet cannot cover the call.
    InsufficientBalance = 402 "insufficient_balance",
    // Beyond the contract's table, as are `participant_not_found` and `track_not_found`.
    /// No such route.
    NotFound = 404 "not_found",
    /// No room by that name in the project.
    RoomNotFound = 404 "room_not_found",
    /// No live participant by that identity in the room.
    ParticipantNotFound = 404 "participant_not_found",
    /// The participant publishes no such track.
    TrackNotFound = 404 "track_not_found",
    /// No session by that id.
    SessionNotFound = 404 "session_not_found",
    /// No template by that id, or the room resolves to none.
    TemplateNotFound = 404 "template_not_found",
    /// No role by that name in the template.
    RoleNotFound = 404 "role_not_found",
    /// No destination by that name on the template.
    DestinationNotFound = 404 "destination_not_found",
    /// No recording by that egress id.
    RecordingNotFound = 404 "recording_not_found",
    /// No broadcast by that egress id.
    BroadcastNotFound = 404 "broadcast_not_found",
    /// No ingress by that id.
    IngressNotFound = 404 "ingress_not_found",
    /// No webhook endpoint by that id.
    EndpointNotFound = 404 "endpoint_not_found",
    /// No webhook delivery by that id.
    DeliveryNotFound = 404 "delivery_not_found",
    /// No usable room code by that value.
    CodeNotFound = 404 "code_not_found",
    /// The identity is not banned from the room.
    BanNotFound = 404 "ban_not_found",
    // With `Allow` (RFC 9110, section 15.5.6).
    /// The path exists, the method does not.
    MethodNotAllowed = 405 "method_not_allowed",
    /// The body did not arrive in time.
    RequestTimeout = 408 "request_timeout",
    /// The project has used that room name before.
    RoomExists = 409 "room_exists",
    /// The room has ended.
    RoomEnded = 409 "room_ended",
    /// An idempotency key came again with another body.
    IdempotencyKeyReuse = 409 "idempotency_key_reuse",
    /// That egress is already being recorded.
    RecordingExists = 409 "recording_exists",
    /// Only a running recording can be paused or resumed.
    RecordingEnded = 409 "recording_ended",
    /// That egress is already being broadcast.
    BroadcastExists = 409 "broadcast_exists",
    /// That ingress is already registered.
    IngressExists = 409 "ingress_exists",
    /// Another encoder is connected to the ingress endpoint.
    EncoderConnected = 409 "encoder_connected",
    /// A template with that name exists.
    TemplateExists = 409 "template_exists",
    /// Open rooms still reference the template.
    TemplateInUse = 409 "template_in_use",
    /// The default template cannot be deleted.
    TemplateIsDefault = 409 "template_is_default",
    /// A destination with that name exists on the template.
    DestinationExists = 409 "destination_exists",
    /// A recording or broadcast still runs against the destination.
    DestinationInUse = 409 "destination_in_use",
    /// The role is full for this room.
    RoleCapacityReached = 409 "role_capacity_reached",
    /// A room code that is not locked to an identity does not give out this one.
    IdentityTaken = 409 "identity_taken",
    /// The identity is banned from the room.
    IdentityBanned = 409 "identity_banned",
    /// The room has its maximum of bans.
    BanLimitReached = 409 "ban_limit_reached",
    /// Participants, or another role, still refer to the role.
    RoleReferenced = 409 "role_referenced",
    /// Only a failed delivery can be retried.
    DeliveryNotRetryable = 409 "delivery_not_retryable",
    // Only WHIP meets it, and `precondition_required` (RFC 9725, section 4.3).
    /// The request is based on an earlier state: WHIP's entity tag is not the current one.
    PreconditionFailed = 412 "precondition_failed",
    /// The body exceeds 65536 bytes.
    PayloadTooLarge = 413 "payload_too_large",
    /// A body that is not `application/json`.
    UnsupportedMediaType = 415 "unsupported_media_type",
    /// The request must name the state that it is based on, in `If-Match`.
    PreconditionRequired = 428 "precondition_required",
    /// Over the request rate.
    RateLimited = 429 "rate_limited",
    /// An unhandled fault.
    InternalError = 500 "internal_error",
    /// The database cannot be reached or written.
    DatabaseUnavailable = 503 "database_unavailable",
    /// The billing service did not confirm the plan.
    BillingUnavailable = 503 "billing_unavailable",
    /// Stored destination credentials cannot be decrypted.
    DestinationUnusable = 503 "destination_unusable",
    /// The media plane did not answer, or refused for a reason of its own.
    MediaUnavailable = 503 "media_unavailable",
    /// A destination is written while the deployment has no encryption key.
    EncryptionUnavailable = 503 "encryption_unavailable",
}

impl ErrorCode {
    /// Returns whether only clients that use operations or parameters beyond the contract can meet the code.
    pub const fn is_extension(self) -> bool {
        matches!(
            self,
            Self::BanNotFound | Self::IdentityBanned | Self::BanLimitReached | Self::RecordingEnded
        )
    }
}

/// Error response content, before it is JSON.
///
/// The message is prose and never contains a secret; what the log needs beyond it is logged where the failure
/// is handled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
// Without the cause, which only the log shows.
#[error("{}: {message}", code.as_str())]
pub struct Problem {
    /// The stable code that clients branch on.
    pub code: ErrorCode,
    /// Description: the error, and the allowed values.
    pub message: Cow<'static, str>,
    /// A dotted path into the request (`roles.host.publish.video.width`), or the missing permission.
    pub field: Option<Cow<'static, str>>,
    /// The delay before a retry; absent if a retry does not help.
    pub retry_after: Option<Duration>,
    /// The underlying error, for the log only: never sent, never a secret.
    pub cause: Option<Box<str>>,
    /// Whether it was logged where it arose, so that it is not logged for each request.
    pub is_logged: bool,
}

impl Problem {
    /// Returns a problem without a field.
    pub fn new(code: ErrorCode, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code,
            message: message.into(),
            // Most problems concern no single field of the request.
            field: None,
            retry_after: None,
            cause: None,
            is_logged: false,
        }
    }

    /// Sets the field.
    #[must_use]
    pub fn at(mut self, field: impl Into<Cow<'static, str>>) -> Self {
        self.field = Some(field.into());
        self
    }

    /// Sets the delay before a retry.
    #[must_use]
    pub fn after(mut self, span: Duration) -> Self {
        self.retry_after = Some(span);
        self
    }

    /// Sets the underlying error, for the log.
    #[must_use]
    pub fn because(mut self, cause: impl ToString) -> Self {
        self.cause = Some(cause.to_string().into());
        self
    }

    /// Marks a problem that was logged where it arose.
    #[must_use]
    pub fn logged(mut self) -> Self {
        self.is_logged = true;
        self
    }

    /// 400 `invalid_request` at `field`.
    pub fn invalid(
        field: impl Into<Cow<'static, str>>,
        message: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self::new(ErrorCode::InvalidRequest, message).at(field)
    }

    /// 404 `room_not_found`: the project has never had a room with that name.
    pub fn room_not_found() -> Self {
        Self::new(
            ErrorCode::RoomNotFound,
            "no room by that name in this project",
        )
    }

    /// 404 `template_not_found`: the project has no template with that id.
    pub fn template_not_found() -> Self {
        Self::new(
            ErrorCode::TemplateNotFound,
            "no template by that id in this project",
        )
    }

    /// 404 `role_not_found`: the template has no role with that name. The message lists its first roles.
    pub fn role_not_found<R: Display>(roles: impl IntoIterator<Item = R>) -> Self {
        // A template may have more roles than fit into a readable message.
        const SHOWN: usize = 20;
        let mut roles = roles.into_iter();
        let shown: Vec<_> = roles
            .by_ref()
            .take(SHOWN)
            .map(|role| role.to_string())
            .collect();
        // `by_ref` has left the rest in the iterator.
        let known = match (shown.join(", "), roles.count()) {
            (none, 0) if none.is_empty() => "none".to_owned(),
            (all, 0) => all,
            (first, more) => format!("{first} and {more} more"),
        };
        let message = format!("no role by that name in the template, which has {known}");
        Self::new(ErrorCode::RoleNotFound, message)
    }

    /// 404 `code_not_found`: the same for every code that cannot be used, so that the reason stays unknown to the
    /// client.
    pub fn code_not_found() -> Self {
        // Otherwise a guess would show that a code exists.
        Self::new(ErrorCode::CodeNotFound, "no usable room code by that value")
    }

    /// 404 `participant_not_found`: no participant with that identity is connected to the room.
    pub fn participant_not_found() -> Self {
        Self::new(
            ErrorCode::ParticipantNotFound,
            "no participant with that identity is in the room",
        )
    }

    /// 404 `track_not_found`: the participant does not publish that track now.
    pub fn track_not_found() -> Self {
        Self::new(
            ErrorCode::TrackNotFound,
            "the participant publishes no track with that sid",
        )
    }

    /// 409 `role_capacity_reached`, at `role`.
    pub fn role_capacity_reached() -> Self {
        Self::new(
            ErrorCode::RoleCapacityReached,
            "the role is full for this room",
        )
        .at("role")
    }

    /// 409 `identity_taken`, at `identity`: the identity belongs to another participant in the
    /// room.
    pub fn identity_taken() -> Self {
        let message = "a participant with this identity is connected to the room, or was given a role there; choose another one";
        Self::new(ErrorCode::IdentityTaken, message).at("identity")
    }

    /// 409 `identity_banned`, at `identity`.
    pub fn identity_banned() -> Self {
        Self::new(
            ErrorCode::IdentityBanned,
            "the identity is banned from this room",
        )
        .at("identity")
    }

    /// 409 `room_ended`: the room has ended, and its name cannot be used again.
    pub fn room_ended() -> Self {
        Self::new(
            ErrorCode::RoomEnded,
            "the room has ended; its name stays reserved",
        )
    }

    /// 404 `room_not_found` for data to a room that has ended.
    pub fn no_room_for_data() -> Self {
        Self::new(
            ErrorCode::RoomNotFound,
            "the room has ended, so no participant can receive data",
        )
    }

    /// 500 `internal_error`. The cause is for the log, not for the client.
    pub fn internal() -> Self {
        Self::new(
            ErrorCode::InternalError,
            "the server hit an unexpected fault; retrying may help",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn codes_are_unique_snake_case_and_carry_an_error_status() {
        let mut seen = HashSet::new();
        for code in ErrorCode::ALL {
            assert!(seen.insert(code.as_str()), "{code:?} twice");
            assert!(
                code.as_str()
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b == b'_')
            );
            assert!((400..600).contains(&code.status()));
        }
    }
}
