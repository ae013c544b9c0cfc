//! What SECURITY.md and docs/reliability.md name exists: their tests, their files, and a test for each threat. So do the headings
//! to which documents link.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The documents, below the workspace's folder.
const DOCUMENTS: [&str; 2] = ["SECURITY.md", "docs/reliability.md"];
/// The folders that contain tests.
const SOURCES: [&str; 8] = ["src", "actors", "media", "egress", "rtc", "db", "model", "tests"];
/// Endings of the names of files.
const ENDINGS: [&str; 5] = [".rs", ".md", ".toml", ".sql", ".service"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(document: &str) -> String {
    fs::read_to_string(root().join(document)).unwrap()
}

/// The names of the functions behind a `#[test]`, `#[actix::test]` and the like.
fn tests_of(source: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut is_test = false;
    for line in source.lines().map(str::trim) {
        let signature = line.strip_prefix("async ").unwrap_or(line);
        if let Some((name, _)) = signature.strip_prefix("fn ").and_then(|rest| rest.split_once('(')) {
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
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| match path.extension() {
            _ if path.is_dir() => tests_below(&path),
            Some(extension) if extension == "rs" => tests_of(&fs::read_to_string(&path).unwrap()),
            _ => BTreeSet::new(),
        })
        .collect()
}

fn all_tests() -> BTreeSet<String> {
    SOURCES.iter().flat_map(|folder| tests_below(&root().join(folder))).collect()
}

/// The texts between backticks, outside code blocks.
fn quoted(text: &str) -> Vec<&str> {
    let prose = text.split("```").step_by(2);
    prose.flat_map(|part| part.split('`').skip(1).step_by(2)).collect()
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
    // A path of the API begins with a slash.
    (is_path && !path.starts_with('/') && !path.contains("://")).then_some(path)
}

/// The targets of all links.
fn targets(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).map(|rest| rest.split(')').next().unwrap())
}

/// The targets of links to files, relative to the document's folder.
fn links(text: &str) -> Vec<&str> {
    let files = targets(text).map(|target| target.split('#').next().unwrap());
    files.filter(|target| !target.is_empty() && !target.contains("://")).collect()
}

/// How a link names a heading: in lower case, with dashes for spaces, and without other marks.
fn anchor(heading: &str) -> String {
    let kept = heading.trim_start_matches('#').trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

/// The links to headings that do not exist, in a document in `folder`.
fn missing_headings<'a>(text: &'a str, folder: &Path) -> Vec<&'a str> {
    let is_missing = |target: &&str| {
        let Some((file, heading)) = target.split_once('#').filter(|(file, _)| !file.contains("://")) else {
            return false;
        };
        let other = (!file.is_empty()).then(|| fs::read_to_string(folder.join(file)).unwrap());
        let mut lines = other.as_deref().unwrap_or(text).lines();
        !lines.any(|line| line.starts_with('#') && anchor(line) == heading)
    };
    targets(text).filter(is_missing).collect()
}

/// Everything that a document in `folder` names and that does not exist.
fn missing(text: &str, folder: &Path, tests: &BTreeSet<String>) -> Vec<String> {
    let quoted = quoted(text);
    let unknown = quoted.iter().filter(|name| is_test_name(name) && !tests.contains(**name)).copied();
    let paths = quoted.iter().filter_map(|text| path_in(text)).filter(|path| !root().join(path).exists());
    let targets = links(text).into_iter().filter(|target| !folder.join(target).exists());
    unknown.chain(paths).chain(targets).map(str::to_owned).collect()
}

#[test]
fn the_tests_and_files_that_the_documents_name_exist() {
    let tests = all_tests();
    for document in DOCUMENTS {
        let (path, text) = (root().join(document), read(document));
        let missing = missing(&text, path.parent().unwrap(), &tests);
        assert!(missing.is_empty(), "{document} names what does not exist: {missing:#?}");
        let named = quoted(&text).into_iter().filter(|text| is_test_name(text)).count();
        assert!(named > 25, "{document} names only {named} tests");
    }
}

#[test]
fn a_test_a_file_and_a_link_that_do_not_exist_are_found() {
    let text = "`a_test_that_exists` `a_test_that_nobody_wrote` `src/main.rs` `src/none.rs` `scripts/none --kills 2` \
                [a](README.md) [b](none.md#part) `GET /v1/rooms` `/v1/rooms`\n```\n`not_a_test_name`\n```\n";
    let tests = tests_of("#[test]\nfn a_test_that_exists() {}\nfn a_test_that_nobody_wrote() {}\n");
    let expected = ["a_test_that_nobody_wrote", "src/none.rs", "scripts/none", "none.md"];
    assert_eq!(missing(text, root(), &tests), expected);
}

#[test]
fn the_headings_that_links_name_exist() {
    let folders = [root().to_owned(), root().join("docs")];
    let entries = folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap()).map(|entry| entry.unwrap().path());
    let documents: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect();
    assert!(documents.len() > 7, "{documents:?}");
    for path in documents {
        let text = fs::read_to_string(&path).unwrap();
        let missing = missing_headings(&text, path.parent().unwrap());
        assert!(missing.is_empty(), "{} links to headings that do not exist: {missing:?}", path.display());
    }
    let text = "## One & two: `three`\n[a](#one--two-three) [b](#two) [c](https://example.com/#d) [e](README.md#commands) [f](README.md#g)";
    assert_eq!(missing_headings(text, root()), ["#two", "README.md#g"]);
}

#[test]
fn every_threat_names_its_code_and_a_test() {
    let text = read("SECURITY.md");
    let (_, threats) = text.split_once("\n## Threats\n").unwrap();
    let (threats, _) = threats.split_once("\n## ").unwrap();
    let rows = threats.lines().filter(|line| line.starts_with('|')).skip(2);
    let rows: Vec<Vec<&str>> = rows.map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect()).collect();
    // A row whose first cell is bold names the role of those below it.
    let threats: Vec<_> = rows.iter().filter(|row| !row[0].starts_with("**")).collect();
    assert!(threats.len() > 20, "only {} threats", threats.len());
    for row in threats {
        let [threat, defence, code, test] = row.as_slice() else { panic!("not four cells: {row:?}") };
        assert!(!defence.is_empty(), "{threat}");
        assert!(quoted(code).into_iter().any(|text| path_in(text).is_some()), "{threat} names no code");
        assert!(quoted(test).into_iter().any(is_test_name), "{threat} names no test");
    }
}
