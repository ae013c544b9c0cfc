//! The files of the console's pages, which are part of the program, and the policy under which browsers show them.

use actix_web::web;

use crate::http::api::spec::Method;
use crate::http::page::page_response;
use crate::http::resource::single_method_resource;

/// What the browser may load, and from where: files of this listener, no inline script and no inline style.
pub const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; media-src 'self'; \
                          connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
/// Name, content type, content.
const FILES: [(&str, &str, &str); 6] = [
    ("console.css", STYLE, include_str!("console.css")),
    ("components.css", STYLE, include_str!("components.css")),
    ("console.js", SCRIPT, include_str!("console.js")),
    ("icon.svg", "image/svg+xml", include_str!("icon.svg")),
    ("htmx.min.js", SCRIPT, include_str!("vendor/htmx.min.js")),
    (
        "htmx-ext-sse.min.js",
        SCRIPT,
        include_str!("vendor/htmx-ext-sse.min.js"),
    ),
];

/// Routes the files. They say nothing about the server, so they need no session.
pub fn configure(config: &mut web::ServiceConfig) {
    for (name, content_type, content) in FILES {
        let file = web::get().to(move || {
            let response = page_response(POLICY)
                .content_type(content_type)
                .body(content);
            async { response }
        });
        config.service(single_method_resource(
            &format!("/assets/{name}"),
            Method::Get,
            file,
        ));
    }
}
