//! Entity tags, with which a client asks whether its copy is current.

use actix_web::HttpMessage;
use actix_web::HttpRequest;
use actix_web::http::header::{EntityTag, IfNoneMatch};

/// Whether the client has the content with this tag.
pub fn is_known(request: &HttpRequest, tag: &EntityTag) -> bool {
    match request.get_header::<IfNoneMatch>() {
        Some(IfNoneMatch::Any) => true,
        Some(IfNoneMatch::Items(tags)) => tags.iter().any(|known| known.weak_eq(tag)),
        None => false,
    }
}
