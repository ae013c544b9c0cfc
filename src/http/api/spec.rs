//! An operation's declaration as data, apart from the code that runs it.
//!
//! [`OperationSpec`] serves the router, the frame, the limits, the trace and the OpenAPI description. [`OperationDoc`] serves the
//! description alone, which `openapi` renders: parameters, bodies, examples and their schemas.

use conclave_model::ErrorCode;
use conclave_model::page::PageRequest;
use conclave_model::plan::Feature;
use conclave_model::role::Permission;
use serde_json::{Value, json};
use utoipa::openapi::path::ParameterIn;
use utoipa::openapi::{RefOr, Schema};
use utoipa::{IntoParams, PartialSchema, ToSchema};

use super::input::pattern_code;

/// HTTP method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Reads, and changes nothing.
    Get,
    /// Creates a resource or runs an action.
    Post,
    /// Creates or replaces a resource.
    Put,
    /// Changes the fields that are sent.
    Patch,
    /// Ends or deletes a resource.
    Delete,
}

impl Method {
    /// The method in upper case, as in a request line.
    // Methods are case-sensitive (RFC 9110, section 9.1).
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }
}

/// Credential that an operation accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Project API key.
    Key,
    /// Project API key, or a room token whose acting role holds the permission. If several are listed, the request's content decides
    /// which one applies.
    KeyOrRoomToken(&'static [Permission]),
    /// No credential: the path contains a secret.
    Open(OpenAccess),
}

/// Access without a credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenAccess {
    /// Path parameter with the secret. Its value never reaches a log.
    pub secret: &'static str,
    /// Request rates by client address and by secret.
    pub rates: OpenRates,
}

/// An open operation's configured rates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenRates {
    /// `limits.exchange_per_second` and `limits.exchange_burst`.
    Exchange,
}

/// An operation's declaration.
#[derive(Debug)]
pub struct OperationSpec {
    /// Operation id: in the description, logs, metrics, and the scope of idempotency keys.
    // Never renamed: stored idempotency keys and dashboards refer to it.
    pub id: &'static str,
    /// HTTP method.
    pub method: Method,
    /// Path, with parameters in braces.
    pub path: &'static str,
    /// Required credential.
    pub access: Access,
    /// Whether it accepts an `Idempotency-Key`.
    pub idempotent: bool,
    /// Whether its response contains a secret; a stored response is then encrypted.
    pub secret_response: bool,
    /// Path parameter that is a secret although the operation requires a credential.
    pub secret_path: Option<&'static str>,
    /// Whether it changes nothing. True for every `GET`.
    pub only_reads: bool,
    /// Whether it starts work that the project's plan and wallet must cover.
    pub starts_work: bool,
    /// Feature that the plan must include.
    pub feature: Option<Feature>,
    /// Success statuses.
    pub success: &'static [u16],
    /// Own error codes; [`OperationSpec::error_codes`] adds the codes that follow from the rest of the declaration.
    pub errors: &'static [ErrorCode],
    /// Error codes for unparsable parameters and bodies.
    pub parse_errors: Vec<ErrorCode>,
    /// Whether it accepts a body.
    pub takes_body: bool,
}

impl OperationSpec {
    /// Returns the path parameter that no log may show, if there is one.
    pub const fn secret_parameter(&self) -> Option<&'static str> {
        match self.access {
            // An open operation's secret is its credential.
            Access::Open(open) => Some(open.secret),
            Access::Key | Access::KeyOrRoomToken(_) => self.secret_path,
        }
    }

    /// Returns whether browsers of `http.browser_origins` may call the operation: it is for room tokens, or is the exchange that returns
    /// one.
    pub const fn is_for_browsers(&self) -> bool {
        matches!(self.access, Access::KeyOrRoomToken(_) | Access::Open(_))
    }

    /// Returns the permissions, one of them required of a room token; empty for an operation that accepts only keys.
    pub const fn permissions(&self) -> &'static [Permission] {
        match self.access {
            Access::KeyOrRoomToken(permissions) => permissions,
            Access::Key | Access::Open(_) => &[],
        }
    }

    /// Returns whether the operation acts on the media plane's participants, recordings or broadcasts, which cannot be undone. These are
    /// the operations that a room token may call.
    pub const fn acts_on_media_plane(&self) -> bool {
        matches!(self.access, Access::KeyOrRoomToken(_))
    }

    /// Returns every error code of the description, sorted by status: its own, and its declared checks'.
    pub fn error_codes(&self) -> Vec<ErrorCode> {
        // Any operation can be over its rate or meet a fault.
        let mut codes = vec![ErrorCode::RateLimited, ErrorCode::InternalError];
        if !matches!(self.access, Access::Open(_)) {
            codes.push(ErrorCode::Unauthorized);
        }
        if self.takes_body {
            codes.extend([ErrorCode::InvalidRequest, ErrorCode::PayloadTooLarge]);
        }
        if let Access::KeyOrRoomToken(_) = self.access {
            codes.push(ErrorCode::PermissionDenied);
        }
        if self.idempotent {
            codes.push(ErrorCode::IdempotencyKeyReuse);
        }
        if self.starts_work {
            codes.extend([ErrorCode::QuotaExceeded, ErrorCode::InsufficientBalance]);
        }
        if self.feature.is_some() {
            codes.push(ErrorCode::FeatureNotInPlan);
        }
        codes.extend(self.errors);
        codes.extend(&self.parse_errors);
        // An operation with a 400 also refuses unknown query parameters. An operation without (`AnyQuery`) ignores them.
        if codes.iter().any(|code| code.status() == 400) {
            codes.push(ErrorCode::InvalidRequest);
        }
        codes.sort_by_key(|code| (code.status(), code.as_str()));
        // A declaration may list a code that follows from it anyway.
        codes.dedup();
        codes
    }
}

