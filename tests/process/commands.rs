//! Commands next to a writing server: both wait for each other's writes.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::json;

use crate::deployment::Deployment;

/// Number of concurrent commands.
const COMMANDS: usize = 48;
const AT_ONCE: usize = 8;
/// Number of concurrently writing clients.
const CLIENTS: usize = 4;

/// Proves R-21.
#[test]
fn many_commands_beside_a_server_that_writes_all_succeed_and_hold_up_no_batch() {
    let deployment = Deployment::new();
    let running = deployment.start();
    let (data, have_ended) = (deployment.data(), AtomicBool::new(false));
    let command = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_conclave"));
        command
            .arg("--data")
            .arg(&data)
            .args(["project", "create", "--name", "Beside"]);
        command
            .env_clear()
            .envs(deployment.url())
            .current_dir(&data)
            .output()
            .unwrap()
    };
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (running, have_ended) = (&running, &have_ended);
            scope.spawn(move || {
                for number in 0.. {
                    let name = format!("room-{client}-{number}");
                    running
                        .post("/v1/rooms")
                        .json(json!({"name": name}))
                        .send()
                        .expect(201);
                    running
                        .delete(&format!("/v1/rooms/{name}"))
                        .send()
                        .expect_empty(204);
                    if have_ended.load(Ordering::Relaxed) {
                        return;
                    }
                }
            });
        }
        let commands: Vec<_> = (0..AT_ONCE)
            .map(|_| {
                scope.spawn(|| {
                    (0..COMMANDS / AT_ONCE)
                        .map(|_| command())
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        let results: Vec<_> = commands
            .into_iter()
            .map(thread::ScopedJoinHandle::join)
            .collect();
        have_ended.store(true, Ordering::Relaxed);
        for output in results.into_iter().flat_map(Result::unwrap) {
            assert!(
                output.status.success(),
                "{}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
    });
    assert!(
        !deployment.log().contains("rolled back"),
        "{}",
        deployment.log()
    );
}
