//! Each promise and fault in `docs/reliability.md` and each threat in `SECURITY.md` has an id, such as `R-12`. A test that proves it names
//! the id in its doc comment: `/// Proves R-12, S-3.` The table of ids and tests is generated from these comments.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::text::{quoted, rows};
use crate::{Document, root};

/// The folders that contain tests.
const SOURCES: [&str; 7] = ["src", "actors", "media", "db", "outbound", "model", "tests"];
/// Documents with ids, and their kinds of ids: promises and faults, and threats.
const DOCUMENTS: [(&str, &[char]); 2] = [
    ("docs/reliability.md", &['R', 'F']),
    ("SECURITY.md", &['S']),
];
const TABLE: &str = "tests/promises.md";
const UPDATE: &str = "CONCLAVE_UPDATE_SNAPSHOTS=1 cargo test --test documents promises";
/// Start of a comment with ids.
const PROVES: &str = "/// Proves ";

/// Id of a promise, a fault or a threat, in the table's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Id {
    kind: char,
    number: u32,
}

impl Id {
    fn parse(text: &str) -> Option<Self> {
        let (kind, number) = text.split_once('-')?;
        let mut letters = kind.chars();
        let kind = letters.next().filter(|kind| "RFS".contains(*kind))?;
        let is_number = number.chars().all(|c| c.is_ascii_digit());
        (letters.next().is_none() && is_number)
            .then(|| number.parse().ok().map(|number| Self { kind, number }))?
    }
}

impl std::fmt::Display for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.kind, self.number)
    }
}

/// Returns the ids in a document, also next to other words.
fn ids_in(text: &str) -> Vec<Id> {
    let in_id = |c: char| c.is_ascii_alphanumeric() || c == '-';
    text.split(|c| !in_id(c)).filter_map(Id::parse).collect()
}

/// Returns the tests in a source file, including tests without ids, and the comments that name ids without a test behind them.
fn tests_of(source: &str) -> (Vec<(String, Vec<Id>)>, Vec<String>) {
    let (mut tests, mut strays) = (Vec::new(), Vec::new());
    let (mut is_test, mut comment) = (false, None::<&str>);
    for line in source.lines().map(str::trim) {
        let signature = line.strip_prefix("async ").unwrap_or(line);
        if let Some(ids) = line.strip_prefix(PROVES) {
            strays.extend(comment.replace(ids).map(str::to_owned));
        } else if let Some((name, _)) = signature
            .strip_prefix("fn ")
            .and_then(|rest| rest.split_once('('))
            .filter(|_| std::mem::take(&mut is_test))
        {
            let ids = comment.take().map(ids_in).unwrap_or_default();
            tests.push((name.to_owned(), ids));
        } else if line.starts_with("#[") {
            is_test |= line == "#[test]" || line.ends_with("::test]");
        } else if !line.starts_with("//") {
            strays.extend(comment.take().map(str::to_owned));
        }
    }
    (tests, strays)
}

fn sources_below(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .flat_map(|path| match path.extension() {
            _ if path.is_dir() => sources_below(&path),
            Some(extension) if extension == "rs" => vec![fs::read_to_string(&path).unwrap()],
            _ => Vec::new(),
        })
        .collect()
}

/// Returns the workspace's tests by the id that they prove.
fn proofs() -> BTreeMap<Id, BTreeSet<String>> {
    let mut proofs: BTreeMap<Id, BTreeSet<String>> = BTreeMap::new();
    for source in SOURCES
        .iter()
        .flat_map(|folder| sources_below(&root().join(folder)))
    {
        let (tests, strays) = tests_of(&source);
        assert!(strays.is_empty(), "no test follows: {strays:?}");
        for (name, ids) in tests {
            for id in ids {
                proofs.entry(id).or_default().insert(name.clone());
            }
        }
    }
    proofs
}

