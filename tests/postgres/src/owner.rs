//! The user that a server runs as: PostgreSQL refuses to run as root.

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// A system user, by numeric ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    user: u32,
    group: u32,
}

impl Owner {
    /// Returns the user for servers that root starts, or none if the process does not run as root.
    ///
    /// # Panics
    /// The system has neither a user `postgres` nor a user `nobody`.
    pub fn for_servers() -> Option<Self> {
        rustix::process::geteuid().is_root().then(|| {
            let users = fs::read_to_string("/etc/passwd").expect("/etc/passwd is readable");
            let found = ["postgres", "nobody"]
                .iter()
                .find_map(|name| Self::in_users(&users, name));
            found.expect("a user `postgres` or `nobody`, since PostgreSQL does not run as root")
        })
    }

    fn in_users(users: &str, name: &str) -> Option<Self> {
        let fields = users
            .lines()
            .map(|line| line.split(':').collect::<Vec<_>>())
            .find(|fields| fields[0] == name)?;
        Some(Self {
            user: fields.get(2)?.parse().ok()?,
            group: fields.get(3)?.parse().ok()?,
        })
    }

    /// Makes a program run as this user, without supplementary groups.
    pub fn run(self, program: &mut Command) {
        program.uid(self.user).gid(self.group);
    }

    /// Changes a file's owner to this user.
    pub fn own(self, file: &Path) {
        chown(file, Some(self.user), Some(self.group)).expect("root changes the owner");
    }
}

#[cfg(test)]
mod tests {
    use super::Owner;

    #[test]
    fn a_user_is_found_by_the_whole_name() {
        let users = "post:x:1:2::/:/bin/sh\npostgres:x:101:104:,,,:/var/lib/postgresql:/bin/bash\n";
        assert_eq!(
            Owner::in_users(users, "postgres"),
            Some(Owner {
                user: 101,
                group: 104
            })
        );
        assert_eq!(Owner::in_users(users, "nobody"), None);
    }
}
