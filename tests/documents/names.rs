//! The files, tests and headings that documents name exist, and every threat has its code and its test.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::text::{anchor, links, quoted, rows, targets};
use crate::{Document, documents, root};

/// The folders that contain tests.
const SOURCES: [&str; 7] = ["src", "actors", "media", "db", "outbound", "model", "tests"];
/// The documents whose words with `_` are all names of tests.
const NAME_TESTS: [&str; 2] = ["SECURITY.md", "docs/reliability.md"];
/// The files that have all names of fields, codes, settings, roles of servers and metrics of their lease.
const WORDS_OF_THE_API: [&str; 5] = [
    "docs/api.md",
    "tests/api/event_fields.rs",
    "config/conclave.toml",
    "db/src/engine/postgres/lease/nodes.rs",
    "src/http/lease.rs",
];
/// Endings of the names of files.
const ENDINGS: [&str; 5] = [".rs", ".md", ".toml", ".sql", ".service"];

/// The names of the functions behind a `#[test]`, `#[actix::test]` and the like.
fn tests_of(source: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut is_test = false;
    for line in source.lines().map(str::trim) {
        let signature = line.strip_prefix("async ").unwrap_or(line);
        if let Some((name, _)) = signature
            .strip_prefix("fn ")
            .and_then(|rest| rest.split_once('('))
        {
            if std::mem::take(&mut is_test) {
                names.insert(name.to_owned());
            }
        } else if line.starts_with("#[") {
            is_test |= line == "#[test]" || line.ends_with("::test]");
        }
    }
    names
}

fn tests_below(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| match path.extension() {
            _ if path.is_dir() => tests_below(&path),
            Some(extension) if extension == "rs" => tests_of(&fs::read_to_string(&path).unwrap()),
            _ => BTreeSet::new(),
        })
        .collect()
}

fn all_tests() -> BTreeSet<String> {
    SOURCES
        .iter()
        .flat_map(|folder| tests_below(&root().join(folder)))
        .collect()
}

/// Whether a quoted text is the name of a test: at least three words with `_` between them.
fn is_test_name(text: &str) -> bool {
    let in_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    text.split('_').count() >= 3 && text.chars().all(in_word)
}

/// The path that a quoted text names, without the arguments of a command.
fn path_in(text: &str) -> Option<&str> {
    let path = text.split_whitespace().next()?;
    let is_path = path.contains('/') || ENDINGS.iter().any(|ending| path.ends_with(ending));
    // A path of the API begins with a slash. One on an operator's machine begins with a dot and a slash, or has a placeholder.
    let is_elsewhere = path.starts_with('/')
        || path.starts_with("./")
        || path.contains("://")
        || path.contains('{');
    (is_path && !is_elsewhere).then_some(path)
}

/// The links to headings that do not exist, in a document in `folder`.
fn missing_headings<'a>(text: &'a str, folder: &Path) -> Vec<&'a str> {
    let is_missing = |target: &&str| {
        let Some((file, heading)) = target
            .split_once('#')
            .filter(|(file, _)| !file.contains("://"))
        else {
            return false;
        };
        let other = (!file.is_empty()).then(|| fs::read_to_string(folder.join(file)).unwrap());
        let mut lines = other.as_deref().unwrap_or(text).lines();
        !lines.any(|line| line.starts_with('#') && anchor(line) == heading)
    };
    targets(text).filter(is_missing).collect()
}

