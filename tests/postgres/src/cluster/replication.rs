//! A second server with a complete copy; without it the first one acknowledges no commit.

use super::{Cluster, output};
use crate::database::Database;
use crate::eventually;

impl Cluster {
    /// Starts a synchronous standby: from now on a commit is acknowledged once both servers have it.
    ///
    /// # Panics
    /// The standby does not start, or does not follow.
    #[must_use]
    pub fn synchronous_standby(&self) -> Self {
        let standby = Self::empty(self.programs.clone(), self.options.clone());
        let mut copy = standby.command("pg_basebackup");
        copy.arg("-h").arg(&self.folder).args([
            "-p",
            &self.address().port().to_string(),
            "-U",
            "postgres",
        ]);
        copy.args([
            "--no-sync",
            "--checkpoint=fast",
            "--write-recovery-conf",
            "-D",
        ])
        .arg(standby.folder.join("data"));
        output(copy);
        standby.start_on_a_free_port();
        let follows = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'";
        assert!(
            eventually(|| self.psql("postgres", follows) == "1"),
            "the standby follows"
        );
        // Not in its copy: once promoted, it waits for no standby.
        self.psql(
            "postgres",
            "ALTER SYSTEM SET synchronous_standby_names = '*'",
        );
        self.psql("postgres", "SELECT pg_reload_conf()");
        let waits = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'";
        assert!(
            eventually(|| self.psql("postgres", waits) == "1"),
            "commits wait for the standby"
        );
        standby
    }

    /// Promotes a standby, which then accepts writes.
    pub fn promote(&self) {
        self.psql("postgres", "SELECT pg_promote()");
    }

    /// Returns this server's copy of another server's database.
    #[must_use]
    pub fn copied_database(&self, name: &str) -> Database<'_> {
        Database::existing(self, name.to_owned())
    }
}
