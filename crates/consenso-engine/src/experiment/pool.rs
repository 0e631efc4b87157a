//! One pool of work: which pieces of an experiment are done side by side, and how many.
//!
//! A piece is one run of one algorithm at one point of a sweep. Pieces wait on a board; a thread
//! that is free takes the next. Where fewer pieces are left than there are threads, the others help
//! inside them, agent by agent. Nothing here changes a result.

use crate::simulate::GRAIN;
use rayon::Scope;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// What a machine offers to a run. The library opens no files: whoever starts a run looks it up, or
/// takes the default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Threads that work at the same time.
    pub threads: usize,
    /// Bytes of the largest cache that all of them share.
    pub shared_cache: u64,
    /// Bytes of memory that are free; `None` if nobody knows.
    pub memory: Option<u64>,
}

impl Default for Machine {
    /// The threads of the current pool, a cache of 2 MB for each of them, and memory without limit.
    fn default() -> Self {
        let threads = rayon::current_num_threads();
        Self { threads, shared_cache: threads as u64 * (2 << 20), memory: None }
    }
}

/// What a run will do to a machine, known before it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outlook {
    /// Pieces that are worked on at the same time; the remaining threads help inside them.
    pub side_by_side: usize,
    /// Bytes of memory at the most, beside the records as they were read.
    pub peak: u64,
    /// Bytes of memory that one piece alone takes.
    pub least: u64,
}

/// What a piece of an experiment asks of a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Demand {
    /// Bytes of the records of one run, which its algorithms share.
    pub(super) records: u64,
    /// Bytes that one algorithm keeps beside them.
    pub(super) state: u64,
    /// Multiply-adds of all agents in one round.
    pub(super) round: u64,
    /// Algorithms that share the records of a run.
    pub(super) algorithms: u64,
}

/// Chooses how many pieces go side by side.
///
/// As many as there are threads is best as a rule, for pieces never wait for each other. It is not
/// where the records of one run fit into the shared cache and those of all would push each other
/// out of it: then as many as fit, if a round has enough work for the threads that are left to
/// help. And never more than the memory holds.
pub(super) fn outlook(machine: &Machine, pieces: usize, demand: &Demand) -> Outlook {
    let threads = machine.threads.max(1);
    let most = threads.min(pieces.max(1));
    let peak = |width: usize| width as u64 * (demand.records + demand.state);
    // Pieces of one run read the same records.
    let touched = |width: usize| (width as u64).div_ceil(demand.algorithms.max(1)) * demand.records;
    let mut width = most;
    let worth_dividing = demand.round >= 2 * (threads * GRAIN) as u64;
    if demand.records <= machine.shared_cache && worth_dividing {
        width = (1..=most).rev().find(|&w| touched(w) <= machine.shared_cache).unwrap_or(1);
    }
    if let Some(memory) = machine.memory {
        width = (1..=width).rev().find(|&w| peak(w) <= memory).unwrap_or(1);
    }
    Outlook { side_by_side: width, peak: peak(width), least: peak(1) }
}

/// Work that can be handed out: tasks that are ready, and tasks that will make others ready.
#[derive(Debug)]
struct State<T, F> {
    /// Taken from the front.
    ready: VecDeque<T>,
    /// Started when nothing is ready.
    later: VecDeque<T>,
    workers: usize,
    failure: Option<F>,
}

/// The board that threads take their next task from.
///
/// Tasks are not handed to rayon one by one: a thread that waits for another to finish its share of
/// a round would then begin a whole new run in between, and every run would be in memory at once.
/// So at most `width` tasks are under way at any time.
#[derive(Debug)]
pub(super) struct Board<T, F> {
    state: Mutex<State<T, F>>,
    width: usize,
}

impl<T: Send, F: Send> Board<T, F> {
    /// A board with these tasks: `first` before all others.
    pub(super) fn new(width: usize, first: Vec<T>, later: Vec<T>) -> Self {
        let state = State { ready: first.into(), later: later.into(), workers: 0, failure: None };
        Self { state: Mutex::new(state), width: width.max(1) }
    }

