//! The documentation as a site of HTML pages, rendered from the Markdown of [`FILES`]: on the admin listener below `/docs/`, and as
//! files written by `conclave docs`.
//!
//! - [`markdown`]: a page as HTML, with its sections.
//! - [`layout`]: the frame of a page: order and groups of the pages, navigation, and the search index.
//!
//! Both forms have the same pages with relative links, so that the folder works at any URL, and without a server. Pages are rendered
//! on demand.

mod layout;
mod markdown;

use std::borrow::Cow;

use maud::html;

use super::{FILES, File};
use layout::Group;
use markdown::{Document, PageUrls};

/// The first page's path.
const HOME: &str = "index.html";
/// The search index's path.
const INDEX: &str = "assets/search-index.js";
/// Files that all pages use.
const ASSETS: [(&str, &str); 4] = [
    // Colors and fonts are the console's.
    (
        "assets/console.css",
        include_str!("../../../console/console.css"),
    ),
    ("assets/site.css", include_str!("site.css")),
    ("assets/site.js", include_str!("site.js")),
    ("assets/icon.svg", include_str!("../../../console/icon.svg")),
];
/// Folder of rendered diagrams in the repository.
const DIAGRAMS: &str = "/docs/diagrams/";

/// Target that the site is rendered for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Below `/docs/` on the admin listener, next to the console, the API viewer and the Markdown files.
    Served,
    /// Standalone folder, which includes the images.
    Static,
}

/// Documentation site in one form.
pub struct Site {
    form: Form,
    groups: Vec<Group>,
    /// Pages in the sidebar's order, then the files that they link to.
    pages: Vec<Page>,
}

/// Site page.
struct Page {
    file: &'static File,
    /// Path below the site's root, such as `sdk/go.html`.
    path: String,
    /// Name in the sidebar; `None` for a linked file, such as example settings.
    label: Option<&'static str>,
}

impl Page {
    // Lossy, since it cannot fail; the repository's files are UTF-8.
    fn text(&self) -> Cow<'static, str> {
        String::from_utf8_lossy(self.file.content)
    }

    fn document(&self) -> Document {
        markdown::render(&self.text(), &FromPage(self))
    }
}

/// Returns a diagram's image: the SVG that embeds the same Mermaid source (written by `scripts/docs --diagrams`).
fn picture_of(source: &str) -> Option<&'static File> {
    let source = html! { metadata { (source) } }.into_string();
    let contains = |file: &&File| {
        file.content
            .windows(source.len())
            .any(|part| part == source.as_bytes())
    };
    FILES
        .iter()
        .filter(|file| file.path.starts_with(DIAGRAMS))
        .find(contains)
}

/// Returns the path below the site's root, for a file's page or a image.
fn site_path(file: &str) -> String {
    let file = file.trim_start_matches('/');
    let in_docs = file.strip_prefix("docs/").unwrap_or(file);
    match in_docs.strip_suffix(".md") {
        // The repository's README is the first page; an SDK's names the page of its folder.
        Some("README") => HOME.to_owned(),
        Some(name) => format!("{}.html", name.trim_end_matches("/README").to_lowercase()),
        None if is_picture(file) => in_docs.to_owned(),
        None => format!("files/{file}.html"),
    }
}

fn is_picture(file: &str) -> bool {
    [".png", ".svg"].iter().any(|ending| file.ends_with(ending))
}

/// Returns the relative path from a page to a file of the site, or above its root.
fn relative(from: &str, to: &str) -> String {
    format!("{}{to}", "../".repeat(from.matches('/').count()))
}

impl Site {
    /// Creates the site, without rendering it.
    #[must_use]
    pub fn new(form: Form) -> Self {
        let groups = layout::groups();
        let find = |path: &str| {
            FILES
                .iter()
                .find(|file| file.path.strip_prefix('/') == Some(path))
        };
        // In the order of the README, which is also the order of "previous" and "next".
        let listed = groups
            .iter()
            .flat_map(|group| &group.entries)
            .map(|entry| (entry.file, entry.label));
        let pages = [("README.md", "Overview")].into_iter().chain(listed);
        let pages = pages.filter_map(|(path, label)| {
            let file = find(path)?;
            Some(Page {
                file,
                path: site_path(path),
                label: Some(label),
            })
        });
        let sources = FILES
            .iter()
            .filter(|file| !file.path.ends_with(".md") && !is_picture(file.path));
        let sources = sources.map(|file| Page {
            file,
            path: site_path(file.path),
            label: None,
        });
        Self {
            form,
            pages: pages.chain(sources).collect(),
            groups,
        }
    }

    /// Iterates over the paths of all files, relative to the site's root.
    pub fn paths(&self) -> impl Iterator<Item = String> {
        let pages = self.pages.iter().map(|page| page.path.clone());
        let assets = ASSETS
            .iter()
            .map(|(path, _)| *path)
            .chain([INDEX])
            .map(str::to_owned);
        // The listener serves the images at their repository paths, which are the same.
        let pictures = FILES
            .iter()
            .map(|file| file.path)
            .filter(|path| is_picture(path) && self.form == Form::Static);
        pages.chain(assets).chain(pictures.map(site_path))
    }

