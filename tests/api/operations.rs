//! The description at `/openapi.json` against the contract's list, and `/ext/openapi.json` against the reviewed additions, row by row.

use std::collections::BTreeSet;

use conclave_model::ErrorCode;
use conclave_model::event::{EndpointDisabledEvent, EventType, TestEvent};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::contract::{
    ADDITIONS, Described, Row, additions, additions_of, contract, described, documents,
    every_operation, fits, row,
};
use crate::snapshot;
use crate::support::TestApp;
use crate::tools::{conclave, fields};

/// The error codes by status: the contract's, and two that only clients of bans meet.
const CODES: &[(u16, &[&str])] = &[
    (
        400,
        &[
            "invalid_request",
            "invalid_room_name",
            "invalid_identity",
            "invalid_url",
            "blocked_url",
            "invalid_filepath",
        ],
    ),
    (401, &["unauthorized"]),
    (
        402,
        &[
            "room_limit_reached",
            "quota_exceeded",
            "feature_not_in_plan",
            "insufficient_balance",
        ],
    ),
    (403, &["permission_denied", "origin_rejected"]),
    (
        404,
        &[
            "not_found",
            "room_not_found",
            "participant_not_found",
            "track_not_found",
            "session_not_found",
            "template_not_found",
            "role_not_found",
            "destination_not_found",
            "recording_not_found",
            "broadcast_not_found",
            "ingress_not_found",
            "endpoint_not_found",
            "delivery_not_found",
            "code_not_found",
            "ban_not_found",
        ],
    ),
    (405, &["method_not_allowed"]),
    (408, &["request_timeout"]),
    (
        409,
        &[
            "room_exists",
            "room_ended",
            "idempotency_key_reuse",
            "recording_exists",
            "recording_ended",
            "broadcast_exists",
            "ingress_exists",
            "encoder_connected",
            "template_exists",
            "template_in_use",
            "template_is_default",
            "destination_exists",
            "destination_in_use",
            "role_capacity_reached",
            "identity_taken",
            "identity_banned",
            "ban_limit_reached",
            "role_referenced",
            "delivery_not_retryable",
        ],
    ),
    (412, &["precondition_failed"]),
    (413, &["payload_too_large"]),
    (415, &["unsupported_media_type"]),
    (428, &["precondition_required"]),
    (429, &["rate_limited"]),
    (500, &["internal_error"]),
    (
        503,
        &[
            "database_unavailable",
            "billing_unavailable",
            "destination_unusable",
            "media_unavailable",
            "encryption_unavailable",
        ],
    ),
];

/// Returns the contract's description.
fn document() -> Value {
    let [contract, _] = documents(&TestApp::start());
    contract
}

/// Compares every described operation with its row.
fn each(check: impl Fn(&Described, &Row)) {
    for operation in every_operation(&TestApp::start()) {
        check(&operation, &row(operation.id()));
    }
}

#[test]
fn the_contract_has_54_operations_with_one_open_and_nine_for_room_tokens() {
    let rows = contract();
    let with = |auth: &str| rows.iter().filter(|row| row.auth == auth).count();
    assert_eq!(
        (rows.len(), with("none"), with("key_or_room_token")),
        (54, 1, 9)
    );
    let ids: BTreeSet<_> = rows.iter().map(|row| &row.id).collect();
    let routes: BTreeSet<_> = rows.iter().map(|row| (&row.method, &row.path)).collect();
    assert_eq!((ids.len(), routes.len()), (54, 54));
}

#[test]
fn the_descriptions_have_the_whole_contract_and_the_reviewed_additions() {
    let [of_contract, extensions] = documents(&TestApp::start());
    for (document, rows) in [(&of_contract, contract()), (&extensions, additions())] {
        let built = described(document);
        let mut ids: Vec<&str> = built.iter().map(Described::id).collect();
        let mut expected: Vec<&str> = rows.iter().map(|row| row.id.as_str()).collect();
        ids.sort_unstable();
        expected.sort_unstable();
        assert_eq!(ids, expected);
    }
    snapshot::check(ADDITIONS, &additions_of(&extensions));
}

