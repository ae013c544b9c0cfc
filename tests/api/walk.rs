//! Every operation under every kind of bad request: never a fault of the server, always the envelope, and only answers
//! that the description names.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

use crate::contract::{Described, described, fits, row, takes_null};
use crate::support::{Receiver, Request, Response, TestApp};
use crate::tools::{assert_envelope, default_template};

/// Refusals that any operation can give without naming them (the description's preamble says so).
const GLOBAL: [(u16, &str); 4] = [
    (403, "origin_rejected"),
    (413, "payload_too_large"),
    (415, "unsupported_media_type"),
    (409, "idempotency_key_reuse"),
];

struct Walk {
    app: TestApp,
    template: String,
    operations: Vec<Described>,
}

impl Walk {
    /// An app with a room and somebody in it.
    fn start() -> Self {
        let app = TestApp::start();
        app.post("/v1/rooms").json(json!({"name": "standup", "empty_timeout_seconds": 86_400})).send().expect(201);
        app.join("standup", "alice", "host");
        let operations = described(&app.get("/openapi.json").send().expect(200));
        Self { template: default_template(&app), operations, app }
    }

    /// A path whose every part is well formed.
    fn path(&self, operation: &Described) -> String {
        operation.concrete(|before, name| match (before, name) {
            ("rooms", _) => "standup".into(),
            ("participants", _) => "alice".into(),
            ("roles" | "destinations", _) => "host".into(),
            ("templates", _) => self.template.clone(),
            ("recordings" | "broadcasts" | "ingress", _) => "EG_unknown".into(),
            ("codes", _) => "abcd-efgh-jkmn".into(),
            _ => "0191d2c4-7a54-7cc1-8b59-3f1c5a0e9d21".into(),
        })
    }

    fn request(&self, operation: &Described) -> Request {
        self.app.request(&operation.method, &self.path(operation))
    }

    fn with_bodies(&self) -> impl Iterator<Item = (&Described, &Value)> {
        self.operations.iter().filter_map(|operation| operation.example().map(|example| (operation, example)))
    }
}

/// That an answer is one the description names.
#[track_caller]
fn assert_described(operation: &Described, answer: &Response) {
    let text = || format!("{} answered {}: {}", operation.id(), answer.status, answer.text());
    assert!(answer.status < 500, "{}", text());
    if answer.status < 400 {
        assert!(row(operation.id()).success.contains(&answer.status), "{}", text());
        return;
    }
    assert_envelope(answer);
    let body = answer.json();
    let code = body["error"]["code"].as_str().unwrap();
    assert!(operation.names(answer.status, code) || GLOBAL.contains(&(answer.status, code)), "{}", text());
}

#[test]
fn no_operation_answers_without_a_credential_or_with_a_wrong_one() {
    let walk = Walk::start();
    for operation in walk.operations.iter().filter(|operation| row(operation.id()).auth != "none") {
        walk.request(operation).anonymous().send().expect_error(401, "unauthorized", None);
        let wrong = walk.request(operation).bearer(&format!("vk_test_{}", "0".repeat(43)));
        wrong.send().expect_error(401, "unauthorized", None);
    }
}

#[test]
fn no_operation_of_a_key_answers_to_a_room_token() {
    let walk = Walk::start();
    let token = walk.app.token("standup", "alice", "host");
    for operation in walk.operations.iter().filter(|operation| row(operation.id()).auth == "key") {
        walk.request(operation).bearer(&token).send().expect_error(401, "unauthorized", None);
    }
}

#[test]
fn no_operation_takes_a_body_past_the_limit() {
    let walk = Walk::start();
    for operation in &walk.operations {
        let answer = walk.request(operation).raw("x".repeat(65_537)).send();
        answer.expect_error(413, "payload_too_large", None);
    }
}

#[test]
fn no_operation_with_a_body_takes_another_media_type_or_none_at_all() {
    let walk = Walk::start();
    for (operation, example) in walk.with_bodies() {
        let request = walk.request(operation).json(example.clone()).header("content-type", "text/plain");
        request.send().expect_error(415, "unsupported_media_type", None);
        let without = walk.request(operation).send();
        if operation.requires_body() {
            without.expect_error(400, "invalid_request", None);
        } else {
            assert_described(operation, &without);
        }
    }
}

