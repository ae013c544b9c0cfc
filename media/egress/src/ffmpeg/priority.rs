//! Scheduling priority of threads and child processes that record, transcode and upload.

use std::io;
use std::thread;

#[cfg(target_os = "linux")]
use thread_priority::{
    NormalThreadSchedulePolicy, ThreadPriority, ThreadPriorityValue, ThreadSchedulePolicy,
    set_thread_priority_and_policy, thread_native_id,
};

/// Largest nice value.
const NICEST: i32 = 19;

/// Scheduling priority of background work: the batch policy, and a nice value above the server's.
///
/// A thread of this policy never takes a core from a thread that forwards packets, and its nice value leaves those threads the larger
/// share of a core. Unlike with `SCHED_IDLE`, which the encoder had before, other programs on the machine get a fair share only: beside
/// three busy loops an idle encoder got no processor time at all, so recordings lost their video.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Priority {
    /// What is added to the nice value of the server.
    nice: u8,
}

impl Priority {
    /// Creates a priority whose nice value is larger than the server's by `nice`.
    pub const fn new(nice: u8) -> Self {
        Self { nice }
    }

    /// Sets the priority of this thread. Threads and processes that it starts later inherit it. If the operating system refuses, the
    /// thread keeps its priority.
    pub fn apply(self) {
        // On Linux, the nice value is one of the thread, not of the process.
        let present = rustix::process::getpriority_process(None).unwrap_or_default();
        let nice = (present + i32::from(self.nice)).min(NICEST);
        #[cfg(target_os = "linux")]
        {
            let policy = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Batch);
            // The crate has a scale of its own, of which the first value with this nice value is taken.
            let mut scale =
                (0..=u8::MAX).map_while(|value| ThreadPriorityValue::try_from(value).ok());
            let value = scale.find_map(|value| {
                let value = ThreadPriority::Crossplatform(value);
                value
                    .to_posix(policy)
                    .is_ok_and(|found| found == nice)
                    .then_some(value)
            });
            match value
                .map(|value| set_thread_priority_and_policy(thread_native_id(), value, policy))
            {
                Some(Ok(())) => return,
                refused => log::debug!(
                    "the scheduling policy of a background thread was not changed: {refused:?}"
                ),
            }
        }
        if let Err(error) = rustix::process::setpriority_process(None, nice) {
            log::debug!("the priority of a background thread was not lowered: {error}");
        }
    }

    /// Runs a function on a thread with this priority, and waits for it: for callers on a thread that others use afterwards.
    ///
    /// # Errors
    /// The error of the function, or the operating system refuses a thread.
    pub fn run<T: Send>(self, run: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        thread::scope(|scope| {
            let started = thread::Builder::new()
                .name("egress-start".into())
                .spawn_scoped(scope, || {
                    self.apply();
                    run()
                })?;
            started
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("a thread ended unexpectedly")))
        })
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::process::Command;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;
    use crate::ffmpeg::Process;

    /// Returns the nice value and the policy of a process, of its `/proc/self/stat`.
    fn scheduling(stat: &str) -> Option<(i32, i32)> {
        // The name, which may have spaces, ends with a parenthesis; the state behind it is the third field.
        let fields: Vec<_> = stat.rsplit(") ").next()?.split(' ').collect();
        Some((fields[19 - 3].parse().ok()?, fields[41 - 3].parse().ok()?))
    }

    #[test]
    fn children_have_the_batch_policy_and_the_nice_value_of_the_setting_above_the_servers() {
        let present = rustix::process::getpriority_process(None).unwrap();
        for nice in [0, 3, 19] {
            let (sender, output) = channel();
            let on_output = Box::new(move |bytes: &[u8]| drop(sender.send(bytes.to_vec())));
            let mut command = Command::new("cat");
            command.arg("/proc/self/stat");
            let started = Priority::new(nice).run(|| Process::start(command, 1, Some(on_output)));
            started.unwrap().finish(Duration::from_secs(60)).unwrap();
            let stat = String::from_utf8(output.into_iter().flatten().collect()).unwrap();
            let expected = (present + i32::from(nice)).min(NICEST);
            assert_eq!(
                scheduling(&stat),
                Some((expected, 3)),
                "3 is SCHED_BATCH: {stat}"
            );
        }
        assert_eq!(
            rustix::process::getpriority_process(None),
            Ok(present),
            "this thread keeps its own"
        );
    }
}
