//! The frame of a page: navigation, search, contents, previous and next.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use pulldown_cmark::HeadingLevel;

use super::markdown::Document;
use super::{Form, HOME, INDEX, Page, Site, relative};

/// A whole page.
pub(super) fn page(
    site: &Site,
    page: &Page,
    document: &Document,
    neighbours: [Option<&Page>; 2],
) -> Markup {
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
                link rel="stylesheet" href=(at("assets/console.css"));
                link rel="stylesheet" href=(at("assets/site.css"));
                script src=(at("assets/site.js")) defer {}
            }
            body data-root=(at("")) data-index=(at(INDEX)) data-viewer=[(site.form == Form::Served).then(|| at("api"))] {
                a.skip href="#content" { "Skip to the content" }
                (top(site, page))
                div.site {
                    (pages(site, page))
                    main #content tabindex="-1" {
                        (PreEscaped(&document.html))
                        (around(page, neighbours))
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
            // A script shows what needs it.
            button.plain.menu type="button" aria-expanded="false" aria-controls="pages" hidden { "Pages" }
            form.find role="search" hidden {
                input #search type="search" placeholder="Search  /" aria-label="Search the documentation" autocomplete="off"
                    role="combobox" aria-expanded="false" aria-controls="found" aria-autocomplete="list";
                ul #found role="listbox" aria-label="Results" hidden {}
            }
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

/// The sidebar.
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

/// The headings of the page.
fn contents(document: &Document) -> Markup {
    let shown = |level| matches!(level, HeadingLevel::H2 | HeadingLevel::H3);
    let sections = || {
        document
            .sections
            .iter()
            .filter(move |section| shown(section.level))
    };
    html! {
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

/// The links to the pages before and after.
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

/// The version, and where the text of the page is.
fn about(site: &Site, page: &Page) -> Markup {
    let file = page.file.path;
    // From the root of the site, which is the folder `/docs/`.
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
