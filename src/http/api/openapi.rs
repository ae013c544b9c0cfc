//! The OpenAPI 3.1.0 description, generated from the operations themselves: routing and description cannot differ.

use std::collections::{BTreeMap, BTreeSet};

use conclave_model::ErrorCode;
use conclave_model::event::{self, EventDoc};
use serde_json::{Map, Value, json};
use utoipa::openapi::{RefOr, Schema};

use super::operation::Operation;
use super::routes::{ApiPart, CONTRACT};
use super::spec::{Access, Link, OperationSpec};

/// Operation groups, in display order.
const TAGS: [(&str, &str); 15] = [
    ("rooms", "Rooms: create, read and end them."),
    (
        "participants",
        "A room's participants, and moderation: removals, mutes, role changes, data.",
    ),
    ("tokens", "Room tokens, with which clients join."),
    ("templates", "Templates: roles and settings for new rooms."),
    (
        "roles",
        "Roles of a template: what participants may publish, subscribe to and do.",
    ),
    (
        "destinations",
        "Storage for recordings, and RTMP URLs for broadcasts.",
    ),
    (
        "codes",
        "Room codes, which clients exchange for room tokens.",
    ),
    (
        "recordings",
        "Recordings of rooms, tracks and participants.",
    ),
    ("broadcasts", "Broadcasts of rooms to RTMP servers."),
    (
        "ingress",
        "Endpoints at which an encoder publishes into a room.",
    ),
    ("sessions", "Sessions: one for each join of a participant."),
    (
        "identities",
        "Identities, which name participants across rooms: erasure.",
    ),
    ("usage", "Usage by day, and the plan."),
    ("webhooks", "Webhook endpoints and the deliveries to them."),
    ("events", "The history of events that webhooks report."),
];

fn error_responses(operation: &OperationSpec) -> Map<String, Value> {
    let mut by_status: BTreeMap<u16, Vec<&str>> = BTreeMap::new();
    let mut added: BTreeMap<u16, Vec<&str>> = BTreeMap::new();
    let in_contract = operation.path.starts_with(CONTRACT.prefix);
    for code in operation.error_codes() {
        let codes = if in_contract && code.is_extension() {
            &mut added
        } else {
            &mut by_status
        };
        codes
            // OpenAPI has one response object per status, so codes share it.
            .entry(code.status())
            .or_default()
            .push(code.as_str());
    }
    let response = |(status, codes): (u16, Vec<&str>)| {
        // Never empty: a status has an entry only with a code. The contract lists the statuses of its operations' other codes.
        let example = json!({"error": {"code": codes[0], "message": "human-readable explanation"}});
        let added = added.get(&status);
        let listed = codes.iter().chain(added.into_iter().flatten());
        let mut response = json!({
            "description": listed.map(|code| format!("`{code}`")).collect::<Vec<_>>().join(", "),
            "content": {"application/json": {
                "schema": {"$ref": "#/components/schemas/Error"}, "example": example
            }},
            // An extension field, because OpenAPI has none for error codes.
            "x-error-codes": codes
        });
        if let Some(codes) = added {
            // An object, because the mark needs one.
            response["x-extension-codes"] = json!({"x-extension": true, "codes": codes});
        }
        // Only these refusals pass with time.
        if matches!(status, 429 | 503) {
            response["headers"] = json!({"Retry-After": {
                "description": "Seconds to wait before a retry", "schema": {"type": "integer", "minimum": 1}
            }});
        }
        (status.to_string(), response)
    };
    by_status.into_iter().map(response).collect()
}

fn describe(operation: &dyn Operation) -> Value {
    let (spec, doc) = (operation.spec(), operation.doc());
    let mut responses = error_responses(spec);
    for status in spec.success {
        let mut response = json!({"description": "success"});
        if let Some(body) = &doc.response {
            response["content"] =
                json!({"application/json": {"schema": body.schema, "example": body.example}});
        }
        if !doc.links.is_empty() {
            response["links"] = links(&doc.links);
        }
        responses.insert(status.to_string(), response);
    }
    let mut parameters = doc.parameters.clone();
    // Added here, since the frame reads the header, not the operation's input.
    parameters.extend(spec.idempotent.then(idempotency_key));
    let mut described = json!({
        "operationId": spec.id, "tags": [doc.tag], "summary": doc.summary, "parameters": parameters,
        "responses": responses, "security": security(spec)
    });
    if let Some(body) = &doc.body {
        described["requestBody"] = json!({
            "required": body.required,
            "content": {"application/json": {"schema": body.schema, "example": doc.body_example}}
        });
    }
    let permissions: Vec<&str> = spec
        .permissions()
        .iter()
        .map(|permission| permission.as_str())
        .collect();
    if !permissions.is_empty() {
        // An extension field, because a security scheme cannot express a room token's permissions.
        described["x-permission"] = permissions.join("|").into();
    }
    described
}

fn links(links: &[Link]) -> Value {
    let link = |link: &Link| {
        let parameters: Map<_, _> = link
            .parameters
            .iter()
            .map(|(name, value)| ((*name).into(), json!(value)))
            .collect();
        (
            link.operation.to_owned(),
            json!({"operationId": link.operation, "parameters": parameters}),
        )
    };
    Value::Object(links.iter().map(link).collect())
}

