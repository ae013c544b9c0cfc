//! The app in this process, and its own description as an oracle for requests and responses.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use conclave_model::ErrorCode;
use jsonschema::Validator;
use serde_json::{Value, json};

use crate::support::TestApp;

/// Requests per app instance. The clock stands still, and the tests' rate limit is 100,000.
const REQUESTS_OF_AN_APP: u32 = 90_000;

/// The descriptions, as committed by `tests/api`.
const DESCRIPTIONS: [&str; 2] = [
    include_str!("../../data/openapi.json"),
    include_str!("../../data/openapi-ext.json"),
];

/// Server-wide errors, which no operation lists.
const GLOBAL: [&str; 7] = [
    "origin_rejected",
    "request_timeout",
    "payload_too_large",
    "unsupported_media_type",
    "idempotency_key_reuse",
    "not_found",
    "method_not_allowed",
];

/// An id that no record has.
const UNKNOWN_ID: &str = "0191d2c4-7a54-7cc1-8b59-3f1c5a0e9d21";

/// An operation and its compiled schemas.
pub struct Operation {
    pub id: String,
    pub method: String,
    pub path: String,
    pub example: Option<Value>,
    /// Schema of the body; `None` if the operation has no body.
    body: Option<Validator>,
    /// Schemas of the path parameters, in the order of the path.
    parameters: Vec<Validator>,
    queries: Vec<QueryParameter>,
    /// Schemas of successful responses with a body.
    responses: Vec<(u16, Validator)>,
    codes: Vec<(u16, String)>,
}

struct QueryParameter {
    name: String,
    schema: Validator,
    /// A value that the schema allows.
    sample: String,
}

/// A received response.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    pub is_json: bool,
    pub body: Vec<u8>,
}

/// A running app with rooms, participants, codes and webhook endpoints, and a connection to it.
pub struct Api {
    pub operations: Vec<Operation>,
    pub words: Vec<String>,
    running: Option<Running>,
}

struct Running {
    app: TestApp,
    template: String,
    kept: Fixtures,
    /// For operations that delete something, so that the others find theirs.
    spare: Fixtures,
    connection: Option<BufReader<TcpStream>>,
    requests: u32,
}

/// Records that paths name.
struct Fixtures {
    room: &'static str,
    code: String,
    code_id: String,
    session: String,
    endpoint: String,
}

impl Api {
    /// Reads the descriptions. The app starts at the first request.
    #[must_use]
    pub fn new() -> Self {
        let documents: [Value; 2] =
            DESCRIPTIONS.map(|description| serde_json::from_str(description).unwrap());
        Self {
            operations: documents.iter().flat_map(operations).collect(),
            words: words(&documents),
            running: None,
        }
    }

    /// Returns the operation with an id.
    #[must_use]
    pub fn operation(&self, id: &str) -> Option<&Operation> {
        self.operations.iter().find(|operation| operation.id == id)
    }

    /// Returns the operation of a path without a query.
    fn operation_of(&self, method: &str, path: &str) -> Option<&Operation> {
        let fits = |known: &str| {
            let same = |(known, own): (&str, &str)| {
                if known.starts_with('{') {
                    !own.is_empty()
                } else {
                    known == own
                }
            };
            known.split('/').count() == path.split('/').count()
                && known.split('/').zip(path.split('/')).all(same)
        };
        self.operations
            .iter()
            .find(|operation| operation.method == method && fits(&operation.path))
    }

    /// Returns an operation's path with existing parameters.
    pub fn path(&mut self, operation: &str) -> String {
        let operation = self.operation(operation).unwrap();
        let (path, deletes) = (operation.path.clone(), operation.method == "DELETE");
        self.running().path(&path, deletes)
    }

    fn running(&mut self) -> &mut Running {
        if self
            .running
            .as_ref()
            .is_some_and(|running| running.requests >= REQUESTS_OF_AN_APP)
        {
            self.running = None;
        }
        self.running.get_or_insert_with(Running::start)
    }

    /// Sends a request with a JSON body, and fails unless the description allows the response.
    pub fn send(&mut self, method: &str, target: &[u8], body: &[u8]) -> Response {
        let response = self.running().send(method, target, body);
        let text = String::from_utf8_lossy(target).into_owned();
        let target = text.split('#').next().unwrap();
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        match self.operation_of(method, path) {
            Some(operation) => operation.check((path, query), body, &response),
            None => check_error(&response, |_| true),
        }
        response
    }
}

impl Default for Api {
    fn default() -> Self {
        Self::new()
    }
}

