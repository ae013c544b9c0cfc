//! `docs/api.md` and the tables in `docs/operations.md` and `docs/webhooks.md`, all generated from the descriptions. The first has a
//! section for each operation, event and type.

use std::fmt::Write as _;

use conclave_model::event::EventType;
use serde_json::Value;

use crate::contract::{Described, described, documents, rows};
use crate::snapshot;
use crate::support::TestApp;

/// Fields common to all events.
const OF_EVERY_EVENT: [&str; 4] = ["type", "project_id", "room", "occurred_at"];

const PREFACE: &str = "\
# The API, call by call

Made from the OpenAPI descriptions by `CONCLAVE_UPDATE_SNAPSHOTS=1 cargo test --test api reference`; a test fails when it is
stale. The same descriptions are at `/openapi.json` and, for the calls below `/ext/v1`, at `/ext/openapi.json`; a viewer that calls both is at
`/docs/api` on the admin listener.

";

/// Prefix of the extension operations.
const EXTENSIONS: &str = "/ext/";

/// Returns all described operations in list order, the contract's first.
fn in_order(document: &Value) -> Vec<Described> {
    let order: Vec<_> = rows().into_iter().map(|row| row.id).collect();
    let mut operations = described(document);
    operations.sort_by_key(|operation| order.iter().position(|id| id == operation.id()));
    // Each group has one section, though the calls beyond the contract are listed by path.
    let mut groups: Vec<String> = Vec::new();
    for operation in &operations {
        let group = heading(operation);
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    operations.sort_by_key(|operation| groups.iter().position(|of| *of == heading(operation)));
    operations
}

/// Returns the heading of an operation's group.
fn heading(operation: &Described) -> String {
    let group = text(&operation.operation["tags"][0]);
    if operation.path.starts_with(EXTENSIONS) {
        format!("Calls beyond the contract: {group}")
    } else {
        format!("Calls: {group}")
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Returns a table, or nothing if there are no rows.
fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let head: Vec<String> = head.iter().map(|cell| (*cell).to_owned()).collect();
    let rule = format!("|{}\n", "---|".repeat(head.len()));
    line(&head) + &rule + &rows.iter().map(|row| line(row)).collect::<String>() + "\n"
}

fn type_link(reference: &str) -> String {
    let name = reference.trim_start_matches("#/components/schemas/");
    format!("[{name}](#{})", name.to_lowercase())
}

/// Returns a schema's type as text.
fn kind(schema: &Value) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        return type_link(reference);
    }
    if let Some(any) = schema["oneOf"].as_array() {
        return any.iter().map(kind).collect::<Vec<_>>().join(" or ");
    }
    if let Some(values) = schema["enum"].as_array() {
        return values
            .iter()
            .map(|value| format!("`{}`", text(value)))
            .collect::<Vec<_>>()
            .join(", ");
    }
    let named = |name: &str| match name {
        "array" => format!("array of {}", kind(&schema["items"])),
        "object" if schema["additionalProperties"].is_object() => {
            format!("map of {}", kind(&schema["additionalProperties"]))
        }
        name => name.to_owned(),
    };
    match &schema["type"] {
        Value::String(name) => named(name),
        Value::Array(names) => names
            .iter()
            .map(|name| named(text(name)))
            .collect::<Vec<_>>()
            .join(" or "),
        _ => "any JSON".into(),
    }
}

/// Returns a schema's description, pattern, bounds and default.
fn notes(schema: &Value, description: &str) -> String {
    let mut notes: Vec<String> = vec![description.trim_end_matches('.').replace('\n', " ")];
    notes.extend(
        schema["pattern"]
            .as_str()
            .map(|pattern| format!("`{}`", pattern.replace('|', "\\|"))),
    );
    for (key, words) in [
        ("minimum", "at least"),
        ("maximum", "at most"),
        ("default", "default"),
    ] {
        notes.extend(
            Some(&schema[key])
                .filter(|bound| !bound.is_null())
                .map(|bound| format!("{words} {bound}")),
        );
    }
    notes.retain(|note| !note.is_empty());
    notes.join("; ")
}

/// Returns a property's description; if it has none, its non-null type's description.
fn description(property: &Value) -> &str {
    let said = property["description"].as_str();
    said.or_else(|| {
        list(&property["oneOf"])
            .iter()
            .find_map(|one| one["description"].as_str())
    })
    .unwrap_or_default()
}

/// Returns the fields of an object and of its composed parts.
fn properties(schema: &Value) -> Vec<Vec<String>> {
    let mut rows: Vec<_> = list(&schema["allOf"]).iter().flat_map(properties).collect();
    rows.extend(own_properties(schema));
    rows
}

fn own_properties(schema: &Value) -> Vec<Vec<String>> {
    let required = list(&schema["required"]);
    let row = |(name, property): (&String, &Value)| {
        let always = if required.contains(&Value::from(name.as_str())) {
            "yes"
        } else {
            ""
        };
        vec![
            format!("`{name}`"),
            kind(property),
            always.into(),
            notes(property, description(property)),
        ]
    };
    schema["properties"]
        .as_object()
        .into_iter()
        .flatten()
        .map(row)
        .collect()
}

