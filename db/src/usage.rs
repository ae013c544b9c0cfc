//! Usage: kept by the day as sessions begin and end, read with what is still going on.

use std::collections::BTreeMap;
use std::time::Duration;

use conclave_model::plan::Plan;
use conclave_model::usage::{Day, MonthUse, UsageDay, by_day, overage_ugx};
use conclave_model::{ProjectId, Timestamp};
use rusqlite::{Connection, Row, params};

use crate::columns::Columns;
use crate::error::OrStoreError;
use crate::writer::Tx;
use crate::{Store, StoreError};

impl Tx<'_> {
    /// Counts a session that began.
    pub(crate) fn count_session(&self, project: &ProjectId, joined_at: Timestamp) -> Result<(), StoreError> {
        self.add_usage(project, Day::from(joined_at), Duration::ZERO, 1)
    }

    /// Counts the time of a session that ended, on each day it touched.
    pub(crate) fn count_time(&self, project: &ProjectId, from: Timestamp, to: Timestamp) -> Result<(), StoreError> {
        by_day(from, to).try_for_each(|(day, time)| self.add_usage(project, day, time, 0))
    }

    fn add_usage(&self, project: &ProjectId, day: Day, time: Duration, sessions: u32) -> Result<(), StoreError> {
        self.sql
            .prepare_cached(
                "INSERT INTO usage_days (project_id, day, participant_ms, sessions) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (project_id, day) DO UPDATE
                 SET participant_ms = participant_ms + excluded.participant_ms, sessions = sessions + excluded.sessions",
            )
            .and_then(|mut s| s.execute(params![project.as_str(), day.number(), millis(time), sessions]))
            .or_store_error()?;
        Ok(())
    }
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

fn usage_day(row: &Row<'_>) -> rusqlite::Result<UsageDay> {
    Ok(UsageDay {
        day: Day::from_number(row.get(0)?),
        participant_time: Duration::from_millis(row.get::<_, i64>(1)?.unsigned_abs()),
        sessions: row.get(2)?,
    })
}

/// Every day from `from` to `to`, those without a row empty, sessions that are open counted to `now`.
fn days(
    sql: &Connection,
    project: &ProjectId,
    (from, to): (Day, Day),
    now: Timestamp,
) -> Result<Vec<UsageDay>, StoreError> {
    let empty = |number| UsageDay { day: Day::from_number(number), participant_time: Duration::ZERO, sessions: 0 };
    let mut days: BTreeMap<Day, UsageDay> =
        (from.number()..=to.number()).map(empty).map(|day| (day.day, day)).collect();
    let mut statement = sql
        .prepare_cached(
            "SELECT day, participant_ms, sessions FROM usage_days WHERE project_id = ?1 AND day BETWEEN ?2 AND ?3",
        )
        .or_store_error()?;
    let kept = statement.query_map(params![project.as_str(), from.number(), to.number()], usage_day);
    for day in kept.or_store_error()? {
        let day = day.or_store_error()?;
        days.insert(day.day, day);
    }
    let mut open = sql
        .prepare_cached("SELECT joined_at FROM sessions WHERE project_id = ?1 AND left_at IS NULL")
        .or_store_error()?;
    for joined_at in open.query_map([project.as_str()], |row| row.time(0)).or_store_error()? {
        for (day, time) in by_day(joined_at.or_store_error()?, now) {
            days.entry(day).and_modify(|day| day.participant_time += time);
        }
    }
    Ok(days.into_values().collect())
}

fn month_time(sql: &Connection, project: &ProjectId, month: Timestamp, now: Timestamp) -> Result<Duration, StoreError> {
    // The last day of any month lies within 31 days of its first, and before the next month's first.
    let last = Day::from(Day::from(month).plus(31).start().month_start()).plus(-1);
    let days = days(sql, project, (Day::from(month), last), now)?;
    Ok(days.iter().map(|day| day.participant_time).sum())
}

fn settled_until(sql: &Connection, project: &ProjectId) -> Result<(i64, Timestamp), StoreError> {
    // A project that was never settled owes nothing from before it was made.
    sql.prepare_cached("SELECT balance_ugx, coalesce(settled_until, created_at) FROM projects WHERE id = ?1")
        .and_then(|mut s| s.query_row([project.as_str()], |row| Ok((row.get(0)?, row.time(1)?.month_start()))))
        .or_store_error()
}

/// A project's month so far.
pub(crate) fn month_use(sql: &Connection, project: &ProjectId, now: Timestamp) -> Result<MonthUse, StoreError> {
    let month = now.month_start();
    let (balance_ugx, settled_until) = settled_until(sql, project)?;
    let active_rooms = sql
        .prepare_cached("SELECT count(*) FROM rooms WHERE project_id = ?1 AND status = 'open'")
        .and_then(|mut s| s.query_row([project.as_str()], |row| row.get(0)))
        .or_store_error()?;
    let participant_time = month_time(sql, project, month, now)?;
    Ok(MonthUse { participant_time, balance_ugx, settled: settled_until >= month, active_rooms })
}

impl Store {
    /// A project's days from `from` to `to`, both included.
    ///
    /// # Errors
    /// The store's own.
    pub async fn usage_days(&self, project: ProjectId, from: Day, to: Day) -> Result<Vec<UsageDay>, StoreError> {
        let now = self.clock().now();
        self.read(move |sql| days(sql, &project, (from, to), now)).await
    }

    /// The month so far.
    ///
    /// # Errors
    /// The store's own.
    pub async fn month_use(&self, project: ProjectId) -> Result<MonthUse, StoreError> {
        let now = self.clock().now();
        self.read(move |sql| month_use(sql, &project, now)).await
    }

    /// Takes the overage of every month that is over from the wallet, once.
    ///
    /// # Errors
    /// The store's own.
    pub async fn settle_months(&self, project: ProjectId, plan: Plan) -> Result<(), StoreError> {
        self.write(move |tx| {
            let this_month = tx.now.month_start();
            let (_, mut month) = settled_until(tx.sql, &project)?;
            let mut owed = 0i64;
            while month < this_month {
                owed = owed.saturating_add(overage_ugx(&plan, month_time(tx.sql, &project, month, tx.now)?));
                month = Day::from(month).plus(31).start().month_start();
            }
            tx.sql
                .execute(
                    "UPDATE projects SET balance_ugx = balance_ugx - ?2, settled_until = ?3 WHERE id = ?1",
                    params![project.as_str(), owed, this_month.millis()],
                )
                .or_store_error()?;
            Ok(())
        })
        .await
    }
}