#[test]
fn the_lists_are_what_the_descriptions_say_of_their_operations() {
    each(|operation, row| assert_eq!(operation.to_row(), row.clone().with_key_reuse()));
}

#[test]
fn every_operation_has_the_method_and_the_path_of_its_row() {
    each(|operation, row| {
        assert_eq!(
            (&operation.method, &operation.path),
            (&row.method, &row.path)
        );
    });
}

#[test]
fn every_operation_names_the_credentials_and_the_permission_of_its_row() {
    each(|operation, row| {
        let expected = match row.auth.as_str() {
            "key" => json!([{"apiKey": []}]),
            "key_or_room_token" => json!([{"apiKey": []}, {"roomToken": []}]),
            _ => json!([]),
        };
        assert_eq!(operation.operation["security"], expected, "{}", row.id);
        assert_eq!(
            operation.operation["x-permission"].as_str(),
            row.permission.as_deref(),
            "{}",
            row.id
        );
    });
}

#[test]
fn exactly_the_idempotent_operations_have_the_header_parameter() {
    each(|operation, row| {
        let parameters = operation.operation["parameters"].as_array().unwrap();
        let header = parameters
            .iter()
            .filter(|p| p["in"] == "header")
            .collect::<Vec<_>>();
        assert_eq!(header.len(), usize::from(row.idempotent), "{}", row.id);
        assert!(
            header
                .iter()
                .all(|p| p["name"] == "Idempotency-Key" && p["required"] == false),
            "{}",
            row.id
        );
    });
}

#[test]
fn every_operation_lists_exactly_the_statuses_of_its_row() {
    each(|operation, row| {
        assert_eq!(
            operation.statuses(|status| status < 400),
            row.success,
            "{}",
            row.id
        );
        let row = row.clone().with_key_reuse();
        let mut errors = row.errors.clone();
        if row.idempotent && !errors.contains(&409) {
            // `idempotency_key_reuse` can answer any operation that takes the key.
            errors.push(409);
            errors.sort_unstable();
        }
        assert_eq!(
            operation.statuses(|status| status >= 400),
            errors,
            "{}",
            row.id
        );
    });
}

#[test]
fn every_error_is_the_envelope_with_an_example_of_a_code_it_names() {
    each(|operation, row| {
        for status in operation.statuses(|status| status >= 400) {
            let response = &operation.operation["responses"][status.to_string()];
            let content = &response["content"]["application/json"];
            assert_eq!(
                content["schema"]["$ref"], "#/components/schemas/Error",
                "{} {status}",
                row.id
            );
            let code = content["example"]["error"]["code"].as_str().unwrap();
            assert!(operation.names(status, code), "{} {status} {code}", row.id);
        }
    });
}

#[test]
fn a_paged_list_has_its_collection_and_its_parameters_and_no_other_call_has_them() {
    each(|operation, row| {
        let parameters = operation.operation["parameters"].as_array().unwrap();
        let query: Vec<_> = parameters
            .iter()
            .filter(|p| p["in"] == "query")
            .map(|p| p["name"].as_str())
            .collect();
        let paged = row.collection.is_some();
        assert_eq!(
            (
                query.contains(&Some("limit")),
                query.contains(&Some("offset"))
            ),
            (paged, paged),
            "{}",
            row.id
        );
        if let Some(collection) = &row.collection {
            let content = &operation.operation["responses"]["200"]["content"]["application/json"];
            let mut expected = vec![collection.as_str(), "has_more", "limit", "offset"];
            // A client that polls continues from a position.
            if row.id == "list_events" {
                expected.extend(["cursor", "gap"]);
            }
            expected.sort_unstable();
            assert_eq!(
                fields(&content["schema"]["properties"]),
                expected,
                "{}",
                row.id
            );
            assert_eq!(fields(&content["example"]), expected, "{}", row.id);
        }
    });
}