fn parameters(operation: &Value) -> Vec<Vec<String>> {
    let row = |parameter: &Value| {
        let needed = if parameter["required"] == true {
            "yes"
        } else {
            ""
        };
        let schema = &parameter["schema"];
        let mut notes = notes(schema, text(&parameter["description"]));
        let words: Vec<_> = list(&schema["enum"])
            .iter()
            .map(|word| format!("`{}`", text(word)))
            .collect();
        if !words.is_empty() {
            notes = format!("{notes}: {}", words.join(", "));
        }
        vec![
            format!("`{}`", text(&parameter["name"])),
            text(&parameter["in"]).into(),
            needed.into(),
            notes,
        ]
    };
    list(&operation["parameters"]).iter().map(row).collect()
}

fn callers(operation: &Value) -> String {
    match (
        list(&operation["security"]).len(),
        operation["x-permission"].as_str(),
    ) {
        (0, _) => "anyone".into(),
        (_, Some(permission)) => format!(
            "a key, or a room token with `{}`",
            permission.replace('|', "` or `")
        ),
        _ => "a key".into(),
    }
}

/// Returns the type of a body, or of a page's items.
fn of_type(schema: &Value) -> String {
    let items = schema["properties"]
        .as_object()
        .into_iter()
        .flatten()
        .find(|(_, property)| property["items"].is_object());
    items.map_or_else(
        || kind(schema),
        |(_, items)| format!("a page of {}", kind(&items["items"])),
    )
}

/// Returns a body: its type and an example.
fn body(lead: &str, content: &Value) -> String {
    let content = &content["application/json"];
    if content.is_null() {
        return format!("{lead}.\n\n");
    }
    format!(
        "{lead}: {}\n\n```json\n{:#}\n```\n\n",
        of_type(&content["schema"]),
        content["example"]
    )
}

fn section(described: &Described) -> String {
    let operation = &described.operation;
    let mut out = format!(
        "### {}\n\n{}.\n\n",
        described.id(),
        text(&operation["summary"])
    );
    let _ = write!(
        out,
        "`{} {}` by {}\n\n",
        described.method,
        described.path,
        callers(operation)
    );
    out += &table(&["Parameter", "In", "Required", ""], &parameters(operation));
    if operation["requestBody"].is_object() {
        let optional = if operation["requestBody"]["required"] == true {
            ""
        } else {
            " (may be left out)"
        };
        out += &body(
            &format!("Body{optional}"),
            &operation["requestBody"]["content"],
        );
    }
    let responses = operation["responses"].as_object().unwrap();
    for (status, answer) in responses
        .iter()
        .filter(|(status, _)| status.starts_with('2'))
    {
        out += &body(&format!("Answers {status}"), &answer["content"]);
    }
    let errors = responses
        .iter()
        .filter(|(status, _)| !status.starts_with('2'));
    let errors: Vec<_> = errors
        .map(|(status, e)| vec![status.clone(), text(&e["description"]).into()])
        .collect();
    out + &table(&["Status", "Codes"], &errors)
}

fn type_section((name, schema): (&String, &Value)) -> String {
    let mut out = format!("### {name}\n\n");
    if let Some(description) = schema["description"].as_str() {
        let _ = write!(out, "{description}\n\n");
    }
    let parts: Vec<_> = list(&schema["allOf"])
        .iter()
        .filter_map(|part| part["$ref"].as_str())
        .map(type_link)
        .collect();
    if !parts.is_empty() {
        let _ = write!(out, "The fields of {}, and:\n\n", parts.join(" and "));
    }
    let fields = properties(schema);
    if fields.is_empty() {
        let _ = write!(out, "{}\n\n", notes(schema, &kind(schema)));
    }
    out + &table(&["Field", "Type", "Always", ""], &fields)
}

fn event_section(event: &Event<'_>) -> String {
    let mut out = format!("### Event {}\n\n{}.\n\n", event.name, event.summary());
    out += &table(
        &["Field", "Type", "Always", ""],
        &properties(event.schema()),
    );
    out + &format!("```json\n{:#}\n```\n\n", event.content["example"])
}

fn render(document: &Value) -> String {
    let mut out = PREFACE.to_owned() + text(&document["info"]["description"]) + "\n\n";
    let mut tag = String::new();
    for operation in in_order(document) {
        let of = heading(&operation);
        if of != tag {
            let _ = write!(out, "## {of}\n\n");
            tag = of;
        }
        out += &section(&operation);
    }
    out += "## Events\n\nWhat a server posts to [webhook endpoints](webhooks.md).\n\n";
    out += &events(document)
        .iter()
        .map(event_section)
        .collect::<String>();
    out += "## Types\n\nA field that is not *always* there may be left out of a request, and be absent from an answer.\n\n";
    out += &document["components"]["schemas"]
        .as_object()
        .unwrap()
        .iter()
        .map(type_section)
        .collect::<String>();
    out.trim_end().to_owned() + "\n"
}

