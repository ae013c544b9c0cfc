//! The programs in a PostgreSQL installation.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The oldest supported major version.
pub const OLDEST_VERSION: u32 = 14;

/// A folder with server programs.
#[derive(Debug, Clone)]
pub struct Programs {
    folder: PathBuf,
    version: u32,
}

impl Programs {
    /// Finds server programs that are new enough: in the folder from `pg_config`, in the folders of Debian's and the PostgreSQL project's
    /// packages, and in `PATH`.
    #[must_use]
    pub fn find() -> Option<Self> {
        let configured = Command::new("pg_config").arg("--bindir").output().ok();
        let configured =
            configured.map(|output| PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()));
        let in_path = env::var_os("PATH").map(|path| env::split_paths(&path).collect::<Vec<_>>());
        let folders = configured
            .into_iter()
            .chain(folders_of_packages())
            .chain(in_path.into_iter().flatten());
        folders.filter_map(Self::in_folder).next()
    }

    fn in_folder(folder: PathBuf) -> Option<Self> {
        let complete = ["initdb", "pg_dump", "postgres", "psql"]
            .iter()
            .all(|name| folder.join(name).is_file());
        let version = complete.then(|| version(&folder.join("postgres")))??;
        (version >= OLDEST_VERSION).then_some(Self { folder, version })
    }

    /// Returns a program's path.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Returns the major version, such as 15.
    #[must_use]
    pub const fn version(&self) -> u32 {
        self.version
    }
}

/// Returns the package folders, the newest version first.
fn folders_of_packages() -> Vec<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    let mut debian: Vec<_> = versions.collect();
    debian.sort_by_key(|path| {
        path.file_name()
            .and_then(|name| name.to_str()?.parse::<u32>().ok())
    });
    let project =
        (OLDEST_VERSION..30).map(|version| PathBuf::from(format!("/usr/pgsql-{version}")));
    debian
        .into_iter()
        .chain(project)
        .rev()
        .map(|folder| folder.join("bin"))
        .collect()
}

/// Reads `postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)`.
fn version(server: &Path) -> Option<u32> {
    let output = Command::new(server).arg("--version").output().ok()?;
    major_version(&String::from_utf8_lossy(&output.stdout))
}

fn major_version(text: &str) -> Option<u32> {
    let version = text.split_once("(PostgreSQL) ")?.1;
    version
        .split(|end: char| !end.is_ascii_digit())
        .next()?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::major_version;

    #[test]
    fn the_major_version_is_read_from_what_the_server_prints() {
        assert_eq!(
            major_version("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n"),
            Some(15)
        );
        assert_eq!(major_version("postgres (PostgreSQL) 18beta1\n"), Some(18));
        assert_eq!(major_version("sh: not found"), None);
    }
}