#[test]
fn no_operation_that_lists_400_takes_an_unknown_query_parameter() {
    let walk = Walk::start();
    for operation in walk.operations.iter().filter(|operation| row(operation.id()).errors.contains(&400)) {
        let path = format!("{}?colour=red", walk.path(operation));
        let mut request = walk.app.request(&operation.method, &path);
        if let Some(example) = operation.example() {
            request = request.json(example.clone());
        }
        request.send().expect_error(400, "invalid_request", Some("colour"));
    }
}

#[test]
fn no_operation_takes_an_unknown_body_field() {
    let walk = Walk::start();
    for (operation, example) in walk.with_bodies() {
        let mut body = example.clone();
        body["colour"] = json!("red");
        walk.request(operation).json(body).send().expect_error(400, "invalid_request", Some("colour"));
    }
}

#[test]
fn a_call_without_a_body_refuses_fields_or_ignores_them_but_never_breaks() {
    let walk = Walk::start();
    for operation in walk.operations.iter().filter(|operation| operation.example().is_none()) {
        for body in [&b"{}"[..], b"{\"colour\":1}", b"{", b"[]", b"\xff"] {
            assert_described(operation, &walk.request(operation).raw(body).send());
        }
    }
}

/// Values of every JSON type, and some that are hard to hold.
fn misfits() -> Vec<Value> {
    let deep = (0..60).fold(json!(1), |inner, _| json!([inner]));
    vec![
        Value::Null,
        json!(true),
        json!(0),
        json!(-1),
        json!(1.5),
        json!(u64::MAX),
        json!(i64::MIN),
        json!(1e300),
        json!(""),
        json!("\u{0}"),
        json!("ü💥"),
        json!("x".repeat(10_000)),
        json!([]),
        json!([null]),
        json!({}),
        json!({"a": {"b": []}}),
        deep,
    ]
}

/// Where a field can stand in a body, as keys from the outside in.
type Place = Vec<String>;

/// Every place that a schema describes, each with its own schema; a map of things has one called `host`.
fn places(document: &Value, schema: &Value, place: &Place, found: &mut Vec<(Place, Value)>) {
    if let Some(reference) = schema["$ref"].as_str() {
        return places(document, document.pointer(&reference[1..]).unwrap(), place, found);
    }
    for one in schema["oneOf"].as_array().into_iter().flatten() {
        places(document, one, place, found);
    }
    let inside = |name: &str| [place.as_slice(), &[name.to_owned()]].concat();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        found.push((inside(name), property.clone()));
        places(document, property, &inside(name), found);
    }
    if schema["additionalProperties"].is_object() {
        found.push((inside("host"), schema["additionalProperties"].clone()));
        places(document, &schema["additionalProperties"], &inside("host"), found);
    }
}

/// Puts a value at a place, in objects made on the way.
fn put(body: &mut Value, place: &[String], value: Value) {
    let inner = place.iter().fold(body, |inner, name| {
        if !inner.is_object() {
            *inner = json!({});
        }
        &mut inner[name]
    });
    *inner = value;
}

impl Walk {
    /// Every place of every body, with the example to put something into.
    fn places(&self) -> Vec<(&Described, &Value, Place, Value)> {
        let document = self.app.get("/openapi.json").send().expect(200);
        let places = self.with_bodies().flat_map(|(operation, example)| {
            let schema = &operation.operation["requestBody"]["content"]["application/json"]["schema"];
            let mut found = Vec::new();
            places(&document, schema, &Vec::new(), &mut found);
            found.into_iter().map(move |(place, schema)| (operation, example, place, schema))
        });
        places.collect()
    }
}

#[test]
fn every_place_in_every_body_survives_every_type_and_a_400_says_where() {
    let walk = Walk::start();
    let places = walk.places();
    assert!(places.len() > 100, "{}", places.len());
    for (operation, example, place, _) in &places {
        for misfit in misfits() {
            let mut body = (*example).clone();
            put(&mut body, place, misfit);
            let answer = walk.request(operation).json(body.clone()).send();
            assert_described(operation, &answer);
            if answer.status == 400 {
                let field = answer.json()["error"]["field"].as_str().unwrap_or("none").to_owned();
                assert!(field.starts_with(&place.join(".")), "{} {body}: {}", operation.id(), answer.text());
            }
        }
    }
}