/// Returns both descriptions merged.
fn document() -> Value {
    let [mut whole, extensions] = documents(&TestApp::start());
    for part in ["/paths", "/components/schemas"] {
        let more = extensions.pointer(part).unwrap().as_object().unwrap();
        let known = whole.pointer_mut(part).unwrap().as_object_mut().unwrap();
        known.extend(more.clone());
    }
    whole
}

#[test]
fn the_reference_is_the_description() {
    snapshot::check("docs/api.md", &render(&document()));
}

/// Returns a table for `docs/operations.md`.
fn overview(operations: &[&Described]) -> String {
    let row = |described: &&Described| {
        let operation = &described.operation;
        let idempotent = if described.to_row().idempotent {
            "yes"
        } else {
            ""
        };
        let link = format!("[`{}`](api.md#{})", described.path, described.id());
        let summary = text(&operation["summary"]).to_owned();
        vec![
            described.method.clone(),
            link,
            callers(operation),
            idempotent.into(),
            summary,
        ]
    };
    let rows: Vec<_> = operations.iter().map(row).collect();
    table(&["Method", "Path", "Called with", "Idempotent", ""], &rows)
}

/// Compares a page's table, or writes it between the page's markers.
#[track_caller]
fn check_table(file: &str, name: &str, table: &str) {
    let start = format!(
        "<!-- {name}: written by CONCLAVE_UPDATE_SNAPSHOTS=1 cargo test --test api reference -->"
    );
    let end = format!("<!-- end of {name} -->");
    let page = snapshot::read(file);
    let (before, rest) = page
        .split_once(&start)
        .expect("the page marks where the table starts");
    let (_, after) = rest
        .split_once(&end)
        .expect("the page marks where the table ends");
    snapshot::check(file, &format!("{before}{start}\n\n{table}{end}{after}"));
}

#[test]
fn the_tables_of_operations_are_the_descriptions() {
    let operations = in_order(&document());
    let (extensions, of_contract): (Vec<_>, Vec<_>) = operations
        .iter()
        .partition(|operation| operation.path.starts_with(EXTENSIONS));
    for (name, operations) in [("operations", of_contract), ("extensions", extensions)] {
        check_table("docs/operations.md", name, &overview(&operations));
    }
}

/// An event in the description.
struct Event<'a> {
    name: &'a str,
    operation: &'a Value,
    content: &'a Value,
}

impl<'a> Event<'a> {
    fn summary(&self) -> &'a str {
        text(&self.operation["summary"])
    }

    fn schema(&self) -> &'a Value {
        &self.content["schema"]
    }

    /// Returns the event's row in `docs/webhooks.md`.
    fn row(&self) -> Vec<String> {
        let (first, rest) = self.summary().split_at(1);
        let required = list(&self.schema()["required"]).iter().map(text);
        let (required, optional): (Vec<_>, Vec<_>) = self.schema()["properties"]
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .filter(|field| !OF_EVERY_EVENT.contains(field))
            .partition(|field| required.clone().any(|name| name == *field));
        let quoted = |fields: &[&str]| {
            let quoted: Vec<_> = fields.iter().map(|field| format!("`{field}`")).collect();
            quoted.join(", ")
        };
        vec![
            format!("`{}`", self.name),
            first.to_lowercase() + rest,
            quoted(&required),
            quoted(&optional),
        ]
    }
}

/// Returns the described events in declaration order; events that only one endpoint gets come last.
fn events(document: &Value) -> Vec<Event<'_>> {
    let described = document["webhooks"].as_object().unwrap().iter();
    let mut events: Vec<_> = described
        .map(|(name, webhook)| Event {
            name,
            operation: &webhook["post"],
            content: &webhook["post"]["requestBody"]["content"]["application/json"],
        })
        .collect();
    events.sort_by_key(|event| {
        let event_type = event.name.parse::<EventType>();
        event_type.map_or((true, None), |event_type| (false, Some(event_type)))
    });
    events
}

#[test]
fn the_table_of_events_is_the_description() {
    let document = document();
    let rows: Vec<_> = events(&document)
        .iter()
        .filter(|event| event.name.parse::<EventType>().is_ok())
        .map(Event::row)
        .collect();
    let head = ["Type", "Sent when", "Further fields", "Optional fields"];
    check_table("docs/webhooks.md", "events", &table(&head, &rows));
}

#[test]
fn every_link_of_the_reference_leads_to_one_of_its_headings() {
    let reference = render(&document());
    let anchor = |line: &str| {
        line.trim_start_matches(['#', ' '])
            .to_lowercase()
            .replace(' ', "-")
            .replace([':', '.'], "")
    };
    let mut headings: Vec<_> = reference
        .lines()
        .filter(|line| line.starts_with('#'))
        .map(anchor)
        .collect();
    headings.sort_unstable();
    let all = headings.len();
    headings.dedup();
    assert_eq!(headings.len(), all, "two headings with one anchor");
    let links: Vec<_> = reference
        .split("](#")
        .skip(1)
        .map(|rest| rest.split(')').next().unwrap())
        .collect();
    assert!(links.len() > 50);
    for link in links {
        assert!(headings.binary_search(&link.to_owned()).is_ok(), "{link}");
    }
}
