//! A small HTTP client with assertions on responses.

use std::collections::BTreeMap;

use serde_json::Value;

use super::WAIT_LIMIT;

/// A request under construction.
#[derive(Clone)]
pub struct Request {
    method: String,
    url: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

/// A response.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

impl Request {
    pub fn new(method: &str, url: String) -> Self {
        Self {
            method: method.into(),
            url,
            headers: Vec::new(),
            body: Vec::new(),
        }
    }

    /// Replaces `part` of the URL with `value`.
    pub fn with_path_part(mut self, part: &str, value: &str) -> Self {
        self.url = self.url.replace(part, value);
        self
    }

    /// Adds a header, replacing one of the same name.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self = self.without(name);
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Removes a header.
    pub fn without(mut self, name: &str) -> Self {
        self.headers
            .retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self
    }

    pub fn bearer(self, credential: &str) -> Self {
        self.header("authorization", &format!("Bearer {credential}"))
    }

    /// Removes the credential.
    pub fn anonymous(self) -> Self {
        self.without("authorization")
    }

    pub fn idempotency_key(self, key: &str) -> Self {
        self.header("idempotency-key", key)
    }

    #[allow(clippy::needless_pass_by_value)] // Reads better at the call: .json(json!({..})).
    pub fn json(self, body: Value) -> Self {
        self.raw(body.to_string())
    }

    /// Sets any body, with JSON's media type.
    pub fn raw(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self.header("content-type", "application/json")
    }

    /// Sets form fields as the body.
    pub fn form(mut self, fields: &[(&str, &str)]) -> Self {
        let mut text = url::form_urlencoded::Serializer::new(String::new());
        self.body = text.extend_pairs(fields).finish().into_bytes();
        self.header("content-type", "application/x-www-form-urlencoded")
    }

    #[track_caller]
    pub fn send(self) -> Response {
        self.try_send().expect("an answer")
    }

    /// Sends the request; `None` if the server is gone. Fails if the call hangs.
    #[track_caller]
    pub fn try_send(self) -> Option<Response> {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0);
        let agent: ureq::Agent = config.timeout_global(Some(WAIT_LIMIT)).build().into();
        let mut request = ureq::http::Request::builder()
            .method(self.method.as_str())
            .uri(&self.url);
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let request = request.body(self.body).expect("a request that can be sent");
        let config = agent
            .configure_request(request)
            .allow_non_standard_methods(true)
            .build();
        let mut response = match agent.run(config) {
            Err(error @ ureq::Error::Timeout(_)) => panic!("a call hangs: {error}"),
            answer => answer.ok()?,
        };
        let headers = response.headers().iter();
        let headers = headers
            .map(|(name, value)| (name.to_string(), value.to_str().unwrap_or("").to_owned()));
        Some(Response {
            status: response.status().as_u16(),
            headers: headers.collect(),
            body: response.body_mut().read_to_vec().ok()?,
        })
    }
}

impl Response {
    /// Returns the body as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("no JSON ({error}): {self:?}"))
    }

    /// Returns the body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Returns the body. Fails unless the status is the expected one.
    #[track_caller]
    pub fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        self.json()
    }

    /// Fails unless the status is the expected one and the body is empty.
    #[track_caller]
    pub fn expect_empty(&self, status: u16) {
        assert_eq!((self.status, self.text().as_str()), (status, ""));
    }

    /// Fails unless the body is the error envelope with this code and field, a message, and nothing else.
    #[track_caller]
    pub fn expect_error(&self, status: u16, code: &str, field: Option<&str>) {
        let body = self.json();
        let error = &body["error"];
        let seen = (
            self.status,
            error["code"].as_str().unwrap_or("none"),
            error["field"].as_str(),
        );
        assert_eq!(seen, (status, code, field), "{body}");
        assert!(
            error["message"]
                .as_str()
                .is_some_and(|message| !message.is_empty()),
            "{body}"
        );
        let keys: Vec<_> = error.as_object().unwrap().keys().collect();
        assert!(
            keys.iter()
                .all(|key| ["code", "message", "field"].contains(&key.as_str())),
            "{body}"
        );
        assert_eq!(body.as_object().unwrap().len(), 1, "{body}");
    }
}
