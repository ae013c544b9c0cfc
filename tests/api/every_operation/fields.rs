//! Every field of every body with every kind of value.

use serde_json::{Value, json};

use super::{Api, assert_described};
use crate::contract::{Described, takes_null};

/// Returns values with every JSON type, and extreme values.
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

/// A field's path in a body, outermost key first.
type Place = Vec<String>;

/// Collects every field that a schema describes, with its schema; a map has one key called `host`.
fn places(document: &Value, schema: &Value, place: &Place, found: &mut Vec<(Place, Value)>) {
    if let Some(reference) = schema["$ref"].as_str() {
        return places(
            document,
            document.pointer(&reference[1..]).unwrap(),
            place,
            found,
        );
    }
    // Next to `properties`, `oneOf` constrains their combinations.
    let shapes = schema["oneOf"]
        .as_array()
        .filter(|_| schema.get("properties").is_none());
    for one in shapes.into_iter().flatten() {
        places(document, one, place, found);
    }
    let inside = |name: &str| [place.as_slice(), &[name.to_owned()]].concat();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        found.push((inside(name), property.clone()));
        places(document, property, &inside(name), found);
    }
    if schema["additionalProperties"].is_object() {
        found.push((inside("host"), schema["additionalProperties"].clone()));
        places(
            document,
            &schema["additionalProperties"],
            &inside("host"),
            found,
        );
    }
}

/// Sets the value at a path and creates the enclosing objects.
fn put(body: &mut Value, place: &[String], value: Value) {
    let inner = place.iter().fold(body, |inner, name| {
        if !inner.is_object() {
            *inner = json!({});
        }
        &mut inner[name]
    });
    *inner = value;
}

impl Api {
    /// Returns every field in every body, with the example to change.
    fn places(&self) -> Vec<(&Described, &Value, Place, Value)> {
        let places = self.with_bodies().flat_map(|(operation, example)| {
            let schema =
                &operation.operation["requestBody"]["content"]["application/json"]["schema"];
            let mut found = Vec::new();
            places(&operation.document, schema, &Vec::new(), &mut found);
            found
                .into_iter()
                .map(move |(place, schema)| (operation, example, place, schema))
        });
        places.collect()
    }
}

#[test]
fn every_field_of_every_body_takes_any_type_without_a_5xx_and_a_400_names_the_field() {
    let api = Api::start();
    let places = api.places();
    assert!(places.len() > 100, "{}", places.len());
    for (operation, example, place, _) in &places {
        for misfit in misfits() {
            let mut body = (*example).clone();
            put(&mut body, place, misfit);
            let answer = api.request(operation).json(body.clone()).send();
            assert_described(operation, &answer);
            if answer.status == 400 {
                let field = answer.json()["error"]["field"]
                    .as_str()
                    .unwrap_or("none")
                    .to_owned();
                assert!(
                    field.starts_with(&place.join(".")),
                    "{} {body}: {}",
                    operation.id(),
                    answer.text()
                );
            }
        }
    }
}

#[test]
fn a_text_with_u0000_is_refused_in_every_field_but_the_opaque_metadata_of_a_room() {
    let api = Api::start();
    let mut accepted = Vec::new();
    for (operation, example, place, _) in api.places() {
        let mut body = example.clone();
        put(&mut body, &place, json!("a\u{0}b"));
        let answer = api.request(operation).json(body).send();
        if answer.status != 400 {
            accepted.push(format!("{} {}", operation.id(), place.join(".")));
        }
    }
    assert_eq!(accepted, ["create_room metadata"]);
}

#[test]
fn null_is_accepted_exactly_where_the_description_allows_it() {
    let api = Api::start();
    let mut wrong = Vec::new();
    for (operation, example, place, schema) in api.places() {
        let mut body = example.clone();
        put(&mut body, &place, Value::Null);
        let is_accepted = api.request(operation).json(body).send().status != 400;
        if is_accepted != takes_null(&schema) {
            wrong.push(format!(
                "{} {}: accepted {is_accepted}",
                operation.id(),
                place.join(".")
            ));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn an_absent_field_is_refused_by_name_only_if_it_is_required() {
    let api = Api::start();
    for (operation, example) in api.with_bodies() {
        for field in example.as_object().unwrap().keys() {
            let mut body = example.clone();
            body.as_object_mut().unwrap().remove(field);
            let answer = api.request(operation).json(body).send();
            assert_described(operation, &answer);
            if answer.status == 400 {
                answer.expect_error(400, "invalid_request", Some(field));
            }
        }
    }
}

#[test]
fn a_number_out_of_range_of_every_type_is_refused_with_400() {
    let api = Api::start();
    for (operation, example) in api.with_bodies() {
        for number in [
            "1e999",
            "-1e999",
            "123456789012345678901234567890",
            "0.1e-999",
            "01",
            "NaN",
        ] {
            let text = example.to_string();
            for field in example.as_object().unwrap().keys() {
                let at = text.find(&format!("\"{field}\":")).unwrap() + field.len() + 3;
                let body = format!("{}{number},\"rest\":{}", &text[..at], &text[at..]);
                let answer = api.request(operation).raw(body).send();
                assert_described(operation, &answer);
                assert_eq!(answer.status, 400, "{}", answer.text());
            }
        }
    }
}

#[test]
fn a_truncated_or_invalid_json_body_is_400() {
    let api = Api::start();
    for (operation, example) in api.with_bodies() {
        let text = example.to_string();
        // An empty body is valid where the body is optional.
        for end in usize::from(!operation.requires_body())..text.len() {
            let answer = api.request(operation).raw(&text.as_bytes()[..end]).send();
            assert_described(operation, &answer);
            assert_eq!(answer.status, 400, "{}: {}", operation.id(), &text[..end]);
        }
        for at in [1, text.len() / 2, text.len() - 2] {
            let mut bytes = text.clone().into_bytes();
            bytes[at] = 0xff;
            assert_eq!(
                api.request(operation).raw(bytes).send().status,
                400,
                "{}",
                operation.id()
            );
        }
        let deep = "[".repeat(30_000) + &"]".repeat(30_000);
        let answer = api
            .request(operation)
            .raw(format!("{{\"colour\":{deep}}}"))
            .send();
        assert_described(operation, &answer);
        assert_eq!(answer.status, 400, "{}", operation.id());
    }
}