#[test]
fn null_is_taken_exactly_where_the_description_says_so() {
    let walk = Walk::start();
    let mut wrong = Vec::new();
    for (operation, example, place, schema) in walk.places() {
        let mut body = example.clone();
        put(&mut body, &place, Value::Null);
        let taken = walk.request(operation).json(body).send().status != 400;
        if taken != takes_null(&schema) {
            wrong.push(format!("{} {}: taken {taken}", operation.id(), place.join(".")));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_field_left_out_is_refused_by_name_if_it_is_required_and_fine_otherwise() {
    let walk = Walk::start();
    for (operation, example) in walk.with_bodies() {
        for field in example.as_object().unwrap().keys() {
            let mut body = example.clone();
            body.as_object_mut().unwrap().remove(field);
            let answer = walk.request(operation).json(body).send();
            assert_described(operation, &answer);
            if answer.status == 400 {
                answer.expect_error(400, "invalid_request", Some(field));
            }
        }
    }
}

#[test]
fn what_is_really_answered_fits_the_description() {
    let walk = Walk::start();
    let receiver = Receiver::start();
    walk.app.endpoint(&receiver.url);
    let sid = walk.app.join("standup", "bob", "");
    walk.app.publish(&sid, "audio", "microphone");
    walk.app.leave(&sid, true);
    walk.app.tick();
    receiver.next();
    let document = walk.app.get("/openapi.json").send().expect(200);
    let mut fitted = 0;
    for operation in walk.operations.iter().filter(|operation| operation.method != "DELETE") {
        let mut request = walk.request(operation);
        if let Some(example) = operation.example() {
            request = request.json(example.clone());
        }
        let answer = request.send();
        let content = format!("/responses/{}/content/application~1json/schema", answer.status);
        let schema = operation.operation.pointer(&content).unwrap_or_else(|| panic!("{}", answer.text()));
        fits(&document, schema, &answer.json(), operation.id());
        fitted += u32::from(answer.status < 300);
    }
    assert!(fitted >= 15, "{fitted}");
}

#[test]
fn a_room_token_without_the_permission_moderates_nothing_in_its_room() {
    let walk = Walk::start();
    let token = walk.app.token("standup", "bob", "guest");
    let mut walked = 0;
    for operation in walk.operations.iter().filter(|operation| operation.path.starts_with("/v1/rooms/{name}")) {
        let row = row(operation.id());
        let Some(permission) = row.permission else { continue };
        let mut request = walk.request(operation).bearer(&token);
        if let Some(example) = operation.example() {
            request = request.json(example.clone());
        }
        let answer = request.send();
        assert_envelope(&answer);
        let body = answer.json();
        assert_eq!((answer.status, &body["error"]["code"]), (403, &json!("permission_denied")), "{}", operation.id());
        let field = body["error"]["field"].as_str().unwrap();
        assert!(permission.split('|').any(|known| known == field), "{}: {field}", operation.id());
        walked += 1;
    }
    assert!(walked > 0);
}

#[test]
fn a_number_too_large_for_any_type_is_refused_and_not_a_fault() {
    let walk = Walk::start();
    for (operation, example) in walk.with_bodies() {
        for number in ["1e999", "-1e999", "123456789012345678901234567890", "0.1e-999", "01", "NaN"] {
            let text = example.to_string();
            for field in example.as_object().unwrap().keys() {
                let at = text.find(&format!("\"{field}\":")).unwrap() + field.len() + 3;
                let body = format!("{}{number},\"rest\":{}", &text[..at], &text[at..]);
                let answer = walk.request(operation).raw(body).send();
                assert_described(operation, &answer);
                assert_eq!(answer.status, 400, "{}", answer.text());
            }
        }
    }
}

#[test]
fn a_body_that_is_no_json_is_400_wherever_it_breaks_off() {
    let walk = Walk::start();
    for (operation, example) in walk.with_bodies() {
        let text = example.to_string();
        // Nothing at all is fine where a body may be left out.
        for end in usize::from(!operation.requires_body())..text.len() {
            let answer = walk.request(operation).raw(&text.as_bytes()[..end]).send();
            assert_described(operation, &answer);
            assert_eq!(answer.status, 400, "{}: {}", operation.id(), &text[..end]);
        }
        for at in [1, text.len() / 2, text.len() - 2] {
            let mut bytes = text.clone().into_bytes();
            bytes[at] = 0xff;
            assert_eq!(walk.request(operation).raw(bytes).send().status, 400, "{}", operation.id());
        }
        let deep = "[".repeat(30_000) + &"]".repeat(30_000);
        let answer = walk.request(operation).raw(format!("{{\"colour\":{deep}}}")).send();
        assert_described(operation, &answer);
        assert_eq!(answer.status, 400, "{}", operation.id());
    }
}

/// Any JSON value, not too large.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,20}".prop_map(Value::from),
        "[a-z]{1,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map("[a-z_]{1,12}", inner, 0..4)
                .prop_map(|map| map.into_iter().collect::<serde_json::Map<_, _>>().into()),
        ]
    })
}

