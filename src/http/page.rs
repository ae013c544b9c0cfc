//! Responses of the pages that are part of the program: the browser may load and embed what their policy allows, and nothing else.

use actix_web::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use actix_web::{HttpResponse, HttpResponseBuilder};

/// A 200 for a page, or for a file that it loads, with the given `Content-Security-Policy`. A new version of the program takes
/// effect at once: browsers ask before they show what they have stored.
pub fn page_response(policy: &str) -> HttpResponseBuilder {
    let mut response = framed_page_response(policy);
    response.insert_header((X_FRAME_OPTIONS, "DENY"));
    response
}

/// The same for a page that others may show in a frame. The `frame-ancestors` of its policy name them, as `X-Frame-Options` cannot.
pub fn framed_page_response(policy: &str) -> HttpResponseBuilder {
    let mut response = HttpResponse::Ok();
    response
        .insert_header((CONTENT_SECURITY_POLICY, policy))
        .insert_header((X_CONTENT_TYPE_OPTIONS, "nosniff"))
        .insert_header((REFERRER_POLICY, "no-referrer"))
        .insert_header((CACHE_CONTROL, "no-cache"));
    response
}