impl Running {
    fn start() -> Self {
        let app = TestApp::start();
        let [kept, spare] = ["standup", "spare"].map(|room| Fixtures::create(&app, room));
        let templates = app.get("/v1/templates").send().expect(200);
        let template = templates["templates"][0]["id"].as_str().unwrap().to_owned();
        Self {
            app,
            template,
            kept,
            spare,
            connection: None,
            requests: 0,
        }
    }

    fn path(&self, path: &str, deletes: bool) -> String {
        let fixtures = if deletes { &self.spare } else { &self.kept };
        let mut before = "";
        let segments = path.split('/').map(|segment| {
            let concrete = match (before, segment.starts_with('{')) {
                (_, false) => segment,
                ("rooms", _) => fixtures.room,
                ("participants", _) => "alice",
                ("bans", _) => "mallory",
                ("roles" | "destinations", _) => "host",
                ("templates", _) => &self.template,
                ("codes", _) if segment == "{id}" => &fixtures.code_id,
                ("codes", _) => &fixtures.code,
                ("sessions", _) => &fixtures.session,
                ("webhook-endpoints", _) => &fixtures.endpoint,
                ("recordings" | "broadcasts" | "ingress", _) => "EG_unknown",
                _ => UNKNOWN_ID,
            };
            before = segment;
            concrete
        });
        segments.collect::<Vec<_>>().join("/")
    }

    /// Sends a request and reads the response. Reconnects if the server has closed the connection.
    fn send(&mut self, method: &str, target: &[u8], body: &[u8]) -> Response {
        self.requests += 1;
        let head = format!(
            " HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n",
            self.app.key,
            body.len()
        );
        let request = [method.as_bytes(), b" ", target, head.as_bytes(), body].concat();
        for _ in 0..2 {
            let is_new = self.connection.is_none();
            match self.exchange(&request) {
                Some(response) => return response,
                None => assert!(
                    !is_new,
                    "no response to {}",
                    String::from_utf8_lossy(&request)
                ),
            }
        }
        panic!("no response to {}", String::from_utf8_lossy(&request));
    }

    /// Sends a request, and returns the response; `None` if the connection ends before it.
    fn exchange(&mut self, request: &[u8]) -> Option<Response> {
        let address = self.app.api.strip_prefix("http://").unwrap();
        let mut connection = self.connection.take().unwrap_or_else(|| connect(address));
        connection.get_mut().write_all(request).ok()?;
        let (response, keeps) = read(&mut connection)?;
        self.connection = keeps.then_some(connection);
        Some(response)
    }
}

impl Fixtures {
    /// Creates a room with a participant, a ban, a code and a session, and a webhook endpoint that is not active.
    fn create(app: &TestApp, room: &'static str) -> Self {
        let text = |value: &Value, name: &str| value[name].as_str().unwrap().to_owned();
        app.post("/v1/rooms")
            .json(json!({"name": room, "empty_timeout_seconds": 86_400}))
            .send()
            .expect(201);
        app.join(room, "alice", "host");
        app.put(&format!("/ext/v1/rooms/{room}/bans/mallory"))
            .send()
            .expect(201);
        let code = app
            .post(&format!("/v1/rooms/{room}/codes"))
            .json(json!({"role": "host"}))
            .send()
            .expect(201);
        let sessions = app
            .get(&format!("/v1/sessions?room={room}"))
            .send()
            .expect(200);
        let endpoint = text(&app.endpoint("http://127.0.0.1:9/hook"), "id");
        // Otherwise each event of the run would be posted.
        app.patch(&format!("/ext/v1/webhook-endpoints/{endpoint}"))
            .json(json!({"active": false}))
            .send()
            .expect(200);
        Self {
            room,
            code: text(&code, "code"),
            code_id: text(&code, "id"),
            session: text(&sessions["sessions"][0], "id"),
            endpoint,
        }
    }
}

fn connect(address: &str) -> BufReader<TcpStream> {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    BufReader::new(stream)
}