/// Runs `test` on `cases` of `strategy`, the same ones each time.
fn each_case<S: Strategy>(cases: u32, strategy: &S, test: impl Fn(S::Value)) {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let rng = proptest::test_runner::TestRng::deterministic_rng(config.rng_algorithm);
    let run = TestRunner::new_with_rng(config, rng).run(strategy, |value| {
        test(value);
        Ok(())
    });
    run.unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn no_json_in_any_field_is_a_fault() {
    let walk = Walk::start();
    for (operation, example) in walk.with_bodies() {
        let fields: Vec<String> = example.as_object().unwrap().keys().cloned().collect();
        each_case(40, &(proptest::sample::select(fields), any_json(), any::<bool>()), |(field, value, whole)| {
            let mut body = example.clone();
            body[field] = value.clone();
            let body = if whole { value } else { body };
            assert_described(operation, &walk.request(operation).json(body).send());
        });
    }
}

#[test]
fn no_bytes_as_a_body_are_a_fault() {
    let walk = Walk::start();
    for operation in &walk.operations {
        each_case(20, &proptest::collection::vec(any::<u8>(), 0..200), |bytes| {
            assert_described(operation, &walk.request(operation).raw(bytes).send());
        });
    }
}

/// A path with `part` in place of its first parameter, or of all.
fn replaced(operation: &Described, path: &str, part: &str, all: bool) -> String {
    let mut left = if all { usize::MAX } else { 1 };
    let segments = operation.path.split('/').zip(path.split('/')).map(|(described, own)| {
        if !described.starts_with('{') || left == 0 {
            return own;
        }
        left -= 1;
        part
    });
    segments.collect::<Vec<_>>().join("/")
}

#[test]
fn no_path_is_a_fault() {
    let walk = Walk::start();
    for operation in walk.operations.iter().filter(|operation| operation.path.contains('{')) {
        each_case(30, &("[!-~]{1,30}|(%[0-9A-F]{2}){1,8}|[a-zA-Z0-9_.@-]{1,140}", any::<bool>()), |(part, all)| {
            let part = part.replace(['/', '?', '#', '\\', '{', '}', '<', '>', '"', '^', '`', '|'], "x");
            let path = replaced(operation, &walk.path(operation), &part, all);
            let mut request = walk.app.request(&operation.method, &path);
            if let Some(example) = operation.example() {
                request = request.json(example.clone());
            }
            let answer = request.send();
            let off = answer.status == 404 && answer.text().contains("\"not_found\"") || answer.status == 405;
            if !off {
                assert_described(operation, &answer);
            }
        });
    }
}

#[test]
fn no_query_is_a_fault() {
    let walk = Walk::start();
    for operation in &walk.operations {
        let parameters = operation.operation["parameters"].as_array().unwrap();
        let names = parameters.iter().filter(|parameter| parameter["in"] == "query");
        let mut names: Vec<String> = names.map(|parameter| parameter["name"].as_str().unwrap().to_owned()).collect();
        names.push("x".into());
        let query = (proptest::sample::select(names), "[!-~]{0,20}|(%[0-9A-F]{2}){0,8}|[0-9-]{1,20}");
        each_case(20, &query, |(name, value)| {
            let value = value.replace(['#', '<', '>', '"', '\\', '^', '`', '{', '}', '|'], "x");
            let path = format!("{}?{name}={value}", walk.path(operation));
            let mut request = walk.app.request(&operation.method, &path);
            if let Some(example) = operation.example() {
                request = request.json(example.clone());
            }
            assert_described(operation, &request.send());
        });
    }
}
