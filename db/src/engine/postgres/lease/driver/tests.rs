//! Leases on a database, whose servers are threads of this process.

use std::sync::Arc;
use std::time::Instant;

use conclave_model::Secret;
use parking_lot::Mutex;
use test_postgres::{Cluster, Database, Proxy};

use super::super::keys::WrongKey;
use super::super::machine::Obstacle;
use super::super::nodes::{Node, Role, cluster_state};
use super::*;

/// Maximum wait for a state: far longer than it takes on a busy machine.
const WAIT_LIMIT: Duration = Duration::from_secs(60);

fn keys(media: &'static str) -> ReadKeys {
    Box::new(move || {
        Ok(KeyIds {
            encryption: vec!["e".into()],
            media: media.into(),
        })
    })
}

fn node() -> NodeInfo {
    let (url, version) = ("https://a.example.org".into(), "1.2.3".into());
    NodeInfo {
        url,
        admin_url: Some("https://admin.example.org".into()),
        version,
    }
}

fn options(url: &str, keys: ReadKeys) -> LeaseOptions {
    let server = PostgresServer::new(&Secret::new(url), None).unwrap();
    let (holder, timing) = (Holder::random(), LeaseTiming::default());
    LeaseOptions {
        server,
        holder,
        predecessor: None,
        timing,
        node: node(),
        keys,
        yields: false,
    }
}

fn start(url: &str, media: &'static str) -> Lease {
    Lease::start(options(url, keys(media))).unwrap()
}

/// Runs a test with an empty database, if PostgreSQL is installed.
fn with_database(test: impl AsyncFnOnce(&Database<'_>)) {
    let Some(cluster) = Cluster::installed() else {
        return;
    };
    let database = cluster.database();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        tokio::time::timeout(WAIT_LIMIT, test(&database))
            .await
            .expect("the state is reached in time");
    });
}

async fn until(lease: &Lease, holds: impl Fn(&LeaseState) -> bool) -> LeaseState {
    let mut state = lease.state.clone();
    state.wait_for(|state| holds(state)).await.unwrap().clone()
}

