//! What was trained, as model files.

use super::check::{Experiment, Source};
use super::division::shards;
use super::run::{Finished, Trained};
use crate::data::{Kind, Task};
use crate::model::{
    self, AgentModel, ClaimNote, FORMAT, MOST_AGENT_NUMBERS, Metrics, Model, ModelOrigin,
};
use crate::problem;
use crate::random::Seed;
use crate::record::AlgorithmRecord;

impl Finished {
    /// The model file of every algorithm that ended with finite numbers, with its index in the
    /// record.
    #[must_use]
    pub fn model_files(&self, experiment: &Experiment) -> Vec<(usize, Model)> {
        let finite = |t: &Trained| t.agents.iter().flatten().all(|x| x.is_finite());
        let pairs = self.models.iter().zip(&self.record.algorithms).enumerate();
        pairs
            .filter(|(_, (trained, _))| finite(trained))
            .map(|(index, (trained, algorithm))| {
                (index, experiment.model_of(trained, algorithm, self.record.runs))
            })
            .collect()
    }
}

impl Experiment {
    /// Names of the agents: of files or groups where records come in such, else by number.
    #[must_use]
    pub(crate) fn agent_names(&self) -> Vec<String> {
        let numbered = || (1..=self.facts.agents).map(|i| format!("agent-{i}")).collect();
        match &*self.source {
            Source::Data(_) if self.alone => numbered(),
            Source::Data(data)
                if self.spec.data.partition.is_some() || self.spec.data.agents.is_none() =>
            {
                let seed = Seed::from(self.spec.seed).for_run(0);
                shards(&self.spec, data, &seed).map_or_else(
                    |_| numbered(),
                    |shards| shards.into_iter().map(|s| s.name).collect(),
                )
            }
            Source::Costs => {
                let listed = self.spec.problem.iter().flat_map(|p| &p.agent).zip(1..);
                listed
                    .map(|(a, i)| a.name.clone().unwrap_or_else(|| format!("agent-{i}")))
                    .collect()
            }
            _ => numbered(),
        }
    }

    /// What one agent of a network trained, as a model file. `claim` is what that agent claims.
    #[must_use]
    pub fn site_model(&self, weights: &[f64], claim: Option<ClaimNote>) -> Model {
        let mut model = self.empty_model();
        if let [planned] = &self.planned[..] {
            (model.study.algorithm, model.study.label) =
                (planned.protocol.kind().into(), planned.label.clone());
        }
        model.claim = claim;
        let label = model.study.label.clone();
        self.apply(&mut model, &label, weights);
        model
    }

    /// The model of an algorithm as an agent holds it, without its claim.
    pub(super) fn site_model_of(&self, label: &str, held: &[f64]) -> Model {
        let mut model = self.empty_model();
        label.clone_into(&mut model.study.label);
        self.apply(&mut model, label, held);
        model
    }

    /// Puts what agents hold into the file: where columns were scouted, the encoder that was found
    /// and the coefficients apart.
    fn apply(&self, model: &mut Model, label: &str, held: &[f64]) {
        model.weights = held.to_vec();
        if self.layout.is_some()
            && let Some((encoder, weights)) = self.fitted(label, held)
        {
            model.features = encoder.features().to_vec();
            model.intercept = encoder.bias().map(|b| model.features[b].clone());
            model.encoder = Some(encoder);
            model.weights = weights;
            let standard = self
                .planned
                .iter()
                .find(|p| p.label == label)
                .and_then(|p| super::scouted::split(p, held));
            model.loss = Some(self.loss_under(standard.map(|s| s.0)));
            model.weight_noise = self.weight_noise(label, held).unwrap_or_default();
            model.inference = self.inference_of(label, held);
        }
        model.coefficients = model.explain();
    }

    fn model_of(&self, trained: &Trained, algorithm: &AlgorithmRecord, runs: u32) -> Model {
        let mut model = self.empty_model();
        let study = &mut model.study;
        (study.algorithm, study.label) = (algorithm.kind.clone(), trained.label.clone());
        study.runs = runs;
        model.claim = algorithm.epsilon.as_ref().map(|e| ClaimNote {
            epsilon: e.claim,
            delta: e.delta,
            statement: e.statement.clone(),
            seeded: e.seeded,
        });
        let own = self.coupled.is_some();
        let differ = trained.agents.iter().any(|a| *a != trained.agents[0]);
        let few = trained.agents.len() * trained.mean.len() <= MOST_AGENT_NUMBERS;
        if own || differ && few {
            let names = self.agent_names();
            let listed = self.spec.problem.as_ref().map(|p| &p.agent);
            for (i, held) in trained.agents.iter().enumerate() {
                // Where columns were scouted, agents hold more than weights.
                let weights =
                    self.fitted(&trained.label, held).map_or_else(|| held.clone(), |f| f.1);
                // Agents with fewer variables than the longest were filled up with zeros.
                let width = listed
                    .and_then(|l| l.get(i))
                    .map_or(weights.len(), super::AgentSpec::variables);
                let name = names.get(i).cloned().unwrap_or_else(|| format!("agent-{}", i + 1));
                model.agents.push(AgentModel { name, weights: weights[..width].to_vec() });
            }
        } else if differ {
            model.notes.push(format!(
                "{} agents end with models of their own, too many numbers to list: weights are their mean",
                trained.agents.len()
            ));
        }
        if own {
            model
                .notes
                .push("every agent has variables of its own: there is no common model".into());
            return model;
        }
        // Where all agree, their mean is one of them, to the last bit.
        let common = if differ { &trained.mean } else { &trained.agents[0] };
        self.apply(&mut model, &trained.label, common);
        // Figures on test records say something about those: they go with a run whose noise is
        // known anyway, or that protects nobody.
        if model.claim.as_ref().is_none_or(|c| c.seeded) {
            model.metrics = self.metrics(0, common);
        }
        if runs > 1 {
            model.notes.push(format!(
                "the first of {runs} runs; figures in the record are means over all"
            ));
        }
        model
    }

