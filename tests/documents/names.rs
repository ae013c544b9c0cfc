//! Files, functions, fields and headings named in documents exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::text::{anchor, links, quoted, targets};
use crate::{Document, documents, root};

/// The files that contain all field names, codes, settings, server roles, and metrics of the lease and of quality.
const WORDS_OF_THE_API: [&str; 6] = [
    "docs/api.md",
    "tests/api/event_fields.rs",
    "config/conclave.toml",
    "db/src/engine/postgres/lease/nodes.rs",
    "src/http/lease.rs",
    "src/server/quality.rs",
];
/// File name extensions.
const ENDINGS: [&str; 5] = [".rs", ".md", ".toml", ".sql", ".service"];

/// Returns whether a quoted text is a name of at least three words with `_` between them.
fn is_name(text: &str) -> bool {
    let in_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    text.split('_').count() >= 3 && text.chars().all(in_word)
}

/// Returns the path in a quoted text, without a command's arguments.
fn path_in(text: &str) -> Option<&str> {
    let path = text.split_whitespace().next()?;
    let is_path = path.contains('/') || ENDINGS.iter().any(|ending| path.ends_with(ending));
    // A path in the API starts with a slash. A path on an operator's machine starts with a dot and a slash, or has a placeholder.
    let is_elsewhere = path.starts_with('/')
        || path.starts_with("./")
        || path.contains("://")
        || path.contains('{');
    (is_path && !is_elsewhere).then_some(path)
}

/// Returns the links to missing headings, in a document in `folder`.
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

/// Returns the missing items that a document in `folder` names. A name exists if `words` contain it.
fn missing(text: &str, folder: &Path, words: &str) -> Vec<String> {
    let quoted = quoted(text);
    let unknown = quoted
        .iter()
        .filter(|name| is_name(name) && !words.contains(**name))
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

/// Returns the paragraphs, list items and table rows outside code blocks.
fn items(text: &str) -> Vec<String> {
    let mut items = vec![String::new()];
    for line in text.split("```").step_by(2).flat_map(str::lines) {
        let starts_item = line.is_empty()
            || line.starts_with(['|', '-'])
            || line.starts_with(|c: char| c.is_ascii_digit());
        if starts_item {
            items.push(String::new());
        }
        if let Some(item) = items.last_mut() {
            *item += line;
            item.push('\n');
        }
    }
    items
}

/// Returns whether a source contains the item as a word. Every source contains the empty item.
fn has_word(source: &str, item: &str) -> bool {
    let in_word = |c: char| c.is_alphanumeric() || c == '_';
    item.is_empty() || source.split(|c| !in_word(c)).any(|word| word == item)
}

/// Returns the functions, quoted as `Type::name()` or `name()`, that no source file named in the same item defines.
fn missing_functions(text: &str) -> Vec<String> {
    let items = items(text);
    let missing_in = |item: &String| {
        let quoted = quoted(item);
        let sources: Vec<_> = quoted
            .iter()
            .filter(|path| path.ends_with(".rs"))
            .filter_map(|path| fs::read_to_string(root().join(path)).ok())
            .collect();
        let functions = quoted.iter().filter_map(|name| name.strip_suffix("()"));
        let is_missing = |function: &&str| {
            let (owner, name) = function.rsplit_once("::").unwrap_or(("", function));
            !sources.iter().any(|source| {
                let signatures = [format!("fn {name}("), format!("fn {name}<")];
                has_word(source, owner) && signatures.iter().any(|start| source.contains(start))
            })
        };
        functions
            .filter(is_missing)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    items.iter().flat_map(missing_in).collect()
}

#[test]
fn the_functions_that_the_architecture_names_are_in_the_files_beside_them() {
    let architecture = Document::read("ARCHITECTURE.md").text;
    let missing = missing_functions(&architecture);
    assert!(
        missing.is_empty(),
        "ARCHITECTURE.md names functions that the files beside them do not define: {missing:#?}"
    );
    assert!(architecture.matches("()`").count() > 40);
    let text = "1. `main()` in `src/main.rs`, `Nobody::main()`, `mai::main()`\n2. `main()`\n- `none()` in `src/main.rs`\n\n```\n`a()`\n```\n";
    assert_eq!(
        missing_functions(text),
        ["Nobody::main", "mai::main", "main", "none"]
    );
}

#[test]
fn the_names_and_files_that_the_documents_name_exist() {
    let words: String = WORDS_OF_THE_API
        .iter()
        .map(|name| Document::read(name).text)
        .collect();
    // The changelog names items from earlier versions.
    for document in documents()
        .iter()
        .filter(|document| document.name != "CHANGELOG.md")
    {
        let missing = missing(&document.text, &document.folder(), &words);
        assert!(
            missing.is_empty(),
            "{} names what does not exist: {missing:#?}",
            document.name
        );
    }
}

#[test]
fn a_name_a_file_and_a_link_that_do_not_exist_are_found() {
    let text = "`a_known_field` `a_field_that_nobody_wrote` `src/main.rs` `src/none.rs` `scripts/none --kills 2` \
                [a](README.md) [b](none.md#part) `GET /v1/rooms` `/v1/rooms`\n```\n`not_a_known_field`\n```\n";
    let expected = [
        "a_field_that_nobody_wrote",
        "src/none.rs",
        "scripts/none",
        "none.md",
    ];
    assert_eq!(missing(text, root(), "a_known_field"), expected);
    assert_eq!(
        missing(text, root(), "a_known_field a_field_that_nobody_wrote"),
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