fn table(proofs: &BTreeMap<Id, BTreeSet<String>>) -> String {
    let rows = proofs.iter().flat_map(|(id, tests)| {
        tests
            .iter()
            .map(move |test| format!("| {id} | `{test}` |\n"))
    });
    format!(
        "# Promises and their tests\n\n`{UPDATE}` writes this table from the doc comments of tests. R: promises, and F: \
         faults, of docs/reliability.md; S: threats of SECURITY.md.\n\n| Id | Test |\n|---|---|\n{}",
        rows.collect::<String>()
    )
}

#[test]
fn promises_and_their_tests_are_in_the_table() {
    let proofs = proofs();
    let written = table(&proofs);
    let file = root().join(TABLE);
    if std::env::var_os("CONCLAVE_UPDATE_SNAPSHOTS").is_some() {
        fs::write(&file, &written).unwrap();
    }
    let found = fs::read_to_string(&file).unwrap_or_default();
    assert!(found == written, "{TABLE} is stale: run {UPDATE}");
}

#[test]
fn every_promise_has_a_test_and_every_test_names_promises_that_exist() {
    let proofs = proofs();
    let proven: BTreeSet<_> = proofs.keys().copied().collect();
    assert!(proven.len() > 100, "{proven:?}");
    let mut known = BTreeSet::new();
    for (name, kinds) in DOCUMENTS {
        let ids = ids_in(&Document::read(name).text);
        known.extend(ids.into_iter().filter(|id| kinds.contains(&id.kind)));
    }
    let unproven: Vec<_> = known.difference(&proven).map(Id::to_string).collect();
    assert!(unproven.is_empty(), "no test proves {unproven:?}");
    let unknown: Vec<_> = proven.difference(&known).map(Id::to_string).collect();
    assert!(
        unknown.is_empty(),
        "tests prove {unknown:?}, which no document has"
    );
}

#[test]
fn every_threat_has_an_id_of_its_own_a_defence_and_names_its_code() {
    let Document { text, .. } = Document::read("SECURITY.md");
    let (_, threats) = text.split_once("\n## Threats\n").unwrap();
    let (threats, _) = threats.split_once("\n## ").unwrap();
    let rows = &rows(threats)[2..];
    let (mut ids, mut names) = (BTreeSet::new(), BTreeSet::new());
    // A row with a bold threat names the role for the rows below it.
    for row in rows
        .iter()
        .filter(|row| !row.iter().any(|cell| cell.starts_with("**")))
    {
        let [id, threat, defence, code] = row.as_slice() else {
            panic!("not four cells: {row:?}")
        };
        let id = Id::parse(id).unwrap_or_else(|| panic!("no id: {row:?}"));
        assert!(
            ids.insert(id) && names.insert(threat.to_owned()),
            "{id} or {threat} is there twice"
        );
        assert!(!defence.is_empty(), "{threat}");
        let is_path = |text: &str| root().join(text).exists();
        assert!(
            quoted(code).into_iter().any(is_path),
            "{threat} names no code"
        );
    }
    assert!(ids.len() > 20, "only {} threats", ids.len());
}

#[test]
fn ids_are_found_in_texts_and_in_comments_of_tests() {
    let ids = |text: &str| -> Vec<_> { ids_in(text).iter().map(Id::to_string).collect() };
    assert_eq!(
        ids("| R-1 | a (S-20), F-3. | X-4 R-x RS-5 R-6-7 B-8 |"),
        ["R-1", "S-20", "F-3"]
    );
    let proving = "/// Tells.\n/// Proves R-2, S-3.\n#[cfg(unix)]\n#[test]\nfn first() {}\n";
    let others = "#[actix::test]\nasync fn second() {}\n/// Proves R-4.\nfn helper() {}\n";
    let (tests, strays) = tests_of(&format!("{proving}\n{others}"));
    let tests: Vec<_> = tests
        .iter()
        .map(|(name, found)| format!("{name} {found:?}"))
        .collect();
    assert_eq!(tests.len(), 2, "{tests:?}");
    assert!(tests[0].starts_with("first [Id { kind: 'R', number: 2 }, Id { kind: 'S'"));
    assert_eq!(
        (tests[1].as_str(), strays.as_slice()),
        ("second []", &["R-4.".to_owned()][..])
    );
}
