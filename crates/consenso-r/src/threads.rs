//! Threads that work in a process that was forked.
//!
//! `parallel::mclapply` forks. A child has none of its parent's threads, and rayon's pool of the
//! whole process, once the parent has used it, would wait for them for ever. So every call runs on a
//! pool of this library, which is made anew in a process that did not make it.

use crate::error::CallError;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::sync::{Arc, Mutex, PoisonError};

/// The process that made the pool, and the pool.
static POOL: Mutex<Option<(u32, Arc<ThreadPool>)>> = Mutex::new(None);

/// Runs `work` with the threads of this process.
pub(crate) fn on_ours<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, CallError> {
    Ok(pool()?.install(work))
}

fn pool() -> Result<Arc<ThreadPool>, CallError> {
    let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    let process = std::process::id();
    if let Some((owner, pool)) = &*pool
        && *owner == process
    {
        return Ok(Arc::clone(pool));
    }
    let made = Arc::new(ThreadPoolBuilder::new().build()?);
    // The parent's is never let go of: that would call threads that are not here.
    std::mem::forget(pool.replace((process, Arc::clone(&made))));
    Ok(made)
}
