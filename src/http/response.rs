//! Responses: a status and JSON bytes, made once, and sent or stored for replay as they are.

use actix_web::http::StatusCode;
use actix_web::http::header::{CONTENT_TYPE, HeaderValue};
use actix_web::{HttpResponse, HttpResponseBuilder};
use conclave_model::page::Page;
use serde::Serialize;
use serde::ser::SerializeMap;

pub use conclave_model::idempotency::Response;

/// A response with a JSON body.
pub fn json<T: Serialize>(status: u16, body: &T) -> Response {
    // A wire type has text keys and no failing parts, so this cannot fail; were it to, the client gets a 500.
    match serde_json::to_vec(body) {
        Ok(body) => Response { code: status, body },
        Err(error) => {
            log::error!("a response could not be written: {error}");
            Response { code: 500, body: Vec::new() }
        }
    }
}

/// 200 with a JSON body.
pub fn ok<T: Serialize>(body: &T) -> Response {
    json(200, body)
}

/// 201 with a JSON body.
pub fn created<T: Serialize>(body: &T) -> Response {
    json(201, body)
}

/// Returns 204, without a body.
#[must_use]
pub fn no_content() -> Response {
    Response { code: 204, body: Vec::new() }
}

/// 200 with a page: the collection under its own name, `limit`, `offset` and `has_more`.
pub fn page<T: Serialize>(collection: &'static str, page: &Page<T>) -> Response {
    ok(&Envelope { collection, page })
}

/// A response as actix-web sends it.
#[must_use]
pub fn send(response: Response) -> HttpResponse {
    let status = StatusCode::from_u16(response.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut builder = HttpResponseBuilder::new(status);
    if response.body.is_empty() {
        return builder.finish();
    }
    builder.insert_header((CONTENT_TYPE, HeaderValue::from_static("application/json"))).body(response.body)
}

struct Envelope<'a, T> {
    collection: &'static str,
    page: &'a Page<T>,
}

impl<T: Serialize> Serialize for Envelope<'_, T> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(4))?;
        map.serialize_entry(self.collection, &self.page.items)?;
        map.serialize_entry("limit", &self.page.request.limit)?;
        map.serialize_entry("offset", &self.page.request.offset)?;
        map.serialize_entry("has_more", &self.page.has_more)?;
        map.end()
    }
}
