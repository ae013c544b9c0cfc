//! The architecture as a test: dependencies and imports are one-way.
//!
//! The sources are parsed; code under `#[cfg(test)]` is ignored. A use counts for the file that defines the used item, also through
//! re-exports. A failing test prints each cycle as a chain of files, with a line for each step.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod circles;
mod crates;
mod names;
mod scan;
mod sources;

use std::path::PathBuf;
use std::sync::LazyLock;

use crate::circles::Graph;
use crate::crates::{LAYERS, Layer, dependencies, may_release_with, own_dependencies};
use crate::sources::Crate;

static CRATES: LazyLock<Vec<Crate>> = LazyLock::new(|| {
    LAYERS
        .iter()
        .map(|layer| Crate::read(&root(), layer.folder))
        .collect()
});

/// Returns the workspace's folder. Cargo sets the variable also when the test runs.
fn root() -> PathBuf {
    std::env::var_os("CARGO_MANIFEST_DIR")
        .expect("cargo runs this test")
        .into()
}

/// Proves R-14.
#[test]
fn crates_depend_on_each_other_one_way() {
    for layer in &LAYERS {
        let found = own_dependencies(&root(), layer.folder);
        let unexpected: Vec<_> = found
            .iter()
            .filter(|name| !layer.may_use.contains(&name.as_str()))
            .collect();
        assert!(
            unexpected.is_empty(),
            "{} depends on {unexpected:?}, but may only on {:?}",
            layer.name,
            layer.may_use
        );
    }
}

#[test]
fn one_crate_has_the_http_client_of_requests_to_other_servers() {
    let has_client = |layer: &&Layer| {
        dependencies(&root(), layer.folder)
            .iter()
            .any(|name| name == "ureq")
    };
    let with_client: Vec<_> = LAYERS
        .iter()
        .filter(has_client)
        .map(|layer| layer.name)
        .collect();
    assert_eq!(with_client, ["conclave-outbound"]);
}

#[test]
fn one_module_has_the_http_client_of_requests_between_nodes() {
    let is_client = |mention: &scan::Mention| {
        mention
            .path
            .iter()
            .any(|part| part == "actix_codec" || part == "ClientCodec")
    };
    let modules = CRATES.iter().flat_map(|parsed| &parsed.modules);
    let with_client = modules.filter(|module| module.mentions.iter().any(is_client));
    let files: Vec<_> = with_client
        .map(|module| module.file.display().to_string())
        .collect();
    assert_eq!(files, ["src/cluster/connection.rs"]);
}

/// Proves R-32.
#[test]
fn only_dev_dependencies_switch_on_the_faults_of_tests() {
    let workspace: toml::Table = std::fs::read_to_string(root().join("Cargo.toml"))
        .unwrap()
        .parse()
        .unwrap();
    let shared = workspace["workspace"]["dependencies"].to_string();
    assert!(!shared.contains("\"faults\""), "{shared}");
    for layer in &LAYERS {
        assert!(
            !may_release_with(&root(), layer.folder, "faults"),
            "a release build of {} has faults",
            layer.name
        );
    }
    assert!(
        workspace["dev-dependencies"]
            .to_string()
            .contains("\"faults\""),
        "tests have faults"
    );
}

#[test]
fn top_modules_of_a_crate_import_each_other_one_way() {
    assert_no_circles(Graph::of_top_modules);
}

#[test]
fn files_import_each_other_in_no_circle_but_a_parent_with_its_children() {
    assert_no_circles(Graph::of_files);
}

fn assert_no_circles(graph: fn(&Crate) -> Graph) {
    let circles = LAYERS
        .iter()
        .zip(CRATES.iter())
        .flat_map(|(layer, parsed)| {
            graph(parsed)
                .circles()
                .into_iter()
                .map(|circle| format!("{}: {circle}", layer.name))
        });
    let circles: Vec<_> = circles.collect();
    assert!(circles.is_empty(), "\n{}", circles.join("\n"));
}

/// Cycles in a crate with these files, among its files and among its top modules.
fn circles_in(files: &[(&str, &str)]) -> [Vec<String>; 2] {
    let root = tempfile::tempdir().expect("a temporary folder");
    for (file, text) in files {
        let file = root.path().join("src").join(file);
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("the folder is created");
        std::fs::write(file, text).expect("the file is written");
    }
    let parsed = Crate::read(root.path(), "");
    [Graph::of_files, Graph::of_top_modules].map(|graph| {
        graph(&parsed)
            .circles()
            .iter()
            .map(ToString::to_string)
            .collect()
    })
}

#[test]
fn a_circle_is_found_through_reexports_and_macros_and_printed_with_its_lines() {
    let [files, modules] = circles_in(&[
        (
            "lib.rs",
            "mod a;\nmod b;\nmod c;\npub use c::deep::Thing;\n",
        ),
        (
            "a.rs",
            "pub struct A;\nfn a() {\n    let _ = vec![crate::b::B::new()];\n}\n",
        ),
        ("b.rs", "use crate::{\n    Thing,\n};\npub struct B;\n"),
        ("c/mod.rs", "pub mod deep;\n"),
        ("c/deep.rs", "pub struct Thing(super::super::a::A);\n"),
    ]);
    let [circle] = files.as_slice() else {
        panic!("one circle, not {files:?}")
    };
    for step in [
        "src/a.rs -> src/b.rs\n      src/a.rs:3: let _ = vec![crate::b::B::new()];",
        "src/b.rs -> src/c/deep.rs\n      src/b.rs:2: Thing,",
        "src/c/deep.rs -> src/a.rs\n      src/c/deep.rs:1: pub struct Thing(super::super::a::A);",
    ] {
        assert!(circle.contains(step), "{circle}");
    }
    assert!(
        modules.len() == 1 && modules[0].starts_with("circle of 3: a, b, c\n"),
        "{modules:?}"
    );
}

#[test]
fn a_parent_and_its_children_and_tests_make_no_circle() {
    let [files, modules] = circles_in(&[
        ("lib.rs", "mod a;\nmod b;\n"),
        (
            "a/mod.rs",
            "mod child;\npub use child::Child;\npub struct Parent;\n",
        ),
        (
            "a/child.rs",
            "use super::Parent;\npub struct Child(Parent);\n",
        ),
        (
            "b.rs",
            "use crate::a::Child;\npub struct B;\n#[cfg(test)]\nmod tests {\n    use crate::a::Parent;\n}\n",
        ),
    ]);
    assert_eq!((files, modules), (Vec::new(), Vec::new()));
}