#[test]
fn every_parameter_of_a_path_is_described() {
    each(|operation, row| {
        let parameters = operation.operation["parameters"].as_array().unwrap();
        let mut described: Vec<_> = parameters.iter().filter(|p| p["in"] == "path").collect();
        assert!(
            described.iter().all(|p| p["required"] == true),
            "{}",
            row.id
        );
        let named = row.path.split(['{', '}']).skip(1).step_by(2);
        for name in named {
            let at = described.iter().position(|p| p["name"] == name);
            described.remove(at.unwrap_or_else(|| panic!("{} lacks {name}", row.id)));
        }
        assert!(described.is_empty(), "{}: {described:?}", row.id);
    });
}

#[test]
fn every_body_has_a_schema_and_an_example() {
    each(|operation, row| {
        let request = operation
            .operation
            .pointer("/requestBody/content/application~1json");
        let answers = row.success.iter().filter(|status| **status != 204);
        let answers = answers.map(|s| {
            operation
                .operation
                .pointer(&format!("/responses/{s}/content/application~1json"))
        });
        for body in request.map(Some).into_iter().chain(answers) {
            let body =
                body.unwrap_or_else(|| panic!("{} answers without a described body", row.id));
            assert!(
                body["schema"].is_object() && body["example"].is_object(),
                "{}: {body}",
                row.id
            );
        }
    });
}

/// Collects every `$ref`.
fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            found.extend(map.get("$ref").and_then(Value::as_str).map(str::to_owned));
            map.values().for_each(|value| references(value, found));
        }
        Value::Array(items) => items.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

#[test]
fn every_reference_resolves_and_every_schema_is_referred_to() {
    let mut all = 0;
    for document in documents(&TestApp::start()) {
        let mut found = BTreeSet::new();
        references(&document, &mut found);
        for reference in &found {
            let pointer = reference.strip_prefix('#').unwrap();
            assert!(
                document.pointer(pointer).is_some_and(Value::is_object),
                "{reference}"
            );
        }
        for name in fields(&document["components"]["schemas"]) {
            assert!(
                found.contains(&format!("#/components/schemas/{name}")),
                "{name} is not referred to"
            );
        }
        all += found.len();
    }
    assert!(all > 10);
}

#[test]
fn every_example_fits_its_schema() {
    for operation in every_operation(&TestApp::start()) {
        let mut bodies = vec![
            operation
                .operation
                .pointer("/requestBody/content/application~1json"),
        ];
        let responses = operation.operation["responses"]
            .as_object()
            .unwrap()
            .values();
        bodies.extend(responses.map(|response| response.pointer("/content/application~1json")));
        for body in bodies.into_iter().flatten() {
            fits(
                &operation.document,
                &body["schema"],
                &body["example"],
                operation.id(),
            );
        }
    }
    let document = document();
    for (name, webhook) in document["webhooks"].as_object().unwrap() {
        let body = &webhook["post"]["requestBody"]["content"]["application/json"];
        assert!(body["example"].is_object(), "{name}");
        fits(&document, &body["schema"], &body["example"], name);
    }
}

#[test]
fn the_webhooks_are_the_events_and_the_test_event() {
    let document = document();
    let mut events: Vec<_> = EventType::ALL.iter().map(|event| event.as_str()).collect();
    events.extend([TestEvent::NAME, EndpointDisabledEvent::NAME]);
    events.sort_unstable();
    assert_eq!(fields(&document["webhooks"]), events);
    let all: BTreeSet<_> = every_operation(&TestApp::start())
        .iter()
        .map(|operation| operation.id().to_owned())
        .collect();
    for (name, webhook) in document["webhooks"].as_object().unwrap() {
        assert_eq!(webhook["post"]["operationId"], *name);
        assert!(!all.contains(name), "{name} is the id of an operation");
    }
}

