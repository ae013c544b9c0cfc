//! Joins and leaves through the sandbox, with their sessions and events, compared with SQLite writing the same rows.

use std::path::Path;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use rusqlite::{Connection as Database, params};
use serde_json::json;

use crate::connection::Connection;
use crate::figure::{Figure, Section, Unit, thousands};
use crate::load::Sample;
use crate::participant::Participant;
use crate::process::Process;
use crate::{BenchError, metrics};

/// Participants that join and leave repeatedly, each over its own connection.
const PARTICIPANTS: usize = 64;
/// Rooms shared by them.
const ROOMS: usize = 8;
/// Measured time per round.
const ROUND: Duration = Duration::from_secs(3);
/// Rounds of each program, alternately.
const ROUNDS: usize = 3;

/// Measures joins and leaves.
pub async fn measure(conclave: &Path, scratch: &Path) -> Result<Section, BenchError> {
    let data = scratch.join("data");
    let server = Process::conclave(conclave, &data)?;
    create_rooms(&server).await?;
    let ceiling_file = scratch.join("ceiling.db");
    prepare_ceiling(&data.join("conclave.db"), &ceiling_file)?;
    let (mut ceiling, mut rounds) = (0.0, Vec::new());
    for _ in 0..ROUNDS {
        rounds.push(join_and_leave(participants(&server).await?, ROUND).await?);
        let batch = metrics::mean_batch(&server.admin()).await?;
        ceiling += write_rows(&ceiling_file, batch.round() as usize)? / ROUNDS as f64;
    }
    let seen = rounds.into_iter().reduce(Sample::and).ok_or("no round")?;
    let rates = format!(
        "{} of {} changes/s",
        thousands(seen.rate()),
        thousands(ceiling)
    );
    let ratio = Figure::new("join and leave", seen.rate() / ceiling, Unit::Ratio)
        .at_least(0.25)
        .note(rates);
    let p99 = Figure::new(
        "join and leave, p99",
        seen.percentile(99.0),
        Unit::Milliseconds,
    );
    let p99 = p99.note(format!("median {:.2} ms", seen.percentile(50.0)));
    Ok(Section {
        title: "Joins and leaves",
        about: "64 participants join and leave 8 rooms through the sandbox; each change writes a session and an \
                event. The ceiling is SQLite writing the same rows in batches of the same size, without a server.",
        figures: vec![ratio, p99],
        curves: Vec::new(),
    })
}

/// Creates the rooms.
async fn create_rooms(server: &Process) -> Result<(), BenchError> {
    let mut api = Connection::open(&server.api()).await?;
    for number in 0..ROOMS {
        api.json(
            &server.key(),
            "POST /v1/rooms",
            &json!({"name": format!("room-{number}")}),
        )
        .await?;
    }
    Ok(())
}

async fn participants(server: &Process) -> Result<Vec<Participant>, BenchError> {
    let mut participants = Vec::new();
    for number in 0..PARTICIPANTS {
        let (room, identity) = (format!("room-{}", number % ROOMS), format!("user-{number}"));
        participants.push(Participant::new(server, &server.key(), &room, &identity).await?);
    }
    Ok(participants)
}

/// Makes all participants join and leave for a time.
pub async fn join_and_leave(
    participants: Vec<Participant>,
    time: Duration,
) -> Result<Sample, BenchError> {
    let until = Instant::now() + time;
    let latencies = try_join_all(
        participants
            .into_iter()
            .map(|participant| repeat(participant, until)),
    )
    .await?;
    Ok(Sample::new(latencies.concat(), time))
}

/// Returns the durations of the joins and leaves.
async fn repeat(mut participant: Participant, until: Instant) -> Result<Vec<Duration>, BenchError> {
    let mut latencies = Vec::new();
    while Instant::now() < until {
        let begun = Instant::now();
        let sid = participant.join().await?;
        let joined = Instant::now();
        participant.leave(&sid).await?;
        latencies.extend([joined - begun, joined.elapsed()]);
    }
    Ok(latencies)
}

/// Copies the server's database, so that the ceiling has the same tables, indexes and rows.
fn prepare_ceiling(database: &Path, to: &Path) -> Result<(), BenchError> {
    let database = Database::open(database)?;
    database.execute(
        "VACUUM INTO ?1",
        params![to.to_str().ok_or("a path that is no text")?],
    )?;
    Ok(())
}

/// Returns SQLite's joins and leaves per second.
fn write_rows(file: &Path, batch: usize) -> Result<f64, BenchError> {
    let database = Database::open(file)?;
    database.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 4000",
    )?;
    database.set_prepared_statement_cache_capacity(16);
    let (project, room): (String, Vec<u8>) =
        database.query_row("SELECT project_id, id FROM rooms LIMIT 1", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
    let (started, mut written) = (Instant::now(), 0_usize);
    while started.elapsed() < ROUND {
        database.execute_batch("BEGIN IMMEDIATE")?;
        for _ in 0..batch.max(2) / 2 {
            write_pair(&database, &project, &room)?;
            written += 2;
        }
        database.execute_batch("COMMIT")?;
    }
    Ok(written as f64 / started.elapsed().as_secs_f64())
}

/// Writes the rows for a join and the following leave.
fn write_pair(database: &Database, project: &str, room: &[u8]) -> Result<(), BenchError> {
    let payload = "x".repeat(250);
    let event = "INSERT INTO events (project_id, room, type, payload, created_at) VALUES (?1, 'room-0', ?2, ?3, 0)";
    let session = database
        .prepare_cached(
            "INSERT INTO sessions (id, project_id, room_id, room, participant_identity, participant_sid, kind, role,
                                   joined_at)
             VALUES (randomblob(16), ?1, ?2, 'room-0', 'user-0', 'PA_' || hex(randomblob(8)), 'standard', 'host',
                     unixepoch() * 1000) RETURNING id",
        )?
        .query_row(params![project, room], |row| row.get::<_, Vec<u8>>(0))?;
    database
        .prepare_cached("UPDATE rooms SET empty_deadline = NULL WHERE id = ?1")?
        .execute(params![room])?;
    database
        .prepare_cached(event)?
        .execute(params![project, "participant.joined", payload])?;
    let close = "UPDATE sessions SET left_at = unixepoch() * 1000 WHERE id = ?1";
    database.prepare_cached(close)?.execute(params![session])?;
    database
        .prepare_cached("UPDATE rooms SET empty_deadline = 1 WHERE id = ?1")?
        .execute(params![room])?;
    database
        .prepare_cached(event)?
        .execute(params![project, "participant.left", payload])?;
    Ok(())
}
