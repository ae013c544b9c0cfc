//! Responses: self-describing types that handlers return. Status and JSON bytes are made once, then sent, or stored for replay, as
//! they are.

use actix_web::http::StatusCode;
use actix_web::http::header::{CONTENT_TYPE, HeaderValue};
use actix_web::{HttpResponse, HttpResponseBuilder};
use conclave_model::Secret;
use conclave_model::page::Page;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::Value;
use utoipa::ToSchema;

pub use conclave_model::idempotency::Response;

use super::spec::ResponseDoc;

/// A handler's success. The operation is described by this type, so it cannot return anything else.
pub trait Success: 'static {
    /// Possible statuses.
    const STATUSES: &'static [u16];

    /// Describes the body; `None` for a response without one. The example is a whole body, or an item for a page.
    fn describe(example: Value) -> Option<ResponseDoc>;

    /// Serialises the body.
    fn into_response(self) -> Response;
}

/// JSON body, with status 200 unless the type names another.
#[derive(Debug)]
pub struct Json<T, const STATUS: u16 = 200>(pub T);

/// 201 with a JSON body.
pub type Created<T> = Json<T, 201>;

impl<T: Serialize + ToSchema + 'static, const STATUS: u16> Success for Json<T, STATUS> {
    const STATUSES: &'static [u16] = &[STATUS];

    fn describe(example: Value) -> Option<ResponseDoc> {
        Some(ResponseDoc::for_body::<T>(example))
    }

    fn into_response(self) -> Response {
        json(STATUS, &self.0)
    }
}

/// JSON body for a `PUT`: 201 if it created the resource, 200 if it replaced it.
#[derive(Debug)]
pub enum Put<T> {
    /// The resource is new.
    Created(T),
    // The contract lists both for a PUT on a role.
    /// The resource existed.
    Replaced(T),
}

impl<T: Serialize + ToSchema + 'static> Success for Put<T> {
    const STATUSES: &'static [u16] = &[200, 201];

    fn describe(example: Value) -> Option<ResponseDoc> {
        Json::<T>::describe(example)
    }

    fn into_response(self) -> Response {
        match self {
            Self::Created(body) => json(201, &body),
            Self::Replaced(body) => json(200, &body),
        }
    }
}

/// 204 without a body.
#[derive(Debug, Clone, Copy)]
pub struct NoContent;

impl Success for NoContent {
    const STATUSES: &'static [u16] = &[204];

    fn describe(_: Value) -> Option<ResponseDoc> {
        None
    }

    fn into_response(self) -> Response {
        // Without a body, and therefore without a media type (RFC 9110, section 15.3.5).
        Response {
            code: 204,
            body: Vec::new(),
        }
    }
}

/// List item.
pub trait Listed: Serialize + ToSchema + 'static {
    /// Name for the page's field with the items.
    const COLLECTION: &'static str;
}

/// 200 with a page: the collection under its own name, `limit`, `offset` and `has_more`.
impl<T: Listed> Success for Page<T> {
    const STATUSES: &'static [u16] = &[200];

    fn describe(example: Value) -> Option<ResponseDoc> {
        Some(ResponseDoc::page::<T>(T::COLLECTION, example))
    }

    fn into_response(self) -> Response {
        json(200, &Envelope(&self))
    }
}

/// 200 with a page of a list that grows at its end: the fields of a page, `cursor` and `gap`.
#[derive(Debug)]
pub struct CursorPage<T> {
    /// Page of the list.
    pub page: Page<T>,
    /// Position after the page, from which a client continues.
    pub cursor: i64,
    /// Whether items between the requested position and the page are missing.
    pub gap: bool,
}

impl<T: Listed> Success for CursorPage<T> {
    const STATUSES: &'static [u16] = &[200];

    fn describe(example: Value) -> Option<ResponseDoc> {
        Some(ResponseDoc::page::<T>(T::COLLECTION, example).with_cursor())
    }

    fn into_response(self) -> Response {
        let Self { page, cursor, gap } = &self;
        json(
            200,
            &CursorEnvelope {
                page: Envelope(page),
                cursor: *cursor,
                gap: *gap,
            },
        )
    }
}

#[derive(Serialize)]
#[serde(bound = "T: Listed")]
struct CursorEnvelope<'a, T> {
    #[serde(flatten)]
    page: Envelope<'a, T>,
    cursor: i64,
    gap: bool,
}

struct Envelope<'a, T>(&'a Page<T>);

impl<T: Listed> Serialize for Envelope<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(page) = self;
        // In the order of the contract's envelope.
        let mut map = serializer.serialize_map(Some(4))?;
        map.serialize_entry(T::COLLECTION, &page.items)?;
        map.serialize_entry("limit", &page.request.limit)?;
        map.serialize_entry("offset", &page.request.offset)?;
        map.serialize_entry("has_more", &page.has_more)?;
        map.end()
    }
}

/// Initial buffer size in bytes, which fits most bodies: a token response takes about 900.
const INITIAL_BODY_SIZE: usize = 1024;

/// Serialises a JSON response.
fn json<T: Serialize>(status: u16, body: &T) -> Response {
    let mut bytes = Vec::with_capacity(INITIAL_BODY_SIZE);
    // Wire types have text keys and infallible fields, so this cannot fail. The error branch keeps a mistake in a new type from
    // panicking the worker.
    match serde_json::to_writer(&mut bytes, body) {
        Ok(()) => Response {
            code: status,
            body: bytes,
        },
        Err(error) => {
            log::error!("a response could not be written: {error}");
            Response {
                code: 500,
                body: Vec::new(),
            }
        }
    }
}

/// For `serialize_with`: writes a secret in clear, in the one response that shows it. [`Secret`] has no `Serialize`, so a field cannot
/// be shown by mistake.
///
/// # Errors
/// The serializer's errors.
pub fn revealed<S: Serializer>(secret: &Secret, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(secret.reveal())
}

/// Converts a response for actix-web.
pub fn send(response: Response) -> HttpResponse {
    // Stored responses come from the database, so the status is not known to be valid here.
    let status = StatusCode::from_u16(response.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut builder = HttpResponseBuilder::new(status);
    if response.body.is_empty() {
        return builder.finish();
    }
    builder
        // Without `charset`, which JSON's media type does not have (RFC 8259, section 11).
        .insert_header((CONTENT_TYPE, HeaderValue::from_static("application/json")))
        .body(response.body)
}
