//! The README is right: its tables are compared with the program's, and its links lead somewhere.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn readme() -> String {
    fs::read_to_string(root().join("README.md")).unwrap()
}

fn conclave(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_conclave")).args(arguments).env_clear().output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// The cells of the README's table rows whose first cell is `is_first`.
fn rows(is_first: impl Fn(&str) -> bool) -> Vec<Vec<String>> {
    let text = readme();
    let cells = |line: &str| line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let rows = text.lines().filter(|line| line.starts_with('|')).map(cells);
    rows.filter(|row| is_first(&row[0])).collect()
}

#[test]
fn the_table_of_operations_is_the_description_and_leads_to_a_section_for_each() {
    let reference = fs::read_to_string(root().join("docs/api.md")).unwrap();
    let described: Value = serde_json::from_str(&conclave(&["openapi"])).unwrap();
    let mut there_are = BTreeSet::new();
    for (path, methods) in described["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap().iter().filter(|(name, _)| *name != "parameters") {
            let with_room_token = operation["security"].to_string().contains("roomToken");
            let id = operation["operationId"].as_str().unwrap();
            assert!(reference.contains(&format!("\n### {id}\n")), "docs/api.md has no section {id}");
            there_are.insert((method.to_uppercase(), format!("[`{path}`](docs/api.md#{id})"), with_room_token));
        }
    }
    let shown = rows(|first| ["GET", "POST", "PUT", "PATCH", "DELETE"].contains(&first));
    let shown = shown.into_iter().map(|row| (row[0].clone(), row[1].clone(), row[2].contains("room token")));
    assert_eq!(shown.collect::<BTreeSet<_>>(), there_are);
}

#[test]
fn the_settings_and_commands_that_the_readme_names_exist() {
    let file = fs::read_to_string(root().join("config/conclave.toml")).unwrap();
    let mut section = "";
    let mut known = BTreeSet::new();
    for line in file.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name;
        } else if let Some((key, _)) = line.strip_prefix('#').and_then(|rest| rest.split_once(" = ")) {
            known.insert(format!("`{section}.{key}`"));
        }
    }
    // The file explains these in prose, since their defaults depend on the data directory.
    known.extend(["`encryption.key_file`".to_owned(), "`plans.file`".to_owned()]);
    let sections = ["`http.", "`admin.", "`limits.", "`webhooks.", "`media.", "`encryption.", "`plans.", "`billing."];
    let named = rows(|first| sections.iter().any(|section| first.starts_with(section)));
    assert!(named.len() > 10);
    for row in named {
        assert!(known.contains(&row[0]), "{} is no setting", row[0]);
    }
    for row in rows(|first| first.starts_with("`conclave ")) {
        let command = row[0].trim_start_matches("`conclave ").split([' ', '`']).next().unwrap().to_owned();
        let help = conclave(&["--help"]);
        assert!(help.lines().any(|line| line.trim_start().starts_with(&command)), "{command} is no command");
    }
}

#[test]
fn the_files_that_the_readme_links_to_exist() {
    let text = readme();
    let targets = text.split("](").skip(1).map(|rest| rest.split([')', '#']).next().unwrap());
    let files: Vec<_> = targets.filter(|target| !target.is_empty() && !target.starts_with("http")).collect();
    assert!(files.len() >= 5, "{files:?}");
    for file in files {
        assert!(root().join(file).exists(), "{file}");
    }
}
