//! The library for background blur, which the operator adds: with its WebAssembly and its model it is larger than the rest of the page, so
//! it is not part of the program.

use std::fmt;
use std::path::Path;

use actix_web::web::Bytes;

use super::JAVASCRIPT;
use crate::config::ConfigError;

/// Files of `http.call_effects`, as `scripts/effects` writes them, with their types.
const FILES: [(&str, &str); 4] = [
    ("track-processors.js", JAVASCRIPT),
    ("vision_wasm_internal.js", JAVASCRIPT),
    ("vision_wasm_internal.wasm", "application/wasm"),
    ("selfie_segmenter.tflite", "application/octet-stream"),
];

/// File served below `/call/effects/`.
#[derive(Clone)]
pub struct EffectFile {
    /// Name below `/call/effects/`.
    pub name: &'static str,
    /// Media type of its content.
    pub content_type: &'static str,
    /// The content as the operator has it.
    pub content: Bytes,
}

impl fmt::Debug for EffectFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} bytes)", self.name, self.content.len())
    }
}

/// Reads the files of the library; none without a folder.
///
/// # Errors
/// A file is missing or cannot be read.
pub fn load(folder: Option<&Path>) -> Result<Vec<EffectFile>, ConfigError> {
    let Some(folder) = folder else {
        return Ok(Vec::new());
    };
    let load = |(name, content_type)| {
        let path = folder.join(name);
        let content = std::fs::read(&path).map_err(|error| {
            ConfigError::new(
                "http.call_effects",
                format!("{} cannot be read: {error}", path.display()),
            )
        })?;
        Ok(EffectFile {
            name,
            content_type,
            content: content.into(),
        })
    };
    FILES.into_iter().map(load).collect()
}
