//! Watching a run: a progress bar, a clock, and Ctrl-C.

use crate::pieces::{CheckpointInterval, Keeper};
use anyhow::anyhow;
use consenso_engine::experiment::{CallerError, Observer, Piece, Place, Unfinished};
use consenso_study::files;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Drives the bar on stderr (nothing is drawn when that is not a terminal) and counts the seconds.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    began: Instant,
    /// Which of several experiments.
    experiment: Mutex<String>,
    cancelled: Arc<AtomicBool>,
    /// When to stop by itself.
    limit: Option<Instant>,
    /// Who writes down what is finished.
    keeper: Option<Keeper>,
}

impl Progress {
    /// For a run of so many exchanges.
    pub(crate) fn new(exchanges: u64, cancelled: Arc<AtomicBool>) -> Self {
        let bar = ProgressBar::with_draw_target(Some(exchanges), ProgressDrawTarget::stderr());
        bar.set_style(style());
        if !bar.is_hidden() {
            bar.enable_steady_tick(Duration::from_millis(100));
        }
        Self {
            bar,
            began: Instant::now(),
            experiment: Mutex::default(),
            cancelled,
            limit: None,
            keeper: None,
        }
    }

    /// Has everything written down that is begun and finished.
    pub(crate) fn keeping(self, keeper: Keeper) -> Self {
        Self { keeper: Some(keeper), ..self }
    }

    /// Stops at a time, as Ctrl-C does.
    pub(crate) fn until(self, limit: Option<Instant>) -> Self {
        Self { limit, ..self }
    }

    /// Gives the keeper back.
    pub(crate) fn into_keeper(self) -> Option<Keeper> {
        self.keeper
    }

    /// Stages from now on are of this experiment.
    pub(crate) fn within(&self, experiment: &str) {
        *self.experiment.lock().unwrap_or_else(PoisonError::into_inner) = format!("{experiment}, ");
    }

    /// Takes the bar off the screen.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

impl Observer for Progress {
    fn stage(&self, name: &str, _: u64) {
        let experiment = self.experiment.lock().unwrap_or_else(PoisonError::into_inner);
        self.bar.set_message(format!("{experiment}{name}"));
    }

    fn advanced(&self, exchanges: u64) {
        self.bar.inc(exchanges);
    }