/// Everything that a document in `folder` names and that does not exist. A name in `other_words` need not be one of a test.
fn missing(text: &str, folder: &Path, tests: &BTreeSet<String>, other_words: &str) -> Vec<String> {
    let quoted = quoted(text);
    let is_known = |name: &str| tests.contains(name) || other_words.contains(name);
    let unknown = quoted
        .iter()
        .filter(|name| is_test_name(name) && !is_known(name))
        .copied();
    let paths = quoted
        .iter()
        .filter_map(|text| path_in(text))
        .filter(|path| !root().join(path).exists());
    let targets = links(text)
        .into_iter()
        .filter(|target| !folder.join(target).exists());
    unknown
        .chain(paths)
        .chain(targets)
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_tests_and_files_that_the_documents_name_exist() {
    let tests = all_tests();
    let of_the_api: String = WORDS_OF_THE_API
        .iter()
        .map(|name| Document::read(name).text)
        .collect();
    // The changelog names what there was in earlier versions.
    for document in documents()
        .iter()
        .filter(|document| document.name != "CHANGELOG.md")
    {
        let names_tests = NAME_TESTS.contains(&&*document.name);
        let other_words = if names_tests { "" } else { &of_the_api };
        let missing = missing(&document.text, &document.folder(), &tests, other_words);
        assert!(
            missing.is_empty(),
            "{} names what does not exist: {missing:#?}",
            document.name
        );
        let named = quoted(&document.text)
            .into_iter()
            .filter(|text| is_test_name(text))
            .count();
        assert!(
            named > 25 || !names_tests,
            "{} names only {named} tests",
            document.name
        );
    }
}

#[test]
fn a_test_a_file_and_a_link_that_do_not_exist_are_found() {
    let text = "`a_test_that_exists` `a_test_that_nobody_wrote` `src/main.rs` `src/none.rs` `scripts/none --kills 2` \
                [a](README.md) [b](none.md#part) `GET /v1/rooms` `/v1/rooms`\n```\n`not_a_test_name`\n```\n";
    let tests = tests_of("#[test]\nfn a_test_that_exists() {}\nfn a_test_that_nobody_wrote() {}\n");
    let expected = [
        "a_test_that_nobody_wrote",
        "src/none.rs",
        "scripts/none",
        "none.md",
    ];
    assert_eq!(missing(text, root(), &tests, ""), expected);
    assert_eq!(
        missing(text, root(), &tests, "a_test_that_nobody_wrote"),
        expected[1..]
    );
}

#[test]
fn the_headings_that_links_name_exist() {
    for document in documents() {
        let missing = missing_headings(&document.text, &document.folder());
        assert!(
            missing.is_empty(),
            "{} links to headings that do not exist: {missing:?}",
            document.name
        );
    }
    let text = "## One & two: `three`\n[a](#one--two-three) [b](#two) [c](https://example.com/#d) [e](README.md#two-commands) [f](README.md#g)";
    assert_eq!(missing_headings(text, root()), ["#two", "README.md#g"]);
}

#[test]
fn every_threat_names_its_code_and_a_test() {
    let Document { text, .. } = Document::read("SECURITY.md");
    let (_, threats) = text.split_once("\n## Threats\n").unwrap();
    let (threats, _) = threats.split_once("\n## ").unwrap();
    let rows = &rows(threats)[2..];
    // A row whose first cell is bold names the role of those below it.
    let threats: Vec<_> = rows
        .iter()
        .filter(|row| !row[0].starts_with("**"))
        .collect();
    assert!(threats.len() > 20, "only {} threats", threats.len());
    for row in threats {
        let [threat, defence, code, test] = row.as_slice() else {
            panic!("not four cells: {row:?}")
        };
        assert!(!defence.is_empty(), "{threat}");
        assert!(
            quoted(code).into_iter().any(|text| path_in(text).is_some()),
            "{threat} names no code"
        );
        assert!(
            quoted(test).into_iter().any(is_test_name),
            "{threat} names no test"
        );
    }
}

#[test]
fn no_threat_is_listed_twice() {
    let Document { text, .. } = Document::read("SECURITY.md");
    let mut seen = BTreeSet::new();
    for row in rows(&text)
        .iter()
        .filter(|row| row.len() == 4 && row[3].starts_with('`'))
    {
        assert!(
            seen.insert(row[0]) && seen.insert(row[3]),
            "{} is there twice",
            row[0]
        );
    }
}

#[test]
fn the_readme_links_to_every_page() {
    let readme = Document::read("README.md");
    let linked: BTreeSet<_> = links(&readme.text).into_iter().collect();
    for page in documents().iter().filter(|document| document.is_page()) {
        assert!(
            linked.contains(&*page.name),
            "README.md does not link to {}",
            page.name
        );
    }
}
