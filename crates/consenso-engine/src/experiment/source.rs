//! Where an experiment's local objectives come from: agents, the objective of each, what is public
//! of the records behind them, and what models are tested on.
//!
//! Files and rows in memory are a [`Dataset`], generated records a [`Synthetic`], the costs of
//! `[problem]` are [`AgentCosts`]. Another source of problems is another type with this trait.

use super::check::Experiment;
use super::division::shards;
use super::problem::AgentSpec;
use super::spec::ExperimentSpec;
use crate::config_error::ConfigError;
use crate::data::{Dataset, Records, RowBounds, Synthetic, Task};
use crate::problem::LocalObjective;
use crate::random::Seed;
use crate::simulate::SimulationError;
use std::borrow::Cow;
use std::sync::Arc;

/// Makes the local objective of an agent by its number, as often as it is asked for.
pub type LocalMaker<'a> = Box<dyn Fn(usize) -> Result<LocalObjective, SimulationError> + Sync + 'a>;

/// A source of local objectives.
///
/// Claims rest on [`bounds`](Self::bounds) and [`counts`](Self::counts): both must be public, and
/// must hold whatever the records are. Under a claim a record of one agent must also stay that
/// agent's whatever all other records are.
pub trait Source: std::fmt::Debug + Send + Sync {
    /// What is predicted.
    fn task(&self) -> Task;

    /// How many numbers a row has.
    fn features(&self) -> usize;

    /// What is publicly known about every row.
    fn bounds(&self) -> RowBounds;

    /// Returns how many records each agent has in the repetition of this seed.
    ///
    /// # Errors
    /// [`ConfigError`] when records cannot be divided as the file asks.
    fn counts(&self, spec: &ExperimentSpec, seed: &Seed) -> Result<Vec<usize>, ConfigError>;

    /// Returns what makes the local objective f_i of an agent in repetition `run`. It is asked for
    /// `agents` alone, which are all of them, or those of one of several processes.
    ///
    /// [`Experiment::objective_of`] makes an objective of an agent's records.
    ///
    /// # Errors
    /// [`ConfigError`] when records cannot be divided as the file asks.
    fn locals<'a>(
        &'a self,
        experiment: &'a Experiment,
        run: u32,
        agents: &[usize],
    ) -> Result<LocalMaker<'a>, ConfigError>;

    /// Returns the records that nobody trains on in the repetition of this seed, if there are any.
    fn test(&self, _seed: &Seed) -> Option<Cow<'_, Records>> {
        None
    }

    /// Where the records come from and how they are encoded, in words for the record of a run.
    fn describe(&self) -> (String, String) {
        ("a source of the caller's own".into(), "none".into())
    }

    /// Whether the records are somebody's: those of bundled files and generated ones are nobody's,
    /// so that all figures of a run may be shown.
    fn is_private(&self, _spec: &ExperimentSpec) -> bool {
        true
    }

    /// Whether agents have records at all, and not costs alone.
    fn has_records(&self) -> bool {
        true
    }

    /// Names of the classes in the order of their labels; empty for regression.
    fn classes(&self) -> Vec<String> {
        match self.task() {
            Task::Binary => vec!["-1".into(), "+1".into()],
            Task::MultiClass { classes } => (0..classes).map(|c| c.to_string()).collect(),
            Task::Regression { .. } => Vec::new(),
        }
    }

    /// Names of the agents, where they have some.
    fn names(&self, _spec: &ExperimentSpec) -> Option<Vec<String>> {
        None
    }

    /// How many numbers of a row are kept in memory, and whether each has its column beside it.
    fn stored(&self) -> (u64, bool) {
        (self.features() as u64, false)
    }

    /// The records with their schema, where they have one: to scout columns, to explain
    /// coefficients, to ask questions.
    fn dataset(&self) -> Option<&Dataset> {
        None
    }

    /// The same, to be kept.
    fn into_dataset(self: Box<Self>) -> Option<Dataset> {
        None
    }
}

/// Records of files, bundled ones, or rows in memory.
impl Source for Dataset {
    fn task(&self) -> Task {
        self.task
    }

    fn features(&self) -> usize {
        self.dim()
    }

    fn bounds(&self) -> RowBounds {
        self.bounds
    }

    fn counts(&self, spec: &ExperimentSpec, seed: &Seed) -> Result<Vec<usize>, ConfigError> {
        if let Some(counts) = &self.elsewhere {
            return Ok(counts.clone());
        }
        Ok(shards(spec, self, seed)?.iter().map(|shard| shard.rows.len()).collect())
    }

