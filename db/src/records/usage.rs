//! Usage per day, stored as sessions open and close. The time of open sessions is added at each read.

use std::collections::BTreeMap;
use std::time::Duration;

use conclave_model::plan::Plan;
use conclave_model::usage::{Day, MonthUse, UsageDay, by_day, overage_ugx};
use conclave_model::{ProjectId, Timestamp};

use crate::database::Database;
use crate::engine::writer::Queue;
use crate::error::StoreError;
use crate::sql::values::args;
use crate::sql::{Row, Sql, no_row};
use crate::tx::Tx;

const ADD: &str = "INSERT INTO usage_days (project_id, day, participant_ms, sessions) VALUES (?1, ?2, ?3, ?4)
     ON CONFLICT (project_id, day) DO UPDATE SET participant_ms = usage_days.participant_ms + excluded.participant_ms,
                                                 sessions = usage_days.sessions + excluded.sessions";
const SELECT_DAYS: &str = "SELECT day, participant_ms, sessions FROM usage_days WHERE project_id = ?1 AND day BETWEEN ?2 AND ?3";
const SUM_DAYS: &str = "SELECT CAST(coalesce(sum(participant_ms), 0) AS BIGINT) FROM usage_days WHERE project_id = ?1 AND day BETWEEN ?2 AND ?3";
const SUM_ALL_DAYS: &str =
    "SELECT CAST(coalesce(sum(u.participant_ms), 0) AS BIGINT) FROM projects p
     JOIN usage_days u ON u.project_id = p.id AND u.day BETWEEN ?1 AND ?2";
const SUM_ALL_OPEN: &str =
    "SELECT CAST(coalesce(sum(?2 - CASE WHEN joined_at < ?1 THEN ?1 ELSE joined_at END), 0) AS BIGINT) FROM sessions
     WHERE left_at IS NULL AND joined_at < ?2";
const SUM_OPEN: &str =
    "SELECT CAST(coalesce(sum(?3 - CASE WHEN joined_at < ?2 THEN ?2 ELSE joined_at END), 0) AS BIGINT) FROM sessions
     WHERE project_id = ?1 AND left_at IS NULL AND joined_at < ?3";
const SELECT_OPEN: &str =
    "SELECT joined_at FROM sessions WHERE project_id = ?1 AND left_at IS NULL";
const SELECT_ACCOUNT: &str = "SELECT balance_ugx, coalesce(settled_until, created_at) AS settled_until, open_rooms FROM projects WHERE id = ?1";
const SETTLE: &str =
    "UPDATE projects SET balance_ugx = balance_ugx - ?2, settled_until = ?3 WHERE id = ?1";

