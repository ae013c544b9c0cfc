//! Joins and leaves through the sandbox, with their sessions and events, compared with SQLite writing the same rows.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

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

/// Returns SQLite's joins and leaves per second. The participants alternate, as with the server: rows of different rooms and identities
/// are on different pages of an index, and each page is written.
fn write_rows(file: &Path, batch: usize) -> Result<f64, BenchError> {
    let database = Database::open(file)?;
    database.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 4000",
    )?;
    database.set_prepared_statement_cache_capacity(16);
    let rooms = database
        .prepare("SELECT project_id, id, name FROM rooms ORDER BY name")?
        .query_map([], |row| {
            Ok(Room {
                project: row.get(0)?,
                id: row.get(1)?,
                name: row.get(2)?,
            })
        })?
        .collect::<Result<Vec<_>, _>>()?;
    // A server of an older version, as the other one of a comparison, has no such column.
    let identity = "SELECT count(*) FROM pragma_table_info('events') WHERE name = 'identity'";
    let event = if database.query_row(identity, [], |row| row.get(0))? {
        "INSERT INTO events (project_id, room, type, payload, created_at, identity) VALUES (?1, ?2, ?3, ?4, 0, ?5)"
    } else {
        "INSERT INTO events (project_id, room, type, payload, created_at) VALUES (?1, ?2, ?3, ?4, 0)"
    };
    let mut participants = (0..PARTICIPANTS).cycle();
    let (started, mut written) = (Instant::now(), 0_usize);
    while started.elapsed() < ROUND {
        database.execute_batch("BEGIN IMMEDIATE")?;
        for number in participants.by_ref().take(batch.max(2) / 2) {
            let room = rooms.get(number % ROOMS).ok_or("a room is missing")?;
            write_pair(&database, room, &format!("user-{number}"), event)?;
            written += 2;
        }
        database.execute_batch("COMMIT")?;
    }
    Ok(written as f64 / started.elapsed().as_secs_f64())
}

/// Room of the rows.
struct Room {
    project: String,
    id: Vec<u8>,
    name: String,
}

/// Writes the rows for a join and the following leave.
fn write_pair(
    database: &Database,
    room: &Room,
    identity: &str,
    event: &str,
) -> Result<(), BenchError> {
    let payload = "x".repeat(250);
    let emit = |kind: &str| {
        let mut statement = database.prepare_cached(event)?;
        let row = params![room.project, room.name, kind, payload, identity];
        // Without the last one, if the table has no such column.
        let columns = statement.parameter_count();
        statement.execute(&row[..columns])
    };
    // Grows with time, like the server's ids.
    let session = SystemTime::now()
        .duration_since(UNIX_EPOCH)?
        .as_nanos()
        .to_be_bytes();
    database
        .prepare_cached(
            "INSERT INTO sessions (id, project_id, room_id, room, participant_identity, participant_sid, kind, role,
                                   joined_at)
             VALUES (?1, ?2, ?3, ?4, ?5, 'PA_' || hex(randomblob(8)), 'standard', 'host', unixepoch() * 1000)",
        )?
        .execute(params![session, room.project, room.id, room.name, identity])?;
    database
        .prepare_cached("UPDATE rooms SET empty_deadline = NULL WHERE id = ?1")?
        .execute(params![room.id])?;
    emit("participant.joined")?;
    let close = "UPDATE sessions SET left_at = unixepoch() * 1000 WHERE id = ?1";
    database.prepare_cached(close)?.execute(params![session])?;
    database
        .prepare_cached("UPDATE rooms SET empty_deadline = 1 WHERE id = ?1")?
        .execute(params![room.id])?;
    emit("participant.left")?;
    Ok(())
}
