//! What an operation is declared with, apart from the code that runs it.
//!
//! [`OperationSpec`] is what the router, the frame, the limits, the trace and the OpenAPI description read. [`OperationDoc`] is for the
//! description alone, which `openapi` renders: parameters, bodies, examples and the schemas they need.

use conclave_model::ErrorCode;
use conclave_model::page::PageRequest;
use conclave_model::plan::Feature;
use conclave_model::role::Permission;
use serde_json::{Value, json};
use utoipa::openapi::path::ParameterIn;
use utoipa::openapi::{RefOr, Schema};
use utoipa::{IntoParams, PartialSchema, ToSchema};

use super::input::pattern_code;

/// An HTTP method of the API.
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

/// The credential an operation takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// A project API key.
    Key,
    /// A project API key, or a room token whose acting role holds the permission. Where several are listed, the request's
    /// content decides which one applies.
    KeyOrRoomToken(&'static [Permission]),
    /// No credential: the path holds a secret.
    Open(OpenAccess),
}

/// An operation without a credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenAccess {
    /// The path parameter that is the secret. Its value never reaches a log.
    pub secret: &'static str,
    /// The request rates by client address and by secret.
    pub rates: OpenRates,
}

/// Which configured rates an open operation has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenRates {
    /// `limits.exchange_per_second` and `limits.exchange_burst`.
    Exchange,
}

/// The declaration of one operation of the API.
#[derive(Debug)]
pub struct OperationSpec {
    /// The operation id: in the description, in logs, in metrics and in the scope of idempotency keys.
    pub id: &'static str,
    /// The HTTP method.
    pub method: Method,
    /// The path, with parameters in braces.
    pub path: &'static str,
    /// The credential that a request must have.
    pub access: Access,
    /// Whether it takes an `Idempotency-Key`.
    pub idempotent: bool,
    /// Whether its response shows a secret, so that a stored one is encrypted.
    pub secret_response: bool,
    /// The path parameter that is a secret although the operation takes a credential.
    pub secret_path: Option<&'static str>,
    /// Whether it changes nothing, as each with the method `GET`.
    pub only_reads: bool,
    /// Whether it starts work that the project's plan and wallet must cover.
    pub starts_work: bool,
    /// The feature that the plan must include.
    pub feature: Option<Feature>,
    /// The statuses of success.
    pub success: &'static [u16],
    /// Its own error codes; [`OperationSpec::error_codes`] adds those that follow from the rest of the declaration.
    pub errors: &'static [ErrorCode],
    /// The codes with which parameters and bodies are refused that do not parse.
    pub parse_errors: Vec<ErrorCode>,
    /// Whether it takes a body.
    pub takes_body: bool,
}

impl OperationSpec {
    /// The path parameter that no log may show, if there is one.
    pub const fn secret_parameter(&self) -> Option<&'static str> {
        match self.access {
            Access::Open(open) => Some(open.secret),
            Access::Key | Access::KeyOrRoomToken(_) => self.secret_path,
        }
    }

    /// Whether browsers of `http.browser_origins` may call it: what a room token can do, and the way to get one.
    pub const fn is_for_browsers(&self) -> bool {
        matches!(self.access, Access::KeyOrRoomToken(_) | Access::Open(_))
    }

    /// The permissions of which a room token needs one; none for an operation that takes keys alone.
    pub const fn permissions(&self) -> &'static [Permission] {
        match self.access {
            Access::KeyOrRoomToken(permissions) => permissions,
            Access::Key | Access::Open(_) => &[],
        }
    }

    /// Whether it acts on participants, recordings or broadcasts of the media plane, which nothing undoes. Those that a room token may call do.
    pub const fn acts_on_media_plane(&self) -> bool {
        matches!(self.access, Access::KeyOrRoomToken(_))
    }

    /// Every code the operation is described with, by status: its own, and those of the checks that it declares.
    pub fn error_codes(&self) -> Vec<ErrorCode> {
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
        // An operation with a 400 refuses unknown query parameters, too.
        if codes.iter().any(|code| code.status() == 400) {
            codes.push(ErrorCode::InvalidRequest);
        }
        codes.sort_by_key(|code| (code.status(), code.as_str()));
        codes.dedup();
        codes
    }
}

/// The description of one operation.
pub struct OperationDoc {
    /// The group it is shown in.
    pub tag: &'static str,
    /// One line on what it does.
    pub summary: &'static str,
    /// The path parameters, then the query parameters.
    pub parameters: Vec<Value>,
    /// The request's body.
    pub body: Option<BodyDoc>,
    /// An example of the request's body.
    pub body_example: Option<Value>,
    /// The body of a success; `None` for 204.
    pub response: Option<ResponseDoc>,
    /// The operations that a success leads to.
    pub links: Vec<Link>,
}

