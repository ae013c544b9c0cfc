//! Parts of the descriptions beyond the contract: links between operations, tags, and shared types.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::contract::{described, documents, every_operation};
use crate::support::TestApp;

#[test]
fn every_link_leads_to_an_operation_and_fills_its_parameters() {
    let built = every_operation(&TestApp::start());
    let mut links = 0;
    let responses = built.iter().flat_map(|operation| {
        operation.operation["responses"]
            .as_object()
            .unwrap()
            .values()
    });
    for (name, link) in responses
        .filter_map(|response| response["links"].as_object())
        .flatten()
    {
        let target = built
            .iter()
            .find(|operation| link["operationId"] == operation.id())
            .expect(name);
        let parameters = target.operation["parameters"].as_array().unwrap();
        let filled = link["parameters"].as_object().unwrap();
        let is_filled =
            |parameter: &Value| filled.contains_key(parameter["name"].as_str().unwrap());
        assert!(
            filled
                .keys()
                .all(|given| parameters.iter().any(|known| known["name"] == **given)),
            "{name}"
        );
        assert!(
            parameters
                .iter()
                .filter(|parameter| parameter["in"] == "path")
                .all(is_filled),
            "{name}"
        );
        links += 1;
    }
    assert!(links > 30, "{links}");
}

#[test]
fn every_tag_of_an_operation_is_described() {
    for document in documents(&TestApp::start()) {
        let described_tags: BTreeSet<_> = document["tags"]
            .as_array()
            .unwrap()
            .iter()
            .map(|tag| tag["name"].as_str().unwrap())
            .collect();
        let built = described(&document);
        let used: BTreeSet<_> = built
            .iter()
            .map(|operation| operation.operation["tags"][0].as_str().unwrap())
            .collect();
        assert_eq!(described_tags, used);
    }
}

fn codes(error: &Value) -> BTreeSet<&str> {
    let codes = &error["properties"]["error"]["properties"]["code"]["examples"];
    codes
        .as_array()
        .unwrap()
        .iter()
        .map(|code| code.as_str().unwrap())
        .collect()
}

/// The viewer and the SDKs merge both descriptions.
#[test]
fn a_type_or_group_of_one_name_is_the_same_in_both_descriptions() {
    let [contract, extensions] = documents(&TestApp::start());
    let mut common = 0;
    for (name, schema) in extensions["components"]["schemas"].as_object().unwrap() {
        let Some(known) = contract["components"]["schemas"].get(name) else {
            continue;
        };
        common += 1;
        if name == "Error" {
            // The contract's description lists the other codes in an extension.
            assert!(codes(known).is_subset(&codes(schema)));
        } else {
            assert_eq!(schema, known, "{name}");
        }
    }
    assert!(common > 0);
    let tags = |document: &Value| document["tags"].as_array().unwrap().clone();
    let known = tags(&contract);
    for tag in tags(&extensions) {
        let same = known.iter().find(|known| known["name"] == tag["name"]);
        assert!(same.is_none_or(|same| *same == tag), "{tag}");
    }
    for part in ["openapi", "servers"] {
        assert_eq!(contract[part], extensions[part]);
    }
    let schemes = |document: &Value| document["components"]["securitySchemes"].clone();
    for (name, scheme) in schemes(&extensions).as_object().unwrap() {
        assert_eq!(scheme, &schemes(&contract)[name], "{name}");
    }
    assert!(schemes(&extensions)["apiKey"].is_object());
}