    /// How a model does on the test records of a run, if there are any.
    #[must_use]
    pub fn metrics(&self, run: u32, weights: &[f64]) -> Option<Metrics> {
        let (test, loss) = (self.test_records(run)?, &self.objective.loss);
        let planned = self.planned.iter().find(|p| p.scouted.is_some());
        let found = planned.and_then(|p| {
            Some((super::scouted::split(p, weights)?.0, self.fitted(&p.label, weights)?.1))
        });
        if let (Some(layout), Some((standard, x)), Some(_)) =
            (&self.layout, &found, loss.proportional())
        {
            let test = layout.encode(standard, &test);
            return Metrics::of(loss, &test, x, self.threshold);
        }
        let scores = match (&self.layout, found) {
            // The coefficients of the model file on the rows they were trained on, and labels as
            // they are: what `predict` computes.
            (Some(layout), Some((standard, x))) => {
                let mut scores = problem::scores(loss, &layout.encode(standard, &test), &x);
                if let Task::Regression { min, max } = layout.task() {
                    scores.iter_mut().for_each(|score| *score = score.clamp(min, max));
                }
                scores
            }
            _ => problem::scores(loss, &test, weights),
        };
        let metrics = match self.log_units(None) {
            Some(units) => Metrics::of_logs(&scores, test.labels(), units)?,
            None => Metrics::of_scores(loss, &scores, test.labels(), self.threshold)?,
        };
        let sites = match &*self.source {
            Source::Data(data) => data.test_sites.as_deref(),
            _ => None,
        };
        Some(match sites {
            Some(sites) => metrics.by_site(loss, &scores, test.labels(), self.threshold, sites),
            None => metrics,
        })
    }

    /// Names of the classes in the order of their labels; empty for regression and costs.
    #[must_use]
    pub fn classes(&self) -> Vec<String> {
        match &*self.source {
            Source::Data(data) => data.classes.clone(),
            Source::Costs => Vec::new(),
            Source::Synthetic(problem) => match problem.task() {
                Task::Binary => vec!["-1".into(), "+1".into()],
                Task::MultiClass { classes } => (0..classes).map(|c| c.to_string()).collect(),
                Task::Regression { .. } => Vec::new(),
            },
        }
    }

    fn empty_model(&self) -> Model {
        let classes = self.classes();
        let mut model = Model {
            format: FORMAT.into(),
            study: ModelOrigin {
                name: self.spec.name.clone(),
                sha256: model::fingerprint(&self.resolved()),
                software: format!("consenso {}", env!("CARGO_PKG_VERSION")),
                run: 1,
                runs: 1,
                ..ModelOrigin::default()
            },
            task: None,
            target: None,
            positive: (classes.len() == 2).then(|| classes[1].clone()),
            classes,
            threshold: (self.threshold != 0.5).then_some(self.threshold),
            loss: Some(self.objective.loss),
            regularization: self.objective.regularization,
            constraint: self.spec.objective.constraint,
            schema: None,
            encoder: None,
            features: Vec::new(),
            intercept: None,
            weights: Vec::new(),
            weight_noise: Vec::new(),
            agents: Vec::new(),
            coefficients: Vec::new(),
            inference: None,
            claim: None,
            metrics: None,
            notes: Vec::new(),
        };
        match &*self.source {
            Source::Data(data) => {
                let label = data.schema.columns().iter().find(|c| matches!(c.kind, Kind::Label(_)));
                model.target = label.map(|c| c.name.clone());
                model.task = Some(data.task);
                model.features.clone_from(&data.features);
                model.intercept = data.encoder.bias().map(|b| data.features[b].clone());
                if let Some((low, high)) = data.encoder.norms(&data.schema) {
                    model.notes.push(format!(
                        "every row is divided by its norm, which lies between {low:.3} and {high:.3}: a coefficient per unit acts \
                         divided by the record's own norm"
                    ));
                }
                model.schema = Some(data.schema.clone());
                model.encoder = Some(data.encoder.clone());
            }
            Source::Synthetic(problem) => {
                model.task = Some(problem.task());
                model.features = (1..=problem.dim).map(|l| format!("x{l}")).collect();
            }
            Source::Costs => {
                model.loss = None;
                model.features = (1..=self.facts.dim).map(|l| format!("x{l}")).collect();
            }
        }
        model
    }
}
