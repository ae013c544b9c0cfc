//! Processor affinity of the server and the load.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::BenchError;

/// Restricts the load's processors; dropping it restores the process's affinity.
pub struct Confined {
    before: CpuSet,
    /// The core reserved for the server.
    pub server: usize,
}

/// Confines this thread to all cores except the server's; `None` if there is only one core.
pub fn confine() -> Result<Option<Confined>, BenchError> {
    let before = sched_getaffinity(None)?;
    let mut cores = (0..CpuSet::MAX_CPU).filter(|core| before.is_set(*core));
    let (Some(server), Some(_)) = (cores.next(), cores.next()) else {
        return Ok(None);
    };
    let mut others = before;
    others.unset(server);
    sched_setaffinity(None, &others)?;
    Ok(Some(Confined { before, server }))
}

/// Confines this thread, and processes that it starts from now on, to this many cores.
pub fn confine_all(cores: usize) -> Result<Confined, BenchError> {
    let before = sched_getaffinity(None)?;
    let found: Vec<_> = (0..CpuSet::MAX_CPU)
        .filter(|core| before.is_set(*core))
        .take(cores)
        .collect();
    stay_on(&found)?;
    Ok(Confined {
        before,
        server: found.first().copied().unwrap_or_default(),
    })
}

/// Confines this thread, and processes that it starts from now on, to these cores.
pub fn stay_on(cores: &[usize]) -> Result<(), BenchError> {
    let mut only = CpuSet::new();
    cores.iter().for_each(|core| only.set(*core));
    Ok(sched_setaffinity(None, &only)?)
}

impl Drop for Confined {
    fn drop(&mut self) {
        let _ = sched_setaffinity(None, &self.before);
    }
}
