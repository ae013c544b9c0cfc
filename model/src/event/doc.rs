//! Description of events for the OpenAPI document: each event's body schema, composed from the
//! schemas of its parts.

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use utoipa::openapi::schema::{Object, ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};

/// The description of an event.
pub struct EventDoc {
    /// Its name.
    pub name: &'static str,
    /// When it is sent, as a sentence.
    pub summary: &'static str,
    /// The schema of its body.
    pub schema: Object,
    /// The schemas that it refers to, by name.
    pub schemas: Vec<(String, RefOr<Schema>)>,
    /// A valid body.
    pub example: Value,
    /// Whether the contract does not have it.
    pub is_extension: bool,
}

/// The schema of an event's body as far as its parts are known.
pub(super) struct BodySchema {
    object: Object,
    schemas: Vec<(String, RefOr<Schema>)>,
}

impl BodySchema {
    /// The schema of a body with the name of its event alone.
    pub(super) fn new(name: &str) -> Self {
        // An enum of one value, by which generated clients distinguish the events.
        let words = ObjectBuilder::new()
            .schema_type(Type::String)
            .enum_values(Some([name]));
        let object = ObjectBuilder::new()
            .property("type", words)
            .required("type")
            .build();
        Self {
            object,
            schemas: Vec::new(),
        }
    }

    /// Adds the fields of a part.
    pub(super) fn with<Part: ToSchema>(mut self) -> Self {
        Part::schemas(&mut self.schemas);
        // Parts are structs, so the schema is always an object in place.
        if let RefOr::T(Schema::Object(part)) = Part::schema() {
            self.object.properties.extend(part.properties);
            // A field of a part is required in the body if it is in the part.
            self.object.required.extend(part.required);
        }
        self
    }

    /// Returns the description, with this body.
    pub(super) fn doc(
        self,
        name: &'static str,
        summary: &'static str,
        example: Option<impl Serialize>,
    ) -> EventDoc {
        EventDoc {
            name,
            summary,
            schema: self.object,
            schemas: self.schemas,
            // An event is data; writing it as JSON cannot fail.
            example: serde_json::to_value(example).unwrap_or_default(),
            is_extension: false,
        }
    }
}
