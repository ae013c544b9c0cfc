//! Reference of the settings for operators and editors, generated from their declarations: the settings file, the documentation's tables,
//! and a JSON schema.

use std::fmt::Write as _;

use conclave_model::settings::{Section, SectionReference, SettingReference, join};
use serde_json::{Map, Value, json};

use super::effective::{text, value_at};
use super::{Config, Mode};

/// Settings file line width.
const WIDTH: usize = 100;

/// Paragraphs at the top of the settings file.
const FILE_HEADER: [&str; 4] = [
    "Settings of Conclave. Every setting is listed with its default and commented out; remove the `#` to change one.",
    "The environment overrides this file: CONCLAVE_SECTION__KEY, such as CONCLAVE_HTTP__LISTEN or CONCLAVE_MEDIA__KIND, with lists \
     written as \"a,b\". An unknown setting is an error, here and in the environment. `conclave config show` prints the effective \
     settings, `conclave config schema` a JSON schema of this file for editors.",
    "Durations are strings with a unit, more than 0s and at most 3650d: \"500ms\", \"5s\", \"1m\", \"2h\", \"30d\". An empty string \
     leaves a setting unset. The log level is not a setting; RUST_LOG sets it (default \"info\").",
    "The defaults and comments are generated from the program's sources.",
];

/// Settings with their defaults.
struct Reference {
    root: SectionReference,
    defaults: Value,
    /// Defaults of `conclave dev`.
    dev: Value,
}

/// Returns the text of `config/conclave.toml`.
///
/// # Errors
/// Never in practice: settings can always be serialized.
pub fn settings_file() -> Result<String, serde_json::Error> {
    let reference = Reference::new()?;
    let mut file = FILE_HEADER.map(comment).join("#\n");
    for (path, section) in all_sections("", &reference.root) {
        let _ = write!(file, "\n{}[{path}]\n", comment(&plain(section.doc)));
        for setting in &section.own {
            file += &reference.entry(&path, setting);
        }
    }
    Ok(file)
}

/// Returns the sections of `docs/configuration.md`, each with a table of its settings.
///
/// # Errors
/// Never in practice: settings can always be serialized.
pub fn tables() -> Result<String, serde_json::Error> {
    let reference = Reference::new()?;
    let mut page = String::new();
    for (path, section) in all_sections("", &reference.root) {
        let about = paragraphs(section.doc).join(" ");
        let _ = write!(
            page,
            "\n### `{path}`\n\n{about}\n\n| Setting | Default | Meaning |\n|---|---|---|\n"
        );
        for setting in &section.own {
            page += &reference.row(&path, setting);
        }
    }
    Ok(page)
}

/// Returns the settings file's JSON schema.
///
/// # Errors
/// Never in practice: settings can always be serialized.
pub fn json_schema() -> Result<Value, serde_json::Error> {
    let reference = Reference::new()?;
    let mut schema = reference.schema("", &reference.root);
    // The newest draft that TOML editor plugins support.
    schema["$schema"] = "http://json-schema.org/draft-07/schema#".into();
    schema["title"] = "Settings of Conclave".into();
    Ok(schema)
}

impl Reference {
    fn new() -> Result<Self, serde_json::Error> {
        Ok(Self {
            root: Config::reference(),
            defaults: serde_json::to_value(Config::defaults(Mode::Serve))?,
            dev: serde_json::to_value(Config::defaults(Mode::Dev))?,
        })
    }

    /// Returns a setting's default, and `conclave dev`'s if it differs.
    fn defaults(&self, name: &str) -> (&Value, Option<&Value>) {
        let (default, dev) = (value_at(&self.defaults, name), value_at(&self.dev, name));
        (default, Some(dev).filter(|dev| *dev != default))
    }

    /// Returns a setting's entry in the settings file.
    fn entry(&self, section: &str, setting: &SettingReference) -> String {
        let (default, dev) = self.defaults(&join(section, setting.key));
        let mut about = plain(setting.doc);
        if let Some(allowed) = setting.rule.describe() {
            let _ = write!(about, " Allowed: {allowed}.");
        }
        if let Some(dev) = dev {
            let _ = write!(about, " Default of `conclave dev`: {}.", toml_value(dev));
        }
        let about = comment(&about);
        // If an empty string has a meaning of its own, no value stands for an unset setting.
        if default.is_null() && !setting.is_optional {
            return about;
        }
        format!("{about}#{} = {}\n", setting.key, toml_value(default))
    }

    /// Returns a setting's row in the documentation: the first paragraph of its doc comment.
    fn row(&self, section: &str, setting: &SettingReference) -> String {
        let name = join(section, setting.key);
        let (default, dev) = self.defaults(&name);
        let summary = paragraphs(setting.doc)
            .into_iter()
            .next()
            .unwrap_or_default();
        // The table has a column of its own for the default.
        let (mut meaning, unset) = split_default(&summary);
        if let Some(allowed) = setting.rule.describe() {
            let _ = write!(meaning, " Allowed: {allowed}.");
        }
        let shown = |value: &Value| Some(text(value)).filter(|text| !text.is_empty());
        let mut cell = match (shown(default), unset) {
            (Some(value), _) => format!("`{value}`"),
            // The comment describes the unset setting, such as a file in the data directory.
            (None, Some(unset)) => unset,
            (None, None) => "none".to_owned(),
        };
        if let Some(dev) = dev {
            // Networks in backticks would look like file paths to the link check.
            let quote = if dev.is_array() { "" } else { "`" };
            let _ = write!(cell, "; {quote}{}{quote} in `dev`", text(dev));
        }
        // A vertical bar would end the cell, even inside backticks.
        let escape = |text: &str| text.replace('|', "\\|");
        format!("| `{name}` | {} | {} |\n", escape(&cell), escape(&meaning))
    }