    fn locals<'a>(
        &'a self,
        experiment: &'a Experiment,
        run: u32,
        agents: &[usize],
    ) -> Result<LocalMaker<'a>, ConfigError> {
        let seed = Seed::from(experiment.spec.seed).for_run(u64::from(run));
        let shards = shards(&experiment.spec, self, &seed)?;
        let unread = |agent: usize| {
            move |e: std::io::Error| SimulationError::Rows { agent, cause: e.kind() }
        };
        Ok(match &self.stored {
            None => Box::new(move |agent| {
                let rows = &shards[agent].rows;
                // Raw rows are read once or twice: those that lie together stay where they are.
                let together = rows.windows(2).all(|pair| pair[0] + 1 == pair[1]);
                let records = match rows.first() {
                    Some(&first) if together && experiment.layout.is_some() => {
                        Records::part(&self.train, first, rows.len())
                    }
                    _ => self.train.select(rows),
                };
                Ok(experiment.objective_of(records, run, agent))
            }),
            // Whose rows are where is known then, and the shards go.
            Some(stored) => {
                let rows =
                    stored.of_agents(&shards, agents.iter().copied()).map_err(ConfigError::of)?;
                Box::new(move |agent| {
                    let records = rows.records(agent).map_err(unread(agent))?;
                    Ok(experiment.objective_of(records, run, agent))
                })
            }
        })
    }

    fn test(&self, _: &Seed) -> Option<Cow<'_, Records>> {
        self.test.as_ref().map(Cow::Borrowed)
    }

    fn describe(&self) -> (String, String) {
        (self.source.clone(), self.encoding.name().to_owned())
    }

    fn is_private(&self, spec: &ExperimentSpec) -> bool {
        spec.data.path.is_some()
    }

    fn classes(&self) -> Vec<String> {
        self.classes.clone()
    }

    /// Of files or groups, where records come in such.
    fn names(&self, spec: &ExperimentSpec) -> Option<Vec<String>> {
        if spec.data.partition.is_none() && spec.data.agents.is_some() {
            return None;
        }
        let shards = shards(spec, self, &Seed::from(spec.seed).for_run(0)).ok()?;
        Some(shards.into_iter().map(|shard| shard.name).collect())
    }

    fn stored(&self) -> (u64, bool) {
        let (stored, rows) = (self.train.stored() as u64, self.train.len() as u64);
        (stored.div_ceil(rows.max(1)), stored < rows * self.dim() as u64)
    }

    fn dataset(&self) -> Option<&Dataset> {
        Some(self)
    }

    fn into_dataset(self: Box<Self>) -> Option<Dataset> {
        Some(*self)
    }
}

/// Rows to test on, drawn as those of all agents together.
const TEST_ROWS: usize = 2000;

/// Generated records.
impl Source for Synthetic {
    fn task(&self) -> Task {
        Synthetic::task(self)
    }

    fn features(&self) -> usize {
        self.dim
    }

    fn bounds(&self) -> RowBounds {
        Synthetic::bounds(self)
    }

    fn counts(&self, _: &ExperimentSpec, _: &Seed) -> Result<Vec<usize>, ConfigError> {
        Ok(vec![self.records_per_agent; self.agents])
    }

    fn locals<'a>(
        &'a self,
        experiment: &'a Experiment,
        run: u32,
        _: &[usize],
    ) -> Result<LocalMaker<'a>, ConfigError> {
        let seed = Seed::from(experiment.spec.seed).for_run(u64::from(run));
        let records = self.maker(&seed).map_err(ConfigError::of)?;
        Ok(Box::new(move |agent| Ok(experiment.objective_of(records(agent as u64), run, agent))))
    }

    fn test(&self, seed: &Seed) -> Option<Cow<'_, Records>> {
        Synthetic::test(self, seed, TEST_ROWS).ok().map(Cow::Owned)
    }

    fn describe(&self) -> (String, String) {
        (format!("synthetic {:?}", self.task).to_lowercase(), "none".into())
    }

    fn is_private(&self, _: &ExperimentSpec) -> bool {
        false
    }

    fn stored(&self) -> (u64, bool) {
        (self.nonzeros.unwrap_or(self.dim) as u64, self.nonzeros.is_some())
    }
}

/// The costs that agents of `[problem]` have instead of records.
#[derive(Clone, Debug)]
pub struct AgentCosts(Vec<AgentSpec>);

impl AgentCosts {
    /// The costs that a file lists.
    #[must_use]
    pub fn of(spec: &ExperimentSpec) -> Self {
        Self(spec.problem.as_ref().map_or_else(Vec::new, |problem| problem.agent.clone()))
    }
}

impl Source for AgentCosts {
    // Costs look at nothing of these; their gradients have bounds of their own.
    fn task(&self) -> Task {
        Task::Binary
    }

    fn features(&self) -> usize {
        1
    }

    fn bounds(&self) -> RowBounds {
        RowBounds::declared(0.0, 0.0, 0.0)
    }

    fn counts(&self, _: &ExperimentSpec, _: &Seed) -> Result<Vec<usize>, ConfigError> {
        Ok(vec![1; self.0.len()])
    }

    fn locals<'a>(
        &'a self,
        experiment: &'a Experiment,
        _: u32,
        _: &[usize],
    ) -> Result<LocalMaker<'a>, ConfigError> {
        let costs = experiment.coupled.as_ref().map_or(&[][..], |coupled| &coupled.costs);
        Ok(Box::new(move |agent| Ok(LocalObjective::from_costs(Arc::clone(&costs[agent])))))
    }

    fn describe(&self) -> (String, String) {
        ("costs of the agents".into(), "none".into())
    }

    fn has_records(&self) -> bool {
        false
    }

    fn classes(&self) -> Vec<String> {
        Vec::new()
    }

    fn names(&self, _: &ExperimentSpec) -> Option<Vec<String>> {
        let named = |(agent, i): (&AgentSpec, usize)| {
            agent.name.clone().unwrap_or_else(|| format!("agent-{i}"))
        };
        Some(self.0.iter().zip(1..).map(named).collect())
    }
}