#[test]
fn every_enum_value_is_described_as_on_the_wire() {
    fn words<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::Object(fields) => {
                let listed = fields
                    .get("enum")
                    .and_then(Value::as_array)
                    .into_iter()
                    .flatten();
                found.extend(listed.filter_map(Value::as_str));
                fields.values().for_each(|field| words(field, found));
            }
            Value::Array(items) => items.iter().for_each(|item| words(item, found)),
            _ => {}
        }
    }
    let document = document();
    let mut found = Vec::new();
    words(&document, &mut found);
    for word in [
        "screen_share",
        "reliable",
        "s3",
        "ended",
        "delivered",
        "exceeded",
        "limit_reached",
        "publishing",
    ] {
        assert!(found.contains(&word), "{word}");
    }
    // No enum value in the contract has a capital letter.
    assert!(
        found.iter().all(|word| word
            .chars()
            .all(|c| c.is_ascii_lowercase() || "0123456789_-.".contains(c))),
        "{found:?}"
    );
}

#[test]
fn the_descriptions_are_openapi_3_1_0_and_need_no_credential() {
    for document in documents(&TestApp::start()) {
        assert_eq!(
            (&document["openapi"], &document["info"]["version"]),
            (&json!("3.1.0"), &json!("v1"))
        );
    }
}

/// Removes all parts marked as beyond the contract, and the texts, whose wording the contract leaves open.
fn retain_contract(value: &mut Value) {
    let is_kept = |inner: &Value| inner["x-extension"] != true;
    match value {
        Value::Object(fields) => {
            // A property may be called `description`, too; its value is a schema.
            let is_text = |name: &str| matches!(name, "description" | "summary");
            fields.retain(|name, inner| is_kept(inner) && !(is_text(name) && inner.is_string()));
            fields.values_mut().for_each(retain_contract);
        }
        Value::Array(items) => {
            items.retain(is_kept);
            items.iter_mut().for_each(retain_contract);
        }
        _ => {}
    }
}

/// SHA-256 of the contract's description without its texts, compact and with sorted keys. It changes only with the contract.
const CONTRACT_SHA_256: &str = "e1f6c6d2f4b4e03817481f3de0e9a0ed0b2348fe9738242bfa7bf8d2d2ccb1b2";

#[test]
fn what_the_contract_does_not_have_is_marked_in_its_description() {
    let mut document = document();
    retain_contract(&mut document);
    assert_eq!(
        hex::encode(Sha256::digest(document.to_string())),
        CONTRACT_SHA_256,
        "a difference from tests/data/openapi.json at the last commit is not marked with x-extension"
    );
}

#[test]
fn the_descriptions_are_those_that_were_reviewed() {
    let files = ["tests/data/openapi.json", "tests/data/openapi-ext.json"];
    for (file, document) in files.into_iter().zip(documents(&TestApp::start())) {
        let now = serde_json::to_string_pretty(&document).unwrap() + "\n";
        snapshot::check(file, &now);
    }
}

#[test]
fn the_program_prints_the_descriptions_that_the_server_serves() {
    let app = TestApp::start();
    let printed = [&["openapi"][..], &["openapi", "--ext"]].map(|words| conclave(&app, words));
    assert_eq!(printed, documents(&app));
}

#[test]
fn the_codes_are_those_of_the_contract_each_with_its_status() {
    let known: Vec<(u16, &str)> = CODES
        .iter()
        .flat_map(|(status, codes)| codes.iter().map(|code| (*status, *code)))
        .collect();
    let mut all: Vec<_> = ErrorCode::ALL
        .iter()
        .map(|code| (code.status(), code.as_str()))
        .collect();
    let mut sorted = known.clone();
    all.sort_unstable();
    sorted.sort_unstable();
    assert_eq!(all, sorted);
    each(|operation, row| {
        for status in operation.statuses(|status| status >= 400) {
            let codes = operation.operation["responses"][status.to_string()]["x-error-codes"]
                .as_array()
                .unwrap();
            for code in codes {
                assert!(
                    known.contains(&(status, code.as_str().unwrap())),
                    "{} {status} {code}",
                    row.id
                );
            }
        }
    });
}

