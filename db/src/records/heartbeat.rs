//! The heartbeat of a server. After a crash it says until when sessions that the crash ended have lasted.

use std::time::Duration;

use conclave_model::Timestamp;

use crate::engine::postgres::lease::LeaseTiming;
use crate::engine::writer::Queue;
use crate::error::{StoreError, left_out};
use crate::sql::Sql;
use crate::sql::values::args;
use crate::store::{Crash, Store};
use crate::store_options::Location;
use crate::tx::Tx;

const SELECT: &str = "SELECT at FROM heartbeat WHERE id = 1";
const WRITE: &str =
    "INSERT INTO heartbeat (id, at) VALUES (1, ?1) ON CONFLICT (id) DO UPDATE SET at = excluded.at";
const RENEW: &str = "UPDATE heartbeat SET at = ?1 WHERE id = 1";
/// The interval of heartbeats in a file: the disk may be idle otherwise.
const INTERVAL_OF_FILE: Duration = Duration::from_secs(60);
const DELETE: &str = "DELETE FROM heartbeat WHERE id = 1";

const COUNT_ROOMS: &str =
    "UPDATE projects SET open_rooms = (SELECT count(*) FROM rooms WHERE project_id = projects.id AND status = 'open')
     WHERE open_rooms <> (SELECT count(*) FROM rooms WHERE project_id = projects.id AND status = 'open')";

/// Starts the empty timers of the rooms that the stop of a server has emptied: they have neither a deadline nor an open session.
const START_TIMERS: &str = "UPDATE rooms SET empty_deadline = ?1 + empty_timeout_seconds * 1000
     WHERE status = 'open' AND empty_deadline IS NULL
         AND NOT EXISTS (SELECT 1 FROM sessions WHERE sessions.room_id = rooms.id AND left_at IS NULL)";

fn last_heartbeat(sql: Sql<'_>) -> Result<Option<Timestamp>, StoreError> {
    sql.one(SELECT, args![], |row| row.get("at"))
}

/// Records that the server runs, if its start is recorded and its stop is not.
pub(crate) fn renew_heartbeat(tx: &Tx<'_>) -> Result<(), StoreError> {
    tx.sql.put(RENEW, args![tx.now])
}

fn first_heartbeat(tx: &mut Tx<'_>) -> Result<Option<Crash>, StoreError> {
    let crash = last_heartbeat(tx.sql)?.map(|at| Crash {
        last_heartbeat: at,
        restarted_at: tx.now,
    });
    tx.sql.put(WRITE, args![tx.now])?;
    Ok(crash)
}

fn start_timers(tx: &mut Tx<'_>) -> Result<(), StoreError> {
    tx.sql.put(START_TIMERS, args![tx.now])
}

fn count_rooms(tx: &mut Tx<'_>) -> Result<(), StoreError> {
    let corrected = tx.sql.change(COUNT_ROOMS, args![])?;
    if corrected > 0 {
        log::warn!(projects = corrected; "the number of open rooms was wrong and has been corrected");
    }
    Ok(())
}

impl Store {
    /// Records the start of a server, whose first heartbeat this is. A heartbeat of an earlier server shows that it crashed. The
    /// open rooms of all projects are counted anew, and the empty timers start of those that the last stop has emptied. What a
    /// damaged table keeps from being done is left out.
    ///
    /// # Errors
    /// Fails when the database cannot be written.
    pub async fn begin_run(&self) -> Result<(), StoreError> {
        self.note_server()?;
        let begun = self.write(Queue::SERVER, |tx| {
            tx.sql
                .prepare(&[SELECT, WRITE, START_TIMERS, COUNT_ROOMS])?;
            let crash = first_heartbeat(tx)?;
            start_timers(tx)?;
            count_rooms(tx)?;
            Ok(crash)
        });
        let crash = match begun.await {
            Err(StoreError::Damaged(_)) => {
                // Each part by itself, so that a damaged table keeps only what needs it from being done.
                left_out(
                    "the timers of empty rooms were not started",
                    self.write(Queue::SERVER, start_timers).await,
                )?;
                left_out(
                    "open rooms were not counted",
                    self.write(Queue::SERVER, count_rooms).await,
                )?;
                let begun = self.write(Queue::SERVER, first_heartbeat).await;
                left_out("it is not known whether the server crashed", begun)?.flatten()
            }
            begun => begun?,
        };
        // Only the first start counts: a server starts once.
        let _ = self.crash_cell().set(crash);
        Ok(())
    }

    /// Records that the server runs, if its start is recorded and its stop is not.
    ///
    /// # Errors
    /// Fails when the database cannot be written.
    pub async fn renew_heartbeat(&self) -> Result<(), StoreError> {
        self.write(Queue::SERVER, |tx| renew_heartbeat(tx)).await
    }

    /// The interval of heartbeats. On PostgreSQL it is that of the renewals of the lease, so that what a server has left behind ends at
    /// its last renewal when another takes over.
    #[must_use]
    pub fn heartbeat_interval(&self) -> Duration {
        match self.location() {
            Location::File(_) => INTERVAL_OF_FILE,
            Location::Server(_) => LeaseTiming::default().renewal,
        }
    }

    /// Records that the server stops well.
    ///
    /// # Errors
    /// Fails when the database cannot be written.
    pub async fn end_run(&self) -> Result<(), StoreError> {
        self.write(Queue::SERVER, |tx| tx.sql.put(DELETE, args![]))
            .await
    }

    /// Returns the crash before this server's start; `None` if the server before it stopped well, or there was none.
    #[must_use]
    pub fn crash(&self) -> Option<Crash> {
        self.crash_cell().get().copied().flatten()
    }
}
