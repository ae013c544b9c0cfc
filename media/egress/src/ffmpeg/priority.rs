//! Scheduling priority for threads and processes that record, transcode and upload.

use std::io;
use std::thread;

#[cfg(target_os = "linux")]
use thread_priority::{
    NormalThreadSchedulePolicy, ThreadPriority, ThreadPriorityValue, ThreadSchedulePolicy,
    set_thread_priority_and_policy, thread_native_id,
};

const MAX_NICE: i32 = 19;

/// Scheduling priority for background work: `SCHED_BATCH` and a nice value above the server's.
///
/// A batch thread never preempts a thread that forwards packets, and its nice value leaves those
/// threads the larger share of a core. `SCHED_IDLE` would be too little: beside three busy loops,
/// an encoder with that policy got no processor time at all, and recordings lost their video.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Priority {
    /// Increment to the server's nice value.
    nice: u8,
}

impl Priority {
    /// Creates a priority that adds `nice` to the server's nice value.
    pub const fn new(nice: u8) -> Self {
        Self { nice }
    }

    /// Applies the priority to the current thread, and to threads and processes that it starts
    /// later. If the operating system refuses, the thread keeps its priority.
    pub fn apply(self) {
        // On Linux, the nice value belongs to the thread, not to the process.
        let present = rustix::process::getpriority_process(None).unwrap_or_default();
        let nice = (present + i32::from(self.nice)).min(MAX_NICE);
        #[cfg(target_os = "linux")]
        {
            let policy = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Batch);
            // The crate has its own scale from 0 to 99; the first value that maps to this nice
            // value is used.
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
                    "changing a background thread's scheduling policy failed: {refused:?}"
                ),
            }
        }
        if let Err(error) = rustix::process::setpriority_process(None, nice) {
            log::debug!("lowering a background thread's priority failed: {error}");
        }
    }

    /// Runs a function on a thread with this priority and waits for it, for callers whose own
    /// thread must keep its priority.
    ///
    /// # Errors
    /// Fails if the function fails, or the operating system refuses a thread.
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

    /// Parses nice value and policy from `/proc/self/stat`.
    fn scheduling(stat: &str) -> Option<(i32, i32)> {
        // The name may contain spaces and ends with a parenthesis; the state after it is the third
        // field.
        let fields: Vec<_> = stat.rsplit(") ").next()?.split(' ').collect();
        Some((fields[19 - 3].parse().ok()?, fields[41 - 3].parse().ok()?))
    }

    #[test]
    fn children_have_the_batch_policy_and_the_configured_nice_value() {
        let present = rustix::process::getpriority_process(None).unwrap();
        for nice in [0, 3, 19] {
            let (sender, output) = channel();
            let on_output = Box::new(move |bytes: &[u8]| drop(sender.send(bytes.to_vec())));
            let mut command = Command::new("cat");
            command.arg("/proc/self/stat");
            let started = Priority::new(nice).run(|| Process::start(command, 1, Some(on_output)));
            started.unwrap().finish(Duration::from_secs(60)).unwrap();
            let stat = String::from_utf8(output.into_iter().flatten().collect()).unwrap();
            let expected = (present + i32::from(nice)).min(MAX_NICE);
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
