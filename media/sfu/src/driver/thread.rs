//! A worker's thread: waits for packets, commands and deadlines, and measures its load.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use conclave_model::MediaAddress;
use mio::{Events, Poll, Waker};
use rustix::time::{ClockId, clock_gettime};
use str0m::Candidate;

use super::addresses::BindError;
use super::neighbours::Neighbours;
use super::sockets::{CLOSE_UNBOUND, Sockets, WAKER};
use super::{WorkerMetrics, add, set};
use crate::config::Config;
use crate::event::EventSink;
use crate::queue::{RoomInstruction, WorkerQueue, WorkerSender};
use crate::transport::TrackKey;
use crate::worker::Worker;

/// Maximum commands handled before packets.
const COMMAND_BATCH: usize = 64;

/// Maximum time for commands before packets. Waiting packets then get at least as much time as the commands took:
/// otherwise a flood of offers would silence calls.
const COMMAND_TIME: Duration = Duration::from_millis(2);

/// A running worker.
pub struct WorkerThread {
    /// Sends instructions to the worker.
    pub sender: WorkerSender,
    /// The worker's counters.
    pub metrics: Arc<WorkerMetrics>,
    /// Addresses that are advertised to clients.
    pub candidates: Vec<Candidate>,
    /// Addresses of the worker's UDP sockets.
    pub udp: Vec<MediaAddress>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// State of a worker's thread.
struct Driver {
    poll: Poll,
    sockets: Sockets,
    worker: Worker,
    waiting: OpenQueue,
    /// Mirrors for which packets from other workers may wait.
    ready: VecDeque<TrackKey>,
    sink: Arc<dyn EventSink>,
    metrics: Arc<WorkerMetrics>,
    stop: Arc<AtomicBool>,
    close_unbound: Instant,
    /// Whether commands are left that exceeded one batch.
    has_more_commands: bool,
    /// Until when waiting packets precede commands.
    packets_until: Instant,
}

/// A worker's queue. It rejects instructions once its thread has ended.
struct OpenQueue(Arc<WorkerQueue>);

impl Drop for OpenQueue {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Starts a worker with sockets at this port on every configured address.
///
/// # Errors
///
/// If a socket cannot be bound or the thread cannot be started.
pub fn start_worker(
    config: &Config,
    port: u16,
    sink: Arc<dyn EventSink>,
    neighbours: Neighbours,
) -> Result<WorkerThread, BindError> {
    let poll = Poll::new().map_err(BindError::Thread)?;
    let waker = Arc::new(Waker::new(poll.registry(), WAKER).map_err(BindError::Thread)?);
    let sockets = Sockets::open(config, port, poll.registry(), neighbours)?;
    let (candidates, udp) = (sockets.candidates(), sockets.udp_addresses());
    let queue = Arc::new(WorkerQueue::default());
    let metrics = Arc::new(WorkerMetrics::default());
    let stop = Arc::new(AtomicBool::new(false));
    let now = Instant::now();
    let driver = Driver {
        poll,
        sockets,
        worker: Worker::new(candidates.clone(), config, now),
        waiting: OpenQueue(queue.clone()),
        ready: VecDeque::new(),
        sink,
        metrics: metrics.clone(),
        stop: stop.clone(),
        close_unbound: now + CLOSE_UNBOUND,
        has_more_commands: false,
        packets_until: now,
    };
    let thread = std::thread::Builder::new()
        .name(format!("media-{port}"))
        .spawn(|| driver.run());
    let thread = Some(thread.map_err(BindError::Thread)?);
    Ok(WorkerThread {
        sender: WorkerSender::new(queue, waker),
        metrics,
        candidates,
        udp,
        stop,
        thread,
    })
}

impl Driver {
    fn run(mut self) {
        // If more sockets are ready, the next poll reports the rest.
        let mut events = Events::with_capacity(256);
        let mut workload = Workload::new(Instant::now());
        // Relaxed suffices: the flag protects no other data.
        while !self.stop.load(Ordering::Relaxed) {
            if let Err(error) = self
                .poll
                .poll(&mut events, Some(self.longest_wait()))
                .or_else(ignore_interruption)
            {
                // Without the poll nothing can be received. Dropping the driver closes the queue and all sockets.
                log::error!(error:%; "a media worker ended");
                return;
            }
            let woken = Instant::now();
            workload.end_wait(woken);
            self.handle_instructions(woken);
            self.receive_mirrored();
            for event in &events {
                self.sockets.mark_ready(event.token());
            }
            self.sockets
                .receive(&mut self.worker, self.poll.registry(), &self.metrics);
            // After the packets: a packet that has arrived can make a timeout unnecessary.
            self.handle_timeouts();
            let done = Instant::now();
            let busy = done.saturating_duration_since(woken);
            add(
                &self.metrics.busy_microseconds,
                usize::try_from(busy.as_micros()).unwrap_or(usize::MAX),
            );
            if let Some((worked, waited)) = workload.start_wait(done) {
                self.worker.record_work(worked, waited);
                set(&self.metrics.busy_thousandths, workload.busy_thousandths());
            }
        }
    }

