//! The manifests in `deploy/`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{entries, root};

fn yaml_below(folder: &Path) -> Vec<PathBuf> {
    let (folders, files): (Vec<_>, Vec<_>) =
        entries(folder).into_iter().partition(|path| path.is_dir());
    let yaml = files.into_iter().filter(|path| {
        path.extension()
            .is_some_and(|extension| extension == "yaml")
    });
    yaml.chain(folders.iter().flat_map(|path| yaml_below(path)))
        .collect()
}

#[test]
fn no_pod_of_the_manifests_gets_variables_that_begin_like_settings() {
    let mut pods = 0;
    for path in yaml_below(&root().join("deploy")) {
        let text = fs::read_to_string(&path).unwrap();
        let lines_with = |wanted: &str| text.lines().filter(|line| line.trim() == wanted).count();
        let (specs, without) = (
            lines_with("containers:"),
            lines_with("enableServiceLinks: false"),
        );
        assert_eq!(
            specs,
            without,
            "{}: a service called conclave would give it CONCLAVE_PORT",
            path.display()
        );
        pods += specs;
    }
    assert_eq!(pods, 2);
}
