//! Settings, commands, operations and events named in documents exist in the program.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use clap::CommandFactory;
use conclave::cli::Cli;
use conclave::http::api::openapi;
use conclave::http::api::routes::PARTS;
use conclave_model::event::EventType;
use serde_json::Value;

use crate::text::{quoted, rows};
use crate::{Document, documents};

/// Settings in `config/conclave.toml`, such as `http.listen`, with their defaults as written there.
static SETTINGS: LazyLock<BTreeMap<String, String>> = LazyLock::new(|| {
    let file = Document::read("config/conclave.toml");
    let mut section = "";
    let mut known = BTreeMap::new();
    for line in file.text.lines() {
        if let Some(name) = line
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
        {
            section = name;
        } else if let Some((key, default)) = line
            .strip_prefix('#')
            .and_then(|rest| rest.split_once(" = "))
        {
            known.insert(
                format!("{section}.{key}"),
                default.replace(['"', '[', ']'], ""),
            );
        }
    }
    // The file explains this one in prose, since its default depends on the data directory.
    known.insert("encryption.key_file".to_owned(), String::new());
    known
});

/// Returns the OpenAPI descriptions that the program prints.
fn descriptions() -> impl Iterator<Item = Value> {
    PARTS
        .into_iter()
        .map(|part| serde_json::from_str(&openapi::text(part)).unwrap())
}

/// Methods and paths of the described operations, such as `GET /v1/rooms`, with their ids.
fn operations() -> BTreeMap<String, String> {
    let of_path = |(path, methods): (&String, &Value)| {
        let operations = methods
            .as_object()
            .unwrap()
            .iter()
            .filter(|(name, _)| *name != "parameters");
        let named = |(method, operation): (&String, &Value)| {
            (
                format!("{} {path}", method.to_uppercase()),
                operation["operationId"].as_str().unwrap().to_owned(),
            )
        };
        operations.map(named).collect::<Vec<_>>()
    };
    let of_description = |description: Value| {
        let paths = description["paths"].as_object().unwrap();
        paths.iter().flat_map(of_path).collect::<Vec<_>>()
    };
    descriptions().flat_map(of_description).collect()
}

/// Returns whether a quoted text is a setting's name: the words of a section and a key, with dots between them.
fn is_setting_name(text: &str) -> bool {
    let sections: BTreeSet<_> = SETTINGS
        .keys()
        .map(|name| name.split('.').next().unwrap())
        .collect();
    let is_word =
        |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    let is_event = EventType::ALL.iter().any(|event| event.as_str() == text);
    let is_file = [".rs", ".go", ".db", ".key", ".toml"]
        .iter()
        .any(|ending| text.ends_with(ending));
    let first = text.split('.').next().unwrap();
    sections.contains(first)
        && text.contains('.')
        && text.split('.').all(is_word)
        && !is_event
        && !is_file
}

#[test]
fn the_settings_that_documents_name_exist() {
    for Document { name, text } in documents() {
        for setting in quoted(&text)
            .into_iter()
            .filter(|text| is_setting_name(text))
        {
            let is_section = SETTINGS
                .keys()
                .any(|known| known.starts_with(&format!("{setting}.")));
            assert!(
                is_section || SETTINGS.contains_key(setting),
                "{name}: {setting} is no setting"
            );
        }
        for rest in text
            .split("CONCLAVE_")
            .skip(1)
            .filter(|rest| rest.contains("__"))
        {
            let variable: String = rest
                .chars()
                .take_while(|c| c.is_ascii_uppercase() || *c == '_')
                .collect();
            let setting = variable.to_lowercase().replace("__", ".");
            let is_example = setting == "section.key" || !setting.contains('.');
            assert!(
                is_example || SETTINGS.contains_key(&setting),
                "{name}: CONCLAVE_{variable} is no setting"
            );
        }
    }
}

