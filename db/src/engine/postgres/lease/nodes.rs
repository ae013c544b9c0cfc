//! A database's servers. Every few seconds each one reports its URLs, schema and keys, and reads the others' reports. The lease does not
//! depend on it.

use std::time::Duration;

use tokio::sync::watch;

use super::keys::KeyIds;
use super::machine::{Obstacle, Standing};
use super::{Holder, requests};
use crate::engine::postgres::{STATEMENT_LIMIT, migrate};
use crate::error::StoreError;
use crate::sql::postgres::{PostgresServer, Session};
use crate::sql::values::args;
use crate::sql::{Row, Sql, no_row};

/// Milliseconds after which a server without a report counts as gone.
const REPORT_LIFE: i64 = 15_000;

const REPORT: &str =
    "INSERT INTO nodes (id, url, admin_url, version, schema, encryption_key_ids, media_key_id, seen_at)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT))
     ON CONFLICT (id) DO UPDATE SET schema = excluded.schema, encryption_key_ids = excluded.encryption_key_ids,
         media_key_id = excluded.media_key_id, seen_at = excluded.seen_at";
const FORGET: &str = "DELETE FROM nodes WHERE seen_at < CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT) - ?1";
const WITHDRAW: &str = "DELETE FROM nodes WHERE id = ?1";
const READ_LEASE: &str =
    "SELECT epoch, holder, url, encryption_key_id, media_key_id FROM leadership WHERE id = 1";
const READ_NODES: &str = "SELECT id, url, admin_url, version, schema, encryption_key_ids, media_key_id, age FROM
     (SELECT *, CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT) - seen_at AS age FROM nodes) AS seen
     WHERE age < ?1 ORDER BY url, id";

/// Role of a server in the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Has the lease.
    Active,
    /// Waits, and can take over.
    Standby,
    /// Waits, and cannot take over: a newer version has migrated the database.
    WaitingForUpgrade,
    /// Waits, and cannot take over: its keys differ from the last active server's.
    WrongKeys,
}

/// A server's report about itself, without its keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeInfo {
    /// URL of the server's API.
    pub url: String,
    /// URL of the server's admin listener, if operators can reach it.
    pub admin_url: Option<String>,
    /// Program version.
    pub version: String,
}

/// A server, by its last report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Process id.
    pub id: String,
    /// Role in the cluster.
    pub role: Role,
    /// The server's report.
    pub info: NodeInfo,
    /// Newest schema that the server knows.
    pub schema: i64,
    /// Ids of the server's keys.
    pub keys: KeyIds,
    /// Time since the last report, by the database's clock.
    pub age: Duration,
}

/// A database's servers, and the lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterState {
    /// Epoch of the active server, or of the last one.
    pub epoch: i64,
    /// Process that holds the lease; `None` after a release, and before the first server.
    pub holder: Option<String>,
    /// URL of the API of the active server, or of the last one; `None` before the first server.
    pub url: Option<String>,
    /// Schema number of the records; 0 before the first server.
    pub schema: i64,
    /// Key that encrypts secrets; empty if there is none.
    pub encryption_key_id: String,
    /// Running servers, ordered by URL.
    pub nodes: Vec<Node>,
}

impl Role {
    /// Returns the role's name in probes, metrics and tables.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Standby => "standby",
            Self::WaitingForUpgrade => "waiting_for_upgrade",
            Self::WrongKeys => "wrong_keys",
        }
    }

    /// All roles, for metrics with one series each.
    pub const ALL: [Self; 4] = [
        Self::Active,
        Self::Standby,
        Self::WaitingForUpgrade,
        Self::WrongKeys,
    ];
}

impl From<Option<Obstacle>> for Role {
    fn from(obstacle: Option<Obstacle>) -> Self {
        match obstacle {
            None => Self::Standby,
            Some(Obstacle::NewerSchema) => Self::WaitingForUpgrade,
            Some(Obstacle::WrongKey(_)) => Self::WrongKeys,
        }
    }
}

