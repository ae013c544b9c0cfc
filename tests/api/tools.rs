//! Helpers for several modules: commands on the app's data, bytes on a socket, JWT parts.

use std::io::{Read, Write};
use std::net::TcpStream;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::support::{Request, Response, TestApp, WAIT_LIMIT, eventually};

/// A template id that does not exist.
pub const NO_TEMPLATE: &str = "tpl_000000000000";

/// Another project on the same server.
pub struct Other {
    pub project: String,
    pub key: String,
}

/// Runs the program on the running app's data directory.
#[track_caller]
pub fn conclave(app: &TestApp, arguments: &[&str]) -> Value {
    let json = (arguments.first() != Some(&"openapi")).then_some("--json");
    let output = app.program().args(arguments).args(json).output().unwrap();
    assert!(
        output.status.success(),
        "{arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap_or(Value::Null)
}

/// Creates another project with its own key; it has no default template.
pub fn other_project(app: &TestApp, plan: &str) -> Other {
    let made = conclave(
        app,
        &[
            "project", "create", "--name", "Other", "--plan", plan, "--empty",
        ],
    );
    let project = made["project_id"].as_str().unwrap().to_owned();
    let key = conclave(app, &["key", "create", &project])["key"]
        .as_str()
        .unwrap()
        .to_owned();
    Other { project, key }
}

/// Sends raw bytes and reads the response. The request must contain `Connection: close`.
pub fn exchange(app: &TestApp, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(app.api.trim_start_matches("http://")).unwrap();
    stream.set_read_timeout(Some(WAIT_LIMIT)).unwrap();
    // The server may respond and close before it has read everything.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        match stream.read(&mut chunk) {
            Ok(0) | Err(_) => break,
            Ok(read) => answer.extend_from_slice(&chunk[..read]),
        }
    }
    String::from_utf8_lossy(&answer).into_owned()
}

/// Parses a response whose body is not chunked.
#[track_caller]
pub fn parsed(answer: &str) -> Response {
    let (head, body) = answer
        .split_once("\r\n\r\n")
        .unwrap_or_else(|| panic!("no answer: {answer:?}"));
    let mut lines = head.lines();
    let status = lines
        .next()
        .unwrap()
        .split(' ')
        .nth(1)
        .unwrap()
        .parse()
        .unwrap();
    let headers = lines.filter_map(|line| line.split_once(": "));
    let headers = headers
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    Response {
        status,
        headers,
        body: body.into(),
    }
}

/// Returns a part of a JWT as JSON: 0 is the header, 1 the payload.
pub fn jwt(token: &str, part: usize) -> Value {
    let part = token.split('.').nth(part).unwrap();
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
}

/// Encodes JSON as a part of a JWT.
pub fn jwt_part(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode(value.to_string())
}

/// Returns an object's field names, sorted.
pub fn fields(value: &Value) -> Vec<&str> {
    let mut fields: Vec<_> = value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    fields.sort_unstable();
    fields
}

/// Creates a template and returns its id.
#[track_caller]
pub fn template(app: &TestApp, name: &str, roles: &Value) -> String {
    let made = app
        .post("/v1/templates")
        .json(json!({"name": name, "roles": roles}))
        .send()
        .expect(201);
    made["id"].as_str().unwrap().to_owned()
}

/// Creates a room with a template.
#[track_caller]
pub fn room_on(app: &TestApp, name: &str, template: &str) -> Value {
    app.post("/v1/rooms")
        .json(json!({"name": name, "template_id": template}))
        .send()
        .expect(201)
}

/// Returns a response that is not empty. A client that is delayed between its connection and its head gets none, and asks again.
pub fn answered(mut ask: impl FnMut() -> String) -> String {
    let mut answer = String::new();
    eventually(|| {
        answer = ask();
        !answer.is_empty()
    });
    answer
}

/// Bans as many other identities, `also-1` and so on, from a room with one ban, in the same terms.
pub fn repeat_ban(app: &TestApp, room: &str, count: usize) {
    repeat_exclusion(
        app,
        "bans",
        "until, reason, created_at, updated_at",
        room,
        count,
    );
}

/// Revokes the tokens of as many other identities, `also-1` and so on, for a room with one revocation, at the same time.
pub fn repeat_revocation(app: &TestApp, room: &str, count: usize) {
    repeat_exclusion(app, "revocations", "tokens_minted_until", room, count);
}

fn repeat_exclusion(app: &TestApp, table: &str, terms: &str, room: &str, count: usize) {
    let id = app.records().random_id();
    app.records().run(&format!(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})
         INSERT INTO {table} (id, project_id, room_id, room, participant_identity, {terms})
         SELECT {id}, project_id, room_id, room, 'also-' || i, {terms}
         FROM (SELECT * FROM {table} WHERE room = '{room}' LIMIT 1) AS one, n"
    ));
}

/// Returns the id of the default template in the app's project.
pub fn default_template(app: &TestApp) -> String {
    let listed = app.get("/v1/templates").send().expect(200);
    let templates = listed["templates"].as_array().unwrap();
    let default = templates
        .iter()
        .find(|template| template["is_default"] == true)
        .unwrap();
    default["id"].as_str().unwrap().to_owned()
}

/// Reads a list page by page and returns `field` from every row; each page must have the requested size.
#[track_caller]
pub fn walk_pages(
    get: impl Fn(&str) -> Request,
    path: &str,
    collection: &str,
    field: &str,
    limit: usize,
) -> Vec<String> {
    let mut found = Vec::new();
    loop {
        let page = get(&format!("{path}?limit={limit}&offset={}", found.len()))
            .send()
            .expect(200);
        assert_eq!(fields(&page), {
            let mut expected = [collection, "has_more", "limit", "offset"];
            expected.sort_unstable();
            expected
        });
        assert_eq!(
            (&page["limit"], &page["offset"]),
            (&json!(limit), &json!(found.len()))
        );
        let rows = page[collection].as_array().unwrap();
        found.extend(
            rows.iter()
                .map(|row| row[field].as_str().unwrap().to_owned()),
        );
        if page["has_more"] == false {
            return found;
        }
        assert_eq!(rows.len(), limit, "a page with more behind it is full");
    }
}

/// Asserts that each malformed page parameter is refused by name.
#[track_caller]
pub fn refuses_bad_pages(app: &TestApp, path: &str) {
    for (query, field) in [
        ("limit=0", "limit"),
        ("limit=201", "limit"),
        ("limit=-1", "limit"),
        ("limit=ten", "limit"),
        ("limit=", "limit"),
        ("offset=-1", "offset"),
        ("offset=1.5", "offset"),
        ("limit=1&limit=2", "limit"),
        ("colour=red", "colour"),
    ] {
        app.get(&format!("{path}?{query}")).send().expect_error(
            400,
            "invalid_request",
            Some(field),
        );
    }
}

/// Asserts that a response is an error envelope.
#[track_caller]
pub fn assert_envelope(answer: &Response) {
    let body = answer.json();
    let code = body["error"]["code"]
        .as_str()
        .unwrap_or_else(|| panic!("no envelope: {body}"));
    let field = body["error"]["field"].as_str();
    answer.expect_error(answer.status, code, field);
    assert_eq!(answer.headers["content-type"], "application/json");
}
