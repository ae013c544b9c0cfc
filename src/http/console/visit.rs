//! One request to the console, with its operator, and the possible responses.
//!
//! [`OperatorCall`] calls an API operation for the operator: the same checks and handlers, without HTTP and JSON responses.

use std::borrow::Cow;
use std::sync::Arc;

use actix_web::http::StatusCode;
use actix_web::http::header::{
    CACHE_CONTROL, ContentType, HeaderName, HeaderValue, LOCATION, REFERRER_POLICY,
};
use actix_web::web::Bytes;
use actix_web::{HttpRequest, HttpResponse};
use conclave_model::project::Project;
use conclave_model::{ErrorCode, Problem, ProjectId};
use maud::Markup;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use url::form_urlencoded::{self, Serializer};

use super::POLICY;
use crate::http::admin::access::Operator;
use crate::http::api::context::{Caller, RequestContext, RequestParts};
use crate::http::api::error::ApiError;
use crate::http::api::input::FromRequest;
use crate::http::api::input::parameters::{RequestSource, segment};
use crate::http::api::operation::{Declaration, Handler, Operation};
use crate::http::api::routes;
use crate::http::api::spec::Method;
use crate::http::resource::page_response;
use crate::http::state::AppState;

/// Query parameter for the rows to skip in a page's main list.
pub const OFFSET: &str = "offset";
/// Query parameter for the note of the action that led to the page.
pub const NOTE: &str = "note";
/// Header that htmx sends with each request.
const HX_REQUEST: &str = "hx-request";
/// Response headers that control where htmx puts the response.
const HX_REDIRECT: HeaderName = HeaderName::from_static("hx-redirect");
const HX_RETARGET: HeaderName = HeaderName::from_static("hx-retarget");
const HX_RESWAP: HeaderName = HeaderName::from_static("hx-reswap");
const HX_RESELECT: HeaderName = HeaderName::from_static("hx-reselect");

/// Handler result.
pub type PageResult = Result<HttpResponse, ApiError>;

/// Request by an operator.
pub struct Visit {
    /// The server's shared state.
    pub state: Arc<AppState>,
    /// Routed request.
    pub request: HttpRequest,
    /// Operator who is signed in.
    pub operator: Operator,
    /// Form fields, in order.
    pub form: Vec<(String, String)>,
}

impl Visit {
    /// Returns the WebSocket URL at which the operator's browser reaches the media plane, if it depends on the request.
    pub fn derived_media_url(&self) -> Option<String> {
        self.state
            .media_url
            .derived_on_port(&self.request, self.state.api.port)
    }

    /// Returns the WebSocket URL at which the operator's browser reaches the media plane.
    pub fn media_url(&self) -> Arc<str> {
        self.state.media_url.or_fixed(self.derived_media_url())
    }

    /// Returns a path parameter.
    pub fn param(&self, name: &str) -> String {
        segment(&self.request, name)
    }