/// An operation's OpenAPI texts and schemas.
pub struct OperationDoc {
    /// Group that the operation is shown in.
    pub tag: &'static str,
    /// One-line summary.
    pub summary: &'static str,
    /// Path parameters, then query parameters.
    pub parameters: Vec<Value>,
    /// Request body.
    pub body: Option<BodyDoc>,
    /// Example request body.
    pub body_example: Option<Value>,
    /// Success body; `None` for 204.
    pub response: Option<ResponseDoc>,
    /// Operations that a success leads to.
    pub links: Vec<Link>,
}

/// Link from a success to an operation whose parameters come from the response or the request.
#[derive(Debug, Clone, Copy)]
pub struct Link {
    /// The target operation's id.
    pub operation: &'static str,
    /// Parameter names, each with its value's runtime expression.
    pub parameters: &'static [(&'static str, &'static str)],
}

/// Described success body.
pub struct ResponseDoc {
    /// Schema, or a `$ref` to it.
    pub schema: Value,
    /// Valid example value.
    pub example: Value,
    /// Referenced schemas, by name.
    pub schemas: Vec<(String, RefOr<Schema>)>,
}

impl OperationDoc {
    /// Describes an operation's input.
    pub fn new(ParameterDocs(parameters): ParameterDocs, body: Option<BodyDoc>) -> Self {
        Self {
            tag: "",
            summary: "",
            parameters,
            body,
            body_example: None,
            response: None,
            links: Vec::new(),
        }
    }

    /// Returns the error codes for unparsable parameters and bodies, without the path's if it has its own refusal.
    pub fn parse_errors(&self, with_path: bool) -> Vec<ErrorCode> {
        let mut codes = Vec::new();
        for parameter in self
            .parameters
            .iter()
            .filter(|parameter| with_path || parameter["in"] != "path")
        {
            codes.push(ErrorCode::InvalidRequest);
            add_pattern_codes(parameter, &mut codes);
        }
        for (_, schema) in self.body.iter().flat_map(|body| &body.schemas) {
            // A schema is data; writing it as JSON cannot fail.
            add_pattern_codes(
                &serde_json::to_value(schema).unwrap_or_default(),
                &mut codes,
            );
        }
        codes
    }

    /// Iterates over every schema that the bodies refer to, by name.
    pub fn schemas(&self) -> impl Iterator<Item = &(String, RefOr<Schema>)> {
        let request = self.body.iter().flat_map(|body| &body.schemas);
        request.chain(self.response.iter().flat_map(|response| &response.schemas))
    }
}

/// Adds the error codes for a schema's patterns.
fn add_pattern_codes(schema: &Value, codes: &mut Vec<ErrorCode>) {
    match schema {
        Value::Object(fields) => {
            codes.extend(
                fields
                    .get("pattern")
                    .and_then(Value::as_str)
                    .and_then(pattern_code),
            );
            fields
                .values()
                .for_each(|inner| add_pattern_codes(inner, codes));
        }
        Value::Array(items) => items
            .iter()
            .for_each(|inner| add_pattern_codes(inner, codes)),
        _ => {}
    }
}

impl ResponseDoc {
    /// Describes the body `R`.
    pub fn for_body<R: ToSchema>(example: Value) -> Self {
        let BodyDoc {
            schema, schemas, ..
        } = BodyDoc::new::<R>();
        Self {
            schema,
            example,
            schemas,
        }
    }

    /// Describes a page of `R` under the name `collection`.
    pub fn page<R: ToSchema>(collection: &str, example: Value) -> Self {
        let BodyDoc {
            schema: item,
            schemas,
            ..
        } = BodyDoc::new::<R>();
        let schema = json!({
            "type": "object",
            "required": [collection, "limit", "offset", "has_more"],
            "properties": {
                collection: {"type": "array", "items": item},
                "limit": {"type": "integer", "minimum": 1, "maximum": PageRequest::MAX_LIMIT},
                "offset": {"type": "integer", "format": "int64", "minimum": 0, "maximum": PageRequest::MAX_OFFSET},
                "has_more": {"type": "boolean"}
            }
        });
        // The default limit, as for a client without parameters.
        let example = json!({collection: [example], "limit": 50, "offset": 0, "has_more": false});
        Self {
            schema,
            example,
            schemas,
        }
    }
}