    /// Returns how long the thread may wait if no packet and no command arrives.
    fn longest_wait(&self) -> Duration {
        if self.has_more_commands || self.sockets.has_more() || !self.ready.is_empty() {
            // The sockets are edge-triggered: nothing wakes the thread for the packets that it has left unread.
            return Duration::ZERO;
        }
        let deadline = self
            .worker
            .next_timeout()
            .map_or(self.close_unbound, |at| at.min(self.close_unbound));
        deadline.saturating_duration_since(Instant::now())
    }

    fn handle_instructions(&mut self, start: Instant) {
        self.has_more_commands = true;
        // The commands took their time in the last round; now it is the packets' time.
        if start < self.packets_until && self.sockets.has_more() {
            return;
        }
        // Commands are timed one by one: a large offer alone can take 50 ms.
        let (mut now, mut has_handled) = (start, false);
        for _ in 0..COMMAND_BATCH {
            let Some(RoomInstruction { room, instruction }) = self.waiting.0.pop() else {
                self.has_more_commands = false;
                break;
            };
            self.worker.handle_instruction(&room, instruction, now);
            has_handled = true;
            now = Instant::now();
            if now.saturating_duration_since(start) >= COMMAND_TIME {
                break;
            }
        }
        // At least as much time for packets as the commands took.
        self.packets_until = now + now.saturating_duration_since(start);
        // Rooms are placed by this value, so it is updated as soon as participants arrive.
        set(&self.metrics.peers, self.worker.peers());
        // Most wake-ups are for packets, and the last round has completed everything else.
        if has_handled {
            self.complete();
        }
    }

    /// Forwards packets from other workers, a batch per waiting mirror.
    fn receive_mirrored(&mut self) {
        self.waiting.0.take_ready(&mut self.ready);
        for _ in 0..self.ready.len() {
            let Some(mirror) = self.ready.pop_front() else {
                return;
            };
            // The mirror has more than a batch: others come first.
            if self.worker.forward_mirrored(mirror, Instant::now()) {
                self.ready.push_back(mirror);
            }
            self.sockets
                .send(&mut self.worker, self.poll.registry(), &self.metrics);
        }
    }

    fn handle_timeouts(&mut self) {
        let now = Instant::now();
        if self.worker.next_timeout().is_some_and(|at| at <= now) {
            self.worker.handle_timeout(now);
        }
        if now >= self.close_unbound {
            self.close_unbound = now + CLOSE_UNBOUND;
            self.sockets
                .close_unbound(&mut self.worker, self.poll.registry(), &self.metrics);
        }
        self.complete();
    }

    /// Sends the worker's packets and reports its events.
    fn complete(&mut self) {
        self.sockets
            .send(&mut self.worker, self.poll.registry(), &self.metrics);
        // After the packets, which are more urgent than the control side.
        for event in self.worker.take_events() {
            self.sink.handle(event);
        }
        // The worker counts without atomics, and the totals are published once per iteration.
        let counters = self.worker.counters();
        set(&self.metrics.published_packets, counters.published_packets);
        set(&self.metrics.forwarded_packets, counters.forwarded_packets);
        set(&self.metrics.mirrored_packets, counters.mirrored_packets);
        set(
            &self.metrics.key_frame_requests,
            counters.key_frame_requests,
        );
        set(&self.metrics.refused_clients, counters.refused_clients);
        set(&self.metrics.reduced_percent, self.worker.reduced_percent());
        set(&self.metrics.received_loss, counters.received_loss);
        set(&self.metrics.sent_loss, counters.sent_loss);
        for (reason, packets) in counters.dropped.iter() {
            self.metrics
                .dropped(reason)
                .store(packets, Ordering::Relaxed);
        }
    }
}

fn ignore_interruption(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::Interrupted {
        Ok(())
    } else {
        Err(error)
    }
}

impl Drop for WorkerThread {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // The thread may be waiting for packets without a timeout.
        self.sender.wake();
        // Joined, so that the ports are free again when this returns.
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            log::error!("a media worker panicked");
        }
    }
}