    /// Returns a query parameter; `None` if it is absent or blank.
    pub fn query(&self, name: &str) -> Option<String> {
        let mut pairs = form_urlencoded::parse(self.request.query_string().as_bytes());
        let found = pairs
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.trim().to_owned());
        found.filter(|value| !value.is_empty())
    }

    /// Returns how many rows of the page's main list to skip.
    pub fn offset(&self) -> u64 {
        self.offset_in(OFFSET)
    }

    /// Returns how many rows to skip in the list with this query parameter.
    pub fn offset_in(&self, parameter: &str) -> u64 {
        let offset = self
            .query(parameter)
            .and_then(|text| text.parse().ok())
            .unwrap_or(0);
        // Clamped, so that a URL by hand shows an empty page instead of an error.
        u64::min(offset, conclave_model::page::PageRequest::MAX_OFFSET)
    }

    /// Returns a form field without surrounding white space; empty if it is absent.
    // Trimmed, because pasted values often end with a space.
    pub fn field(&self, name: &str) -> &str {
        self.form
            .iter()
            .find(|(key, _)| key == name)
            .map_or("", |(_, value)| value.trim())
    }

    /// Returns a form field; `None` if it is absent or blank.
    pub fn optional(&self, name: &str) -> Option<&str> {
        Some(self.field(name)).filter(|value| !value.is_empty())
    }

    /// Returns a form field as a number; `None` if it is absent or blank.
    ///
    /// # Errors
    /// 400 if the text is not a whole number.
    pub fn number(&self, name: &'static str) -> Result<Option<i64>, Problem> {
        let parse = |text: &str| {
            text.parse()
                .map_err(|_| Problem::invalid(name, "must be a whole number"))
        };
        self.optional(name).map(parse).transpose()
    }

    /// Returns whether the form has a field, as for a ticked checkbox.
    pub fn has(&self, name: &str) -> bool {
        self.form.iter().any(|(key, _)| key == name)
    }

    /// Returns the project id in the path.
    ///
    /// # Errors
    /// 404 if it is not a valid id.
    pub fn project_id(&self) -> Result<ProjectId, Problem> {
        // 404 as for an unknown project.
        self.param("project").parse().map_err(|_| no_such_project())
    }

    /// Reads the project in the path.
    ///
    /// # Errors
    /// 404 if it does not exist.
    pub async fn project(&self) -> Result<Project, ApiError> {
        let found = self.state.store.projects().get(self.project_id()?).await?;
        Ok(found.ok_or_else(no_such_project)?)
    }

    /// Returns whether htmx sent the request, so that the response replaces a part of the open page.
    pub fn is_partial(&self) -> bool {
        is_partial(&self.request)
    }

    /// Responds to a completed action: the browser loads `path`, with the named note.
    pub fn done(&self, path: &str, note: &'static str) -> HttpResponse {
        // A redirect, so that reloading the page does not repeat the action.
        redirect(&self.request, &format!("{path}?{NOTE}={note}"))
    }

    /// Responds with a page.
    pub fn show(&self, page: Markup) -> HttpResponse {
        let mut response = html(StatusCode::OK, page);
        // The form's target is the notice; a whole page in response must replace the open page instead.
        if self.is_partial() && self.request.method() == actix_web::http::Method::POST {
            for (name, value) in [
                (HX_RETARGET, "#page"),
                (HX_RESELECT, "#page"),
                (HX_RESWAP, "outerHTML show:top"),
            ] {
                response
                    .headers_mut()
                    .insert(name, HeaderValue::from_static(value));
            }
        }
        response
    }
}

fn no_such_project() -> Problem {
    Problem::new(ErrorCode::NotFound, "no project by that id")
}

/// Returns whether htmx sent a request.
pub fn is_partial(request: &HttpRequest) -> bool {
    request.headers().contains_key(HX_REQUEST)
}

/// Redirects the browser to another page.
pub fn redirect(request: &HttpRequest, to: &str) -> HttpResponse {
    // `XMLHttpRequest` would follow a 303 itself, and htmx would put the target into the open page.
    if is_partial(request) {
        return HttpResponse::Ok().insert_header((HX_REDIRECT, to)).finish();
    }
    // 303 turns the POST into a GET (RFC 9110, section 15.4.4).
    HttpResponse::SeeOther()
        .insert_header((LOCATION, to))
        .insert_header((CACHE_CONTROL, "no-store"))
        .finish()
}

/// Returns a page as a response that is not cached.
pub fn html(status: StatusCode, page: Markup) -> HttpResponse {
    let mut response = page_response(POLICY);
    response
        .status(status)
        .content_type(ContentType::html())
        // Pages show data of customers, and may contain form tokens.
        .insert_header((CACHE_CONTROL, "no-store"));
    // With `no-referrer`, browsers send forms with `Origin: null`, which the origin check refuses.
    response.insert_header((REFERRER_POLICY, "same-origin"));
    response.body(page.into_string())
}

