//! The workspace's crates, and their allowed dependencies on each other.

use std::path::Path;

/// A crate and the crates below it.
pub struct Layer {
    pub name: &'static str,
    /// The crate's folder in the workspace.
    pub folder: &'static str,
    pub may_use: &'static [&'static str],
}

/// From the top down, as ARCHITECTURE.md draws them.
pub const LAYERS: [Layer; 9] = [
    Layer {
        name: "conclave",
        folder: "",
        may_use: &[
            "conclave-actors",
            "conclave-media",
            "conclave-db",
            "conclave-outbound",
            "conclave-model",
        ],
    },
    Layer {
        name: "conclave-actors",
        folder: "actors",
        may_use: &[
            "conclave-media",
            "conclave-db",
            "conclave-outbound",
            "conclave-model",
        ],
    },
    Layer {
        name: "conclave-media",
        folder: "media",
        may_use: &[
            "conclave-egress",
            "conclave-sfu",
            "conclave-turn",
            "conclave-outbound",
            "conclave-model",
        ],
    },
    Layer {
        name: "conclave-egress",
        folder: "media/egress",
        may_use: &["conclave-sfu", "conclave-model"],
    },
    Layer {
        name: "conclave-sfu",
        folder: "media/sfu",
        may_use: &["conclave-model"],
    },
    Layer {
        name: "conclave-turn",
        folder: "media/turn",
        may_use: &["conclave-model"],
    },
    Layer {
        name: "conclave-db",
        folder: "db",
        may_use: &["conclave-model"],
    },
    Layer {
        name: "conclave-outbound",
        folder: "outbound",
        may_use: &["conclave-model"],
    },
    Layer {
        name: "conclave-model",
        folder: "model",
        may_use: &[],
    },
];

/// Dependencies of a crate's production code and build script.
pub fn dependencies(root: &Path, folder: &str) -> Vec<String> {
    let manifest = manifest(&root.join(folder));
    let tables = ["dependencies", "build-dependencies"]
        .iter()
        .filter_map(|name| manifest.get(*name)?.as_table());
    tables.flat_map(toml::Table::keys).cloned().collect()
}

/// Returns the workspace's own crates among [`dependencies`].
pub fn own_dependencies(root: &Path, folder: &str) -> Vec<String> {
    let workspace = manifest(root);
    let own = |name: &String| {
        workspace["workspace"]["dependencies"][name.as_str()]
            .get("path")
            .is_some()
    };
    dependencies(root, folder).into_iter().filter(own).collect()
}

/// Returns whether a crate's release build may have a feature: by default, or through a dependency that is not for tests.
pub fn may_release_with(root: &Path, folder: &str, feature: &str) -> bool {
    let manifest = manifest(&root.join(folder));
    let has = |value: Option<&toml::Value>| {
        value.and_then(toml::Value::as_array).is_some_and(|list| {
            list.iter()
                .filter_map(toml::Value::as_str)
                .any(|name| name.rsplit('/').next() == Some(feature))
        })
    };
    let by_default = has(manifest
        .get("features")
        .and_then(|features| features.get("default")));
    let tables = ["dependencies", "build-dependencies"]
        .iter()
        .filter_map(|name| manifest.get(*name)?.as_table());
    by_default
        || tables
            .flat_map(|table| table.iter())
            .any(|(_, of)| has(of.get("features")))
}

fn manifest(folder: &Path) -> toml::Table {
    let text = std::fs::read_to_string(folder.join("Cargo.toml")).expect("a manifest");
    text.parse().expect("a manifest is TOML")
}
