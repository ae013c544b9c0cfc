//! Lease requests in SQL.

use std::cell::Cell;

use uuid::Uuid;

use super::keys::KeyIds;
use super::machine::{LeaseReply, Request};
use super::{Beat, Holder, LeaseRow};
use crate::engine::postgres::migrate;
use crate::error::StoreError;
use crate::sql::Sql;
use crate::sql::postgres::{CommitError, Session};
use crate::sql::values::args;

/// Attempts of a command to change the lease row. Transactions of a busy server share it, and each attempt waits two seconds.
pub(crate) const ATTEMPTS_AT_ROW: u32 = 15;

const HAS_TABLES: &str =
    "SELECT to_regclass('leadership') IS NOT NULL AND to_regclass('beats') IS NOT NULL
     AND to_regclass('nodes') IS NOT NULL";
const READ: &str = "SELECT b.epoch, b.beat, l.holder, l.url, l.encryption_key_id, l.media_key_id,
         current_setting('transaction_read_only') = 'on' AS is_read_only FROM leadership l, beats b
     WHERE l.id = 1 AND b.id = 1";
/// The lease and the schema number, if the records have a schema.
const READ_ALL: &str =
    "SELECT b.epoch, b.beat, l.holder, l.url, l.encryption_key_id, l.media_key_id,
         current_setting('transaction_read_only') = 'on' AS is_read_only, s.version
     FROM leadership l, beats b, schema_version s WHERE l.id = 1 AND b.id = 1 AND s.id = 1";
/// First the row that the active server renews, so that it cannot renew while the claim waits for its transactions. Both statements of a
/// claim fail with a division by zero if they find no row, so that they can be sent together.
const CLAIM_BEAT: &str = "WITH claimed AS (UPDATE beats SET epoch = epoch + 1, beat = 0 WHERE id = 1 AND epoch = ?1 AND beat = ?2 RETURNING 1)
     SELECT 1 / count(*) FROM claimed";
/// The id of the encrypting key is set by a rotation; before the first one, it is the first key of the server.
const CLAIM: &str =
    "WITH claimed AS (UPDATE leadership SET epoch = epoch + 1, holder = ?2, url = ?3, media_key_id = ?5,
         encryption_key_id = CASE WHEN coalesce(encryption_key_id, '') = '' THEN ?4 ELSE encryption_key_id END
     WHERE id = 1 AND epoch = ?1 RETURNING 1)
     SELECT 1 / count(*) FROM claimed";
/// The holder is compared, too: after a PostgreSQL failover that lost a takeover, another server may have taken the same epoch.
const RENEW: &str = "UPDATE beats SET beat = beat + 1 WHERE id = 1 AND epoch = ?1
     AND EXISTS (SELECT 1 FROM leadership WHERE id = 1 AND epoch = ?1 AND holder = ?2)";
const RELEASE: &str =
    "UPDATE leadership SET holder = NULL WHERE id = 1 AND epoch = ?1 AND holder = ?2";

/// A server's values in a claim.
pub(super) struct Claimant<'a> {
    pub holder: Holder,
    /// URL of the server's API.
    pub url: &'a str,
    pub keys: &'a KeyIds,
}

/// Creates the lease tables in an empty database, which a server needs before it may create the others, and prepares the statements
/// that have to be fast.
pub(super) fn prepare(session: &Session) -> Result<(), StoreError> {
    if !has_tables(session)? {
        session.batch(migrate::CREATE_LEASE)?;
    }
    session.prepare_all(&[CLAIM_BEAT, CLAIM, RENEW, RELEASE])
}

/// Returns whether the database has the lease's tables.
pub(super) fn has_tables(session: &Session) -> Result<bool, StoreError> {
    Sql::Postgres(session).value(HAS_TABLES, &[])
}

/// Sends a request, and returns its reply.
///
/// `has_schema` is set once the records are known to have a schema.
pub(super) fn make(
    session: &Session,
    request: Request,
    claimant: &Claimant<'_>,
    has_schema: &Cell<bool>,
) -> Result<LeaseReply, StoreError> {
    let (sql, holder) = (Sql::Postgres(session), claimant.holder.to_string());
    let changed = |count| {
        if count == 0 {
            LeaseReply::Refused
        } else {
            LeaseReply::Done
        }
    };
    match request {
        Request::Read => read(session, has_schema).map(LeaseReply::Row),
        Request::Renew { epoch } => sql.change(RENEW, args![epoch, &holder]).map(changed),
        Request::Release { epoch } => sql.change(RELEASE, args![epoch, &holder]).map(changed),
        Request::Claim { seen } => claim(session, seen, claimant),
    }
}

fn read(session: &Session, has_schema: &Cell<bool>) -> Result<LeaseRow, StoreError> {
    // Once the records have a schema they keep it, so from then on it is read with the rest, in one round trip.
    if !has_schema.get() {
        has_schema.set(migrate::found(session)? > 0);
    }
    let text = if has_schema.get() { READ_ALL } else { READ };
    let row = Sql::Postgres(session).one(text, &[], |row| {
        // A text that is not an id still names a process, and not this one.
        let holder: Option<String> = row.get("holder")?;
        let holder = holder.map(|text| text.parse().unwrap_or(Holder(Uuid::nil())));
        let text = |name| Ok::<_, StoreError>(row.get::<Option<String>>(name)?.unwrap_or_default());
        Ok(LeaseRow {
            beat: Beat {
                epoch: row.get("epoch")?,
                number: row.get("beat")?,
            },
            holder,
            url: text("url")?,
            encryption_key_id: text("encryption_key_id")?,
            media_key_id: text("media_key_id")?,
            schema: if has_schema.get() {
                row.get("version")?
            } else {
                0
            },
            is_read_only: row.get("is_read_only")?,
        })
    })?;
    row.ok_or_else(|| StoreError::Fault("the table leadership or beats has no row".into()))
}

fn claim(session: &Session, seen: Beat, claimant: &Claimant<'_>) -> Result<LeaseReply, StoreError> {
    let (holder, keys) = (claimant.holder.to_string(), claimant.keys);
    session.send_text("BEGIN")?;
    let row = args![
        seen.epoch,
        &holder,
        claimant.url,
        keys.encrypts_with(),
        keys.media.as_str()
    ];
    let sent = session.put_fence(CLAIM_BEAT, args![seen.epoch, seen.number]);
    let sent = sent.and_then(|()| session.put_fence(CLAIM, row));
    let committed = sent.and_then(|()| session.commit().map_err(CommitError::cause));
    match committed {
        // The fence is this session's marker for a division by zero. Here it means that another server was faster. The session stays usable.
        Err(_) if session.was_fenced() => {
            session.forget_fence();
            session.roll_back().map(|()| LeaseReply::Refused)
        }
        committed => committed.map(|()| LeaseReply::Done),
    }
}
