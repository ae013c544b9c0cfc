//! The contract's list of operations, and the descriptions that the server publishes.

use std::fmt;
use std::process::Command;
use std::sync::{Arc, LazyLock};

use serde_json::Value;

use crate::snapshot;
use crate::support::TestApp;

/// The operations beyond the contract, generated.
pub const ADDITIONS: &str = "tests/data/additions.csv";

/// Paths of the descriptions: the contract, and the operations beyond it.
pub const DESCRIPTIONS: [&str; 2] = ["/openapi.json", "/ext/openapi.json"];

/// The first line of both lists.
const COLUMNS: &str =
    "operation_id,method,path,auth,idempotent,success,errors,collection,permission";

/// The required properties of one operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub id: String,
    pub method: String,
    pub path: String,
    pub auth: String,
    pub idempotent: bool,
    pub success: Vec<u16>,
    pub errors: Vec<u16>,
    pub collection: Option<String>,
    pub permission: Option<String>,
}

/// One operation as the server describes it.
pub struct Described {
    pub method: String,
    pub path: String,
    pub operation: Value,
    /// The description that contains it.
    pub document: Arc<Value>,
}

/// Returns the contract's own list.
pub fn contract() -> Vec<Row> {
    parse(include_str!("../data/operations.csv"))
}

/// Returns the operations beyond the contract. The list is generated from the description, so that a new operation shows as a line to
/// review.
pub fn additions() -> Vec<Row> {
    static TEXT: LazyLock<String> = LazyLock::new(|| {
        if snapshot::is_update() {
            snapshot::check(ADDITIONS, &additions_of(&printed_description()));
        }
        snapshot::read(ADDITIONS)
    });
    parse(&TEXT)
}

/// Returns rows for all operations, the contract's first.
pub fn rows() -> Vec<Row> {
    [contract(), additions()].concat()
}

/// Returns an operation's row.
#[track_caller]
pub fn row(id: &str) -> Row {
    rows()
        .into_iter()
        .find(|row| row.id == id)
        .unwrap_or_else(|| panic!("{id} is not in {ADDITIONS}"))
}

/// Returns a description's operations, in the format of the contract's list.
pub fn additions_of(document: &Value) -> String {
    let lines: String = described(document)
        .iter()
        .map(|operation| operation.to_row().to_string() + "\n")
        .collect();
    format!("{COLUMNS}\n{lines}")
}

/// Returns the description of the extension operations, as the program prints it.
fn printed_description() -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_conclave"))
        .args(["openapi", "--ext"])
        .env_clear()
        .output()
        .unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

fn parse(csv: &str) -> Vec<Row> {
    let statuses = |text: &str| {
        text.split('|')
            .map(|status| status.parse().unwrap())
            .collect()
    };
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let row = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        let [
            id,
            method,
            path,
            auth,
            idempotent,
            success,
            errors,
            collection,
            permission,
        ] = cells[..]
        else {
            panic!("nine cells: {line}")
        };
        Row {
            id: id.into(),
            method: method.into(),
            path: path.into(),
            auth: auth.into(),
            idempotent: idempotent == "yes",
            success: statuses(success),
            errors: statuses(errors),
            collection: some(collection),
            permission: some(permission),
        }
    };
    csv.lines().skip(1).map(row).collect()
}

impl Row {
    /// Adds 409, if the operation takes an `Idempotency-Key`: `idempotency_key_reuse` can answer all such operations, including
    /// operations whose row in the contract's list has no 409.
    pub fn with_key_reuse(mut self) -> Self {
        if self.idempotent && !self.errors.contains(&409) {
            self.errors.push(409);
            self.errors.sort_unstable();
        }
        self
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            id,
            method,
            path,
            auth,
            ..
        } = self;
        let statuses = |list: &[u16]| {
            list.iter()
                .map(u16::to_string)
                .collect::<Vec<_>>()
                .join("|")
        };
        let (success, errors) = (statuses(&self.success), statuses(&self.errors));
        let idempotent = if self.idempotent { "yes" } else { "no" };
        let [collection, permission] =
            [&self.collection, &self.permission].map(|cell| cell.as_deref().unwrap_or(""));
        write!(
            f,
            "{id},{method},{path},{auth},{idempotent},{success},{errors},{collection},{permission}"
        )
    }
}

/// Returns the descriptions that a server serves, the contract's first.
pub fn documents(app: &TestApp) -> [Value; 2] {
    DESCRIPTIONS.map(|path| app.get(path).anonymous().send().expect(200))
}

/// Returns every operation of a server, including extensions.
pub fn every_operation(app: &TestApp) -> Vec<Described> {
    documents(app).iter().flat_map(described).collect()
}

/// Returns every operation in a description.
pub fn described(document: &Value) -> Vec<Described> {
    let whole = Arc::new(document.clone());
    let paths = document["paths"].as_object().unwrap();
    let operations = paths.iter().flat_map(|(path, methods)| {
        methods
            .as_object()
            .unwrap()
            .iter()
            .map(|(method, operation)| Described {
                method: method.to_ascii_uppercase(),
                path: path.clone(),
                operation: operation.clone(),
                document: Arc::clone(&whole),
            })
    });
    operations.collect()
}

impl Described {
    pub fn id(&self) -> &str {
        self.operation["operationId"].as_str().unwrap()
    }