impl ResponseDoc {
    /// Adds `cursor` and `gap` to a described page.
    #[must_use]
    pub fn with_cursor(mut self) -> Self {
        let fields = [
            (
                "cursor",
                json!({
                    "type": "integer", "format": "int64", "minimum": 0,
                    "description": "The position after this page: `after` of the next request."
                }),
                // The example's only item is the last one of the page.
                json!(42),
            ),
            (
                "gap",
                json!({
                    "type": "boolean",
                    "description": "Whether items after `after` are missing: they were deleted because of their age, or the server's records \
                                    are older than `after`."
                }),
                json!(false),
            ),
        ];
        for (name, schema, example) in fields {
            self.schema["properties"][name] = schema;
            if let Some(required) = self.schema["required"].as_array_mut() {
                required.push(json!(name));
            }
            self.example[name] = example;
        }
        self
    }
}

/// Described parameters of a path or a query.
#[derive(Debug, Default, Clone)]
pub struct ParameterDocs(pub Vec<Value>);

impl ParameterDocs {
    /// Describes a path type's parameters.
    pub fn path<P: IntoParams>() -> Self {
        Self::new::<P>(ParameterIn::Path)
    }

    /// Describes a query type's parameters.
    pub fn query<Q: IntoParams>() -> Self {
        Self::new::<Q>(ParameterIn::Query)
    }

    fn new<T: IntoParams>(location: ParameterIn) -> Self {
        let parameters = T::into_params(|| Some(location.clone()));
        // A parameter is data; writing it as JSON cannot fail.
        Self(
            parameters
                .iter()
                .map(|parameter| serde_json::to_value(parameter).unwrap_or_default())
                .collect(),
        )
    }

    /// Appends `limit` and `offset`.
    #[must_use]
    pub fn paged(mut self) -> Self {
        // By hand, because both are removed before serde parses the filters.
        let parameter = |name: &str, description: &str, schema: Value| json!({"name": name, "in": "query", "required": false, "description": description, "schema": schema});
        let limit = json!({
            "type": "integer", "minimum": 1, "maximum": PageRequest::MAX_LIMIT, "default": PageRequest::DEFAULT_LIMIT
        });
        let offset = json!({"type": "integer", "format": "int64", "minimum": 0, "maximum": PageRequest::MAX_OFFSET, "default": 0});
        self.0.push(parameter("limit", "Items on the page", limit));
        self.0.push(parameter("offset", "Items skipped", offset));
        self
    }
}

/// For `schema_with`: marks a field that the contract does not have. A request without it means what the contract defines.
pub fn extension<T: PartialSchema>() -> RefOr<Schema> {
    let mut schema = T::schema();
    // Only an inline schema can carry the mark.
    let extensions = match &mut schema {
        RefOr::T(Schema::Object(field)) => Some(&mut field.extensions),
        RefOr::T(Schema::Array(field)) => Some(&mut field.extensions),
        _ => None,
    };
    if let Some(extensions) = extensions {
        extensions
            .get_or_insert_default()
            .insert("x-extension".to_owned(), json!(true));
    }
    schema
}

/// Described body: a reference to its schema, the schemas that it needs, and whether it is required.
#[derive(Clone)]
pub struct BodyDoc {
    /// `$ref` into the schemas.
    pub schema: Value,
    /// The schema and its referenced schemas, by name.
    pub schemas: Vec<(String, RefOr<Schema>)>,
    /// Whether a request without the body is refused.
    pub required: bool,
}

impl BodyDoc {
    /// Describes the required body `T`.
    pub fn new<T: ToSchema>() -> Self {
        let name = T::name().into_owned();
        let mut schemas = Vec::new();
        T::schemas(&mut schemas);
        schemas.push((name.clone(), T::schema()));
        // Referenced by name, so that a type of several operations is described once.
        Self {
            schema: json!({"$ref": format!("#/components/schemas/{name}")}),
            schemas,
            required: true,
        }
    }

    /// Adds a JSON Schema keyword to the body's own schema.
    pub fn add_rule(&mut self, keyword: &str, rule: Value) {
        // `new` pushes the body's own schema last, after the schemas that it refers to.
        if let Some((_, RefOr::T(Schema::Object(body)))) = self.schemas.last_mut() {
            body.extensions
                .get_or_insert_default()
                .insert(keyword.to_owned(), rule);
        }
    }

    /// Makes the body optional.
    #[must_use]
    pub fn optional(self) -> Self {
        Self {
            required: false,
            ..self
        }
    }
}
