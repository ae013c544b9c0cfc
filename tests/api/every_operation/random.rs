//! Random bodies, paths and queries from a fixed seed.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::Value;

use super::{Api, assert_described};
use crate::contract::Described;

/// Returns any JSON value, limited in size.
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

/// Runs `test` on `cases` values from `strategy`, with a fixed seed.
fn each_case<S: Strategy>(cases: u32, strategy: &S, test: impl Fn(S::Value)) {
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    let rng = proptest::test_runner::TestRng::deterministic_rng(config.rng_algorithm);
    let run = TestRunner::new_with_rng(config, rng).run(strategy, |value| {
        test(value);
        Ok(())
    });
    run.unwrap_or_else(|failure| panic!("{failure}"));
}

/// Proves R-12.
#[test]
fn random_json_in_any_field_causes_no_5xx() {
    let api = Api::start();
    for (operation, example) in api.with_bodies() {
        let fields: Vec<String> = example.as_object().unwrap().keys().cloned().collect();
        each_case(
            40,
            &(proptest::sample::select(fields), any_json(), any::<bool>()),
            |(field, value, whole)| {
                let mut body = example.clone();
                body[field] = value.clone();
                let body = if whole { value } else { body };
                assert_described(operation, &api.request(operation).json(body).send());
            },
        );
    }
}

/// Proves S-16.
#[test]
fn random_bytes_as_a_body_cause_no_5xx() {
    let api = Api::start();
    for operation in &api.operations {
        each_case(
            20,
            &proptest::collection::vec(any::<u8>(), 0..200),
            |bytes| {
                assert_described(operation, &api.request(operation).raw(bytes).send());
            },
        );
    }
}

/// Returns a path with `part` instead of its first parameter, or instead of all.
fn replaced(operation: &Described, path: &str, part: &str, all: bool) -> String {
    let mut left = if all { usize::MAX } else { 1 };
    let segments = operation
        .path
        .split('/')
        .zip(path.split('/'))
        .map(|(described, own)| {
            if !described.starts_with('{') || left == 0 {
                return own;
            }
            left -= 1;
            part
        });
    segments.collect::<Vec<_>>().join("/")
}

/// Proves S-16.
#[test]
fn random_paths_cause_no_5xx() {
    let api = Api::start();
    for operation in api
        .operations
        .iter()
        .filter(|operation| operation.path.contains('{'))
    {
        each_case(
            30,
            &(
                "[!-~]{1,30}|(%[0-9A-F]{2}){1,8}|[a-zA-Z0-9_.@-]{1,140}",
                any::<bool>(),
            ),
            |(part, all)| {
                let part = part.replace(
                    ['/', '?', '#', '\\', '{', '}', '<', '>', '"', '^', '`', '|'],
                    "x",
                );
                let path = replaced(operation, &api.path(operation), &part, all);
                let answer = api.with_example(operation, &path).send();
                let off = answer.status == 404 && answer.text().contains("\"not_found\"")
                    || answer.status == 405;
                if !off {
                    assert_described(operation, &answer);
                }
            },
        );
    }
}

/// Proves R-12.
#[test]
fn random_queries_cause_no_5xx() {
    let api = Api::start();
    for operation in &api.operations {
        let parameters = operation.operation["parameters"].as_array().unwrap();
        let names = parameters
            .iter()
            .filter(|parameter| parameter["in"] == "query");
        let mut names: Vec<String> = names
            .map(|parameter| parameter["name"].as_str().unwrap().to_owned())
            .collect();
        names.push("x".into());
        let query = (
            proptest::sample::select(names),
            "[!-~]{0,20}|(%[0-9A-F]{2}){0,8}|[0-9-]{1,20}",
        );
        each_case(20, &query, |(name, value)| {
            let value = value.replace(['#', '<', '>', '"', '\\', '^', '`', '{', '}', '|'], "x");
            let path = format!("{}?{name}={value}", api.path(operation));
            assert_described(operation, &api.with_example(operation, &path).send());
        });
    }
}
