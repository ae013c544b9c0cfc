//! The console: pages and forms, from a browser without scripts.

mod access;
mod actions;
mod actors;
mod crawl;
mod destinations;
mod escaping;
mod lists;
mod recordings;
mod server;

use conclave_model::Secret;

use crate::support::{Request, Response, TestApp};

const TOKEN: &str = "let-me-in-please";

/// Starts an app whose console requires a token.
fn app_with_token() -> TestApp {
    TestApp::start_with(|config| config.admin.token = Some(Secret::new(TOKEN)))
}

/// A browser without scripts.
pub struct Browser<'a> {
    app: &'a TestApp,
    cookie: String,
}

impl<'a> Browser<'a> {
    /// Creates a browser without a session.
    pub fn new(app: &'a TestApp) -> Self {
        Self {
            app,
            cookie: String::new(),
        }
    }

    /// Creates a browser with a signed-in operator.
    #[track_caller]
    pub fn signed_in(app: &'a TestApp) -> Self {
        let mut browser = Self::new(app);
        let answer = browser.sign_in(TOKEN);
        assert_eq!(answer.status, 303, "{}", answer.text());
        browser.cookie = cookie_of(&answer).split(';').next().unwrap().to_owned();
        browser
    }

    /// Submits the sign-in form.
    #[track_caller]
    pub fn sign_in(&self, token: &str) -> Response {
        let page = self.open("/sign-in");
        self.request("POST", "/sign-in")
            .form(&[("csrf", &csrf(&page)), ("token", token)])
            .send()
    }

    /// Returns a request with the session's cookie, without a bearer token.
    pub fn request(&self, method: &str, path: &str) -> Request {
        let request = Request::new(method, format!("{}{path}", self.app.admin));
        if self.cookie.is_empty() {
            request
        } else {
            request.header("cookie", &self.cookie)
        }
    }

    /// Opens a page.
    pub fn open(&self, path: &str) -> Response {
        self.request("GET", path).send()
    }

    /// Opens a page, which must exist, and returns its text.
    #[track_caller]
    pub fn page(&self, path: &str) -> String {
        let answer = self.open(path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        answer.text()
    }

    /// Submits a form with the session's token.
    #[track_caller]
    pub fn send(&self, path: &str, fields: &[(&str, &str)]) -> Response {
        let token = csrf(&self.open("/projects"));
        let mut all = vec![("csrf", token.as_str())];
        all.extend(fields);
        self.request("POST", path).form(&all).send()
    }

    /// Submits a form whose action must succeed, and returns the next page.
    #[track_caller]
    pub fn act(&self, path: &str, fields: &[(&str, &str)]) -> String {
        let answer = self.send(path, fields);
        match answer.status {
            200 => answer.text(),
            303 => self.page(&answer.headers["location"]),
            other => panic!("{path}: {other} {}", answer.text()),
        }
    }
}

/// Returns the token in the first form on a page.
#[track_caller]
fn csrf(page: &Response) -> String {
    let text = page.text();
    let (_, rest) = text
        .split_once("name=\"csrf\" value=\"")
        .unwrap_or_else(|| panic!("no form: {text}"));
    rest.split('"').next().unwrap().to_owned()
}

/// Returns the cookie in a response.
#[track_caller]
fn cookie_of(answer: &Response) -> String {
    answer.headers.get("set-cookie").expect("a cookie").clone()
}

/// Returns the text in the element after `<code id="secret">`.
#[track_caller]
fn secret(page: &str) -> String {
    let (_, rest) = page.split_once("id=\"secret\">").expect("a secret");
    rest.split('<').next().unwrap().to_owned()
}