impl From<Standing> for Role {
    fn from(standing: Standing) -> Self {
        match standing {
            Standing::Active { .. } => Self::Active,
            Standing::Standby { obstacle } => obstacle.into(),
            Standing::Released | Standing::Lost { .. } => Self::Standby,
        }
    }
}

impl ClusterState {
    /// Returns the active server, if it has sent a report.
    #[must_use]
    pub fn active(&self) -> Option<&Node> {
        self.nodes.iter().find(|node| node.role == Role::Active)
    }

    /// Returns the standbys that can take over.
    pub fn successors(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| node.role == Role::Standby)
    }

    /// Returns whether there is a standby that can take over.
    #[must_use]
    pub fn has_successor(&self) -> bool {
        self.successors().next().is_some()
    }

    /// Returns the standbys.
    pub fn standbys(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| node.role != Role::Active)
    }
}

/// Reads a database's running servers; `None` if no server has ever used it. Blocks; must not be called on a runtime thread.
///
/// # Errors
/// If the database cannot be read.
pub fn cluster_state(server: &PostgresServer) -> Result<Option<ClusterState>, StoreError> {
    let session = Session::connect(server, STATEMENT_LIMIT)?;
    if requests::has_tables(&session)? {
        read(&session).map(Some)
    } else {
        Ok(None)
    }
}

/// Reports a server to the others.
pub(super) struct Reporter {
    id: String,
    info: NodeInfo,
    /// Last reported keys, and whether the server was active then.
    reported: Option<(KeyIds, bool)>,
    interval: Duration,
    due: Duration,
    has_failed: bool,
    seen: watch::Sender<Option<ClusterState>>,
}

impl Reporter {
    /// Creates a reporter, whose first report is due.
    pub(super) fn new(
        holder: Holder,
        info: NodeInfo,
        interval: Duration,
        seen: watch::Sender<Option<ClusterState>>,
    ) -> Self {
        let (id, due) = (holder.0.to_string(), Duration::ZERO);
        Self {
            id,
            info,
            reported: None,
            interval,
            due,
            has_failed: false,
            seen,
        }
    }

    /// Reports the server if that is due, or if its keys or its role have changed, and reads the other reports. Returns true if the
    /// database has refused it, since it may have refused the active server's renewals, too.
    pub(super) fn report(
        &mut self,
        session: &Session,
        keys: &KeyIds,
        is_active: bool,
        now: Duration,
    ) -> bool {
        let is_told = self
            .reported
            .as_ref()
            .is_some_and(|(told, was_active)| told == keys && *was_active == is_active);
        // A change of role is reported at once: operators and planned handovers wait for it.
        if now < self.due && is_told {
            return false;
        }
        self.due = now + self.interval;
        match self.exchange(session, keys) {
            Ok(state) => {
                self.reported = Some((keys.clone(), is_active));
                self.has_failed = false;
                self.seen.send_replace(Some(state));
                false
            }
            Err(error) => {
                // Logged once, until a report succeeds.
                if !self.has_failed {
                    self.has_failed = true;
                    log::warn!("this server's report to the cluster failed: {error}");
                }
                // A fault, such as a missing column, is no sign of failing renewals.
                matches!(error, StoreError::Unavailable(_))
            }
        }
    }

    /// Makes the next report due now.
    pub(super) fn report_next(&mut self) {
        self.due = Duration::ZERO;
    }

    fn exchange(&self, session: &Session, keys: &KeyIds) -> Result<ClusterState, StoreError> {
        let (sql, ids, info) = (
            Sql::Postgres(session),
            keys.encryption.join(" "),
            &self.info,
        );
        let of = (
            info.url.as_str(),
            info.admin_url.as_deref(),
            info.version.as_str(),
        );
        let row = args![
            &self.id,
            of.0,
            of.1,
            of.2,
            migrate::newest(),
            &ids,
            keys.media.as_str()
        ];
        // Both writes are sent with the read: one round trip.
        sql.put(REPORT, row)?;
        // Any server deletes the rows of dead ones. Only the database's clock counts, so servers' clocks may differ.
        sql.put(FORGET, args![REPORT_LIFE])?;
        read(session)
    }