    /// Returns a file's content.
    #[must_use]
    pub fn content(&self, path: &str) -> Option<Cow<'static, [u8]>> {
        if let Some(at) = self.pages.iter().position(|page| page.path == path) {
            return Some(self.page(at)?.into_bytes().into());
        }
        if path == INDEX {
            // Only pages with a label have sections to search.
            let pages = self.pages.iter().filter(|page| page.label.is_some());
            let documents: Vec<_> = pages
                .map(|page| (page.path.as_str(), page.document()))
                .collect();
            return Some(layout::index(&documents).into_bytes().into());
        }
        if let Some((_, content)) = ASSETS.iter().find(|(known, _)| *known == path) {
            return Some(content.as_bytes().into());
        }
        let picture = FILES
            .iter()
            .find(|file| is_picture(file.path) && site_path(file.path) == path)?;
        (self.form == Form::Static).then(|| picture.content.into())
    }

    fn page(&self, at: usize) -> Option<String> {
        let page = self.pages.get(at)?;
        let document = if page.label.is_some() {
            page.document()
        } else {
            source_page(page)
        };
        // A source is in no reading order.
        let is_listed = |at: usize| self.pages.get(at).filter(|page| page.label.is_some());
        let [before, after] = [at.checked_sub(1), at.checked_add(1)];
        let adjacent = page
            .label
            .map(|_| [before.and_then(is_listed), after.and_then(is_listed)]);
        Some(layout::page(self, page, &document, adjacent.unwrap_or_default()).into_string())
    }
}

/// Renders a page for a file that is not Markdown.
fn source_page(page: &Page) -> Document {
    let title = page.file.path.trim_start_matches('/').to_owned();
    let content = html! { h1 { code { (title) } } (markdown::code_block(&page.text())) };
    Document {
        title,
        html: content.into_string(),
        sections: Vec::new(),
    }
}

/// Resolves references relative to a page.
struct FromPage<'a>(&'a Page);

impl PageUrls for FromPage<'_> {
    fn link(&self, target: &str) -> String {
        let (path, fragment) = target
            .split_once('#')
            .map_or((target, None), |(path, anchor)| (path, Some(anchor)));
        let known = resolve(self.0.file.path, path)
            .filter(|path| FILES.iter().any(|file| file.path == *path));
        // External links and anchors in the same page stay unchanged.
        let Some(known) = known else {
            return target.to_owned();
        };
        let to = relative(&self.0.path, &site_path(&known));
        fragment.map_or_else(|| to.clone(), |anchor| format!("{to}#{anchor}"))
    }

    fn diagram(&self, source: &str) -> Option<String> {
        picture_of(source).map(|file| relative(&self.0.path, &site_path(file.path)))
    }
}

/// Resolves a path relative to a page's file; `None` if the target is not a relative path.
fn resolve(from: &str, target: &str) -> Option<String> {
    if target.is_empty() || target.contains("://") || target.starts_with('/') {
        return None;
    }
    let (folder, _) = from.rsplit_once('/')?;
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            "." => {}
            // `None` for a path above the repository's root.
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(format!("/{}", parts.join("/")))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_file_has_a_path_of_its_own() {
        for (file, path) in [
            ("/README.md", "index.html"),
            ("/SECURITY.md", "security.html"),
            ("/docs/running.md", "running.html"),
            ("/sdk/go/README.md", "sdk/go.html"),
            ("/docs/console/room.png", "console/room.png"),
            ("/config/conclave.toml", "files/config/conclave.toml.html"),
        ] {
            assert_eq!(site_path(file), path);
        }
        let site = Site::new(Form::Static);
        let paths: Vec<_> = site.paths().collect();
        assert_eq!(paths.iter().collect::<BTreeSet<_>>().len(), paths.len());
        assert_eq!(paths.len(), FILES.len() + ASSETS.len() + 1);
        for path in &paths {
            assert!(
                site.content(path)
                    .is_some_and(|content| !content.is_empty()),
                "{path}"
            );
        }
    }

    #[test]
    fn every_diagram_has_a_picture_of_its_present_source_and_every_picture_a_diagram() {
        let texts: Vec<_> = FILES
            .iter()
            .filter(|file| file.path.ends_with(".md"))
            .map(|file| str::from_utf8(file.content).unwrap())
            .collect();
        let blocks = texts
            .iter()
            .flat_map(|text| text.split("\n```mermaid\n").skip(1));
        let sources: Vec<_> = blocks
            .map(|block| format!("{}\n", block.split("\n```").next().unwrap()))
            .collect();
        assert!(sources.len() > 5);
        let shown = sources.iter().map(|source| match picture_of(source) {
            Some(file) => file.path,
            None => panic!("run `scripts/docs --diagrams`: there is no picture of\n{source}"),
        });
        let pictures = FILES
            .iter()
            .map(|file| file.path)
            .filter(|path| path.starts_with(DIAGRAMS));
        assert_eq!(shown.collect::<BTreeSet<_>>(), pictures.collect());
    }

    #[test]
    fn links_are_resolved_from_the_folder_of_their_page() {
        assert_eq!(
            resolve("/docs/a.md", "../config/b.toml").as_deref(),
            Some("/config/b.toml")
        );
        assert_eq!(
            resolve("/README.md", "docs/a.md").as_deref(),
            Some("/docs/a.md")
        );
        assert_eq!(
            resolve("/sdk/go/README.md", "../../docs/./a.md").as_deref(),
            Some("/docs/a.md")
        );
        for elsewhere in ["", "https://example.com/a", "/openapi.json", "../../a"] {
            assert_eq!(resolve("/docs/a.md", elsewhere), None, "{elsewhere}");
        }
    }
}
