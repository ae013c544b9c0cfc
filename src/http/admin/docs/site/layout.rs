//! Frame of a page: navigation, search, table of contents, links to the previous and the next page.
//!
//! The pages are in the order of the table "Documentation" in `README.md`, whose bold rows name the groups ([`groups`]). The browser
//! searches a script that sets the words of all pages as one JSON value ([`index`]): a page opened as a file may load scripts, but no
//! data.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use pulldown_cmark::HeadingLevel;
use serde_json::json;

use super::markdown::{Document, title};
use super::{Form, HOME, INDEX, Page, Site, relative};
use crate::http::admin::docs::{FILES, README};

/// Renders a whole page.
pub(super) fn page(
    site: &Site,
    page: &Page,
    document: &Document,
    adjacent: [Option<&Page>; 2],
) -> Markup {
    // Relative, so that the folder works below any URL and without a server.
    let at = |path: &str| relative(&page.path, path);
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (document.title) @if page.path != HOME { " · Conclave" } }
                link rel="icon" type="image/svg+xml" href=(at("assets/icon.svg"));
                // In files, because the served form's content security policy forbids inline styles and scripts.
                link rel="stylesheet" href=(at("assets/console.css"));
                link rel="stylesheet" href=(at("assets/site.css"));
                // Deferred, so that the text is displayed before the script is loaded.
                script src=(at("assets/site.js")) defer {}
            }
            // Only the served form has the viewer; its search also finds operations.
            body data-root=(at("")) data-index=(at(INDEX)) data-viewer=[(site.form == Form::Served).then(|| at("api"))] {
                // The first stop of the keyboard: readers skip the navigation.
                a.skip href="#content" { "Skip to the content" }
                (top(site, page))
                div.site {
                    (pages(site, page))
                    // `tabindex` lets the skip link move the focus here.
                    main #content tabindex="-1" {
                        (PreEscaped(&document.html))
                        (around(page, adjacent))
                        (about(site, page))
                    }
                    (contents(document))
                }
            }
        }
    }
}

fn top(site: &Site, page: &Page) -> Markup {
    let at = |path: &str| relative(&page.path, path);
    html! {
        header.top {
            a.brand href=(at(HOME)) { "Conclave" }
            // Shown by the script that implements it.
            button.plain.menu type="button" aria-expanded="false" aria-controls="pages" hidden { "Pages" }
            form.find role="search" hidden {
                // Roles and states of an ARIA combobox: the script moves through results while the focus stays in the field.
                input #search type="search" placeholder="Search  /" aria-label="Search the documentation" autocomplete="off"
                    role="combobox" aria-expanded="false" aria-controls="found" aria-autocomplete="list";
                ul #found role="listbox" aria-label="Results" hidden {}
            }
            // The static form stands alone, without console and API viewer.
            @if site.form == Form::Served {
                nav aria-label="Main" {
                    a href=(at(HOME)) aria-current="true" { "Documentation" }
                    a href=(at("api")) { "API" }
                    a href=(at("../")) { "Console" }
                }
            }
        }
    }
}

/// Renders the sidebar.
fn pages(site: &Site, page: &Page) -> Markup {
    let link = |path: &str, label: &str| {
        let is_current = path == page.path;
        html! { a href=(relative(&page.path, path)) aria-current=[is_current.then_some("page")] { (label) } }
    };
    html! {
        nav #pages.pages aria-label="Pages" {
            ul { li { (link(HOME, "Overview")) } }
            @for group in &site.groups {
                p { (group.name) }
                ul aria-label=(group.name) {
                    @for entry in &group.entries { li { (link(&super::site_path(entry.file), entry.label)) } }
                }
            }
        }
    }
}

/// Renders the table of contents.
fn contents(document: &Document) -> Markup {
    // Deeper headings would make the list longer than the window.
    let shown = |level| matches!(level, HeadingLevel::H2 | HeadingLevel::H3);
    let sections = || {
        document
            .sections
            .iter()
            .filter(move |section| shown(section.level))
    };
    html! {
        // A list of one section leads nowhere.
        @if sections().count() > 1 {
            nav.contents aria-label="On this page" {
                p { "On this page" }
                ul {
                    @for section in sections() {
                        li.deep[section.level == HeadingLevel::H3] {
                            a href={ "#" (section.anchor) } { (section.heading) }
                        }
                    }
                }
            }
        }
    }
}

/// Renders the links to the previous and the next page.
fn around(page: &Page, [before, after]: [Option<&Page>; 2]) -> Markup {
    let link = |to: &Page, rel: &str, word: &str| {
        html! {
            a rel=(rel) href=(relative(&page.path, &to.path)) {
                small { (word) } " " (to.label.unwrap_or_default())
            }
        }
    };
    html! {
        @if before.is_some() || after.is_some() {
            nav.around aria-label="Previous and next page" {
                @if let Some(before) = before { (link(before, "prev", "Previous")) }
                @if let Some(after) = after { (link(after, "next", "Next")) }
            }
        }
    }
}

/// Renders the version, and the link to the page's source.
fn about(site: &Site, page: &Page) -> Markup {
    let file = page.file.path;
    // Relative to the site's root, which is the folder `/docs/`.
    let source = file
        .strip_prefix("/docs/")
        .map_or_else(|| format!("..{file}"), str::to_owned);
    html! {
        p.about {
            small {
                "Conclave " (env!("CARGO_PKG_VERSION"))
                @if site.form == Form::Served {
                    " · " a href=(relative(&page.path, &source)) {
                        @if page.label.is_some() { "This page as Markdown" } @else { "This file as text" }
                    }
                }
            }
        }
    }
}

/// Pages below one sidebar heading.
pub(super) struct Group {
    pub name: &'static str,
    pub entries: Vec<Entry>,
}

/// Page in the sidebar.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Path in the repository, such as `docs/running.md`.
    pub file: &'static str,
    pub label: &'static str,
}

/// Parses the groups from the README's table.
pub(super) fn groups() -> Vec<Group> {
    // The same table that readers of the repository see, so the two cannot differ.
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

/// Returns the pages that a table cell links to. If the cell starts with words, its link texts are not names by themselves, so the
/// pages' own titles are used.
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

/// Renders the search index. Each page has its title and path; each section its page, heading, anchor and text.
pub(super) fn index(documents: &[(&str, Document)]) -> String {
    let pages: Vec<_> = documents
        .iter()
        .map(|(path, document)| json!([document.title, path]))
        .collect();
    let sections = documents
        .iter()
        .enumerate()
        .flat_map(|(page, (_, document))| {
            document.sections.iter().map(move |section| {
                let text = section
                    // Collapsed, because line breaks of the source would stand in the results.
                    .text
                    .split_whitespace()
                    .collect::<Vec<_>>()
                    .join(" ");
                json!([page, section.heading, section.anchor, text])
            })
        });
    let sections: Vec<_> = sections.collect();
    format!(
        "globalThis.searchIndex = {};\n",
        json!({"pages": pages, "sections": sections})
    )
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
