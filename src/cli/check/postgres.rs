//! Verdict of `conclave check` on a PostgreSQL server.

use conclave_db::PostgresHealth;

use super::Verdict;

/// Reports the connection to a PostgreSQL server, and risks that an operator should know before calls depend on it.
pub(super) fn judge(summary: &str, health: &PostgresHealth) -> Verdict {
    let tls = if health.is_encrypted { "TLS" } else { "no TLS" };
    // With one decimal: every write waits for at least one round trip.
    let milliseconds = health.round_trip.as_secs_f64() * 1_000.0;
    let version = &health.version;
    let summary =
        format!("{summary}: PostgreSQL {version}, {tls}, round trip {milliseconds:.1} ms");
    let risks = risks(health);
    if risks.is_empty() {
        return Verdict::Ok(format!("{summary}, synchronous standby"));
    }
    Verdict::Warning(format!("{summary}; {}", risks.join("; ")))
}

/// Returns the settings that can make PostgreSQL lose acknowledged changes.
fn risks(health: &PostgresHealth) -> Vec<String> {
    let PostgresHealth {
        has_synchronous_standby,
        synchronous_commit,
        asynchronous_standbys,
        ..
    } = health;
    let mut risks = Vec::new();
    match synchronous_commit.as_str() {
        // With `remote_write` or `local`, a standby may not have the change on disk, or not at all.
        "on" | "remote_apply" => {}
        "off" => risks.push("synchronous_commit = off: a crash of PostgreSQL can lose the last changes".to_owned()),
        other => risks.push(format!(
            "synchronous_commit = {other}: a failover of PostgreSQL can lose the last changes; set it to on"
        )),
    }
    // Without one, `synchronous_commit` waits for the primary's disk only.
    if !has_synchronous_standby {
        risks.push(
            "no synchronous standby (synchronous_standby_names): a failover of PostgreSQL can lose the last changes"
                .to_owned(),
        );
    }
    if !asynchronous_standbys.is_empty() {
        risks.push(format!(
            "{asynchronous_standbys}: asynchronous, so it can lack the last changes when promoted"
        ));
    }
    risks
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn health(
        has_synchronous_standby: bool,
        synchronous_commit: &str,
        asynchronous_standbys: &str,
    ) -> PostgresHealth {
        PostgresHealth {
            version: "17.1".into(),
            is_encrypted: true,
            round_trip: Duration::from_micros(500),
            has_synchronous_standby,
            synchronous_commit: synchronous_commit.into(),
            asynchronous_standbys: asynchronous_standbys.into(),
        }
    }

    #[test]
    fn a_second_server_that_has_each_commit_is_well_and_all_else_is_a_warning() {
        let is_safe = |health: &PostgresHealth| matches!(judge("schema 1", health), Verdict::Ok(_));
        assert!(is_safe(&health(true, "on", "")) && is_safe(&health(true, "remote_apply", "")));
        for (health, named) in [
            (health(false, "on", ""), "no synchronous standby"),
            (health(false, "off", ""), "synchronous_commit = off"),
            (health(true, "off", ""), "synchronous_commit = off"),
            (health(true, "local", ""), "synchronous_commit = local"),
            (
                health(true, "remote_write", ""),
                "synchronous_commit = remote_write",
            ),
            (health(true, "on", "db2, db3"), "db2, db3: asynchronous"),
        ] {
            let Verdict::Warning(text) = judge("schema 1", &health) else {
                panic!("{health:?}")
            };
            assert!(
                text.contains(named) && text.contains("round trip 0.5 ms"),
                "{text}"
            );
        }
    }
}
