//! Routes of the console, and the checks before each: origin, session, and form token.

use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, web};
use conclave_model::{ErrorCode, Problem};
use futures_util::future::LocalBoxFuture;
use subtle::ConstantTimeEq;
use url::form_urlencoded;

use super::layout;
use super::visit::{self, PageResult, Visit, encoded};
use crate::http::admin::access::{Gate, Guarded, Operator};
use crate::http::api::error::ApiError;
use crate::http::api::spec::Method;
use crate::http::frame::{origins, payload};
use crate::http::resource::method_not_allowed;
use crate::http::state::AppState;

/// Form field with the session's token.
pub const CSRF_FIELD: &str = "csrf";

// `Rc`, because each worker builds its own routes.
type Handler = Rc<dyn Fn(Visit) -> LocalBoxFuture<'static, PageResult>>;

/// Path with a method and its handler.
pub struct Route {
    path: &'static str,
    method: Method,
    handler: Handler,
}

impl Route {
    /// Returns the path or pattern, if the route is a page.
    pub fn page_path(&self) -> Option<&'static str> {
        (self.method == Method::Get).then_some(self.path)
    }
}

/// Creates a page's route.
pub fn page<F: Future<Output = PageResult> + 'static>(
    path: &'static str,
    handler: fn(Visit) -> F,
) -> Route {
    Route {
        path,
        method: Method::Get,
        handler: Rc::new(move |visit| Box::pin(handler(visit))),
    }
}

/// Creates an action's route. A form sends the action.
pub fn action<F: Future<Output = PageResult> + 'static>(
    path: &'static str,
    handler: fn(Visit) -> F,
) -> Route {
    Route {
        path,
        method: Method::Post,
        handler: Rc::new(move |visit| Box::pin(handler(visit))),
    }
}

/// Adds the routes, with one resource per path.
pub fn configure(config: &mut web::ServiceConfig, state: &Arc<AppState>, routes: Vec<Route>) {
    let mut resources: Vec<(&'static str, Vec<&'static str>, actix_web::Resource)> = Vec::new();
    for Route {
        path,
        method,
        handler,
    } in routes
    {
        let state = Arc::clone(state);
        let base = if method == Method::Get {
            web::get()
        } else {
            web::post()
        };
        let route = base.to(move |request: HttpRequest, payload: web::Payload| {
            answer(Arc::clone(&state), Rc::clone(&handler), request, payload)
        });
        match resources.iter().position(|(known, ..)| *known == path) {
            Some(at) => {
                let (path, mut methods, resource) = resources.remove(at);
                methods.push(method.as_str());
                resources.insert(at, (path, methods, resource.route(route)));
            }
            None => resources.push((
                path,
                vec![method.as_str()],
                web::resource(path).route(route),
            )),
        }
    }
    for (_, methods, resource) in resources {
        let allowed = methods.join(", ");
        let other = web::to(move || {
            let response = method_not_allowed(&allowed);
            async { response }
        });
        config.service(resource.default_service(other));
    }
}

async fn answer(
    state: Arc<AppState>,
    handler: Handler,
    request: HttpRequest,
    payload: web::Payload,
) -> HttpResponse {
    // Before the body is read: a request without a session costs nothing.
    let Some(operator) = state.admin.console.operator(&request) else {
        return refuse_without_session(&*state, &request);
    };
    let failed = FailedVisit {
        // Kept for the error page, because the handler consumes the request.
        request: request.clone(),
        operator: operator.clone(),
    };
    let form = match form(&*state, &request, payload, &operator.csrf).await {
        Ok(form) => form,
        Err(error) => return failed.respond(&error),
    };
    let answer = handler(Visit {
        state,
        request,
        operator,
        form,
    })
    .await;
    answer.unwrap_or_else(|error| failed.respond(&error))
}

/// Responds to a request without a session.
pub fn refuse_without_session(state: &impl Guarded, request: &HttpRequest) -> HttpResponse {
    if matches!(state.console().gate(), Gate::Closed) {
        return visit::html(StatusCode::FORBIDDEN, layout::closed());
    }
    // An action cannot be repeated after the sign-in, since its form is lost, so only a page is remembered.
    if request.method() != actix_web::http::Method::GET {
        let problem = Problem::new(
            ErrorCode::Unauthorized,
            "the session has ended; sign in again",
        );
        let status = StatusCode::UNAUTHORIZED;
        return if visit::is_partial(request) {
            visit::notice(status, layout::problem(&problem))
        } else {
            visit::html(status, layout::signed_out(&problem))
        };
    }
    visit::redirect(
        request,
        &format!(
            "/sign-in?next={}",
            encoded(&visit::page_path(request, None))
        ),
    )
}

/// Reads and checks an action's form; empty for a page.
///
/// # Errors
/// 403 from another origin or without the session's token; 400, 408 or 413 for a body that cannot be read.
pub async fn form(
    state: &impl Guarded,
    request: &HttpRequest,
    payload: web::Payload,
    csrf: &str,
) -> Result<Vec<(String, String)>, ApiError> {
    if request.method() == actix_web::http::Method::GET {
        return Ok(Vec::new());
    }
    // To `SameSite`, all ports of a host are one site, so origin and token are checked, too.
    origins::check_same_origin(request)?;
    let body = state
        .forms()
        .within(payload::LIMIT, request, payload)
        .await
        .map_err(Problem::from)?;
    let form: Vec<(String, String)> = form_urlencoded::parse(&body).into_owned().collect();
    let sent = form
        .iter()
        .find(|(name, _)| name == CSRF_FIELD)
        // Compared in constant time, like every secret.
        .map_or("", |(_, value)| value);
    // 403 rather than 401: the session exists, and a new form is enough.
    if !bool::from(sent.as_bytes().ct_eq(csrf.as_bytes())) {
        let message = "the form has expired because its session ended or the server restarted; reload the page";
        return Err(Problem::new(ErrorCode::OriginRejected, message).into());
    }
    Ok(form)
}

/// Data for the response to a failed request.
struct FailedVisit {
    request: HttpRequest,
    operator: Operator,
}

impl FailedVisit {
    fn respond(&self, error: &ApiError) -> HttpResponse {
        if error.status() >= 500 && !error.problem.is_logged {
            // The pattern, since a path may contain names of the customer's.
            log::error!(path = self.request.match_pattern().unwrap_or_default().as_str(); "the console: {error}");
        }
        let status =
            StatusCode::from_u16(error.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        if visit::is_partial(&self.request) {
            return visit::notice(status, layout::problem(&error.problem));
        }
        visit::html(
            status,
            layout::failed(&self.operator, status, &error.problem),
        )
    }
}