    fn schema(&self, path: &str, section: &SectionReference) -> Value {
        let mut properties = Map::new();
        for setting in &section.own {
            let mut schema = setting.allowed();
            schema["description"] = plain(setting.doc).into();
            let (default, _) = self.defaults(&join(path, setting.key));
            if !default.is_null() {
                schema["default"] = default.clone();
            }
            properties.insert(setting.key.to_owned(), schema);
        }
        for (key, inner) in &section.sections {
            properties.insert((*key).to_owned(), self.schema(&join(path, key), inner));
        }
        json!({
            "type": "object",
            "description": plain(section.doc),
            // Editors then mark a misspelt setting, as the server rejects it.
            "additionalProperties": false,
            "properties": properties,
        })
    }
}

/// Returns a section's inner sections with their paths, in depth-first order.
fn all_sections<'a>(
    path: &str,
    section: &'a SectionReference,
) -> Vec<(String, &'a SectionReference)> {
    let mut found = Vec::new();
    for (key, inner) in &section.sections {
        let path = join(path, key);
        let below = all_sections(&path, inner);
        found.push((path, inner));
        found.extend(below);
    }
    found
}

/// Returns a doc comment's paragraphs, each as one line.
fn paragraphs(doc: &str) -> Vec<String> {
    let lines: Vec<_> = doc.lines().map(str::trim).collect();
    lines
        .split(|line| line.is_empty())
        .map(|lines| lines.join(" "))
        .filter(|paragraph| !paragraph.is_empty())
        .collect()
}

/// Returns a doc comment as one line of plain text, with links replaced by file names.
fn plain(doc: &str) -> String {
    let text = paragraphs(doc).join(" ");
    let mut parts = text.split("](");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (target, rest) = part.split_once(')').unwrap_or((part, ""));
        if let Some(open) = plain.rfind('[') {
            plain.remove(open);
        }
        // A settings file has no page to jump in, so the anchor is dropped.
        let file = target.split('#').next().unwrap_or(target);
        let _ = write!(plain, " (docs/{file}){rest}");
    }
    plain
}

/// Splits the sentence "Default: …", which describes an unset setting, from a summary.
fn split_default(summary: &str) -> (String, Option<String>) {
    let Some((before, after)) = summary.split_once("Default: ") else {
        return (summary.to_owned(), None);
    };
    let (default, rest) = after
        .split_once(". ")
        .unwrap_or((after.trim_end_matches('.'), ""));
    let meaning = format!("{before}{rest}").trim_end().to_owned();
    (meaning, Some(default.to_owned()))
}

/// Formats a value for the settings file. JSON strings are valid TOML strings, too.
fn toml_value(value: &Value) -> String {
    match value {
        Value::Null => "\"\"".to_owned(),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(toml_value).collect();
            format!("[{}]", items.join(", "))
        }
        other => other.to_string(),
    }
}

/// Wraps a text as comment lines.
fn comment(text: &str) -> String {
    let mut lines = String::new();
    let mut line = "#".to_owned();
    for word in text.split_whitespace() {
        if line.chars().count() + 1 + word.chars().count() > WIDTH {
            let _ = writeln!(lines, "{line}");
            line = "#".to_owned();
        }
        let _ = write!(line, " {word}");
    }
    lines + &line + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_doc_comment_is_plain_text_in_the_file_and_its_first_paragraph_is_in_the_table() {
        let doc = " File of a key. Default: `a.key`\n in the data directory. See [Keys](keys.md#files)\n and [TLS](tls.md).\n\n \
                   Details.\n";
        assert_eq!(
            plain(doc),
            "File of a key. Default: `a.key` in the data directory. See Keys (docs/keys.md) and TLS (docs/tls.md). Details."
        );
        let (meaning, unset) = split_default(&paragraphs(doc)[0]);
        assert_eq!(
            meaning,
            "File of a key. See [Keys](keys.md#files) and [TLS](tls.md)."
        );
        assert_eq!(unset.unwrap(), "`a.key` in the data directory");
        assert_eq!(split_default("Any. Default: b.").0, "Any.");
    }

    #[test]
    fn the_schema_has_every_setting_with_its_default_and_range() {
        let schema = json_schema().unwrap();
        let section = |name: &str| &schema["properties"][name]["properties"];
        let burst = &section("limits")["burst"];
        assert_eq!(
            (&burst["type"], &burst["default"], &burst["maximum"]),
            (&json!("integer"), &json!(40), &json!(1_000_000))
        );
        let turn = &section("media")["rtc"]["properties"]["turn"]["properties"];
        assert_eq!(turn["server"]["enum"], json!(["auto", "on", "off"]));
        assert_eq!(turn["urls"]["items"]["pattern"], "^turns?:");
        // An empty string leaves it unset.
        let token = &section("admin")["token"];
        assert_eq!(token["anyOf"][0]["minLength"], 16);
        assert_eq!(token["anyOf"][1], json!({"const": ""}));
        assert!(token["default"].is_null() && token["description"].is_string());
        assert_eq!(schema["properties"]["http"]["additionalProperties"], false);
    }
}
