//! Work on a thread of its own, which the caller's thread can end.

use crate::error::CallError;
use crate::threads;
use consenso_engine::experiment::Observer;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How often the caller is asked whether to go on.
const LOOK: Duration = Duration::from_millis(100);

/// What a run on another thread is told by the caller's.
#[derive(Debug)]
pub struct Watch {
    began: Instant,
    cancelled: AtomicBool,
}

impl Default for Watch {
    fn default() -> Self {
        Self { began: Instant::now(), cancelled: AtomicBool::new(false) }
    }
}

impl Observer for Watch {
    fn seconds(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    fn cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }
}

/// Runs `work` on a thread of its own; `stop`, on this one, says whether to end it.
pub(crate) fn watched<T: Send>(
    stop: impl Fn() -> bool,
    work: impl FnOnce(&Watch) -> Result<T, CallError> + Send,
) -> Result<T, CallError> {
    let watch = Watch::default();
    let (sender, receiver) = channel();
    std::thread::scope(|scope| {
        let watch = &watch;
        let worker = scope.spawn(move || {
            let _ = sender.send(threads::on_ours(|| work(watch)).and_then(|done| done));
        });
        let result = loop {
            match receiver.recv_timeout(LOOK) {
                Ok(result) => break result,
                Err(RecvTimeoutError::Disconnected) => break Err(CallError::Panicked),
                Err(RecvTimeoutError::Timeout) if watch.cancelled() => {}
                Err(RecvTimeoutError::Timeout) => {
                    if stop() {
                        watch.cancelled.store(true, Ordering::Relaxed);
                    }
                }
            }
        };
        // A thread that panicked must not take this one along.
        let _ = worker.join();
        if watch.cancelled() { Err(CallError::Interrupted) } else { result }
    })
}