/// A link from a success to an operation that takes what the response or the request has.
#[derive(Debug, Clone, Copy)]
pub struct Link {
    /// The id of the operation it leads to.
    pub operation: &'static str,
    /// Names of parameters, each with the runtime expression of its value.
    pub parameters: &'static [(&'static str, &'static str)],
}

/// The described body of a success.
pub struct ResponseDoc {
    /// The schema, or a `$ref` to it.
    pub schema: Value,
    /// A valid value, which the description shows.
    pub example: Value,
    /// The schemas it refers to, by name.
    pub schemas: Vec<(String, RefOr<Schema>)>,
}

impl OperationDoc {
    /// The description of what an operation reads.
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

    /// The codes with which parameters and bodies are refused that do not parse; without those of the path if it has its own refusal.
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

    /// Every schema that the bodies refer to, by name.
    pub fn schemas(&self) -> impl Iterator<Item = &(String, RefOr<Schema>)> {
        let request = self.body.iter().flat_map(|body| &body.schemas);
        request.chain(self.response.iter().flat_map(|response| &response.schemas))
    }
}

/// Adds the codes of the texts outside the patterns that a schema has.
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
    /// The body `R`.
    pub fn of<R: ToSchema>(example: Value) -> Self {
        let BodyDoc {
            schema, schemas, ..
        } = BodyDoc::new::<R>();
        Self {
            schema,
            example,
            schemas,
        }
    }

    /// A page of `R` under the name `collection`.
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
        let example = json!({collection: [example], "limit": 50, "offset": 0, "has_more": false});
        Self {
            schema,
            example,
            schemas,
        }
    }
}

/// The described parameters of a path or a query.
#[derive(Debug, Default, Clone)]
pub struct ParameterDocs(pub Vec<Value>);

impl ParameterDocs {
    /// The parameters of a path type.
    pub fn path<P: IntoParams>() -> Self {
        Self::of::<P>(ParameterIn::Path)
    }

    /// The parameters of a query type.
    pub fn query<Q: IntoParams>() -> Self {
        Self::of::<Q>(ParameterIn::Query)
    }

    fn of<T: IntoParams>(place: ParameterIn) -> Self {
        let parameters = T::into_params(|| Some(place.clone()));
        // A parameter is data; writing it as JSON cannot fail.
        Self(
            parameters
                .iter()
                .map(|parameter| serde_json::to_value(parameter).unwrap_or_default())
                .collect(),
        )
    }

    /// The parameters, with `limit` and `offset` behind them.
    #[must_use]
    pub fn paged(mut self) -> Self {
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

/// For `schema_with`: a field that the contract does not have. A request without it means what the contract says.
pub fn extension<T: PartialSchema>() -> RefOr<Schema> {
    let mut schema = T::schema();
    if let RefOr::T(Schema::Object(field)) = &mut schema {
        field
            .extensions
            .get_or_insert_default()
            .insert("x-extension".to_owned(), json!(true));
    }
    schema
}

/// A described body: the reference to its schema, the schemas it needs, and whether it must be sent.
#[derive(Clone)]
pub struct BodyDoc {
    /// A `$ref` into the schemas.
    pub schema: Value,
    /// The schema and those it refers to, by name.
    pub schemas: Vec<(String, RefOr<Schema>)>,
    /// Whether a request without the body is refused.
    pub required: bool,
}

impl BodyDoc {
    /// The body `T`, which must be sent.
    pub fn new<T: ToSchema>() -> Self {
        let name = T::name().into_owned();
        let mut schemas = Vec::new();
        T::schemas(&mut schemas);
        schemas.push((name.clone(), T::schema()));
        Self {
            schema: json!({"$ref": format!("#/components/schemas/{name}")}),
            schemas,
            required: true,
        }
    }

    /// Adds a keyword of JSON Schema to the body's own schema.
    pub fn add_rule(&mut self, keyword: &str, rule: Value) {
        if let Some((_, RefOr::T(Schema::Object(body)))) = self.schemas.last_mut() {
            body.extensions
                .get_or_insert_default()
                .insert(keyword.to_owned(), rule);
        }
    }

    /// The same body, which may be left out.
    #[must_use]
    pub fn optional(self) -> Self {
        Self {
            required: false,
            ..self
        }
    }
}
