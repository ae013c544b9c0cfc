//! The documents are correct: the files, headings, settings, commands, operations and events that they name exist, their promises have
//! tests, and their examples work. The check covers `docs/`, the documents next to `README.md`, and the SDKs' documents. `tests/guide.rs`
//! runs the tutorial, `scripts/check sdks` the SDKs' examples.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod examples;
mod manifests;
mod names;
mod program;
mod promises;
mod settings;
#[path = "../api/snapshot.rs"]
mod snapshot;
mod text;

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A document of the repository.
struct Document {
    /// Relative to the workspace's folder, such as `docs/running.md`.
    name: String,
    text: String,
}

impl Document {
    fn read(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            text: fs::read_to_string(root().join(name)).unwrap(),
        }
    }

    /// Returns the folder that relative links start from.
    fn folder(&self) -> PathBuf {
        root().join(&self.name).parent().unwrap().to_owned()
    }

    fn is_page(&self) -> bool {
        self.name.starts_with("docs/")
    }
}

/// Returns all documents: in the workspace's folder, and below `docs/` and `sdk/`.
fn documents() -> Vec<Document> {
    let mut names = markdown_in(root());
    names.extend(
        ["docs", "sdk"]
            .iter()
            .flat_map(|folder| markdown_below(&root().join(folder))),
    );
    assert!(names.len() > 12, "{names:?}");
    names
        .iter()
        .map(|path| Document::read(path.strip_prefix(root()).unwrap().to_str().unwrap()))
        .collect()
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect()
}

fn markdown_in(folder: &Path) -> Vec<PathBuf> {
    entries(folder)
        .into_iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect()
}

fn markdown_below(folder: &Path) -> Vec<PathBuf> {
    // Installed packages are not part of the project.
    let folders = entries(folder)
        .into_iter()
        .filter(|path| path.is_dir() && !path.ends_with("node_modules"));
    folders
        .flat_map(|path| markdown_below(&path))
        .chain(markdown_in(folder))
        .collect()
}