#[test]
fn the_table_of_settings_has_their_defaults() {
    let page = Document::read("docs/configuration.md");
    let rows = rows(&page.text);
    let settings: Vec<_> = rows
        .iter()
        .filter(|row| is_setting_name(row[0].trim_matches('`')))
        .collect();
    assert!(settings.len() > 40, "only {} settings", settings.len());
    for row in settings {
        let [setting, shown, _] = row.as_slice() else {
            panic!("not three cells: {row:?}")
        };
        let default = &SETTINGS[setting.trim_matches('`')];
        // A default that is empty in the file is none, or explained in the table.
        let is_shown = default.is_empty() || quoted(shown).first() == Some(&default.as_str());
        assert!(is_shown, "{setting} is {default} by default, not {shown}");
    }
}

/// Returns the path of a subcommand in a table, such as `key list`. After a row's first subcommand, the others omit the common part:
/// `group` is the common command.
fn subcommand<'a>(words: &[&'a str], group: &mut Option<&'a str>) -> Vec<&'a str> {
    match *words {
        [
            "conclave",
            first @ ("project" | "key" | "recording" | "config"),
            command,
            ..,
        ] => {
            *group = Some(first);
            vec![first, command]
        }
        ["conclave", command, ..] => vec![command],
        [command, ..] => group.iter().copied().chain([command]).collect(),
        [] => Vec::new(),
    }
}

#[test]
fn the_commands_that_tables_name_exist_with_their_options() {
    let page = Document::read("docs/running.md");
    let mut cli = Cli::command();
    cli.build();
    let mut named = BTreeSet::new();
    for row in rows(&page.text)
        .iter()
        .filter(|row| row[0].starts_with("`conclave "))
    {
        let mut group = None;
        for text in quoted(row[0]) {
            let words: Vec<_> = text
                .split(|c: char| c.is_whitespace() || "[]".contains(c))
                .collect();
            let path = subcommand(&words, &mut group);
            let found = path
                .iter()
                .try_fold(&cli, |command, name| command.find_subcommand(name));
            let command = found.unwrap_or_else(|| panic!("{path:?} is no command"));
            for option in words.iter().filter_map(|word| word.strip_prefix("--")) {
                let exists = command
                    .get_arguments()
                    .any(|argument| argument.get_long() == Some(option));
                assert!(exists, "{path:?} has no option --{option}");
            }
            named.insert(path[0].to_owned());
        }
    }
    let all = Cli::command()
        .get_subcommands()
        .map(|command| command.get_name().to_owned())
        .collect();
    assert_eq!(named, all);
}

#[test]
fn the_operations_that_documents_name_exist_and_the_table_has_all() {
    let operations = operations();
    for Document { name, text } in documents() {
        for called in quoted(&text)
            .into_iter()
            .filter(|text| text.contains(" /v1/") || text.contains(" /ext/v1/"))
        {
            assert!(
                operations.contains_key(called),
                "{name}: {called} is no operation"
            );
        }
    }
    let page = Document::read("docs/operations.md");
    let methods = ["GET", "POST", "PUT", "PATCH", "DELETE"];
    let rows = rows(&page.text);
    let shown = rows
        .iter()
        .filter(|row| methods.contains(&row[0]))
        .map(|row| (row[0].to_owned(), row[1].to_owned()));
    let expected = operations.iter().map(|(called, id)| {
        let (method, path) = called.split_once(' ').unwrap();
        (method.to_owned(), format!("[`{path}`](api.md#{id})"))
    });
    assert_eq!(shown.collect::<BTreeSet<_>>(), expected.collect());
}

#[test]
fn the_table_of_events_has_all() {
    let page = Document::read("docs/webhooks.md");
    let rows = rows(&page.text);
    let shown: Vec<_> = rows
        .iter()
        .map(|row| row[0].trim_matches('`'))
        .filter(|text| text.contains('.'))
        .collect();
    let all: Vec<_> = EventType::ALL.iter().map(|event| event.as_str()).collect();
    assert_eq!(shown, all);
}
