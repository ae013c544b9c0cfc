//! The packages of the SDKs, of this program's version: the files that package managers download, and the commands that install them.
//!
//! `sdk/pack` writes the archives, which are checked in, so that a build of the program needs no other language. `scripts/check sdks`
//! compares them with the sources.

use std::sync::LazyLock;

use actix_web::web::Bytes;
use sha2::{Digest, Sha256};

macro_rules! package {
    ($name:literal) => {
        include_bytes!(concat!("../../sdk/packages/", $name))
    };
}

/// The version of the packages, which is the program's.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The path below which package managers find the files on the admin listener.
pub const FOLDER: &str = "/sdk/";

const TYPESCRIPT: &[u8] = package!("conclave-sdk.tgz");
const REACT: &[u8] = package!("conclave-react.tgz");
const PYTHON: &[u8] = package!("conclave_sdk.whl");
const GO: &[u8] = package!("conclave-sdk-go.zip");
const GO_MOD: &str = include_str!("../../sdk/packages/conclave-sdk-go.mod");

const GZIP: &str = "application/gzip";
const ZIP: &str = "application/zip";
/// The type of wheels, as PyPI serves them.
const BINARY: &str = "application/octet-stream";
const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

/// A file that a package manager downloads.
pub struct PackageFile {
    /// The path below [`FOLDER`].
    pub path: String,
    /// The media type.
    pub content_type: &'static str,
    /// The bytes.
    pub content: Bytes,
    /// SHA-256 of the content in lower-case hex.
    pub sha256: String,
}

/// An SDK, and how it is installed.
pub struct Sdk {
    /// The language or framework.
    pub language: &'static str,
    /// Whether it calls the API for a server; the others are for pages.
    pub is_for_servers: bool,
    /// The command that installs it from the server.
    pub install: String,
    /// The path of the archive that the command downloads, below [`FOLDER`].
    pub archive: String,
    /// The path of its documentation on the admin listener.
    pub readme: &'static str,
}

static FILES: LazyLock<Vec<PackageFile>> = LazyLock::new(|| {
    let version = format!("v{VERSION}");
    let latest = format!(r#"{{"Version":"{version}"}}"#);
    let module = |end: &str| format!("go/{}/{end}", escaped(go_module()));
    vec![
        PackageFile::new("conclave-sdk.tgz".into(), GZIP, TYPESCRIPT),
        PackageFile::new(format!("conclave-sdk-{VERSION}.tgz"), GZIP, TYPESCRIPT),
        PackageFile::new("conclave-react.tgz".into(), GZIP, REACT),
        PackageFile::new(format!("conclave-react-{VERSION}.tgz"), GZIP, REACT),
        // pip reads the version in the name.
        PackageFile::new(wheel(), BINARY, PYTHON),
        // The protocol of module proxies: https://go.dev/ref/mod#goproxy-protocol.
        PackageFile::new(module("@v/list"), TEXT, format!("{version}\n")),
        PackageFile::new(module(&format!("@v/{version}.info")), JSON, latest.clone()),
        PackageFile::new(module(&format!("@v/{version}.mod")), TEXT, GO_MOD),
        PackageFile::new(go_archive(), ZIP, GO),
        PackageFile::new(module("@latest"), JSON, latest),
    ]
});

impl PackageFile {
    fn new(path: String, content_type: &'static str, content: impl Into<Bytes>) -> Self {
        let content = content.into();
        let sha256 = Sha256::digest(&content)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        Self {
            path,
            content_type,
            content,
            sha256,
        }
    }

    /// Returns the file at a path below [`FOLDER`].
    pub fn find(path: &str) -> Option<&'static Self> {
        FILES.iter().find(|file| file.path == path)
    }
}

/// Returns the SDKs with the commands that install them from the admin listener at `origin`, such as `http://127.0.0.1:8081`.
pub fn sdks(origin: &str) -> Vec<Sdk> {
    let (module, wheel) = (go_module(), wheel());
    // The variables are for this command alone. The server is the first proxy, which has this module only, and Go does not look it up
    // in the public checksum database, which cannot know it.
    let repository = module.strip_suffix("/sdk/go").unwrap_or(module);
    let go = format!(
        "GOPROXY={origin}{FOLDER}go,$(go env GOPROXY) GONOSUMDB={repository} go get {module}"
    );
    let npm = |name: &str| format!("npm install {origin}{FOLDER}{name}.tgz");
    let npm_archive = |name: &str| format!("{name}-{VERSION}.tgz");
    let sdk = |language, is_for_servers, install, archive, readme| Sdk {
        language,
        is_for_servers,
        install,
        archive,
        readme,
    };
    let pip = format!("pip install {origin}{FOLDER}{wheel}");
    vec![
        sdk(
            "TypeScript",
            true,
            npm("conclave-sdk"),
            npm_archive("conclave-sdk"),
            "/sdk/typescript/README.md",
        ),
        sdk("Python", true, pip, wheel, "/sdk/python/README.md"),
        sdk("Go", true, go, go_archive(), "/sdk/go/README.md"),
        sdk(
            "React",
            false,
            npm("conclave-react"),
            npm_archive("conclave-react"),
            "/sdk/react/README.md",
        ),
    ]
}

fn wheel() -> String {
    format!("conclave_sdk-{VERSION}-py3-none-any.whl")
}

fn go_archive() -> String {
    format!("go/{}/@v/v{VERSION}.zip", escaped(go_module()))
}

/// Returns the path of the Go module, which `sdk/go-module` sets.
fn go_module() -> &'static str {
    GO_MOD.split_whitespace().nth(1).unwrap_or_default()
}

/// Escapes a module's path as Go requests it: `!` and a small letter stand for a capital one, since not every file system
/// distinguishes them.
fn escaped(module: &str) -> String {
    let letters = module.chars().map(|letter| match letter {
        'A'..='Z' => format!("!{}", letter.to_ascii_lowercase()),
        other => other.to_string(),
    });
    letters.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_has_its_capital_letters_escaped_in_paths() {
        assert_eq!(
            escaped("github.com/Azure/conclaveSDK/sdk/go"),
            "github.com/!azure/conclave!s!d!k/sdk/go"
        );
        assert_eq!(
            escaped("example.org/conclave/sdk/go"),
            "example.org/conclave/sdk/go"
        );
    }

    #[test]
    fn each_sdk_has_its_archive() {
        let all = sdks("http://localhost");
        assert!(
            all.iter()
                .all(|sdk| PackageFile::find(&sdk.archive).is_some())
        );
        let languages: Vec<_> = all.iter().map(|sdk| sdk.language).collect();
        assert_eq!(languages, ["TypeScript", "Python", "Go", "React"]);
    }
}