/// The contract's optional fields by resource; every other field is always present.
const OPTIONAL: &[(&str, &[&str])] = &[
    (
        "Room",
        &["ended_at", "metadata", "started_at", "template_id"],
    ),
    ("Participant", &["joined_at"]),
    ("Token", &["publish_profile", "role"]),
    ("Template", &[]),
    ("TemplateSettingsDetail", &[]),
    ("Role", &[]),
    ("RolePublish", &[]),
    ("RoleSubscribe", &[]),
    ("RoomCode", &["max_uses"]),
    (
        "Recording",
        &["destination", "destination_id", "ended_at", "error"],
    ),
    (
        "Broadcast",
        &["destination", "destination_id", "ended_at", "error"],
    ),
    (
        "Track",
        &["height", "mime_type", "name", "simulcast", "width"],
    ),
    (
        "RoleChange",
        &[
            "changed_by_api_key_prefix",
            "changed_by_identity",
            "previous_role",
        ],
    ),
    ("RoleChangeResult", &[]),
    ("Ingress", &["deleted_at", "error", "participant_name"]),
    ("Session", &["left_at"]),
    ("SessionTrack", &["ended_at"]),
    ("WebhookEndpoint", &[]),
    ("WebhookEndpointCreated", &[]),
    ("WebhookDelivery", &["delivered_at", "next_attempt_at"]),
];

/// Fields beyond the contract, present only where they are used.
const BEYOND_THE_CONTRACT: &[(&str, &str)] = &[
    ("Role", "attributes"),
    ("Room", "max_duration_seconds"),
    ("TemplateSettingsDetail", "max_duration_seconds"),
    ("TemplateSettingsDetail", "auto_record"),
    ("Recording", "paused"),
    ("WebhookEndpoint", "events"),
    ("WebhookEndpoint", "description"),
    ("WebhookEndpoint", "disabled_at"),
    ("WebhookEndpoint", "disabled_reason"),
    ("WebhookEndpoint", "previous_secret_expires_at"),
];

#[test]
fn every_resource_requires_exactly_the_fields_that_the_contract_always_shows() {
    let document = document();
    for (resource, optional) in OPTIONAL {
        let (properties, required) =
            properties(&document, &document["components"]["schemas"][resource]);
        let (beyond, absent): (Vec<&str>, Vec<&str>) = properties
            .difference(&required)
            .copied()
            .partition(|property| BEYOND_THE_CONTRACT.contains(&(*resource, *property)));
        assert_eq!(&absent, optional, "{resource}");
        assert_eq!(
            beyond.len(),
            BEYOND_THE_CONTRACT
                .iter()
                .filter(|(of, _)| of == resource)
                .count(),
            "{resource}"
        );
    }
}

/// Returns the names of a schema's properties and of its required properties, including those in its `allOf` parts.
fn properties<'a>(
    document: &'a Value,
    schema: &'a Value,
) -> (BTreeSet<&'a str>, BTreeSet<&'a str>) {
    let schema = match schema["$ref"].as_str() {
        Some(reference) => document.pointer(reference.trim_start_matches('#')).unwrap(),
        None => schema,
    };
    let own = schema["properties"]
        .as_object()
        .into_iter()
        .flat_map(|fields| fields.keys().map(String::as_str));
    let required = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str);
    let (mut own, mut required): (BTreeSet<_>, BTreeSet<_>) = (own.collect(), required.collect());
    for part in schema["allOf"].as_array().into_iter().flatten() {
        let (more, more_required) = properties(document, part);
        own.extend(more);
        required.extend(more_required);
    }
    assert!(!own.is_empty(), "{schema}");
    (own, required)
}
