//! Sign-in and sign-out.

use std::sync::{Arc, LazyLock};

use actix_web::dev::ResourceDef;
use actix_web::http::StatusCode;
use actix_web::http::header::SET_COOKIE;
use actix_web::{HttpRequest, HttpResponse, web};
use conclave_model::Problem;

use super::layout;
use super::route::{self, Route};
use super::visit::{self, PageResult, Visit};
use crate::http::admin::access::{COOKIE_NAME, Gate, Guarded, SESSION_LIFE};

/// Routes the sign-in pages. Signing in is the only action without a session.
pub fn configure(config: &mut web::ServiceConfig, state: &Arc<impl Guarded + 'static>) {
    let (shown, sent) = (Arc::clone(state), Arc::clone(state));
    let show = web::get().to(move |request: HttpRequest| {
        let response = show(&*shown, &request);
        async { response }
    });
    let send = web::post().to(move |request: HttpRequest, payload: web::Payload| {
        let state = Arc::clone(&sent);
        async move { send(&*state, &request, payload).await }
    });
    config.service(web::resource("/sign-in").route(show).route(send));
}

/// Returns the sign-out route.
pub fn routes() -> Vec<Route> {
    vec![route::action("/sign-out", sign_out)]
}

fn show(state: &impl Guarded, request: &HttpRequest) -> HttpResponse {
    let next = next(&query(request, "next"));
    match state.console().gate() {
        Gate::Closed => visit::html(StatusCode::FORBIDDEN, layout::closed()),
        // A second sign-in would only create another session.
        _ if state.console().operator(request).is_some() => visit::redirect(request, &next),
        _ => visit::html(
            StatusCode::OK,
            layout::sign_in(&state.console().sign_in_token(), &next, None),
        ),
    }
}

async fn send(state: &impl Guarded, request: &HttpRequest, payload: web::Payload) -> HttpResponse {
    let token = state.console().sign_in_token();
    let refuse = |next: &str, problem: &Problem| {
        let status = StatusCode::from_u16(problem.code.status()).unwrap_or(StatusCode::BAD_REQUEST);
        let mut response = visit::html(status, layout::sign_in(&token, next, Some(problem)));
        if let Some(wait) = problem.retry_after {
            // Rounded up, so that a retry at that time succeeds.
            let seconds = wait.as_secs().saturating_add(1);
            response
                .headers_mut()
                .insert(actix_web::http::header::RETRY_AFTER, seconds.into());
        }
        response
    };
    // Against login CSRF, this form has a token, too.
    let form = match route::form(state, request, payload, &token).await {
        Ok(form) => form,
        Err(error) => return refuse("/", &error.problem),
    };
    let field = |name: &str| {
        form.iter()
            .find(|(key, _)| key == name)
            .map_or("", |(_, value)| value.as_str())
    };
    let next = next(field("next"));
    match state.console().sign_in(request, field("token")) {
        Err(problem) => refuse(&next, &problem),
        Ok(value) => {
            log::info!(caller = "operator"; "an operator has signed in to the console");
            let mut response = visit::redirect(request, &next);
            set_cookie(
                state,
                request,
                &mut response,
                &value,
                SESSION_LIFE.as_secs(),
            );
            response
        }
    }
}

async fn sign_out(visit: Visit) -> PageResult {
    Ok(end_session(&*visit.state, &visit.request))
}

/// Ends a request's session, and redirects to the sign-in page.
pub fn end_session(state: &impl Guarded, request: &HttpRequest) -> HttpResponse {
    state.console().sign_out(request);
    let mut response = visit::redirect(request, "/sign-in");
    // An empty cookie with no lifetime removes the old one.
    set_cookie(state, request, &mut response, "", 0);
    response
}

fn set_cookie(
    state: &impl Guarded,
    request: &HttpRequest,
    response: &mut HttpResponse,
    value: &str,
    seconds: u64,
) {
    let secure = if state.console().is_secure(request) {
        "; Secure"
    } else {
        ""
    };
    // `Strict` keeps the cookie from requests that other sites start. Plain HTTP on loopback works without `Secure`.
    let cookie = format!(
        "{COOKIE_NAME}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"
    );
    if let Ok(cookie) = cookie.parse() {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
}

fn query(request: &HttpRequest, name: &str) -> String {
    let mut pairs = url::form_urlencoded::parse(request.query_string().as_bytes());
    pairs
        .find(|(key, _)| key == name)
        .map(|(_, value)| value.into_owned())
        .unwrap_or_default()
}

/// The console's page path patterns.
static PAGES: LazyLock<Vec<ResourceDef>> = LazyLock::new(|| {
    super::routes()
        .iter()
        .filter_map(Route::page_path)
        .map(ResourceDef::new)
        .collect()
});

/// Returns the page to show after the sign-in, which must be a page of the console. Browsers drop control characters in a URL and
/// treat a backslash as a slash; two slashes start another host.
fn next(asked: &str) -> String {
    let is_plain = asked
        .bytes()
        .all(|byte| byte.is_ascii_graphic() && byte != b'\\')
        && !asked.starts_with("//");
    // Compared without query and fragment, which patterns do not contain.
    let path = asked.split(['?', '#']).next().unwrap_or_default();
    let is_page = is_plain && PAGES.iter().any(|page| page.is_match(path));
    if is_page {
        asked.to_owned()
    } else {
        "/".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves S-33.
    #[test]
    fn signing_in_leads_to_a_page_of_the_console_only() {
        for page in [
            "/",
            "/projects/prj_1?x=1",
            "/actors/prj_1/room/a%20b",
            "/server",
        ] {
            assert_eq!(next(page), page);
        }
        let elsewhere = [
            "",
            "projects",
            "//example.org",
            "https://example.org",
            "/\\example.org",
            "/a\r\nb",
        ];
        let hidden = [
            "/\t/example.org",
            "/\n/example.org",
            "/\u{b}/example.org",
            " //example.org",
            "/\u{7f}",
            "/\u{2028}/a",
        ];
        let no_pages = [
            "/metrics",
            "/sign-out",
            "/debug/events",
            "/%09/example.org",
            "/projects\t/a",
        ];
        for other in elsewhere.into_iter().chain(hidden).chain(no_pages) {
            assert_eq!(next(other), "/", "{other:?}");
        }
    }
}
