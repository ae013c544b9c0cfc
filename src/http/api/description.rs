//! How an operation is described: its parameters, bodies, examples and the schemas they need. `openapi` renders it.

use conclave_model::ErrorCode;
use conclave_model::page::PageRequest;
use serde_json::{Value, json};
use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};

use super::input::{BodyDoc, ParameterDocs, pattern_code};

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
