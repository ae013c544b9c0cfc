//! Which processors run the server and the load.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::BenchError;

/// The load's processors while it is confined; all of the process again when dropped.
pub struct Confined {
    before: CpuSet,
    /// The core that is left to the server.
    pub server: usize,
}

/// Confines this thread to all cores but one, which is the server's; `None` if there is only one.
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

/// Confines this thread, and the processes that it starts from now on, to so many cores.
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

/// Lets this thread, and the processes that it starts from now on, run on these cores only.
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
