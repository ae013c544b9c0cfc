//! The order of the pages: the table "Documentation" of `README.md`, whose bold rows are the names of groups.

use super::markdown::title;
use crate::http::admin::docs::pages::{FILES, README};

/// Pages below one heading of the sidebar.
pub(super) struct Group {
    pub name: &'static str,
    pub entries: Vec<Entry>,
}

/// A page in the sidebar.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Path in the repository, such as `docs/running.md`.
    pub file: &'static str,
    pub label: &'static str,
}

/// Returns the groups of the table.
pub(super) fn groups() -> Vec<Group> {
    let (_, table) = README
        .split_once("\n## Documentation\n")
        .unwrap_or_default();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| "));
    let mut groups: Vec<Group> = Vec::new();
    for cell in rows.filter_map(|row| row.split(" | ").next()) {
        if let Some(name) = cell
            .strip_prefix("**")
            .and_then(|rest| rest.split("**").next())
        {
            groups.push(Group {
                name,
                entries: Vec::new(),
            });
        } else if let Some(group) = groups.last_mut() {
            group.entries.extend(entries(cell));
        }
    }
    groups
}

/// Returns the pages that a cell links to. In a cell that starts with words, the text of a link is not a name by itself: the page's own
/// title is.
fn entries(cell: &'static str) -> impl Iterator<Item = Entry> {
    let is_named = cell.starts_with('[');
    cell.split('[').skip(1).filter_map(move |link| {
        let (text, rest) = link.split_once("](")?;
        let (file, _) = rest.split_once(')')?;
        let label = if is_named { text } else { title_of(file)? };
        Some(Entry { file, label })
    })
}

fn title_of(file: &str) -> Option<&'static str> {
    let found = FILES
        .iter()
        .find(|known| known.path.strip_prefix('/') == Some(file))?;
    std::str::from_utf8(found.content).ok().map(title)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_page_but_the_readme_is_in_one_group() {
        let groups = groups();
        let listed: Vec<_> = groups
            .iter()
            .flat_map(|group| &group.entries)
            .map(|entry| entry.file.to_owned())
            .collect();
        let markdown = FILES
            .iter()
            .filter_map(|file| file.path.strip_prefix('/'))
            .filter(|path| path.ends_with(".md"));
        let pages: BTreeSet<_> = markdown
            .filter(|path| *path != "README.md")
            .map(str::to_owned)
            .collect();
        assert_eq!(
            listed.iter().cloned().collect::<BTreeSet<_>>(),
            pages,
            "link each page in a first cell of the table"
        );
        assert_eq!(
            listed.len(),
            pages.len(),
            "a page is listed twice: {listed:?}"
        );
        assert!(groups.len() > 3 && groups.iter().all(|group| !group.entries.is_empty()));
    }

    #[test]
    fn a_link_behind_words_has_the_title_of_its_page() {
        let found: Vec<_> = entries("SDKs: [Go](sdk/go/README.md), [A](none.md)").collect();
        assert_eq!(
            found,
            [Entry {
                file: "sdk/go/README.md",
                label: "Conclave for Go"
            }]
        );
        let found: Vec<_> =
            entries("[Go](sdk/go/README.md), [Webhooks](docs/webhooks.md)").collect();
        assert_eq!(
            found.iter().map(|entry| entry.label).collect::<Vec<_>>(),
            ["Go", "Webhooks"]
        );
    }
}