/// Returns a problem, to be shown above the open page.
pub fn notice(status: StatusCode, notice: Markup) -> HttpResponse {
    let mut response = html(status, notice);
    for (name, value) in [
        (HX_RETARGET, "#notice"),
        (HX_RESWAP, "innerHTML show:window:top"),
    ] {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Returns a page's path with its query, which has filters and positions in lists, and with a changed parameter. An action's note is left out,
/// since it would be shown again.
pub fn page_path(request: &HttpRequest, changed: Option<(&str, &str)>) -> String {
    let sent = form_urlencoded::parse(request.query_string().as_bytes());
    let is_kept = |name: &str| name != NOTE && changed.is_none_or(|(other, _)| name != other);
    let mut query = Serializer::new(String::new());
    query.extend_pairs(sent.filter(|(name, _)| is_kept(name)));
    query.extend_pairs(changed);
    let query = query.finish();
    if query.is_empty() {
        request.path().to_owned()
    } else {
        format!("{}?{query}", request.path())
    }
}

/// Characters that are escaped in a path segment.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// Encodes a text as a path segment. Browsers resolve `.` and `..` as path steps even if encoded, so these are encoded twice: the
/// server then finds nothing by that name.
pub fn encoded(segment: &str) -> Cow<'_, str> {
    match segment {
        "." => "%252E".into(),
        ".." => "%252E%252E".into(),
        segment => utf8_percent_encode(segment, ENCODED).into(),
    }
}

/// Builder for an operation call.
pub struct OperatorCall<H: 'static, I: 'static> {
    state: Arc<AppState>,
    operation: Option<&'static Declaration<H, I>>,
    project: ProjectId,
    path: Vec<(&'static str, String)>,
    query: Serializer<'static, String>,
    /// JSON text.
    body: Option<String>,
    media_url: Option<String>,
}

impl Visit {
    /// Starts a call of the operation with this handler, for a project.
    pub fn call<H: Handler<I>, I: FromRequest>(
        &self,
        _: H,
        project: &ProjectId,
    ) -> OperatorCall<H, I> {
        let mut operations = routes::operations();
        OperatorCall {
            state: Arc::clone(&self.state),
            // By type: a handler belongs to one operation.
            operation: operations.find_map(|known| known.typed()),
            project: project.clone(),
            path: Vec::new(),
            query: Serializer::new(String::new()),
            body: None,
            media_url: self.derived_media_url(),
        }
    }
}

impl<H: Handler<I>, I: FromRequest> OperatorCall<H, I> {
    /// Sets a path parameter.
    pub fn path(mut self, name: &'static str, value: &str) -> Self {
        self.path.push((name, value.to_owned()));
        self
    }

    /// Sets a query parameter if `value` is set.
    pub fn query(mut self, name: &str, value: Option<&str>) -> Self {
        if let Some(value) = value {
            self.query.append_pair(name, value);
        }
        self
    }

    /// Sets `limit` and `offset`.
    pub fn page(self, limit: u32, offset: u64) -> Self {
        self.query("limit", Some(&limit.to_string()))
            .query("offset", Some(&offset.to_string()))
    }

    /// Sets the body.
    pub fn body(self, body: Value) -> Self {
        self.body_text(body.to_string())
    }

    /// Sets the body as JSON text, for values that [`Value`] cannot represent.
    pub fn body_text(mut self, body: String) -> Self {
        self.body = Some(body);
        self
    }

    /// Runs the operation and returns its handler's result. A change is logged, and completes even if the browser disconnects.
    ///
    /// # Errors
    /// The operation's errors.
    pub async fn send(mut self) -> Result<H::Success, ApiError> {
        // Impossible while every called handler is in the table of operations.
        let unknown = || ApiError::internal("the console calls a handler without an operation");
        let operation = self.operation.ok_or_else(unknown)?;
        let spec = operation.spec();
        let context = RequestContext::new(RequestParts {
            spec,
            state: self.state,
            caller: Caller::Operator(self.project.clone()),
            source: RequestSource::Console {
                path: self.path,
                query: self.query.finish(),
                media_url: self.media_url,
            },
            // Through JSON, so that the same parser and checks apply as for a client.
            body: self.body.map_or_else(Bytes::new, Bytes::from),
            // Without a key: no program repeats an operator's click.
            record: None,
            owner: None,
        });
        // A read may end with its request.
        if spec.method == Method::Get {
            return Box::pin(operation.call(context)).await;
        }
        let success = actix_web::rt::spawn(operation.call(context)).await??;
        log_change(spec.id, &self.project);
        Ok(success)
    }
}

/// Logs a change by an operator.
pub fn log_change(change: &str, project: &ProjectId) {
    log::info!(caller = "operator", operation = change, project_id = project.as_str(); "changed in the console");
}

#[cfg(test)]
mod tests {
    use url::Url;

    use super::*;

    /// Proves S-48.
    #[test]
    fn no_page_sends_a_step_in_a_path() {
        for segment in [".", "..", "a/b", "a b", "%2e%2e", "é", "a.b", "..."] {
            let path = format!("/rooms/a/participants/{}/remove", encoded(segment));
            let sent = Url::parse("http://h").unwrap().join(&path).unwrap();
            assert_eq!(sent.path(), path, "{segment}");
            assert_eq!(sent.path_segments().unwrap().count(), 5, "{segment}");
        }
        assert_eq!(
            (encoded("a.b"), encoded("a/b")),
            ("a.b".into(), "a%2Fb".into())
        );
    }
}
