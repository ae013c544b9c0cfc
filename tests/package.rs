//! The Debian package: permissions of the settings, which can contain secrets.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

const SETTINGS: &str = "/etc/conclave/conclave.toml";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Runs the post-installation script with programs that only record their calls. Returns the calls.
fn configure(old_version: &str, has_own_mode: bool) -> String {
    let folder = tempfile::tempdir().unwrap();
    let calls = folder.path().join("calls");
    for program in [
        "adduser",
        "getent",
        "install",
        "chown",
        "chmod",
        "dpkg-statoverride",
    ] {
        let fails = program == "dpkg-statoverride" && !has_own_mode;
        let script = format!(
            "#!/bin/sh\necho {program} \"$@\" >>{}\n{}",
            calls.display(),
            if fails { "exit 1" } else { "" }
        );
        let path = folder.path().join(program);
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let settings = folder.path().join(&SETTINGS[1..]);
    fs::create_dir_all(settings.parent().unwrap()).unwrap();
    fs::write(settings, "").unwrap();
    let path = format!("{}:/usr/bin:/bin", folder.path().display());
    let script = root().join("config/debian/postinst");
    let mut shell = Command::new("sh");
    shell
        .arg(script)
        .args(["configure", old_version])
        .env("PATH", path)
        .env("DPKG_ROOT", folder.path());
    assert!(shell.status().unwrap().success());
    fs::read_to_string(calls)
        .unwrap()
        .replace(folder.path().to_str().unwrap(), "")
}

/// Proves S-86.
#[test]
fn only_the_server_reads_the_settings_of_the_package() {
    let manifest: toml::Table = fs::read_to_string(root().join("Cargo.toml"))
        .unwrap()
        .parse()
        .unwrap();
    let assets = manifest["package"]["metadata"]["deb"]["assets"]
        .as_array()
        .unwrap();
    let settings = assets
        .iter()
        .find(|asset| asset[1].as_str() == Some(&SETTINGS[1..]))
        .unwrap();
    assert_eq!(settings[2].as_str(), Some("640"));
    for old_version in ["", "0.1.0-1"] {
        let calls = configure(old_version, false);
        assert!(
            calls.contains(&format!(
                "chown root:conclave {SETTINGS}\nchmod 0640 {SETTINGS}\n"
            )),
            "{calls}"
        );
        let of_operator = configure(old_version, true);
        assert!(
            !of_operator.contains("chown") && !of_operator.contains("chmod"),
            "{of_operator}"
        );
    }
}