    fn seconds(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    fn begins(&self, place: Place) -> Result<(), CallerError> {
        Ok(self.keeper.as_ref().map_or(Ok(()), |keeper| keeper.begins(place))?)
    }

    fn keeps(&self, place: Place, round: u32, last: bool) -> bool {
        self.keeper.as_ref().is_some_and(|keeper| keeper.keeps(place, round, last))
    }

    fn reached(&self, so_far: &Unfinished, last: bool) -> Result<(), CallerError> {
        Ok(self.keeper.as_ref().map_or(Ok(()), |keeper| keeper.reached(so_far, last))?)
    }

    fn finished(&self, piece: &Piece) -> Result<(), CallerError> {
        Ok(self.keeper.as_ref().map_or(Ok(()), |keeper| keeper.finished(piece))?)
    }

    fn cancelled(&self) -> bool {
        if self.limit.is_some_and(|limit| Instant::now() >= limit)
            && !self.cancelled.swap(true, Ordering::Relaxed)
        {
            eprintln!("\nthe time limit is reached; what is done will be kept");
        }
        self.cancelled.load(Ordering::Relaxed)
    }
}

/// Says on stderr (nothing where that is not a terminal) how many bytes of records have been read,
/// and how fast, until it is dropped. What takes less than half a second is not worth a word.
#[derive(Debug)]
pub(crate) struct ReadingProgress(ProgressBar);

impl ReadingProgress {
    /// Counts from now on.
    pub(crate) fn begin() -> Self {
        let before = files::bytes_read();
        let read = move |state: &ProgressState, out: &mut dyn std::fmt::Write| {
            let bytes = files::bytes_read().saturating_sub(before);
            let _ = out.write_str(&so_far(bytes, state.elapsed()));
        };
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{read}");
        bar.set_style(
            style.unwrap_or_else(|_| ProgressStyle::default_bar()).with_key("read", read),
        );
        if !bar.is_hidden() {
            bar.enable_steady_tick(Duration::from_millis(100));
        }
        Self(bar)
    }
}

impl Drop for ReadingProgress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// What was read in that time, in words.
fn so_far(bytes: u64, time: Duration) -> String {
    if time < Duration::from_millis(500) || bytes == 0 {
        return String::new();
    }
    let megabytes = bytes as f64 / 1e6;
    format!("reading records: {megabytes:.0} MB, {:.0} MB/s", megabytes / time.as_secs_f64())
}

/// What the bar shows: how far, which algorithm, rate and time left.
fn style() -> ProgressStyle {
    let template = "{spinner} {bar:24} {percent:>3} %  {msg}: {pos}/{len} rounds{rate}";
    // Before the first rounds there is nothing to estimate from.
    let rate = |state: &ProgressState, out: &mut dyn std::fmt::Write| {
        if state.pos() > 0 {
            let left = indicatif::HumanDuration(state.eta());
            let _ = write!(out, ", {:.0} a second, {left:#} left", state.per_sec());
        }
    };
    let style =
        ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    style.with_key("rate", rate)
}

/// A flag that Ctrl-C raises, and the signal that ends jobs (SIGTERM); a second of either ends the
/// process at once.
pub(crate) fn told_to_stop() -> Arc<AtomicBool> {
    let flag = ctrl_c();
    #[cfg(unix)]
    {
        use signal_hook::{consts::SIGTERM, flag};
        let registered = flag::register_conditional_shutdown(SIGTERM, 1, Arc::clone(&flag))
            .and_then(|_| flag::register(SIGTERM, Arc::clone(&flag)));
        if let Err(e) = registered {
            eprintln!("warning: SIGTERM will lose the run: {e}");
        }
    }
    flag
}

/// How long a command may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeLimit(Duration);

impl TimeLimit {
    /// When that is over, from now on.
    pub(crate) fn ends(self) -> Instant {
        Instant::now() + self.0
    }
}

impl std::str::FromStr for TimeLimit {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self, anyhow::Error> {
        if text == "slurm" {
            let name = "SLURM_JOB_END_TIME";
            let end = std::env::var(name).map_err(|_| {
                anyhow!(
                    "{name} is not set: this is no job of Slurm's, or its version does not say when jobs end; write the time, as in 55m"
                )
            })?;
            let end: u64 =
                end.parse().map_err(|_| anyhow!("{name} = {end} is not a number of seconds"))?;
            let now = std::time::SystemTime::now()
                .duration_since(std::time::UNIX_EPOCH)
                .unwrap_or_default();
            // What is left for the end of a round and for writing.
            return Ok(Self(Duration::from_secs(end.saturating_sub(60)).saturating_sub(now)));
        }
        match text.parse() {
            Ok(CheckpointInterval::Time(time)) => Ok(Self(time)),
            _ => Err(anyhow!("write a time, as in 90s, 55m or 2h, or slurm")),
        }
    }
}

/// A flag that the first Ctrl-C raises; the second ends the process.
pub(crate) fn ctrl_c() -> Arc<AtomicBool> {
    let flag = Arc::new(AtomicBool::new(false));
    let raised = Arc::clone(&flag);
    let handler = move || {
        if raised.swap(true, Ordering::Relaxed) {
            std::process::exit(1);
        }
        eprintln!("\nstopping; what is done will be kept (press Ctrl-C again to stop at once)");
    };
    if let Err(e) = ctrlc::set_handler(handler) {
        eprintln!("warning: Ctrl-C will lose the run: {e}");
    }
    flag
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_is_told_with_its_rate_and_not_at_once() {
        let told = |bytes, milliseconds| so_far(bytes, Duration::from_millis(milliseconds));
        assert_eq!((told(9_000_000, 400), told(0, 900)), (String::new(), String::new()));
        assert_eq!(told(83_000_000, 500), "reading records: 83 MB, 166 MB/s");
    }
}