/// Reads a response, and whether the connection stays open.
fn read(connection: &mut BufReader<TcpStream>) -> Option<(Response, bool)> {
    let mut line = String::new();
    connection
        .read_line(&mut line)
        .ok()
        .filter(|length| *length > 0)?;
    let status = line
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok())
        .expect("a status line");
    let (mut length, mut is_json, mut keeps) = (0, false, true);
    loop {
        line.clear();
        connection
            .read_line(&mut line)
            .ok()
            .filter(|length| *length > 0)?;
        let header = line.trim_end().to_ascii_lowercase();
        let Some((name, value)) = header.split_once(": ") else {
            break;
        };
        match name {
            "content-length" => length = value.parse().unwrap(),
            "content-type" => is_json = value.starts_with("application/json"),
            "connection" => keeps = value != "close",
            "transfer-encoding" => panic!("no response of the API is chunked"),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    connection.read_exact(&mut body).ok()?;
    Some((
        Response {
            status,
            is_json,
            body,
        },
        keeps,
    ))
}

impl Response {
    /// Returns the body as JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    fn text(&self) -> String {
        format!("{} {}", self.status, String::from_utf8_lossy(&self.body))
    }
}

impl Operation {
    /// Returns the query parameters with samples, such as `limit=1`.
    pub fn queries(&self) -> impl Iterator<Item = String> {
        self.queries
            .iter()
            .map(|parameter| format!("{}={}", parameter.name, parameter.sample))
    }

    /// Fails unless the description allows the response and the accepted request.
    fn check(&self, (path, query): (&str, &str), body: &[u8], response: &Response) {
        if response.status >= 300 {
            let listed = |code: &str| {
                self.codes
                    .iter()
                    .any(|known| (known.0, known.1.as_str()) == (response.status, code))
            };
            return check_error(response, listed);
        }
        let values = self
            .path
            .split('/')
            .zip(path.split('/'))
            .filter(|(known, _)| known.starts_with('{'));
        for ((name, value), schema) in values.zip(&self.parameters) {
            let value = percent_encoding::percent_decode_str(value).decode_utf8_lossy();
            assert!(
                schema.is_valid(&json!(value)),
                "{} accepts {value:?} as {name}",
                self.id
            );
        }
        for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
            // Operations that refuse no input ignore other parameters, too.
            let known = self.queries.iter().find(|known| known.name == name);
            assert!(
                known.is_none_or(|known| known.allows(&value)),
                "{} accepts {value:?} as {name}",
                self.id
            );
        }
        if let Some(schema) = &self.body {
            let accepted = if body.trim_ascii().is_empty() {
                json!({})
            } else {
                serde_json::from_slice(body).unwrap()
            };
            let errors: Vec<_> = schema
                .iter_errors(&accepted)
                .map(|error| error.to_string())
                .collect();
            assert!(
                errors.is_empty(),
                "{} accepts {accepted}, which its schema does not: {errors:#?}",
                self.id
            );
        }
        if let Some((_, schema)) = self
            .responses
            .iter()
            .find(|(status, _)| *status == response.status)
        {
            let errors: Vec<_> = schema
                .iter_errors(&response.json())
                .map(|error| error.to_string())
                .collect();
            assert!(
                errors.is_empty(),
                "{} answers {}: {errors:#?}",
                self.id,
                response.text()
            );
        } else {
            assert!(
                response.body.is_empty(),
                "{} answers {}",
                self.id,
                response.text()
            );
        }
    }
}

impl QueryParameter {
    fn new(document: &Value, described: &Value) -> Self {
        let name = described["name"].as_str().unwrap();
        Self {
            name: name.to_owned(),
            schema: validator(document, &described["schema"]),
            sample: sample(name, &described["schema"]),
        }
    }

    /// Returns whether the schema allows a text as one of the types that a query can have.
    fn allows(&self, text: &str) -> bool {
        let number = text.parse::<u64>().ok().map(|number| json!(number));
        let boolean = text.parse::<bool>().ok().map(|boolean| json!(boolean));
        [Some(json!(text)), number, boolean]
            .iter()
            .flatten()
            .any(|value| self.schema.is_valid(value))
    }
}

/// Returns a value for a query parameter.
fn sample(name: &str, schema: &Value) -> String {
    // An optional parameter is described as itself or null.
    let schema = schema["oneOf"].get(0usize).unwrap_or(schema);
    let kind = schema["type"].to_string();
    let sample = match (schema["format"].as_str(), name) {
        (Some("date-time"), _) => "2026-01-31T12:00:00.000Z",
        (Some("date"), _) => "2026-01-31",
        (Some("uuid"), _) => UNKNOWN_ID,
        (_, "identity") => "alice",
        (_, "role") => "host",
        _ if kind.contains("integer") => "1",
        _ if kind.contains("boolean") => "true",
        _ => schema["enum"][0].as_str().unwrap_or("standup"),
    };
    sample.to_owned()
}

