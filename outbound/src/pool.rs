//! Threads for requests that take long, and how many of them run at once.
//!
//! Such a request blocks its thread until the server answers or a deadline has passed, so threads are what hanging servers take from
//! others. Each request therefore needs a permit of a *lane*, which follows from how the server answered before: servers that hang
//! wait for one another, and those that answer do not wait for them. Within a lane, the bound for each project leaves permits to
//! other projects. Nothing else runs on these threads.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use conclave_model::permits::{PermitLimits, ProjectPermits};
use tokio::runtime::{Builder, Runtime};

/// Threads, and the permits of this many lanes.
#[derive(Debug)]
pub(crate) struct Pool<const LANES: usize> {
    lanes: [ProjectPermits; LANES],
    /// `None` once dropped.
    threads: Option<Runtime>,
}

impl<const LANES: usize> Pool<LANES> {
    /// Returns a pool without threads; they are started when needed, with this name, and call `prepare` first.
    ///
    /// # Errors
    /// The operating system refuses the resources.
    pub fn new(
        name: &str,
        limits: [PermitLimits; LANES],
        prepare: impl Fn() + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let most = limits.iter().map(|lane| lane.total).sum();
        let mut threads = Builder::new_current_thread();
        // Only its blocking threads are used.
        let threads = threads
            .thread_name(name)
            .max_blocking_threads(most)
            .on_thread_start(prepare)
            .build()?;
        Ok(Self {
            lanes: limits.map(ProjectPermits::new),
            threads: Some(threads),
        })
    }

    /// Returns the permits of each lane.
    pub const fn lanes(&self) -> &[ProjectPermits; LANES] {
        &self.lanes
    }

    /// Runs work on a thread of the pool. It needs a permit meanwhile, and runs to its end also when this future is dropped. `None` if
    /// it panics, or the operating system refuses a thread.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let threads = self.threads.as_ref()?;
        // Panics if there is no thread and none can be started.
        let started = catch_unwind(AssertUnwindSafe(|| threads.spawn_blocking(work))).ok()?;
        started.await.ok()
    }
}

impl<const LANES: usize> Drop for Pool<LANES> {
    /// Leaves what runs to its threads, which end with the process.
    fn drop(&mut self) {
        if let Some(threads) = self.threads.take() {
            threads.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;

    const WAIT_LIMIT: Duration = Duration::from_secs(60);

    fn pool() -> Pool<1> {
        Pool::new("test", [PermitLimits::of_all(2)], || ()).unwrap()
    }

    #[tokio::test]
    async fn work_that_panics_has_no_result_and_leaves_the_pool_usable() {
        let pool = pool();
        assert_eq!(
            pool.run(|| panic!("expected by the test")).await,
            None::<()>
        );
        let name = pool
            .run(|| std::thread::current().name().map(str::to_owned))
            .await;
        assert_eq!(name, Some(Some("test".to_owned())));
    }

    #[tokio::test]
    async fn work_ends_although_nobody_waits_for_it_any_more() {
        let (pool, (go, goes), (report, reports)) = (pool(), channel::<()>(), channel());
        let work = pool.run(move || {
            report.send("begun").unwrap();
            goes.recv().unwrap();
            report.send("ended").unwrap();
        });
        assert!(tokio::time::timeout(Duration::ZERO, work).await.is_err());
        assert_eq!(reports.recv_timeout(WAIT_LIMIT), Ok("begun"));
        drop(pool);
        go.send(()).unwrap();
        assert_eq!(reports.recv_timeout(WAIT_LIMIT), Ok("ended"));
    }
}
