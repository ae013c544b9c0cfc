//! The table of the contract's operations, and the description the server gives of itself.

use serde_json::Value;

/// One row of the table.
#[derive(Debug)]
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
}

/// The contract's table.
pub fn rows() -> Vec<Row> {
    let statuses = |text: &str| text.split('|').map(|status| status.parse().unwrap()).collect();
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let row = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        let [id, method, path, auth, idempotent, success, errors, collection, permission] = cells[..] else {
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
    include_str!("../data/operations.csv").lines().skip(1).map(row).collect()
}

/// The row of an operation.
#[track_caller]
pub fn row(id: &str) -> Row {
    rows().into_iter().find(|row| row.id == id).unwrap_or_else(|| panic!("{id} is not in the contract"))
}

/// Every operation of a description.
pub fn described(document: &Value) -> Vec<Described> {
    let paths = document["paths"].as_object().unwrap();
    let operations = paths.iter().flat_map(|(path, methods)| {
        methods.as_object().unwrap().iter().map(|(method, operation)| Described {
            method: method.to_ascii_uppercase(),
            path: path.clone(),
            operation: operation.clone(),
        })
    });
    operations.collect()
}

impl Described {
    pub fn id(&self) -> &str {
        self.operation["operationId"].as_str().unwrap()
    }

    /// The example of the request's body, if it takes one.
    pub fn example(&self) -> Option<&Value> {
        self.operation.pointer("/requestBody/content/application~1json/example")
    }

    /// Whether the description names this refusal.
    pub fn names(&self, status: u16, code: &str) -> bool {
        let codes = &self.operation["responses"][status.to_string()]["x-error-codes"];
        codes.as_array().is_some_and(|codes| codes.iter().any(|known| known == code))
    }

    /// A path that exists in shape: each parameter replaced by what `value` gives for it.
    pub fn concrete(&self, value: impl Fn(&str, &str) -> String) -> String {
        let mut before = "";
        let segments = self.path.split('/').map(|segment| {
            let name = segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
            let concrete = name.map_or_else(|| segment.to_owned(), |name| value(before, name));
            before = segment;
            concrete
        });
        segments.collect::<Vec<_>>().join("/")
    }
}
