//! How parameters and bodies are described: the pieces that the OpenAPI description is put together from.

use conclave_model::page::PageRequest;
use serde_json::{Value, json};
use utoipa::openapi::path::ParameterIn;
use utoipa::openapi::{RefOr, Schema};
use utoipa::{IntoParams, ToSchema};

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