/// Fails unless an unsuccessful response has the error envelope, with a listed or global code of its status.
fn check_error(response: &Response, is_listed: impl Fn(&str) -> bool) {
    assert!(response.status < 500, "{}", response.text());
    if response.status < 400 || !response.is_json {
        // Malformed HTTP has no operation and no envelope; /openapi.json and similar paths are not operations.
        assert!(
            response.status < 300 || response.body.is_empty(),
            "{}",
            response.text()
        );
        return;
    }
    let body = response.json();
    let code = body["error"]["code"]
        .as_str()
        .unwrap_or_else(|| panic!("{}", response.text()));
    let known: ErrorCode = code
        .parse()
        .unwrap_or_else(|_| panic!("{}", response.text()));
    assert_eq!(known.status(), response.status, "{}", response.text());
    assert!(
        body["error"]["message"]
            .as_str()
            .is_some_and(|message| !message.is_empty()),
        "{}",
        response.text()
    );
    assert!(
        is_listed(code) || GLOBAL.contains(&code),
        "not described: {}",
        response.text()
    );
}

fn operations(document: &Value) -> Vec<Operation> {
    let paths = document["paths"].as_object().unwrap();
    let described = paths.iter().flat_map(|(path, methods)| {
        methods
            .as_object()
            .unwrap()
            .iter()
            .map(move |(method, described)| (path, method, described))
    });
    let operation = |(path, method, described): (&String, &String, &Value)| {
        let content = |of: &Value| of["content"]["application/json"].clone();
        let responses = described["responses"].as_object().unwrap();
        let responses: Vec<(u16, &Value)> = responses
            .iter()
            .map(|(status, of)| (status.parse().unwrap(), of))
            .collect();
        let codes = responses.iter().flat_map(|(status, of)| {
            let codes = [&of["x-error-codes"], &of["x-extension-codes"]["codes"]];
            let codes = codes.into_iter().filter_map(Value::as_array).flatten();
            codes.map(|code| (*status, code.as_str().unwrap().to_owned()))
        });
        let bodies = responses
            .iter()
            .filter(|(status, of)| *status < 300 && of["content"].is_object());
        let parameter = |segment: &str| {
            let name = segment.strip_prefix('{')?.strip_suffix('}')?;
            let parameters = described["parameters"].as_array()?;
            let schema = &parameters
                .iter()
                .find(|known| known["in"] == "path" && known["name"] == name)?["schema"];
            Some(validator(document, schema))
        };
        let queries = described["parameters"].as_array().into_iter().flatten();
        let queries = queries.filter(|known| known["in"] == "query");
        Operation {
            id: described["operationId"].as_str().unwrap().to_owned(),
            method: method.to_ascii_uppercase(),
            path: path.clone(),
            example: described
                .pointer("/requestBody/content/application~1json/example")
                .cloned(),
            body: described
                .get("requestBody")
                .map(|body| validator(document, &content(body)["schema"])),
            parameters: path.split('/').filter_map(parameter).collect(),
            queries: queries
                .map(|known| QueryParameter::new(document, known))
                .collect(),
            responses: bodies
                .map(|(status, of)| (*status, validator(document, &content(of)["schema"])))
                .collect(),
            codes: codes.collect(),
        }
    };
    described.map(operation).collect()
}

/// Compiles a schema of the document, with the components that it refers to.
fn validator(document: &Value, schema: &Value) -> Validator {
    let schema = json!({"allOf": [schema], "components": document["components"]});
    jsonschema::draft202012::new(&schema).unwrap()
}

/// Returns all field names and enumeration values.
fn words(documents: &[Value]) -> Vec<String> {
    let mut words = BTreeSet::from(
        [
            "standup",
            "alice",
            "host",
            "abc",
            "http://127.0.0.1:9/a",
            "rtmp://127.0.0.1/a/b",
        ]
        .map(str::to_owned),
    );
    for document in documents {
        collect_words(&document["components"]["schemas"], &mut words);
        // Parameters, and schemas that an operation states itself.
        collect_words(&document["paths"], &mut words);
    }
    words.into_iter().collect()
}

fn collect_words(schema: &Value, words: &mut BTreeSet<String>) {
    words.extend(
        schema["properties"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, _)| name.clone()),
    );
    words.extend(
        schema["enum"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|word| word.as_str().map(str::to_owned)),
    );
    match schema {
        Value::Object(fields) => fields
            .values()
            .for_each(|field| collect_words(field, words)),
        Value::Array(items) => items.iter().for_each(|item| collect_words(item, words)),
        _ => {}
    }
}