impl Tx<'_> {
    /// Counts an opened session.
    pub(crate) fn count_session(
        &self,
        project: &ProjectId,
        joined_at: Timestamp,
    ) -> Result<(), StoreError> {
        self.add_usage(project, Day::from(joined_at), 0, 1)
    }

    /// Counts the time of a closed session, on each day that it touches.
    pub(crate) fn count_time(
        &self,
        project: &ProjectId,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<(), StoreError> {
        by_day(from, to).try_for_each(|(day, time)| self.add_usage(project, day, millis(time), 0))
    }

    /// Subtracts the time of a session that is open again.
    pub(crate) fn uncount_time(
        &self,
        project: &ProjectId,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<(), StoreError> {
        // The session itself stays counted: it is the same one.
        by_day(from, to).try_for_each(|(day, time)| self.add_usage(project, day, -millis(time), 0))
    }

    fn add_usage(
        &self,
        project: &ProjectId,
        day: Day,
        millis: i64,
        sessions: u32,
    ) -> Result<(), StoreError> {
        self.sql
            .put(ADD, args![project, day.number(), millis, sessions])
    }
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

fn usage_day(row: &Row<'_>) -> Result<UsageDay, StoreError> {
    Ok(UsageDay {
        day: Day::from_number(row.get("day")?),
        participant_time: Duration::from_millis(row.get::<i64>("participant_ms")?.unsigned_abs()),
        sessions: row.get("sessions")?,
    })
}

/// Reads all days from `from` to `to`. A day without a row is empty; open sessions count up to `now`.
fn days(
    sql: Sql<'_>,
    project: &ProjectId,
    from: Day,
    to: Day,
    now: Timestamp,
) -> Result<Vec<UsageDay>, StoreError> {
    let empty = |number| UsageDay {
        day: Day::from_number(number),
        participant_time: Duration::ZERO,
        sessions: 0,
    };
    // All days of the range first, so that the response has no gaps.
    let mut days: BTreeMap<Day, UsageDay> = (from.number()..=to.number())
        .map(empty)
        .map(|day| (day.day, day))
        .collect();
    let stored = sql.many(
        SELECT_DAYS,
        args![project, from.number(), to.number()],
        usage_day,
    )?;
    days.extend(stored.into_iter().map(|day| (day.day, day)));
    let open: Vec<Timestamp> = sql.many(SELECT_OPEN, args![project], |row| row.get("joined_at"))?;
    for (day, time) in open
        .into_iter()
        .flat_map(|joined_at| by_day(joined_at, now))
    {
        // Only days of the range: an open session may have started before it.
        days.entry(day)
            .and_modify(|day| day.participant_time += time);
    }
    Ok(days.into_values().collect())
}

/// Sums the time of closed and open sessions in the month that starts at `month`. Most requests that start work read it.
fn month_time(
    sql: Sql<'_>,
    project: &ProjectId,
    month: Timestamp,
    now: Timestamp,
) -> Result<Duration, StoreError> {
    // The 31st day after the first of a month is always in the next month. The day before that one's first day is the last of this month.
    let next = Day::from(month).plus(31).start().month_start();
    let (first, last) = (Day::from(month).number(), Day::from(next).plus(-1).number());
    let closed: i64 = sql.value(SUM_DAYS, args![project, first, last])?;
    // For a past month, open sessions count only up to its end.
    let open: i64 = sql.value(SUM_OPEN, args![project, month, now.min(next)])?;
    Ok(Duration::from_millis(
        closed.saturating_add(open).unsigned_abs(),
    ))
}

/// Account data in a project's record.
struct Account {
    balance_ugx: i64,
    /// Month to be settled next.
    settled_until: Timestamp,
    open_rooms: u32,
}

fn account(sql: Sql<'_>, project: &ProjectId) -> Result<Account, StoreError> {
    let read = |row: &Row<'_>| {
        // A project that was never settled owes nothing for the time before its creation.
        let settled_until = row.get::<Timestamp>("settled_until")?.month_start();
        Ok(Account {
            balance_ugx: row.get("balance_ugx")?,
            settled_until,
            open_rooms: row.get("open_rooms")?,
        })
    };
    sql.one(SELECT_ACCOUNT, args![project], read)?
        .ok_or_else(no_row)
}

/// Reads a project's usage in the current month.
pub(crate) fn month_use(
    sql: Sql<'_>,
    project: &ProjectId,
    now: Timestamp,
) -> Result<MonthUse, StoreError> {
    let month = now.month_start();
    let Account {
        balance_ugx,
        settled_until,
        open_rooms,
    } = account(sql, project)?;
    let participant_time = month_time(sql, project, month, now)?;
    Ok(MonthUse {
        participant_time,
        balance_ugx,
        settled: settled_until >= month,
        active_rooms: open_rooms,
    })
}

/// Usage records.
#[derive(Debug, Clone)]
pub struct Usage(pub(crate) Database);

impl Usage {
    /// Reads a project's usage per day from `from` to `to`, both included.
    ///
    /// # Errors
    /// Fails when the database cannot be read, or takes too long.
    pub async fn days(
        &self,
        project: ProjectId,
        from: Day,
        to: Day,
    ) -> Result<Vec<UsageDay>, StoreError> {
        let now = self.0.clock().now();
        self.0
            .list(project, move |sql, project| {
                days(sql, project, from, to, now)
            })
            .await
    }

    /// Reads a project's usage in the current month.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub async fn month_use(&self, project: ProjectId) -> Result<MonthUse, StoreError> {
        let now = self.0.clock().now();
        self.0.read(move |sql| month_use(sql, &project, now)).await
    }

    /// Sums the participant time of all projects in the current month.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub async fn month_time_of_all(&self) -> Result<Duration, StoreError> {
        let now = self.0.clock().now();
        let month = now.month_start();
        self.0
            .bulk_read(move |sql| {
                let closed: i64 = sql.value(
                    SUM_ALL_DAYS,
                    args![Day::from(month).number(), Day::from(now).number()],
                )?;
                let open: i64 = sql.value(SUM_ALL_OPEN, args![month, now])?;
                Ok(Duration::from_millis(
                    closed.saturating_add(open).unsigned_abs(),
                ))
            })
            .await
    }

    /// Sums each project's participant time in the current month, in the order of `projects`.
    ///
    /// # Errors
    /// Fails when the database cannot be read.
    pub async fn month_time_of_each(
        &self,
        projects: Vec<ProjectId>,
    ) -> Result<Vec<Duration>, StoreError> {
        let now = self.0.clock().now();
        self.0
            .bulk_read(move |sql| {
                projects
                    .iter()
                    .map(|project| month_time(sql, project, now.month_start(), now))
                    .collect()
            })
            .await
    }

    /// Deducts the overage of every unsettled past month from the project's balance.
    ///
    /// # Errors
    /// Fails when the database cannot be written.
    pub async fn settle_months(&self, project: ProjectId, plan: Plan) -> Result<(), StoreError> {
        self.0
            .write(Queue::for_project(&project), move |tx| {
                // Read in the transaction, so that two requests cannot settle a month twice.
                let this_month = tx.now.month_start();
                // Usually there is nothing to settle, or one month. A project without requests may have skipped several.
                let mut month = account(tx.sql, &project)?.settled_until;
                let mut owed = 0i64;
                while month < this_month {
                    owed = owed.saturating_add(overage_ugx(
                        &plan,
                        month_time(tx.sql, &project, month, tx.now)?,
                    ));
                    month = Day::from(month).plus(31).start().month_start();
                }
                // The balance and the month are one update, so that no month is deducted twice.
                tx.sql.put(SETTLE, args![&project, owed, this_month])
            })
            .await
    }
}
