//! Many projects and rooms, created directly in the database.

use super::postgres::Postgres;

/// Projects in the database.
const PROJECTS: u32 = 10_000;
/// Open rooms per project.
const ROOMS: u32 = 10;

/// Creates projects with open rooms that are empty, and stay open for hours.
pub fn fill(database: &Postgres) {
    database.run(&format!(
        "INSERT INTO projects (id, name, env, plan, status, created_at, open_rooms)
            SELECT 'prj_load' || lpad(n::text, 8, '0'), 'load', 'live', 'self_hosted', 'active', now_ms, {ROOMS}
            FROM generate_series(1, {PROJECTS}) n, {NOW};
        INSERT INTO rooms (id, project_id, name, max_participants, empty_timeout_seconds, status, created_at, empty_deadline)
            SELECT gen_random_uuid(), id, 'room-' || n, 100, 36000, 'open', now_ms, now_ms + 36000000
            FROM projects, generate_series(1, {ROOMS}) n, {NOW} WHERE name = 'load';
        ANALYZE"
    ));
}

/// The current time in the records' format.
const NOW: &str = "(SELECT (extract(epoch FROM now()) * 1000)::bigint AS now_ms) AS clock";

/// Returns how many of these rooms are open.
pub fn open_rooms(database: &Postgres) -> u32 {
    let open = "SELECT count(*) FROM rooms WHERE status = 'open' AND project_id LIKE 'prj_load%'";
    database.run(open).parse().expect("a number")
}

/// Returns the number of created rooms.
pub const fn rooms() -> u32 {
    PROJECTS * ROOMS
}