    /// Withdraws the report. The deletion is sent with the next request.
    pub(super) fn withdraw(&mut self, session: &Session) -> Result<(), StoreError> {
        // No further report would be due, which would create the row again.
        self.due = Duration::MAX;
        session.put(WITHDRAW, args![&self.id])
    }
}

/// Reads the lease and the running servers.
pub(crate) fn read(session: &Session) -> Result<ClusterState, StoreError> {
    // Any schema: a command of an older version may look at a newer database.
    let schema = migrate::found(session)?;
    let sql = Sql::Postgres(session);
    let text = |row: &Row<'_>, name| {
        Ok::<_, StoreError>(row.get::<Option<String>>(name)?.unwrap_or_default())
    };
    let lease = sql.one(READ_LEASE, &[], |row| {
        let state = ClusterState {
            epoch: row.get("epoch")?,
            holder: row.get("holder")?,
            url: row.get("url")?,
            schema,
            encryption_key_id: text(row, "encryption_key_id")?,
            nodes: Vec::new(),
        };
        Ok((state, text(row, "media_key_id")?))
    })?;
    let (mut state, media) = lease.ok_or_else(no_row)?;
    state.nodes = sql.many(READ_NODES, args![REPORT_LIFE], |row| {
        node(row, &state, &media)
    })?;
    Ok(state)
}

fn node(row: &Row<'_>, state: &ClusterState, media: &str) -> Result<Node, StoreError> {
    let id: String = row.get("id")?;
    let known: i64 = row.get("schema")?;
    let ids: String = row.get("encryption_key_ids")?;
    // Ids have no spaces, so they are stored in one column.
    let encryption = ids.split_whitespace().map(ToOwned::to_owned).collect();
    let keys = KeyIds {
        encryption,
        media: row.get("media_key_id")?,
    };
    let obstacle = Obstacle::new(
        &keys,
        known,
        state.schema,
        (&state.encryption_key_id, media),
    );
    // The holder in the lease decides, and not the report, which may be older.
    let is_active = state.holder.as_ref() == Some(&id);
    let age: i64 = row.get("age")?;
    Ok(Node {
        id,
        role: if is_active {
            Role::Active
        } else {
            obstacle.into()
        },
        info: NodeInfo {
            url: row.get("url")?,
            admin_url: row.get("admin_url")?,
            version: row.get("version")?,
        },
        schema: known,
        keys,
        age: Duration::from_millis(u64::try_from(age).unwrap_or_default()),
    })
}

const REQUIRE: &str = "UPDATE leadership SET media_key_id = ?1 WHERE id = 1";

/// Requires the media key with this id for a takeover from now on. The active server continues with its key until it stops. Returns the
/// running servers; `None` if no server has ever used the database. Blocks; must not be called on a runtime thread.
///
/// # Errors
/// If the database cannot be written.
pub fn require_media_key(
    server: &PostgresServer,
    id: &str,
) -> Result<Option<ClusterState>, StoreError> {
    let session = Session::connect(server, STATEMENT_LIMIT)?;
    if !requests::has_tables(&session)? {
        return Ok(None);
    }
    let mut attempts = 1..requests::ATTEMPTS_AT_ROW;
    loop {
        match Sql::Postgres(&session).change(REQUIRE, args![id]) {
            // A lock timeout: writers share the row, and on a busy server one follows another.
            Err(StoreError::Unavailable(_))
                if attempts.next().is_some() && !session.is_broken() => {}
            Err(error) => return Err(error),
            Ok(_) => return read(&session).map(Some),
        }
    }
}