    /// Returns the operation as a row of the list.
    pub fn to_row(&self) -> Row {
        let auth = match self.operation["security"].as_array().map_or(0, Vec::len) {
            0 => "none",
            1 => "key",
            _ => "key_or_room_token",
        };
        Row {
            id: self.id().into(),
            method: self.method.clone(),
            path: self.path.clone(),
            auth: auth.into(),
            idempotent: self.has_parameter("header", "Idempotency-Key"),
            success: self.statuses(|status| status < 400),
            errors: self.statuses(|status| status >= 400),
            collection: self.collection(),
            permission: self.operation["x-permission"].as_str().map(str::to_owned),
        }
    }

    /// Returns the name of the list in a page; `None` if the operation is not paginated.
    fn collection(&self) -> Option<String> {
        let properties = &self.operation["responses"]["200"]["content"]["application/json"]["schema"]
            ["properties"];
        let (name, _) = properties
            .as_object()?
            .iter()
            .find(|(_, property)| property["items"].is_object())?;
        self.has_parameter("query", "offset").then(|| name.clone())
    }

    fn has_parameter(&self, location: &str, name: &str) -> bool {
        let parameters = self.operation["parameters"].as_array().unwrap();
        parameters
            .iter()
            .any(|parameter| parameter["in"] == location && parameter["name"] == name)
    }

    /// Returns the described statuses that match `wanted`, sorted.
    pub fn statuses(&self, wanted: impl Fn(u16) -> bool) -> Vec<u16> {
        let responses = self.operation["responses"].as_object().unwrap();
        let mut statuses: Vec<u16> = responses
            .keys()
            .map(|status| status.parse().unwrap())
            .collect();
        statuses.retain(|status| wanted(*status));
        statuses.sort_unstable();
        statuses
    }

    /// Returns an example request body, if the operation takes a body.
    pub fn example(&self) -> Option<&Value> {
        self.operation
            .pointer("/requestBody/content/application~1json/example")
    }

    /// Returns whether a request must have a body.
    pub fn requires_body(&self) -> bool {
        self.operation["requestBody"]["required"] == true
    }

    /// Returns whether the description names this error.
    pub fn names(&self, status: u16, code: &str) -> bool {
        let response = &self.operation["responses"][status.to_string()];
        let codes = [
            &response["x-error-codes"],
            &response["x-extension-codes"]["codes"],
        ];
        let mut codes = codes.into_iter().filter_map(Value::as_array).flatten();
        codes.any(|known| known == code)
    }

    /// Returns the path with each parameter replaced; `value` gets the segment before it and its name.
    pub fn concrete(&self, value: impl Fn(&str, &str) -> String) -> String {
        let mut before = "";
        let segments = self.path.split('/').map(|segment| {
            let name = segment
                .strip_prefix('{')
                .and_then(|rest| rest.strip_suffix('}'));
            let concrete = name.map_or_else(|| segment.to_owned(), |name| value(before, name));
            before = segment;
            concrete
        });
        segments.collect::<Vec<_>>().join("/")
    }
}

/// Fails unless a body matches its schema: every required field, no undescribed field, null only where allowed.
#[track_caller]
pub fn fits(document: &Value, schema: &Value, body: &Value, at: &str) {
    assert!(!body.is_null() || takes_null(schema), "{at} is null");
    // Next to `properties`, `oneOf` constrains their combinations.
    if let Some(all) = schema["oneOf"]
        .as_array()
        .filter(|_| schema.get("properties").is_none())
    {
        let other = all.iter().find(|one| one["type"] != "null").unwrap();
        if !body.is_null() {
            fits(document, other, body, at);
        }
        return;
    }
    if let Some(reference) = schema["$ref"].as_str() {
        return fits(
            document,
            document.pointer(&reference[1..]).unwrap(),
            body,
            at,
        );
    }
    if let Some(words) = schema["enum"].as_array().filter(|_| !body.is_null()) {
        assert!(words.contains(body), "{at} is {body}, and may be {words:?}");
    }
    if let (Some(properties), Some(body)) = (schema["properties"].as_object(), body.as_object()) {
        let required = schema["required"].as_array().into_iter().flatten();
        for name in required.map(|name| name.as_str().unwrap()) {
            assert!(body.contains_key(name), "{at} lacks {name}");
        }
        for (name, value) in body {
            let property = properties
                .get(name)
                .unwrap_or_else(|| panic!("{at}.{name} is not described"));
            fits(document, property, value, &format!("{at}.{name}"));
        }
    }
    if let (Some(items), Some(body)) = (schema.get("items"), body.as_array()) {
        body.iter()
            .for_each(|item| fits(document, items, item, &format!("{at}[]")));
    }
    if let (Some(values), Some(body)) = (
        schema.get("additionalProperties").filter(|v| v.is_object()),
        body.as_object(),
    ) {
        body.iter()
            .for_each(|(name, value)| fits(document, values, value, &format!("{at}.{name}")));
    }
}

/// Returns whether a schema allows null.
pub fn takes_null(schema: &Value) -> bool {
    let any = ["type", "$ref", "oneOf", "enum"]
        .iter()
        .all(|key| schema.get(key).is_none());
    let listed = |types: &Value| {
        types == "null"
            || types
                .as_array()
                .is_some_and(|types| types.contains(&"null".into()))
    };
    any || listed(&schema["type"])
        || schema["oneOf"]
            .as_array()
            .is_some_and(|all| all.iter().any(takes_null))
}
