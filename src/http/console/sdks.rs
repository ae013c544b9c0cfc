//! The page of the SDKs at `/sdk/`, with the commands that install them from this server. It needs no session.

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse};
use conclave_model::{ErrorCode, Problem};
use maud::{Markup, html};

use super::parts::grouped;
use super::{layout, visit};
use crate::http::api::error::ApiError;
use crate::http::sdks::{FOLDER, PackageFile, Sdk, VERSION, sdks};
use crate::http::state::AppState;

/// Responds with the page, whose commands name the server as the request does.
pub fn respond(state: &AppState, request: &HttpRequest) -> HttpResponse {
    let Some(origin) = origin(state, request) else {
        let message = "the Host header must name the server";
        return ApiError::from(Problem::new(ErrorCode::InvalidRequest, message)).to_http();
    };
    let operator = state.admin.console.operator(request);
    let page = layout::open_page(operator.as_ref(), FOLDER, "SDKs", &content(&sdks(&origin)));
    visit::html(StatusCode::OK, page)
}

/// Returns the address that the client has sent the request to, such as `http://127.0.0.1:8081`; `None` for a host that means
/// something else to a shell, where the commands are pasted.
fn origin(state: &AppState, request: &HttpRequest) -> Option<String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]/".contains(&byte);
    state
        .admin
        .console
        .requested_origin(request)
        .filter(|origin| origin.bytes().all(is_plain))
}

fn content(sdks: &[Sdk]) -> Markup {
    html! {
        h1 { "SDKs" }
        p {
            "Packages of this server's version, " (VERSION) ". Those for servers read the address of the API and a key from the variables "
            code { "CONCLAVE_URL" } " and " code { "CONCLAVE_KEY" } "."
        }
        @for sdk in sdks { (card(sdk)) }
    }
}

fn card(sdk: &Sdk) -> Markup {
    let id = sdk.language.to_lowercase();
    let name = sdk.archive.rsplit('/').next().unwrap_or_default();
    let kilobytes = |archive: &PackageFile| {
        grouped(i64::try_from(archive.content.len().div_ceil(1_000)).unwrap_or_default())
    };
    html! {
        section.card aria-labelledby={ "of-" (id) } {
            h2 id={ "of-" (id) } { (sdk.language) }
            p.copy {
                code id=(id) { (sdk.install) }
                button type="button" data-copy={ "#" (id) } aria-label={ "Copy the command for " (sdk.language) } { "Copy" }
            }
            p {
                a href=(sdk.readme) { "Documentation" }
                @if let Some(archive) = PackageFile::find(&sdk.archive) {
                    " · " a href={ (FOLDER) (archive.path) } { (name) } " (" (kilobytes(archive)) " KB), SHA-256 " code { (archive.sha256) }
                }
            }
        }
    }
}
