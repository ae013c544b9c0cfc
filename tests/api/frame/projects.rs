//! Project isolation: for a project's key, other projects' resources do not exist.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::contract::every_operation;
use crate::support::{Receiver, TestApp, eventually};
use crate::tools::{default_template, other_project};

/// The first project's resources, by path parameter.
struct Things {
    template: String,
    session: String,
    endpoint: String,
    delivery: String,
    ingress: String,
    code: String,
}

fn things(app: &TestApp) -> Things {
    let receiver = Receiver::start();
    let endpoint = app.endpoint(&receiver.url);
    app.room("standup");
    app.join("standup", "alice", "host");
    let mut delivery = Value::Null;
    eventually(|| {
        delivery =
            app.get("/v1/webhook-deliveries").send().json()["webhook_deliveries"][0]["id"].clone();
        delivery.is_string()
    });
    let session = app.get("/v1/sessions").send().json()["sessions"][0]["id"].clone();
    let code = app
        .post("/v1/rooms/standup/codes")
        .json(json!({"role": "guest"}))
        .send()
        .expect(201);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    Things {
        template: default_template(app),
        session: text(&session),
        endpoint: text(&endpoint["id"]),
        delivery: text(&delivery),
        ingress: text(&app.ingress("standup", "encoder")["ingress_id"]),
        code: text(&code["id"]),
    }
}

impl Things {
    fn of(&self, before: &str, name: &str) -> String {
        match (before, name) {
            ("rooms", _) => "standup".into(),
            ("roles", _) => "host".into(),
            ("participants" | "identities", _) => "alice".into(),
            ("templates", _) => self.template.clone(),
            ("sessions", _) => self.session.clone(),
            ("webhook-endpoints", _) => self.endpoint.clone(),
            ("webhook-deliveries", _) => self.delivery.clone(),
            ("ingress", _) => self.ingress.clone(),
            ("codes", "id") => self.code.clone(),
            _ => "unknown".into(),
        }
    }
}

/// Returns the responses of all reads of the first project.
fn everything(app: &TestApp, things: &Things) -> Vec<Value> {
    let lists = [
        "/v1/rooms",
        "/v1/templates",
        "/v1/sessions",
        "/v1/ingress",
        "/v1/webhook-endpoints",
    ];
    let mut seen: Vec<Value> = lists
        .iter()
        .map(|path| app.get(path).send().expect(200))
        .collect();
    seen.push(
        app.get(&format!("/v1/sessions/{}", things.session))
            .send()
            .expect(200),
    );
    for below in ["participants", "codes"] {
        seen.push(
            app.get(&format!("/v1/rooms/standup/{below}"))
                .send()
                .expect(200),
        );
    }
    seen
}

/// Proves S-60.
#[test]
fn every_operation_on_another_projects_resource_is_404_and_changes_nothing() {
    let app = TestApp::start();
    let things = things(&app);
    let other = other_project(&app, "self_hosted");
    let before = everything(&app, &things);
    let mut refused = 0;
    for operation in every_operation(&app) {
        if !operation.path.contains('{') {
            continue;
        }
        let path = operation.concrete(|before, name| things.of(before, name));
        let mut request = app.request(&operation.method, &path).bearer(&other.key);
        if let Some(example) = operation.example() {
            request = request.json(example.clone());
        }
        let answer = request.send();
        // An identity is a name that any project may use: this project has none of its rows.
        if operation.id() == "erase_identity" {
            let changed = answer.expect(200)["changed"].clone();
            let mut counts = changed.as_object().unwrap().values();
            assert!(counts.all(|count| *count == 0), "{changed}");
            continue;
        }
        let code = answer.json()["error"]["code"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        assert!(
            answer.status == 404 && code.ends_with("_not_found"),
            "{}: {}",
            operation.id(),
            answer.text()
        );
        refused += 1;
    }
    assert!(refused >= 15, "{refused}");
    assert_eq!(everything(&app, &things), before);
}

/// Returns the responses of all read-only operations without path parameters, by operation id.
fn reads(app: &TestApp, key: &str) -> BTreeMap<String, Value> {
    let operations = every_operation(app);
    let reads = operations
        .iter()
        .filter(|operation| operation.method == "GET" && !operation.path.contains('{'));
    reads
        .map(|read| {
            (
                read.id().to_owned(),
                app.get(&read.path).bearer(key).send().expect(200),
            )
        })
        .collect()
}

/// Proves S-60.
#[test]
fn reads_show_nothing_of_another_project() {
    let app = TestApp::start();
    let other = other_project(&app, "self_hosted");
    let before = reads(&app, &other.key);
    things(&app);
    let after = reads(&app, &other.key);
    for (id, answer) in &after {
        if answer.get("has_more").is_some() {
            let rows = answer
                .as_object()
                .unwrap()
                .values()
                .find_map(Value::as_array);
            assert!(rows.is_some_and(Vec::is_empty), "{id}: {answer}");
        }
    }
    assert_eq!(after, before);
    assert_eq!(
        (
            &after["get_plan"]["active_rooms"],
            &after["get_usage"]["plan"]["active_rooms"]
        ),
        (&json!(0), &json!(0))
    );
    let page = app
        .get("/v1/sessions?room=standup")
        .bearer(&other.key)
        .send()
        .expect(200);
    assert_eq!(page["sessions"], json!([]));
}

#[test]
fn a_body_cannot_name_another_projects_resource_either() {
    let app = TestApp::start();
    let things = things(&app);
    let other = other_project(&app, "self_hosted");
    let post = |path: &str, body: Value| app.post(path).bearer(&other.key).json(body).send();
    post("/v1/tokens", json!({"room": "standup", "identity": "eve"})).expect_error(
        404,
        "room_not_found",
        None,
    );
    let body = json!({"name": "mine", "template_id": things.template});
    post("/v1/rooms", body).expect_error(404, "template_not_found", Some("template_id"));
    post("/v1/rooms", json!({"name": "standup"})).expect(201);
}