    /// Has every task done; `each` may make further tasks ready. After the first failure nothing
    /// new is begun.
    ///
    /// # Errors
    /// The first failure of a task.
    pub(super) fn work(
        self,
        cancelled: impl Fn() -> bool + Sync,
        each: impl Fn(T) -> Result<Vec<T>, F> + Sync,
    ) -> Result<(), F> {
        rayon::scope(|scope| self.staff(scope, &cancelled, &each));
        match self.lock().failure.take() {
            Some(failure) => Err(failure),
            None => Ok(()),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State<T, F>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls as many workers as there are tasks for.
    fn staff<'s, C, E>(&'s self, scope: &Scope<'s>, cancelled: &'s C, each: &'s E)
    where
        C: Fn() -> bool + Sync,
        E: Fn(T) -> Result<Vec<T>, F> + Sync,
    {
        let called = {
            let mut state = self.lock();
            let tasks = state.ready.len() + state.later.len();
            let called = tasks.min(self.width.saturating_sub(state.workers));
            state.workers += called;
            called
        };
        for _ in 0..called {
            scope.spawn(move |scope| self.worker(scope, cancelled, each));
        }
    }

    fn worker<'s, C, E>(&'s self, scope: &Scope<'s>, cancelled: &'s C, each: &'s E)
    where
        C: Fn() -> bool + Sync,
        E: Fn(T) -> Result<Vec<T>, F> + Sync,
    {
        loop {
            let task = {
                let mut state = self.lock();
                let stop = state.failure.is_some() || cancelled();
                let next = if stop {
                    None
                } else {
                    state.ready.pop_front().or_else(|| state.later.pop_front())
                };
                if next.is_none() {
                    state.workers -= 1;
                }
                next
            };
            let Some(task) = task else { return };
            match each(task) {
                Ok(further) => {
                    let none = further.is_empty();
                    self.lock().ready.extend(further);
                    if !none {
                        self.staff(scope, cancelled, each);
                    }
                }
                Err(failure) => {
                    self.lock().failure.get_or_insert(failure);
                }
            }
        }
    }
}

/// A task of the schedule model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TaskCost {
    /// How long one thread takes, in any unit.
    pub cost: f64,
    /// Into how many equal shares a round of it can be cut.
    pub shares: usize,
    /// The task that must be done first, by its place in the list.
    pub after: Option<usize>,
}

/// How long `threads` threads take for all tasks when at most `width` go side by side and free
/// threads help inside those that are under way.
///
/// This is the board's rule computed instead of done: tasks whose predecessor is done come before
/// tasks that wait for nothing, both in the order of the list. `loss` is the share of its time that
/// a helping thread loses in waiting.
#[must_use]
pub fn makespan(tasks: &[TaskCost], threads: usize, width: usize, loss: f64) -> f64 {
    let (threads, width) = (threads.max(1), width.clamp(1, threads.max(1)));
    let mut left: Vec<f64> = tasks.iter().map(|t| t.cost).collect();
    let (mut done, mut begun) = (vec![false; tasks.len()], vec![false; tasks.len()]);
    let mut under_way: Vec<usize> = Vec::new();
    let mut now = 0.0;
    loop {
        let open = |i: usize, begun: &[bool], done: &[bool]| {
            !begun[i] && tasks[i].after.is_none_or(|a| done[a])
        };
        while under_way.len() < width {
            let follower =
                (0..tasks.len()).find(|&i| tasks[i].after.is_some() && open(i, &begun, &done));
            let Some(next) =
                follower.or_else(|| (0..tasks.len()).find(|&i| open(i, &begun, &done)))
            else {
                break;
            };
            begun[next] = true;
            under_way.push(next);
        }
        if under_way.is_empty() {
            return now;
        }
        // Free threads go round the tasks that can use one more.
        let mut helpers_of = vec![1usize; under_way.len()];
        let mut free = threads - under_way.len();
        while free > 0 {
            let most = |&(k, helpers): &(usize, &usize)| *helpers < tasks[under_way[k]].shares;
            let Some((k, _)) = helpers_of.iter().enumerate().filter(most).min_by_key(|c| *c.1)
            else {
                break;
            };
            helpers_of[k] += 1;
            free -= 1;
        }
        let speed = |k: usize| {
            let (helpers, shares) = (helpers_of[k], tasks[under_way[k]].shares.max(1));
            // Ten shares among four threads take three turns.
            let even = shares as f64 / shares.div_ceil(helpers) as f64;
            1.0 + (even - 1.0) * (1.0 - loss)
        };
        let step = (0..under_way.len())
            .map(|k| left[under_way[k]] / speed(k))
            .fold(f64::INFINITY, f64::min);
        now += step;
        for (k, &i) in under_way.iter().enumerate() {
            left[i] -= step * speed(k);
            done[i] = left[i] <= 1e-12 * tasks[i].cost.max(1e-300);
        }
        under_way.retain(|&i| !done[i]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    const MB: u64 = 1 << 20;

    fn machine(threads: usize, cache: u64) -> Machine {
        Machine { threads, shared_cache: cache, memory: None }
    }

    #[test]
    fn as_many_runs_go_side_by_side_as_the_cache_holds() {
        let demand = Demand { records: 5 * MB, state: MB, round: 10_000_000, algorithms: 3 };
        let width = |machine: &Machine, demand: &Demand| outlook(machine, 30, demand).side_by_side;
        assert_eq!(width(&machine(16, 48 * MB), &demand), 16);
        // Two runs of three algorithms each.
        assert_eq!(width(&machine(16, 10 * MB), &demand), 6);
        // Nothing fits, so nothing is lost.
        assert_eq!(width(&machine(16, 4 * MB), &demand), 16);
        // Rounds too short to be divided.
        assert_eq!(width(&machine(16, 10 * MB), &Demand { round: 1000, ..demand }), 16);
        assert_eq!(outlook(&machine(16, 48 * MB), 4, &demand).side_by_side, 4);
    }

    #[test]
    fn memory_bounds_what_is_under_way() {
        let demand = Demand { records: 400 * MB, state: 100 * MB, round: 1, algorithms: 1 };
        let with = |memory| Machine { memory: Some(memory), ..machine(8, MB) };
        assert_eq!(outlook(&with(4000 * MB), 100, &demand).side_by_side, 8);
        let tight = outlook(&with(1200 * MB), 100, &demand);
        assert_eq!((tight.side_by_side, tight.peak), (2, 1000 * MB));
        assert_eq!(outlook(&with(10 * MB), 100, &demand).least, 500 * MB);
    }

    /// Every task is done once, those that others make ready too, and never more at a time than
    /// allowed.
    #[test]
    fn the_board_is_emptied_and_never_crowded() {
        let (now, most, done) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        let pool = rayon::ThreadPoolBuilder::new().num_threads(8).build().unwrap();
        let outcome = pool.install(|| {
            Board::<u32, &str>::new(3, vec![100u32], (0..20).collect()).work(
                || false,
                |task| {
                    most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    // Something to help with, so that threads wait for each other.
                    let sum: u64 = rayon::iter::ParallelIterator::sum(
                        rayon::iter::IntoParallelIterator::into_par_iter(0..10_000u64),
                    );
                    assert_eq!(sum, 49_995_000);
                    now.fetch_sub(1, Ordering::SeqCst);
                    done.fetch_add(1, Ordering::SeqCst);
                    Ok(if task < 20 { vec![1000; 3] } else { Vec::new() })
                },
            )
        });
        assert_eq!(outcome, Ok(()));
        assert_eq!(done.into_inner(), 1 + 20 + 60);
        assert!(most.into_inner() <= 3);
    }

    #[test]
    fn a_failure_ends_the_work() {
        let board = Board::new(2, Vec::new(), (0..1000).collect());
        let failing = |task: u32| if task == 5 { Err("five") } else { Ok(Vec::new()) };
        assert_eq!(board.work(|| false, failing), Err("five"));
    }

    #[test]
    fn the_model_knows_chains_and_shares() {
        let task = |cost, shares, after| TaskCost { cost, shares, after };
        let same = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} {b}");
        same(makespan(&[task(3.0, 1, None), task(2.0, 1, Some(0))], 4, 4, 0.0), 5.0);
        same(makespan(&[task(1.0, 1, None); 5], 2, 2, 0.0), 3.0);
        same(makespan(&[task(10.0, 10, None)], 4, 4, 0.0), 3.0);
        same(makespan(&[task(10.0, 10, None)], 16, 16, 0.0), 1.0);
        same(makespan(&[task(10.0, 10, None)], 16, 16, 0.5), 10.0 / 5.5);
        same(makespan(&[], 4, 4, 0.0), 0.0);
    }
}
