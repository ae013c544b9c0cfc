//! The OpenAPI 3.1.0 description, made from the operations themselves: what is routed is what is described.

use std::collections::BTreeMap;

use conclave_model::ErrorCode;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};

use super::operation::{Auth, Operation, all};

const DESCRIPTION: &str = "Control plane for real-time video calls. Every failure has one envelope; branch on `code`. \
    Besides the codes listed with an operation, any can answer 403 `origin_rejected` (a browser call from another \
    origin), 413 `payload_too_large`, 415 `unsupported_media_type` and 503 `database_unavailable`, and one that takes \
    an `Idempotency-Key` 409 `idempotency_key_reuse`.";

/// A parameter in a path or a query.
#[derive(Debug, Clone, Copy)]
pub struct Param {
    name: &'static str,
    description: &'static str,
    form: Form,
}

/// What a parameter may be.
#[derive(Debug, Clone, Copy)]
enum Form {
    /// A part of a path, of this pattern.
    Part(&'static str),
    /// A text.
    Text,
    /// A text of this format.
    Formatted(&'static str),
    /// One of these words, which stand with a comma between them.
    Word(&'static str),
    /// `true` or `false`.
    Flag,
}

impl Param {
    /// A room's name.
    pub const ROOM: Self = Self::of_path("name", "The room's name", "^[a-zA-Z0-9_-]{1,128}$");
    /// A participant's identity.
    pub const IDENTITY: Self = Self::of_path("identity", "Who", "^[a-zA-Z0-9_.@-]{1,128}$");
    /// A template's id.
    pub const TEMPLATE: Self = Self::of_path("id", "The template's id", "^tpl_[0-9a-f]{12}$");
    /// A role's name.
    pub const ROLE: Self = Self::of_path("name", "The role's name", "^[a-zA-Z0-9_-]{1,64}$");
    /// A destination's name.
    pub const DESTINATION: Self = Self::of_path("name", "The destination's name", "^[a-zA-Z0-9_-]{1,64}$");
    /// A room code.
    pub const CODE: Self = Self::of_path("code", "The room code", conclave_model::code::PATTERN);
    /// A recording's or a broadcast's handle.
    pub const EGRESS: Self = Self::of_path("egress_id", "The egress id", "^[!-~]{1,128}$");
    /// An ingress endpoint.
    pub const INGRESS: Self = Self::of_path("ingress_id", "The endpoint's id", "^[!-~]{1,128}$");
    /// A UUID.
    pub const UUID: Self = Self::of_path("id", "The id", "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$");

    const fn of_path(name: &'static str, description: &'static str, pattern: &'static str) -> Self {
        Self { name, description, form: Form::Part(pattern) }
    }

    /// A query parameter.
    #[must_use]
    pub const fn query(name: &'static str, description: &'static str) -> Self {
        Self { name, description, form: Form::Text }
    }

    /// A query parameter that is one of some words, given as in `a, b, c`.
    #[must_use]
    pub const fn one_of(name: &'static str, description: &'static str, words: &'static str) -> Self {
        Self { name, description, form: Form::Word(words) }
    }

    /// A query parameter of a format of JSON Schema's, such as `date-time`.
    #[must_use]
    pub const fn formatted(name: &'static str, description: &'static str, format: &'static str) -> Self {
        Self { name, description, form: Form::Formatted(format) }
    }

    /// A query parameter that is `true` or `false`.
    #[must_use]
    pub const fn flag(name: &'static str, description: &'static str) -> Self {
        Self { name, description, form: Form::Flag }
    }

    fn render(&self) -> Value {
        let (in_path, schema) = match self.form {
            Form::Part(pattern) => (true, json!({"type": "string", "pattern": pattern})),
            Form::Text => (false, json!({"type": "string"})),
            Form::Formatted(format) => (false, json!({"type": "string", "format": format})),
            Form::Word(words) => (false, json!({"type": "string", "enum": words.split(", ").collect::<Vec<_>>()})),
            Form::Flag => (false, json!({"type": "boolean"})),
        };
        let place = if in_path { "path" } else { "query" };
        json!({
            "name": self.name, "in": place, "required": in_path, "description": self.description, "schema": schema
        })
    }
}

/// A body with its schema and an example.
struct Body {
    schema: Value,
    example: Value,
    required: bool,
}

/// How one operation is described.
pub struct Doc {
    tag: &'static str,
    summary: &'static str,
    params: Vec<Value>,
    request: Option<Body>,
    answer: Option<Body>,
    schemas: Vec<(String, RefOr<Schema>)>,
}

impl Doc {
    /// A description without parameters and bodies.
    #[must_use]
    pub fn new(tag: &'static str, summary: &'static str) -> Self {
        Self { tag, summary, params: Vec::new(), request: None, answer: None, schemas: Vec::new() }
    }

    /// Whether the operation takes a body.
    #[must_use]
    pub fn takes_body(&self) -> bool {
        self.request.is_some()
    }

    /// A path parameter.
    #[must_use]
    pub fn path(mut self, param: Param) -> Self {
        self.params.push(param.render());
        self
    }

    /// A query parameter.
    #[must_use]
    pub fn query(mut self, param: Param) -> Self {
        self.params.push(param.render());
        self
    }

    /// The request's body.
    #[must_use]
    pub fn body<T: ToSchema>(mut self, example: Value) -> Self {
        let schema = self.register::<T>();
        self.request = Some(Body { schema, example, required: true });
        self
    }

    /// The request's body, which may be left out.
    #[must_use]
    pub fn optional_body<T: ToSchema>(self, example: Value) -> Self {
        let mut doc = self.body::<T>(example);
        if let Some(body) = &mut doc.request {
            body.required = false;
        }
        doc
    }

    /// The answer's body.
    #[must_use]
    pub fn answer<T: ToSchema>(mut self, example: Value) -> Self {
        let schema = self.register::<T>();
        self.answer = Some(Body { schema, example, required: true });
        self
    }

    /// A page of `T` under the name `collection`, with `limit`, `offset` and `filters` as query parameters.
    #[must_use]
    pub fn page<T: ToSchema>(mut self, collection: &str, example: Value, filters: &[Param]) -> Self {
        let item = self.register::<T>();
        self.params.extend(filters.iter().map(Param::render));
        self.params.extend(paging());
        let schema = json!({
            "type": "object",
            "required": [collection, "limit", "offset", "has_more"],
            "properties": {
                collection: {"type": "array", "items": item},
                "limit": {"type": "integer"}, "offset": {"type": "integer"}, "has_more": {"type": "boolean"}
            }
        });
        let example = json!({collection: [example], "limit": 50, "offset": 0, "has_more": false});
        self.answer = Some(Body { schema, example, required: true });
        self
    }

    /// Files a schema and what it refers to, and gives a reference to it.
    fn register<T: ToSchema>(&mut self) -> Value {
        let name = T::name().into_owned();
        T::schemas(&mut self.schemas);
        self.schemas.push((name.clone(), T::schema()));
        json!({"$ref": format!("#/components/schemas/{name}")})
    }
}

fn paging() -> [Value; 2] {
    let param = |name: &str, schema: Value| json!({"name": name, "in": "query", "required": false, "schema": schema});
    [
        param("limit", json!({"type": "integer", "minimum": 1, "maximum": 200, "default": 50})),
        param("offset", json!({"type": "integer", "minimum": 0, "default": 0})),
    ]
}

/// Every code an operation is described with: its own, and those that its row of the contract always has.
#[must_use]
pub fn error_codes(operation: &Operation) -> Vec<ErrorCode> {
    let mut codes = vec![ErrorCode::RateLimited, ErrorCode::InternalError];
    if operation.auth != Auth::Open {
        codes.push(ErrorCode::Unauthorized);
    }
    if (operation.doc)().takes_body() {
        codes.extend([ErrorCode::InvalidRequest, ErrorCode::PayloadTooLarge]);
    }
    if let Auth::KeyOrRoomToken(_) = operation.auth {
        codes.push(ErrorCode::PermissionDenied);
    }
    codes.extend(operation.codes);
    // Whatever lists a 400 refuses unknown query parameters, too.
    if codes.iter().any(|code| code.status() == 400) {
        codes.push(ErrorCode::InvalidRequest);
    }
    codes.sort_by_key(|code| (code.status(), code.as_str()));
    codes.dedup();
    codes
}

fn error_responses(operation: &Operation) -> Map<String, Value> {
    let mut by_status: BTreeMap<u16, Vec<&str>> = BTreeMap::new();
    for code in error_codes(operation) {
        by_status.entry(code.status()).or_default().push(code.as_str());
    }
    let response = |(status, codes): (u16, Vec<&str>)| {
        let example = json!({"error": {"code": codes[0], "message": "what was wrong, for people"}});
        let mut response = json!({
            "description": codes.iter().map(|code| format!("`{code}`")).collect::<Vec<_>>().join(", "),
            "content": {"application/json": {
                "schema": {"$ref": "#/components/schemas/Error"}, "example": example
            }},
            "x-error-codes": codes
        });
        if matches!(status, 429 | 503) {
            response["headers"] = json!({"Retry-After": {
                "description": "When to come again, in seconds", "schema": {"type": "integer", "minimum": 1}
            }});
        }
        (status.to_string(), response)
    };
    by_status.into_iter().map(response).collect()
}

fn describe(operation: &Operation, doc: &Doc) -> Value {
    let mut responses = error_responses(operation);
    for status in operation.success {
        let mut response = json!({"description": "success"});
        if let Some(body) = &doc.answer {
            response["content"] = json!({"application/json": {"schema": body.schema, "example": body.example}});
        }
        responses.insert(status.to_string(), response);
    }
    let mut params = doc.params.clone();
    if operation.idempotent {
        params.push(json!({
            "name": "Idempotency-Key", "in": "header", "required": false,
            "description": "Replaying a key with the same body replays the original answer, for 24 hours",
            "schema": {"type": "string", "minLength": 1, "maxLength": 255}
        }));
    }
    let security = match operation.auth {
        Auth::Key => json!([{"apiKey": []}]),
        Auth::KeyOrRoomToken(_) => json!([{"apiKey": []}, {"roomToken": []}]),
        Auth::Open => json!([]),
    };
    let mut described = json!({
        "operationId": operation.id, "tags": [doc.tag], "summary": doc.summary, "parameters": params,
        "responses": responses, "security": security
    });
    if let Some(body) = &doc.request {
        described["requestBody"] = json!({
            "required": body.required,
            "content": {"application/json": {"schema": body.schema, "example": body.example}}
        });
    }
    if let Auth::KeyOrRoomToken(permissions) = operation.auth {
        let names: Vec<&str> = permissions.iter().map(|permission| permission.as_str()).collect();
        described["x-permission"] = names.join("|").into();
    }
    described
}

fn error_schema() -> Value {
    let codes: Vec<&str> = ErrorCode::ALL.iter().map(|code| code.as_str()).collect();
    json!({
        "type": "object", "required": ["error"],
        "properties": {"error": {
            "type": "object", "required": ["code", "message"],
            "properties": {
                "code": {"type": "string", "description": "stable; one not known is its status class", "examples": codes},
                "message": {"type": "string", "description": "prose; it may change"},
                "field": {"type": "string", "description": "the offending field, or the missing permission"}
            }
        }}
    })
}

/// A schema as JSON. Numbers are called `int64`, not what they are here: 32 bits without a sign do not fit `int32`.
fn rendered(schema: RefOr<Schema>) -> Value {
    fn widen(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                if fields.get("format").is_some_and(|format| format == "int32") {
                    fields.insert("format".into(), "int64".into());
                }
                fields.values_mut().for_each(widen);
            }
            Value::Array(items) => items.iter_mut().for_each(widen),
            _ => {}
        }
    }
    // A schema is data; writing it as JSON cannot fail.
    let mut json = serde_json::to_value(schema).unwrap_or_default();
    widen(&mut json);
    json
}

/// The description of everything that is routed.
#[must_use]
pub fn document() -> Value {
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    let mut schemas: BTreeMap<String, Value> = BTreeMap::new();
    for operation in all() {
        let doc = (operation.doc)();
        let method = operation.method.as_str().to_ascii_lowercase();
        paths.entry(operation.path).or_default().insert(method, describe(operation, &doc));
        schemas.extend(doc.schemas.into_iter().map(|(name, schema)| (name, rendered(schema))));
    }
    schemas.insert("Error".into(), error_schema());
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Conclave", "version": "v1", "description": DESCRIPTION, "license": {"name": "Apache-2.0"}
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "apiKey": {"type": "http", "scheme": "bearer", "description": "A project API key, vk_…"},
                "roomToken": {"type": "apiKey", "in": "header", "name": "X-Svc-Room-Token"}
            }
        }
    })
}

/// The description as text.
#[must_use]
pub fn text() -> String {
    // A JSON value always has a text.
    serde_json::to_string_pretty(&document()).unwrap_or_default()
}
