//! Rules for SQL texts, checked over this crate's source: SQLite and PostgreSQL accept them, writes name their project, and status changes
//! name the previous statuses.

use std::fs;
use std::path::Path;

/// Files whose statements concern all projects, or the server.
const ALL_PROJECTS: [&str; 2] = ["records/server.rs", "rotation_lock.rs"];
/// Words that only SQLite knows.
const FORBIDDEN: [&str; 6] = [
    "INSERT OR ",
    "REPLACE INTO",
    "last_insert_rowid",
    "ifnull(",
    "datetime(",
    " GLOB ",
];

/// Returns the SQL statements among a Rust source's string literals, with collapsed white space.
pub(crate) fn statements(source: &str) -> Vec<String> {
    let code: String = source
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .map(|l| l.to_owned() + "\n")
        .collect();
    // Every second part is inside quotes. The sources have no quotes in these literals.
    let literals = code.split('"').skip(1).step_by(2);
    let collapsed = literals.map(|text| {
        text.split_whitespace()
            .filter(|word| *word != "\\")
            .collect::<Vec<_>>()
            .join(" ")
    });
    let starts = ["SELECT ", "INSERT ", "UPDATE ", "DELETE "];
    collapsed
        .filter(|text| starts.iter().any(|start| text.starts_with(start)))
        .collect()
}

/// Returns the files of this crate that use an engine only through [`crate::sql`], by their path in `src`.
pub(crate) fn sources() -> Vec<(String, String)> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut folders, mut sources) = (vec![src.clone()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(&src).unwrap().to_string_lossy();
            // Only texts of one engine are there.
            if ["engine", "migrations", "portable_sql.rs", "sql"].contains(&&*name) {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else {
                sources.push((name.into_owned(), fs::read_to_string(&path).unwrap()));
            }
        }
    }
    sources
}

/// Returns the arguments of all calls of a function, whose `name` includes the parenthesis, such as `max(`.
fn calls<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    let ends = |rest: &str| {
        let mut depth = 1;
        rest.find(|c| {
            depth += i32::from(c == '(') - i32::from(c == ')');
            depth == 0
        })
    };
    text.split(name)
        .skip(1)
        .filter_map(|rest| ends(rest).map(|end| &rest[..end]))
        .collect()
}

/// Returns whether an `IS` is followed by a word that PostgreSQL does not accept there.
fn compares_with_is(text: &str) -> bool {
    let allowed = ["NULL", "NOT NULL", "NOT DISTINCT FROM", "DISTINCT FROM"];
    text.split(" IS ")
        .skip(1)
        .any(|rest| !allowed.iter().any(|words| rest.starts_with(words)))
}

/// Returns the columns that the `SET` of an upsert reads without the name of a table.
fn bare_upsert_columns(text: &str) -> Vec<&str> {
    // PostgreSQL rejects them as ambiguous: the table and `excluded` have the same columns.
    let Some((_, set)) = text.split_once("DO UPDATE SET ") else {
        return Vec::new();
    };
    let values = set
        .split(',')
        .filter_map(|assignment| assignment.split_once('='))
        .map(|(_, value)| value);
    let words = values.flat_map(|value| value.split_whitespace());
    words
        .filter(|word| word.starts_with(char::is_alphabetic) && !word.contains('.'))
        .collect()
}

fn check_statement(file: &str, text: &str) -> Result<(), String> {
    let fail = |rule: &str| Err(format!("{file}: {rule}: {text}"));
    if let Some(word) = FORBIDDEN.iter().find(|word| text.contains(**word)) {
        return fail(&format!("only SQLite knows {word:?}"));
    }
    if ["max(", "min("].iter().any(|name| {
        calls(text, name)
            .iter()
            .any(|arguments| arguments.contains(','))
    }) {
        return fail("max and min of two arguments are functions of SQLite only; use CASE");
    }
    if compares_with_is(text) {
        return fail("IS compares with NULL only; use IS NOT DISTINCT FROM");
    }
    if !bare_upsert_columns(text).is_empty() {
        return fail("an upsert names the table of the columns it reads");
    }
    if text.contains("?,") || text.ends_with('?') || text.contains("? ") || text.contains("?)") {
        return fail("parameters are numbered");
    }
    check_write(file, text)
}

fn check_write(file: &str, text: &str) -> Result<(), String> {
    let writes = text.starts_with("UPDATE ") || text.starts_with("DELETE ");
    // A project is its own row, so its id is in the condition as `id`.
    let of_all = ALL_PROJECTS.contains(&file)
        || text.starts_with("UPDATE projects ")
        || text == "DELETE FROM projects WHERE id = ?1";
    let condition = text
        .split_once(" WHERE ")
        .map_or("", |(_, condition)| condition);
    if writes && !of_all && !condition.contains("project_id = ?") {
        return Err(format!("{file}: a write names its project: {text}"));
    }
    let sets_status = text
        .split_once(" SET ")
        .is_some_and(|(_, set)| set.starts_with("status = "));
    if text.starts_with("UPDATE ") && sets_status && !condition.contains("status") {
        return Err(format!(
            "{file}: a change of status names the statuses it leaves: {text}"
        ));
    }
    Ok(())
}

#[test]
fn every_statement_is_portable_and_every_write_names_its_project() {
    let mut found = 0;
    for (file, source) in sources() {
        for text in statements(&source) {
            found += 1;
            check_statement(&file, &text).unwrap();
        }
    }
    assert!(found > 80, "only {found} statements were found");
}

#[test]
fn each_rule_refuses_what_it_forbids() {
    for text in [
        "SELECT max(a, b) FROM t",
        "INSERT OR REPLACE INTO t VALUES (?1)",
        "SELECT a IS b FROM t",
        "INSERT INTO t VALUES (?1) ON CONFLICT (a) DO UPDATE SET b = b + 1",
        "SELECT a FROM t WHERE b = ?",
        "DELETE FROM rooms WHERE id = ?1",
        "UPDATE rooms SET name = ?1 WHERE id = ?2",
        "UPDATE rooms SET status = 'ended' WHERE id = ?1 AND project_id = ?2",
    ] {
        assert!(check_statement("rooms.rs", text).is_err(), "{text}");
    }
    assert!(
        check_statement("rooms.rs", "SELECT max(coalesce(a, b)) FROM t").is_err(),
        "nested commas count, to be simple"
    );
    assert!(check_statement("rooms.rs", "SELECT max(a) FROM t WHERE b IS NOT NULL").is_ok());
}

#[test]
fn only_the_folders_of_the_engines_name_them() {
    for (file, source) in &sources() {
        assert!(
            !source.contains("rusqlite") && !source.contains("tokio_postgres"),
            "{file} names an engine"
        );
    }
}