fn idempotency_key() -> Value {
    json!({
        "name": "Idempotency-Key", "in": "header", "required": false,
        "description": "A repeated request with the same key and body returns the stored response, for 24 hours",
        // At least one visible character: HTTP trims spaces around a value (RFC 9110, section 5.5).
        "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[ -~]*[!-~][ -~]*$"}
    })
}

/// Returns the credentials that a part's operations accept.
fn security_schemes(part: &ApiPart) -> Value {
    let mut schemes = json!({
        "apiKey": {"type": "http", "scheme": "bearer", "description": "A project API key, vk_…"}
    });
    // Only schemes in use.
    let takes_tokens = |access| matches!(access, Access::KeyOrRoomToken(_));
    let mut operations = part.operations().iter();
    if operations.any(|operation| takes_tokens(operation.spec().access)) {
        schemes["roomToken"] =
            json!({"type": "apiKey", "in": "header", "name": "X-Svc-Room-Token"});
    }
    schemes
}

fn security(operation: &OperationSpec) -> Value {
    match operation.access {
        Access::Key => json!([{"apiKey": []}]),
        Access::KeyOrRoomToken(_) => json!([{"apiKey": []}, {"roomToken": []}]),
        Access::Open(_) => json!([]),
    }
}

fn error_schema(part: &ApiPart) -> Value {
    let is_listed = |code: &&ErrorCode| !(part.is_contract() && code.is_extension());
    let codes = ErrorCode::ALL.iter().filter(is_listed);
    let codes: Vec<&str> = codes.map(|code| code.as_str()).collect();
    json!({
        "type": "object", "required": ["error"],
        "properties": {"error": {
            "type": "object", "required": ["code", "message"],
            "properties": {
                // Not an `enum`: generated clients would fail at a code that a later version adds.
                "code": {"type": "string", "description": "stable; treat an unknown code by its HTTP status", "examples": codes},
                "message": {"type": "string", "description": "human-readable; it may change"},
                "field": {"type": "string", "description": "the invalid field, or the missing permission"}
            }
        }}
    })
}

/// Converts a schema to JSON.
fn rendered(schema: &RefOr<Schema>) -> Value {
    // A schema is data; writing it as JSON cannot fail.
    let mut json = serde_json::to_value(schema).unwrap_or_default();
    correct(&mut json);
    json
}

/// Adds the range of each `u32`: `utoipa` describes it as `int32` without a maximum.
fn correct(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            // A field with a maximum of its own keeps it.
            if fields.get("format").is_some_and(|format| format == "int32")
                && !fields.contains_key("maximum")
            {
                fields.insert("format".into(), "int64".into());
                fields.insert("maximum".into(), u32::MAX.into());
            }
            fields.values_mut().for_each(correct);
        }
        Value::Array(items) => items.iter_mut().for_each(correct),
        _ => {}
    }
}

/// Describes the webhook request for an event.
fn describe_event(event: EventDoc) -> Value {
    let mut described = json!({"post": {
        // No scheme: the receiver verifies the signature.
        "operationId": event.name, "tags": ["webhooks"], "summary": event.summary.trim_end_matches('.'), "security": [],
        "requestBody": {
            "required": true,
            "content": {"application/json": {"schema": rendered(&RefOr::T(Schema::Object(event.schema))), "example": event.example}}
        },
        // The contract counts every 2xx as delivered.
        "responses": {"2XX": {"description": "Accepted. After any other response, the delivery is sent again"}}
    }});
    if event.is_extension {
        described["x-extension"] = true.into();
    }
    described
}

/// Generates the description of a part of the API, with the webhook events if the part lists them.
pub fn document(part: &ApiPart) -> Value {
    // Sorted, so that the document is the same in every build.
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    let mut schemas: BTreeMap<String, Value> = BTreeMap::new();
    let mut tags = BTreeSet::new();
    for operation in part.operations() {
        tags.insert(operation.doc().tag);
        let method = operation.spec().method.as_str().to_ascii_lowercase();
        paths
            .entry(operation.spec().path)
            .or_default()
            .insert(method, describe(&**operation));
        schemas.extend(
            operation
                .doc()
                .schemas()
                .map(|(name, schema)| (name.clone(), rendered(schema))),
        );
    }
    let mut webhooks: Map<String, Value> = Map::new();
    for event in event::docs().into_iter().filter(|_| part.has_events) {
        let parts = event.schemas.iter();
        schemas.extend(parts.map(|(name, schema)| (name.clone(), rendered(schema))));
        webhooks.insert(event.name.to_owned(), describe_event(event));
    }
    // Last, so that no operation's type can replace it.
    schemas.insert("Error".into(), error_schema(part));
    let tags: Vec<_> = TAGS
        .into_iter()
        .filter(|(name, _)| tags.contains(name))
        .map(|(name, description)| json!({"name": name, "description": description}))
        .collect();
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            // The API's version, not the program's.
            "title": part.title, "version": "v1", "description": part.about,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"}
        },
        // Relative, so that the description is right behind every host name.
        "servers": [{"url": "/", "description": "The server that this description comes from"}],
        "tags": tags,
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": security_schemes(part)
        }
    });
    if part.has_events {
        document["webhooks"] = webhooks.into();
    }
    document
}

/// Generates the description as JSON text.
pub fn text(part: &ApiPart) -> String {
    // A JSON value always has a text.
    serde_json::to_string_pretty(&document(part)).unwrap_or_default()
}
