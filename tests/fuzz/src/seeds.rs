//! Seeds: the inputs that a target starts from, written by code so that they cannot differ from what they are made of.

use std::fs;
use std::path::Path;

/// Writes the seeds of a target to its corpus, before libFuzzer reads it.
pub fn write<S: AsRef<[u8]>>(target: &str, seeds: impl IntoIterator<Item = S>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(target);
    fs::create_dir_all(&folder).unwrap();
    for (number, seed) in seeds.into_iter().enumerate() {
        fs::write(folder.join(format!("seed-{number:03}")), seed).unwrap();
    }
}