/// Period for reading the processor time, which is a system call.
const INTERVAL: Duration = Duration::from_millis(100);

/// Period over which the busy share is averaged. A key frame makes a thread busy for a moment.
const SHARE: Duration = Duration::from_secs(1);

/// Processor time of the calling thread, and its idle time.
pub struct Workload {
    /// Time at which the processor time was last read, and its value.
    read: (Instant, Duration),
    /// Idle time since then.
    waited: Duration,
    /// Since when the thread has been waiting.
    waits_since: Instant,
    /// Share of time in which it did not wait, in thousandths: a moving average over about [`SHARE`].
    busy_thousandths: f64,
}

impl Workload {
    /// Starts to measure at `now`.
    pub fn new(now: Instant) -> Self {
        Self {
            read: (now, processor_time()),
            waited: Duration::ZERO,
            waits_since: now,
            busy_thousandths: 0.,
        }
    }

    /// Returns the share of the last second in which the thread was busy, in thousandths.
    pub fn busy_thousandths(&self) -> usize {
        self.busy_thousandths as usize
    }

    /// Records the end of a wait.
    pub fn end_wait(&mut self, now: Instant) {
        self.waited += now.saturating_duration_since(self.waits_since);
    }

    /// Records the start of a wait. Returns processor time and idle time since the last return, once per [`INTERVAL`].
    pub fn start_wait(&mut self, now: Instant) -> Option<(Duration, Duration)> {
        self.waits_since = now;
        let (at, before) = self.read;
        if now.saturating_duration_since(at) < INTERVAL {
            return None;
        }
        self.read = (now, processor_time());
        let (elapsed, waited) = (
            now.saturating_duration_since(at),
            std::mem::take(&mut self.waited),
        );
        // Not the processor time: a thread that waits for a processor is late for its packets, too.
        let busy = elapsed.saturating_sub(waited).div_duration_f64(elapsed) * 1000.;
        // A moving average, so that one key frame does not look like an overload.
        let weight = elapsed.div_duration_f64(SHARE).min(1.);
        self.busy_thousandths += (busy - self.busy_thousandths) * weight;
        Some((self.read.1.saturating_sub(before), waited))
    }
}

/// Returns this thread's processor time.
fn processor_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime)
        .try_into()
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_and_waits_are_told_apart() {
        let start = Instant::now();
        let mut workload = Workload::new(start);
        workload.end_wait(start + INTERVAL / 2);
        // Busy on purpose: the clock counts processor time, which a sleeping thread does not use.
        while processor_time().saturating_sub(workload.read.1) < Duration::from_millis(20) {}
        assert_eq!(
            workload.start_wait(start + INTERVAL * 3 / 4),
            None,
            "the interval is not over"
        );
        workload.end_wait(start + INTERVAL);
        let (worked, waited) = workload.start_wait(start + INTERVAL).unwrap();
        assert!((20..80).contains(&worked.as_millis()), "{worked:?}");
        // A half before the work and a quarter after it.
        assert_eq!(waited, INTERVAL * 3 / 4);
        assert_eq!(workload.busy_thousandths(), 25, "a quarter of a tenth");
    }

    #[test]
    fn a_thread_that_has_waited_for_a_second_is_not_busy() {
        let start = Instant::now();
        let mut workload = Workload::new(start);
        workload.end_wait(start);
        workload.start_wait(start + SHARE);
        assert_eq!(workload.busy_thousandths(), 1000);
        workload.end_wait(start + SHARE * 2);
        workload.start_wait(start + SHARE * 2);
        assert_eq!(workload.busy_thousandths(), 0);
    }
}
