//! How an operation is described: its parameters, bodies, examples and the schemas they need. `openapi` renders it.

use serde_json::{Value, json};
use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};

use super::input::{BodyDoc, ParameterDocs};

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
}

/// The described body of a success.
pub struct ResponseDoc {
    /// The schema, or a `$ref` to it.
    pub schema: Value,
    /// An example.
    pub example: Value,
    /// The schemas it refers to, by name.
    pub schemas: Vec<(String, RefOr<Schema>)>,
}

impl OperationDoc {
    /// The description of what an operation reads.
    #[must_use]
    pub fn new(path: ParameterDocs, query: ParameterDocs, body: Option<BodyDoc>) -> Self {
        let parameters = path.0.into_iter().chain(query.0).collect();
        Self { tag: "", summary: "", parameters, body, body_example: None, response: None }
    }

    /// Every schema that the bodies refer to, by name.
    pub fn schemas(&self) -> impl Iterator<Item = &(String, RefOr<Schema>)> {
        let request = self.body.iter().flat_map(|body| &body.schemas);
        request.chain(self.response.iter().flat_map(|response| &response.schemas))
    }
}

impl ResponseDoc {
    /// The body `R`.
    #[must_use]
    pub fn of<R: ToSchema>(example: Value) -> Self {
        let BodyDoc { schema, schemas, .. } = BodyDoc::new::<R>();
        Self { schema, example, schemas }
    }

    /// A page of `R` under the name `collection`.
    #[must_use]
    pub fn page<R: ToSchema>(collection: &str, example: Value) -> Self {
        let BodyDoc { schema: item, schemas, .. } = BodyDoc::new::<R>();
        let schema = json!({
            "type": "object",
            "required": [collection, "limit", "offset", "has_more"],
            "properties": {
                collection: {"type": "array", "items": item},
                "limit": {"type": "integer"}, "offset": {"type": "integer"}, "has_more": {"type": "boolean"}
            }
        });
        let example = json!({collection: [example], "limit": 50, "offset": 0, "has_more": false});
        Self { schema, example, schemas }
    }
}
