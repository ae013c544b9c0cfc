//! Answers: a status and JSON bytes, made once and sent, or kept for replay, as they are.

use conclave_model::page::Page;
use serde::Serialize;
use serde::ser::SerializeMap;

pub use conclave_model::idempotency::Response;

/// An answer with a JSON body.
pub fn json<T: Serialize>(status: u16, body: &T) -> Response {
    // A wire type has text keys and no failing parts, so this cannot fail; were it to, the client gets a 500.
    match serde_json::to_vec(body) {
        Ok(body) => Response { status, body },
        Err(error) => {
            log::error!("an answer could not be written: {error}");
            super::problem::answer(&super::problem::Problem::internal())
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

/// 204.
#[must_use]
pub fn no_content() -> Response {
    Response { status: 204, body: Vec::new() }
}

/// 200 with a page: the collection under its own name, `limit`, `offset` and `has_more`.
pub fn page<T: Serialize>(collection: &'static str, page: &Page<T>) -> Response {
    ok(&Envelope { collection, page })
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
