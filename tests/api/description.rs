//! What the description at `/openapi.json` says beside the contract: links between operations, and tags.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::contract::described;
use crate::support::TestApp;

fn document() -> Value {
    TestApp::start()
        .get("/openapi.json")
        .anonymous()
        .send()
        .expect(200)
}

#[test]
fn every_link_leads_to_an_operation_and_fills_its_parameters() {
    let document = document();
    let built = described(&document);
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
    let document = document();
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