/// Waits for a state that changes without a message.
async fn poll(holds: impl Fn() -> bool) {
    while !holds() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Waits for `times` more renewals.
async fn until_renewed(database: &Database<'_>, times: i64) {
    let beat = || {
        database
            .run("SELECT beat FROM beats")
            .trim()
            .parse::<i64>()
            .unwrap()
    };
    let first = beat();
    poll(|| beat() >= first + times).await;
}

#[test]
fn the_first_server_is_active_and_the_second_follows_when_it_releases() {
    with_database(async |database| {
        let first = start(&database.url(), "m");
        assert_eq!(first.active().await, Some(1));
        assert!(first.check().is_valid() && first.renewal_age().is_some());
        let second = start(&database.url(), "m");
        until_renewed(database, 3).await;
        assert_eq!(
            second.state().standing,
            Standing::Standby { obstacle: None }
        );
        let active = |epoch, is_this| {
            Some(ActiveServer {
                epoch,
                url: "https://a.example.org".into(),
                is_this,
            })
        };
        let known = |lease: &Lease| lease.active_server().borrow().clone();
        assert_eq!(
            (known(&first), known(&second)),
            (active(1, true), active(1, false))
        );
        assert!(
            !second.check().is_valid() && second.renewal_age().is_some(),
            "it has seen the first server's renewal"
        );
        first.release().await;
        assert_eq!(first.state().standing, Standing::Released);
        assert!(!first.check().is_valid());
        assert_eq!(second.active().await, Some(2));
        second
            .active_server()
            .wait_for(|known| *known == active(2, true))
            .await
            .unwrap();
        assert_eq!(known(&first), None);
        let row =
            database.run("SELECT epoch, url, encryption_key_id, media_key_id FROM leadership");
        assert_eq!(row.trim(), "2|https://a.example.org|e|m");
    });
}

#[test]
fn a_server_that_hands_over_learns_who_has_taken_over() {
    with_database(async |database| {
        let first = start(&database.url(), "m");
        assert_eq!(first.active().await, Some(1));
        let second = start(&database.url(), "m");
        until_renewed(database, 3).await;
        first.hand_over().await;
        assert_eq!(first.state().standing, Standing::Released);
        assert_eq!(second.active().await, Some(2));
        let url = "https://a.example.org".to_owned();
        let taken_over = Some(ActiveServer {
            epoch: 2,
            url,
            is_this: false,
        });
        first
            .active_server()
            .wait_for(|known| *known == taken_over)
            .await
            .unwrap();
        let mut known = first.active_server();
        first.release().await;
        // The thread exits.
        while known.changed().await.is_ok() {}
    });
}

#[test]
fn a_server_whose_link_is_cut_is_replaced_and_ends_when_it_is_back() {
    with_database(async |database| {
        let proxy = Proxy::start(Cluster::shared().address());
        let first = start(&database.url_at(proxy.address()), "m");
        assert_eq!(first.active().await, Some(1));
        let (second, cut) = (start(&database.url(), "m"), Instant::now());
        proxy.refuse();
        assert_eq!(second.active().await, Some(2));
        // The last renewal may have been made just before the cut, and the second server may have seen it just after.
        assert!(cut.elapsed() > LeaseTiming::default().trust);
        assert!(!first.check().is_valid());
        assert!(first.state().failure.is_some());
        proxy.accept();
        first.lost().await;
        assert_eq!(first.state().standing, Standing::Lost { epoch: 1 });
        // On a busy machine, a renewal may be late.
        poll(|| second.check().is_valid()).await;
    });
}

/// Proves F-7.
#[test]
fn a_server_whose_takeover_the_database_has_forgotten_ends_and_says_so() {
    with_database(async |database| {
        let first = start(&database.url(), "m");
        assert_eq!(first.active().await, Some(1));
        database.run("UPDATE beats SET epoch = 0");
        database.run("UPDATE leadership SET epoch = 0, holder = NULL");
        first.lost().await;
        assert!(first.state().is_set_back);

        // The second server gets the same epoch, since the database has forgotten the first takeover.
        let second = start(&database.url(), "m");
        assert_eq!(second.active().await, Some(1));
        database.run("UPDATE leadership SET holder = gen_random_uuid()::text");
        second.lost().await;
        assert!(second.state().is_set_back);
    });
}

/// Proves F-8.
#[test]
fn a_database_that_refuses_writes_for_long_leaves_the_active_server_active() {
    with_database(async |database| {
        let first = start(&database.url(), "m");
        assert_eq!(first.active().await, Some(1));
        let second = start(&database.url(), "m");
        until_renewed(database, 2).await;
        let set = |to: &str| {
            database.run(&format!(
                "ALTER DATABASE \"{}\" SET default_transaction_read_only = {to}",
                database.name()
            ));
        };
        set("on");
        database.end_sessions();
        until(&first, |state| state.failure.is_some()).await;
        // Longer than the silence after which a standby takes over.
        let silence = LeaseTiming::default().silence + Duration::from_secs(2);
        poll(|| first.renewal_age().is_none_or(|age| age >= silence)).await;
        assert_eq!(
            second.state().standing,
            Standing::Standby { obstacle: None }
        );
        let mut session = database.session();
        session.run("SET default_transaction_read_only = off");
        session.run(&format!(
            "ALTER DATABASE \"{}\" RESET default_transaction_read_only",
            database.name()
        ));
        database.end_sessions();
        poll(|| first.check().is_valid()).await;
        until_renewed(database, 5).await;
        assert!(
            matches!(first.state().standing, Standing::Active { epoch: 1, .. }),
            "{:?}",
            first.state()
        );
        assert_eq!(
            second.state().standing,
            Standing::Standby { obstacle: None }
        );
    });
}

#[test]
fn a_database_that_hangs_leaves_the_active_server_active() {
    with_database(async |database| {
        let proxy = Proxy::start(Cluster::shared().address());
        let (url, check) = (database.url_at(proxy.address()), |lease: &Lease| {
            lease.check().is_valid()
        });
        let first = start(&url, "m");
        assert_eq!(first.active().await, Some(1));
        let second = start(&url, "m");
        until_renewed(database, 1).await;
        proxy.stall();
        // Both have timed out by then, and sent new requests.
        until(&first, |state| state.failure.is_some()).await;
        until(&second, |state| state.failure.is_some()).await;
        assert!(matches!(
            first.state().standing,
            Standing::Active { epoch: 1, .. }
        ));
        proxy.resume();
        poll(|| check(&first)).await;
        until(&second, |state| state.failure.is_none()).await;
        until_renewed(database, 5).await;
        assert!(
            matches!(first.state().standing, Standing::Active { epoch: 1, .. }),
            "{:?}",
            first.state()
        );
        assert_eq!(
            second.state().standing,
            Standing::Standby { obstacle: None }
        );
    });
}

#[test]
fn a_server_with_another_key_says_so_and_never_takes_over() {
    with_database(async |database| {
        let first = start(&database.url(), "m");
        assert_eq!(first.active().await, Some(1));
        let other = start(&database.url(), "n");
        let refused = Standing::Standby {
            obstacle: Some(Obstacle::WrongKey(WrongKey::Media)),
        };
        until(&other, |state| state.standing == refused).await;
        first.release().await;
        let third = start(&database.url(), "m");
        assert_eq!(third.active().await, Some(2));
        until_renewed(database, 3).await;
        assert_eq!(other.state().standing, refused);
    });
}

/// Waits until `holds` is true for the server list. Returns that list.
async fn until_seen(lease: &Lease, holds: impl Fn(&ClusterState) -> bool) -> ClusterState {
    let mut cluster = lease.cluster.clone();
    cluster
        .wait_for(|seen| seen.as_ref().is_some_and(&holds))
        .await
        .unwrap()
        .clone()
        .unwrap()
}

#[test]
fn servers_know_each_other_their_keys_and_their_roles_until_they_end() {
    with_database(async |database| {
        let first = start(&database.url(), "m");
        assert_eq!(first.active().await, Some(1));
        let changed = Arc::new(Mutex::new(vec!["e".to_owned()]));
        let of_second = Arc::clone(&changed);
        let read = move || {
            Ok(KeyIds {
                encryption: of_second.lock().clone(),
                media: "m".into(),
            })
        };
        let second = Lease::start(options(&database.url(), Box::new(read))).unwrap();
        let other = start(&database.url(), "n");
        let roles =
            |state: &ClusterState| state.nodes.iter().map(|node| node.role).collect::<Vec<_>>();
        let seen = until_seen(&first, |state| {
            let mut roles = roles(state);
            roles.sort_unstable_by_key(|role| role.as_str());
            roles == [Role::Active, Role::Standby, Role::WrongKeys]
        })
        .await;
        assert_eq!(
            (seen.epoch, seen.url.as_deref(), seen.schema),
            (1, Some("https://a.example.org"), 0)
        );
        assert_eq!(seen.encryption_key_id, "e");
        let active = seen.active().unwrap();
        assert_eq!(
            (&active.info, &active.keys.media, active.schema),
            (&node(), &"m".to_owned(), migrate::newest())
        );
        assert_eq!(
            (seen.standbys().count(), Some(&active.id)),
            (2, seen.holder.as_ref())
        );

        changed.lock().push("f".into());
        until_seen(&other, |state| {
            state
                .nodes
                .iter()
                .any(|node| node.keys.encryption == ["e", "f"])
        })
        .await;
        second.release().await;
        until_seen(&first, |state| roles(state).len() == 2).await;

        // A dead server's row gets too old by the database's clock.
        let dead = "INSERT INTO nodes SELECT 'dead', url, NULL, version, schema, 'e', 'm', seen_at - $AGE FROM nodes LIMIT 1";
        database.run(&dead.replace("$AGE", "20000"));
        assert_eq!(cluster(database).await.nodes.len(), 2);
        database.run("DELETE FROM nodes WHERE id = 'dead'");
        database.run(&dead.replace("$AGE", "0"));
        assert_eq!(cluster(database).await.nodes.len(), 3);
        first.release().await;
        other.release().await;
        let left = cluster(database).await;
        assert_eq!((left.holder, ids(&left.nodes)), (None, vec!["dead"]));
    });
}

fn ids(nodes: &[Node]) -> Vec<&str> {
    nodes.iter().map(|node| node.id.as_str()).collect()
}

/// Reads the server list, as a command does.
async fn cluster(database: &Database<'_>) -> ClusterState {
    let server = PostgresServer::new(&Secret::new(database.url()), None).unwrap();
    tokio::task::spawn_blocking(move || cluster_state(&server))
        .await
        .unwrap()
        .unwrap()
        .unwrap()
}

#[test]
fn servers_are_read_when_they_are_asked_for_and_one_that_starts_meanwhile_is_waited_for() {
    with_database(async |database| {
        // A server reads the list by itself at its start, and when it becomes active.
        let timing = LeaseTiming {
            report: Duration::from_secs(3_600),
            ..LeaseTiming::default()
        };
        let first = Lease::start(LeaseOptions {
            timing,
            ..options(&database.url(), keys("m"))
        })
        .unwrap();
        assert_eq!(first.active().await, Some(1));
        until_seen(&first, |state| state.active().is_some()).await;
        let alone = first.read_cluster(|_| true, WAIT_LIMIT).await.unwrap();
        assert_eq!(alone.successors().count(), 0);
        let nobody = first
            .read_cluster(ClusterState::has_successor, Duration::from_millis(1))
            .await;
        assert_eq!(nobody.unwrap().nodes.len(), 1);
        let starting = async {
            tokio::task::yield_now().await;
            [start(&database.url(), "n"), start(&database.url(), "m")]
        };
        let found = first.read_cluster(ClusterState::has_successor, WAIT_LIMIT);
        let (found, [_of_other_keys, second]) = tokio::join!(found, starting);
        assert_eq!(
            found.unwrap().successors().count(),
            1,
            "a server with other keys does not count"
        );
        first.hand_over().await;
        assert_eq!(second.active().await, Some(2));
        first
            .active_server()
            .wait_for(Option::is_some)
            .await
            .unwrap();
        first
            .read_cluster(|_| false, Duration::from_millis(1))
            .await;
        second.release().await;
        first
            .active_server()
            .wait_for(Option::is_none)
            .await
            .expect("it continues to follow the lease");
    });
}

#[test]
fn a_database_that_no_server_has_used_has_none() {
    with_database(async |database| {
        let server = PostgresServer::new(&Secret::new(database.url()), None).unwrap();
        let read = tokio::task::spawn_blocking(move || cluster_state(&server))
            .await
            .unwrap();
        assert_eq!(read.unwrap(), None);
    });
}

#[test]
fn a_server_that_has_given_up_the_lease_lets_others_go_first_and_takes_it_back_if_there_are_none() {
    with_database(async |database| {
        let first = start(&database.url(), "m");
        assert_eq!(first.active().await, Some(1));
        first.release().await;
        let yielding = || {
            Lease::start(LeaseOptions {
                yields: true,
                ..options(&database.url(), keys("m"))
            })
            .unwrap()
        };
        let (again, started) = (yielding(), Instant::now());
        assert_eq!(again.active().await, Some(2));
        assert!(started.elapsed() > LeaseTiming::default().silence);
        again.release().await;
        let third = yielding();
        let other = start(&database.url(), "m");
        assert_eq!(other.active().await, Some(3));
        drop(third);
    });
}
