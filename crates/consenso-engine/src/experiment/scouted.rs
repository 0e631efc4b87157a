//! Experiments whose columns are scouted: what they allow, how they are planned, and what their
//! models are judged by.

use super::check::Experiment;
use super::inference::Covariance;
use super::objective::{budget_per_sensitivity, open_clip};
use super::planned::{Context, Planned};
use super::source::Source;
use super::spec::{AlgorithmSpec, ExperimentSpec, MAX_ROUNDS};
use crate::account::{self, Account, Correlated, HidingSet, PricingFacts};
use crate::agent::Timetable;
use crate::config_error::ConfigError;
use crate::data::{Encoder, Encoding, RawLayout, Records, RowBounds, Task};
use crate::graph::Graph;
use crate::privacy::correlated::MOST_CORRELATION;
use crate::privacy::{NeighbourRelation, gdp};
use crate::problem::{
    Constraint, LocalObjective, Loss, MeanLoss, Objective, SiteWeights, WeightRule, pairs,
};
use crate::protocol::scouted::{MethodPart, Scouted, ScoutingRequest, loss_under};
use crate::protocol::staged::Staged;
use crate::protocol::{Configured, MixRule, Pairwise, Protocol, PublicFacts, Scouting};
use std::sync::Arc;

/// The raw columns if the experiment scouts them.
pub(super) fn layout(
    spec: &ExperimentSpec,
    source: &dyn Source,
    loss: Loss,
) -> Option<Arc<RawLayout>> {
    let data = source.dataset()?;
    let scouted = spec.data.encoding == Encoding::Scouted;
    let keeps = loss.keeps_labels();
    scouted.then(|| {
        let layout = RawLayout::of(&data.schema, data.task).keeping_labels(keeps);
        Arc::new(match loss {
            Loss::Hazards { intervals } => {
                layout.with_intervals(intervals, spec.objective.cuts.as_deref())
            }
            // Pairs of records say who was first: nothing is asked of times.
            Loss::StratifiedHazards(_) => layout.knowing_labels(),
            _ => layout,
        })
    })
}

/// The objective on standardised columns: a ridge that shrinks with the records where the file
/// leaves it at its default, no clip of residuals (records' gradients are clipped as a whole), and
/// Huber's δ in deviations of the label, 2 where it is open.
pub(super) fn objective(objective: Objective, spec: &ExperimentSpec, records: usize) -> Objective {
    let given = spec.objective.regularization;
    let open = given == super::spec::ObjectiveSpec::default().regularization;
    let regularization = if open { 1.0 / records.max(1) as f64 } else { given };
    let loss = match objective.loss {
        loss if loss.is_logistic() => loss.with_slopes_up_to(1.0),
        Loss::Huber { .. } if spec.objective.huber_delta.is_none() => Loss::Huber { delta: 2.0 },
        loss => loss,
    };
    Objective { loss, regularization }
}

/// Whether an algorithm runs behind a stage that scouts.
pub(super) fn is_staged(algorithm: &AlgorithmSpec) -> bool {
    algorithm.protocol.capabilities().scouting == Scouting::Precedes
}

/// Plans an algorithm that begins once columns are scouted; see
/// [`staged`](crate::protocol::staged).
fn plan_staged(
    algorithm: AlgorithmSpec,
    layout: &Arc<RawLayout>,
    facts: &mut PublicFacts,
    context: &Context<'_>,
    graphs: &[Arc<Graph>],
) -> Result<(Planned, Vec<String>), ConfigError> {
    let AlgorithmSpec { label, rounds, tail, gossip, mut protocol, .. } = algorithm;
    let kind = protocol.kind();
    let privacy = context.spec.privacy.ok_or_else(no_budget)?;
    let epsilon = privacy.epsilon.ok_or_else(no_budget)?;
    let request = ScoutingRequest {
        layout: Arc::clone(layout),
        loss: context.terms.objective.loss,
        balanced: false,
        weights: context.spec.data.weights.clone(),
        pairwise: None,
        mu: Some(gdp::mu_for(epsilon, privacy.delta).map_err(ConfigError::no_claim)?),
        change_factor: change_factor(privacy.neighbours),
        // What follows scouting is calibrated to a record.
        person: 1,
        ridge: 0.0,
        steps: Some(1),
        inference: false,
        model_based: false,
        between: false,
        compares: false,
        looks: None,
        without: Vec::new(),
    };
    let scout = Scouted::plan(&request, context.terms.counts, graphs)?;
    let features = layout.features() + 1;
    let unit = RowBounds::declared((features as f64).sqrt().next_up(), 1.0, 1.0);
    let mut objective = *context.terms.objective;
    if let Loss::Ridge { .. } = objective.loss {
        // Labels are standardised: what is more than two deviations off counts as two.
        objective.loss = Loss::Ridge { clip: 2.0 };
    }
    let stretched = unit.stretched(context.terms.heaviest());
    let mut inner = PublicFacts {
        dim: objective.dim(features),
        smoothness: objective.smoothness(&stretched),
        coordinate_smoothness: objective.coordinate_smoothness(&stretched),
        coordinate_sensitivity: objective.coordinate_sensitivity(),
        strong_convexity: objective.strong_convexity(),
        rounds: 0,
        private: true,
        budget: None,
        ..*facts
    };
    if let Some(clip) = open_clip(context.spec, &objective, &unit, &inner) {
        objective.loss = objective.loss.with_slopes_up_to(clip);
    }
    let left = (1.0 - scout.scouting_share()).sqrt();
    inner.budget =
        budget_per_sensitivity(&privacy, &objective, &unit, context.terms.site_weights())
            .map(|budget| budget * left);
    inner.rounds = rounds.unwrap_or_else(|| protocol.default_rounds(&inner)).clamp(1, MAX_ROUNDS);
    protocol.resolve(&inner);
    let averaged =
        ((tail.unwrap_or(0.5) * f64::from(inner.rounds)).round() as u32).clamp(1, inner.rounds);
    let gossip = gossip.unwrap_or_else(|| account::default_gossip(&inner));
    let scouted = Arc::new(scout.clone());
    let before_mean = inner.rounds - averaged;
    let staged =
        Arc::new(Staged::new(scout, Arc::from(protocol), inner, objective, (before_mean, gossip)));
    let warning = staged.check(&inner)?;
    let context = Context {
        terms: PricingFacts { objective: &objective, bounds: &unit, ..context.terms },
        ..*context
    };
    *facts = PublicFacts { dim: scouted.shape.width, rounds: staged.rounds(), ..inner };
    let all = PublicFacts { dim: staged.width(facts.dim), ..*facts };
    let protocol: Arc<dyn Protocol> = Arc::clone(&staged) as _;
    let account =
        account::plan(&*protocol, None, None, &all, &context.terms, graphs, HidingSet::default())?;
    let split = staged.split_of_the_budget();
    let label = label.unwrap_or_else(|| kind.to_owned());
    StagedPlan { label, warning, split, protocol, account, scouted, staged: Some(staged) }
        .planned(facts, &context)
}

/// An algorithm on scouted columns, with its noise.
struct StagedPlan {
    label: String,
    warning: Option<String>,
    split: String,
    protocol: Arc<dyn Protocol>,
    account: Account,
    scouted: Arc<Scouted>,
    staged: Option<Arc<Staged>>,
}

impl StagedPlan {
    /// Its claim says how the budget is split, and holds against the adversary that the file names.
    fn planned(
        self,
        facts: &PublicFacts,
        context: &Context<'_>,
    ) -> Result<(Planned, Vec<String>), ConfigError> {
        let Self { label, warning, split, protocol, mut account, scouted, staged } = self;
        for price in
            account.noise_schedules_mut().filter_map(|noise_schedule| noise_schedule.price.as_mut())
        {
            price.claim.caveats.push(split.clone());
        }
        account.settle();
        if let (Some(price), Some(wanted)) =
            (&account.price, context.spec.privacy.and_then(|p| p.adversary))
        {
            account::protects(&price.claim, wanted, facts.agents)?;
        }
        let warnings = warning.into_iter().map(|w| format!("{label}: {w}"));
        let warnings = warnings.chain(account.warnings.iter().cloned()).collect();
        let timetable = Timetable { rounds: facts.rounds, tail_from: facts.rounds, gossip: 0 };
        let planned = Planned {
            place: context.place,
            label,
            protocol,
            timetable: Arc::new(timetable),
            account,
            sharing: None,
            masking: None,
            mixing: MixRule::Average,
            staleness: 0,
            release_bound: None,
            scouted: Some(scouted),
            staged,
        };
        Ok((planned, warnings))
    }
}

/// Plans one algorithm.
pub(super) fn plan(
    algorithm: AlgorithmSpec,
    layout: &Arc<RawLayout>,
    facts: &mut PublicFacts,
    context: &Context<'_>,
    graphs: &[Arc<Graph>],
) -> Result<(Planned, Vec<String>), ConfigError> {
    if is_staged(&algorithm) {
        return plan_staged(algorithm, layout, facts, context, graphs);
    }
    let AlgorithmSpec { label, rounds, noise, protocol, .. } = algorithm;
    let kind = protocol.kind();
    let privacy = context.spec.privacy.filter(|_| noise.is_none());
    let neighbours = privacy.map(|p| p.neighbours).unwrap_or_default();
    let mu = match privacy.map(|p| (p.epsilon, p.delta)) {
        None => None,
        Some((Some(epsilon), delta)) => {
            Some(gdp::mu_for(epsilon, delta).map_err(ConfigError::no_claim)?)
        }
        Some((None, _)) => {
            return Err(no_budget());
        }
    };
    facts.private = mu.is_some();
    let pairwise = protocol.pairwise(facts).map(|open| Pairwise {
        // Totals are exact, so that shared noise costs nothing: as strong as it may be, unless the
        // file says.
        correlation: match protocol
            .parameters()
            .get("correlation")
            .and_then(serde_json::Value::as_f64)
        {
            Some(given) => given,
            None => MOST_CORRELATION,
        },
        ..open
    });
    let mut weights = context.spec.data.weights.clone();
    if pairwise.is_some() {
        weights = SiteWeights::Rule(WeightRule::Records);
    }
    let correlated = match pairwise {
        Some(pairwise) => Correlated::new(pairwise, noise.as_ref(), facts, &context.terms, graphs)?,
        None => None,
    };
    let asked = super::inference::asked(context.spec, context.terms.objective.loss);
    if asked.is_some_and(|a| a.calibration) && context.person > 1 {
        return Err(ConfigError::at(
            "inference",
            "calibration counts records and not persons: leave calibration out where a person may have several records",
        ));
    }
    let request = ScoutingRequest {
        layout: Arc::clone(layout),
        loss: context.terms.objective.loss,
        balanced: context.balanced,
        weights,
        pairwise: pairwise.map(|p| (p, correlated.as_ref().map_or(1.0, Correlated::planned_own))),
        mu,
        change_factor: change_factor(neighbours),
        person: context.person,
        ridge: context.terms.objective.regularization,
        steps: rounds,
        inference: asked.is_some(),
        model_based: asked.is_some_and(|a| a.covariance == Covariance::Model),
        compares: asked.is_some_and(|a| a.calibration),
        between: asked.is_some() && context.spec.models.is_personal(),
        looks: None,
        without: left_out(&*protocol),
    };
    let scouted = Arc::new(Scouted::plan(&request, context.terms.counts, graphs)?);
    facts.dim = scouted.shape.width;
    facts.rounds = scouted.rounds();
    facts.private = mu.is_some();
    let warning = scouted.check(facts)?;
    let protocol: Arc<dyn Protocol> = Arc::clone(&scouted) as _;
    let mut account = account::plan(
        &*protocol,
        noise.as_ref(),
        None,
        facts,
        &context.terms,
        graphs,
        HidingSet { correlated, ..HidingSet::default() },
    )?;
    account::correlate(&mut account, facts, &context.terms)?;
    account.noise_spec = noise;
    let split = scouted.split_of_the_budget();
    let label = label.unwrap_or_else(|| kind.to_owned());
    StagedPlan { label, warning, split, protocol, account, scouted, staged: None }
        .planned(facts, context)
}

/// The pieces of the method that the file leaves out.
fn left_out(protocol: &dyn Protocol) -> Vec<MethodPart> {
    let named = protocol.parameters().remove("without");
    named.and_then(|named| serde_json::from_value(named).ok()).unwrap_or_default()
}

/// Scouting is planned for a budget, which a rule asks for.
fn no_budget() -> ConfigError {
    ConfigError::no_claim("there is no budget to scout within")
}

/// Gives the messages of all algorithms the length of the longest: how fine histograms are follows
/// from an algorithm's noise, and agents have records of one shape. What is added is never drawn on
/// nor read (`Scouted::active`), so that no account changes.
pub(super) fn level(planned: &mut [Planned], facts: &mut PublicFacts) {
    let Some(width) = planned.iter().filter_map(|p| Some(p.scouted.as_ref()?.shape.width)).max()
    else {
        return;
    };
    facts.dim = width;
    for one in planned {
        if let Some(narrow) = one.scouted.as_ref().filter(|s| s.shape.width < width) {
            let wide = narrow.with_width(width);
            one.staged = one.staged.as_ref().map(|staged| Arc::new(staged.behind(wide.clone())));
            one.scouted = Some(Arc::new(wide));
            one.protocol = match (&one.staged, &one.scouted) {
                (Some(staged), _) => Arc::clone(staged) as _,
                (None, Some(scouted)) => Arc::clone(scouted) as _,
                (None, None) => unreachable!("it has just been made"),
            };
        }
    }
}

/// How many records one person has at most, by the schema: noise on scouted columns hides all of
/// them together.
pub(super) fn records_per_person(source: &dyn Source) -> u32 {
    let person = source.dataset().and_then(|data| data.person.as_ref());
    person.map_or(1, |(_, most)| *most)
}

/// How often a record's share moves a sum: 2 where another share takes its place, 1 where nothing
/// does.
///
/// Neighbours under `add-remove` have one record more or less and *the same announced numbers of
/// records* (`NeighbourRelation::meaning`). What a scouted site releases is Σ share(r) over its
/// records. A share is a function of the record, of what was released before and of the recipe:
/// clip, steps and weights, which are functions of announced numbers alone, as are the factors that
/// totals are made with. How many records there really are is in none of them (`Scouted::step`). So
/// all other records' shares are the same on both data sets, and the sum moves by the one share,
/// whose length is at most 1; what is divided by announced numbers afterwards is post-processing.
///
/// Were numbers announced anew when a record goes, clips and weights of all other records would
/// change with them: 2 would not be enough then, and no other number either. A mean over the records
/// there are, which other algorithms release, is divided by their true number before it leaves, so
/// that they charge 2 under this relation.
pub(super) fn change_factor(neighbours: NeighbourRelation) -> f64 {
    match neighbours {
        NeighbourRelation::ZeroOut | NeighbourRelation::AddRemove => 1.0,
        NeighbourRelation::ReplaceOne | NeighbourRelation::Paper => 2.0,
    }
}

/// What scouting would be for this experiment under a budget of `epsilon`, whatever its file chose:
/// `None` where its records cannot be scouted.
pub(super) fn instead(experiment: &Experiment, epsilon: f64) -> Option<Scouted> {
    let (data, privacy) = (experiment.source.dataset()?, experiment.spec.privacy?);
    if experiment.spec.objective.constraint != Constraint::None || experiment.coupled.is_some() {
        return None;
    }
    let request = ScoutingRequest {
        layout: Arc::new(
            RawLayout::of(&data.schema, data.task)
                .keeping_labels(experiment.objective.loss.keeps_labels()),
        ),
        loss: experiment.objective.loss,
        balanced: experiment.balanced,
        weights: experiment.spec.data.weights.clone(),
        mu: Some(gdp::mu_for(epsilon, privacy.delta).ok()?),
        change_factor: change_factor(privacy.neighbours),
        person: records_per_person(&*experiment.source),
        ridge: 0.0,
        steps: None,
        inference: false,
        model_based: false,
        between: false,
        compares: false,
        looks: None,
        without: Vec::new(),
        pairwise: None,
    };
    Scouted::plan(&request, std::slice::from_ref(&experiment.counts), &experiment.graphs[..1]).ok()
}

/// The standard of a model that agents hold, and its coefficients.
pub(super) fn split<'a>(planned: &Planned, model: &'a [f64]) -> Option<(&'a [f64], &'a [f64])> {
    Some(planned.scouted.as_ref()?.split(model))
}

/// Records as the models of one run see them: standardised by the standard that the run found.
#[derive(Default)]
pub(super) struct StandardisedView {
    standard: Vec<f64>,
    train: Vec<LocalObjective>,
    test: Option<Records>,
}

impl StandardisedView {
    /// Looks through the standard of `model`.
    pub(super) fn open(
        &mut self,
        experiment: &Experiment,
        planned: &Planned,
        locals: &[LocalObjective],
        test: Option<&Records>,
        model: &[f64],
    ) {
        let (Some(layout), Some((standard, _))) = (&experiment.layout, split(planned, model))
        else {
            return;
        };
        if self.standard == standard {
            return;
        }
        self.standard = standard.to_vec();
        self.train = vec![pooled(experiment, layout, standard, locals)];
        self.test = test.map(|test| layout.encode(standard, test));
    }

    /// All records, if columns are standardised.
    pub(super) fn train(&self) -> Option<&[LocalObjective]> {
        (!self.train.is_empty()).then_some(&self.train[..])
    }

    /// What of a model goes with the features of rows.
    pub(super) fn coefficients<'a>(&self, planned: &Planned, model: &'a [f64]) -> &'a [f64] {
        split(planned, model).map_or(model, |s| s.1)
    }

    pub(super) fn test(&self) -> Option<&Records> {
        self.test.as_ref()
    }
}

/// The records of all agents as one, under a standard.
fn pooled(
    experiment: &Experiment,
    layout: &RawLayout,
    standard: &[f64],
    locals: &[LocalObjective],
) -> LocalObjective {
    let raw = || locals.iter().filter_map(LocalObjective::mean_loss).map(MeanLoss::records);
    let rows = raw().map(Records::len).sum();
    let loss = experiment.loss_under(Some(standard));
    let encode = |records| rows_of(loss, layout.encode(standard, records));
    let all = Records::gathered(rows, raw().map(encode));
    LocalObjective::new(Objective { loss, ..experiment.objective }, all)
}

/// The rows that a loss is of: one per record of a site, or one per pair.
fn rows_of(loss: Loss, records: Records) -> Records {
    if loss.is_of_pairs() { pairs::of(&records) } else { records }
}

impl Experiment {
    /// The loss of a run that found this standard: where classes are balanced by estimated shares,
    /// with their weights.
    pub(super) fn loss_under(&self, standard: Option<&[f64]>) -> Loss {
        match (&self.layout, standard) {
            (Some(layout), Some(standard)) => {
                loss_under(layout, self.objective.loss, self.balanced, standard)
            }
            _ => self.objective.loss,
        }
    }

    /// Where models learn the logarithm of the label: the logarithm that a standardised label of
    /// nought stands for, and how much more one stands for.
    pub(super) fn log_units(&self, standard: Option<&[f64]>) -> Option<(f64, f64)> {
        let data = self.source.dataset()?;
        if !data.schema.has_log_label() {
            return None;
        }
        Some(match (&self.layout, standard, data.task) {
            (Some(layout), Some(standard), Task::Regression { min, max }) => {
                let centre = min + layout.label_part(standard)[0] * (max - min);
                (centre, layout.label_scale(standard))
            }
            _ => (0.0, 1.0),
        })
    }

    /// What all records look like without noise, where columns are scouted: the reference that
    /// models are compared with.
    pub(super) fn reference(
        &self,
        locals: &[LocalObjective],
    ) -> Option<(Vec<f64>, LocalObjective)> {
        let layout = self.layout.as_ref()?;
        let counts: Vec<usize> = locals.iter().map(|l| l.site_weight().records).collect();
        let standard = Scouted::exact_standard(layout, self.objective.loss, &counts, locals)?;
        let pooled = pooled(self, layout, &standard, locals);
        Some((standard, pooled))
    }

    /// One agent's objective under a standard, with a ridge for its own records.
    pub(super) fn alone(&self, standard: &[f64], local: &LocalObjective) -> Option<LocalObjective> {
        let loss = self.loss_under(Some(standard));
        let encoded = self.layout.as_ref()?.encode(standard, local.mean_loss()?.records());
        let records = rows_of(loss, encoded);
        let regularization = 1.0 / records.len().max(1) as f64;
        Some(LocalObjective::new(Objective { regularization, loss }, records))
    }

    /// Raw test records under a standard.
    pub(super) fn under(&self, standard: &[f64], raw: &Records) -> Option<Records> {
        Some(self.layout.as_ref()?.encode(standard, raw))
    }

    /// The standard deviation that noise alone gives the weights of a model file, where it is known:
    /// it is for training on scouted columns.
    pub(super) fn weight_noise(&self, label: &str, model: &[f64]) -> Option<Vec<f64>> {
        let planned = self.planned.iter().find(|p| p.label == label)?;
        let scouted = planned.scouted.as_ref().filter(|_| planned.staged.is_none())?;
        let standard = scouted.split(model).0;
        let unit = self.layout.as_ref()?.label_scale(standard) * scouted.scaled_by(model);
        Some(
            scouted
                .noise_deviation(standard, scouted.lengths_of(model))?
                .into_iter()
                .map(|sd| sd * unit)
                .collect(),
        )
    }

    /// The encoder of the records and the coefficients on its features, of a model as agents hold
    /// it: where columns are scouted, it carries what was found of them. `None` where there are no
    /// records with a schema.
    pub(crate) fn fitted(&self, label: &str, model: &[f64]) -> Option<(Encoder, Vec<f64>)> {
        let data = self.source.dataset()?;
        let planned = self.planned.iter().find(|p| p.label == label);
        match (&self.layout, planned.and_then(|p| split(p, model))) {
            (Some(layout), Some((standard, x))) => {
                let mut x = x.to_vec();
                // A regression's label was standardised too: the coefficients speak of the label's
                // own unit again.
                if let (Task::Regression { min, max }, Some(bias)) =
                    (data.task, x.len().checked_sub(1).filter(|_| !layout.keeps_labels()))
                {
                    x.iter_mut().for_each(|x| *x *= layout.label_scale(standard));
                    x[bias] += min + layout.label_part(standard)[0] * (max - min);
                }
                Some((Encoder::scouted(&data.schema, layout, standard), x))
            }
            _ => Some((data.encoder.clone(), model.to_vec())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::{Agent, Effect, Message};
    use crate::data::{Dataset, Schema, csv};
    use crate::experiment::{Finished, Inputs, Silent, run};
    use crate::problem::Sensitivity;
    use std::fmt::Write as _;

    const SCHEMA: &str = "reviewed = true\n[[column]]\nname = \"age\"\nkind = \"numeric\"\nmin = 0\nmax = 100\n\
        [[column]]\nname = \"dose\"\nkind = \"numeric\"\nmin = -1\nmax = 3\n\
        [[column]]\nname = \"sex\"\nkind = \"categorical\"\ncategories = [\"f\", \"m\"]\n\
        [[column]]\nname = \"ward\"\nkind = \"categorical\"\ncategories = [\"a\", \"b\", \"c\"]\n\
        [[column]]\nname = \"site\"\nkind = \"site\"\n[[column]]\nname = \"y\"\nkind = \"label\"\n";

    /// Sites of 20, 40, 80, … records of a made-up study.
    fn experiment(graph: &str, sites: usize, label: &str, loss: &str, privacy: &str) -> Experiment {
        under(SCHEMA, graph, sites, label, loss, privacy)
    }

    fn under(
        schema: &str,
        graph: &str,
        sites: usize,
        label: &str,
        loss: &str,
        privacy: &str,
    ) -> Experiment {
        checked(schema, "kind = \"dgd\"", (graph, sites, label, loss, privacy)).unwrap()
    }

    fn checked(
        schema: &str,
        algorithm: &str,
        of: (&str, usize, &str, &str, &str),
    ) -> Result<Experiment, crate::experiment::SpecError> {
        checked_with("", schema, algorithm, of)
    }

    fn checked_with(
        head: &str,
        schema: &str,
        algorithm: &str,
        (graph, sites, label, loss, privacy): (&str, usize, &str, &str, &str),
    ) -> Result<Experiment, crate::experiment::SpecError> {
        let mut table = String::from("age,dose,sex,ward,site,y\n");
        let mut state = 1u64;
        let mut uniform = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1u64 << 53) as f64
        };
        for site in 0..sites {
            for _ in 0..20 << (site % 5) {
                let (age, dose, sex, ward) =
                    (100.0 * uniform(), uniform(), uniform() < 0.3, uniform());
                let score =
                    0.04 * (age - 50.0) + f64::from(u8::from(sex)) + 3.0 * (uniform() - 0.5);
                let y = match loss {
                    "ridge" => format!("{score}"),
                    "softmax" => ["low", "mid", "high"]
                        [(score > 0.0) as usize + (score > 1.0) as usize]
                        .into(),
                    _ => if score > 0.2 { "yes" } else { "no" }.to_owned(),
                };
                let ward = ["a", "b", "c"][(3.0 * ward) as usize];
                let sex = if sex { "m" } else { "f" };
                writeln!(table, "{age},{dose},{sex},{ward},s{site},{y}").unwrap();
            }
        }
        let schema = toml::from_str::<Schema>(&format!("{schema}{label}\n")).unwrap();
        let records = csv::read(table.as_bytes(), "made-up", &schema).unwrap();
        let data = Dataset::new(vec![records.clone()], Some(&records), Encoding::Scouted).unwrap();
        let text = format!(
            "name = \"made-up\"\nruns = 1\n{head}[data]\npath = \"x.csv\"\nencoding = \"scouted\"\npartition = {{ by = \"site\" }}\n\
             [objective]\nloss = \"{loss}\"\n[graph]\n{graph}\n{privacy}\n[[algorithm]]\n{algorithm}\n"
        );
        let spec: ExperimentSpec = toml::from_str(&text).unwrap();
        let source = Box::new(data);
        Experiment::check(Inputs {
            file: "made-up".into(),
            text,
            spec,
            source,
            edges: None,
            entropy: None,
        })
    }

    const BINARY: &str = "classes = [\"no\", \"yes\"]";
    const BUDGET: &str = "[privacy]\nepsilon = 3.0\ndelta = 1e-6";

    fn trained(experiment: &Experiment) -> Finished {
        run(experiment, &Silent).unwrap()
    }

    /// Noise that neighbours share cancels in every total: models come as near to those without
    /// noise as the own noise of all, and the whole of it is not needed.
    #[test]
    fn neighbours_who_share_noise_train_on_scouted_columns() {
        use crate::audit::{Options, Verdict};
        use crate::privacy::Adversary;
        let budget = "[privacy]\nepsilon = 2.0\ndelta = 1e-6";
        let ring = |privacy: &str, algorithm: &str| {
            checked(SCHEMA, algorithm, ("kind = \"ring\"", 10, BINARY, "logistic", privacy))
                .unwrap()
        };
        let model = |e: &Experiment| trained(e).models[0].agents.clone();
        let decor = ring(budget, "kind = \"decor\"\ncolluders = 1\nrounds = 2");
        let claim = decor.planned[0].account.price.as_ref().unwrap().claim.clone();
        assert_eq!(claim.against, Adversary::coalition(1, true));
        assert!((1.99..=2.0).contains(&claim.epsilon), "{}", claim.epsilon);
        let found = model(&decor);
        assert!(found.iter().all(|m| m == &found[0]), "all agents have one model");
        // Nine honest agents in a row, a worst end: its noise is a ninth of what it would need
        // alone, and a little more.
        let account = decor.planned[0].account.noise_schedules().next().unwrap();
        let ratio = account.hidden_by[0].scale() / account.noise[0].noise().scale();
        assert!((2.9..3.01).contains(&ratio), "{ratio}");
        let few = ("kind = \"complete\"", 5, BINARY, "logistic", budget);
        let small = checked(SCHEMA, "kind = \"decor\"\nrounds = 2", few).unwrap();
        let options = Options { trials: 100, confidence: 1.0 - 1e-6, seed: 5 };
        let audit =
            small.audit(crate::experiment::AuditTarget::Experiment, options).unwrap().remove(0);
        assert_eq!(audit.audit.unwrap().verdict, Verdict::Consistent, "{audit:?}");
        let refused = checked(
            SCHEMA,
            "kind = \"decor\"",
            (
                "kind = \"ring\"",
                4,
                BINARY,
                "logistic",
                &budget.replace("[privacy]", "[privacy]\nadversary = \"local\""),
            ),
        );
        assert!(refused.unwrap_err().to_string().contains("is feared"));
    }

    /// Sums on their way hold shared noise that has not cancelled yet. They were cut to the size
    /// that own noise may have, and models were worse than with noise of one's own.
    #[test]
    fn noise_that_neighbours_share_changes_no_total() {
        let model = |correlation: f64| {
            let algorithm =
                format!("kind = \"decor\"\nrounds = 3\ncolluders = 4\ncorrelation = {correlation}");
            let ring = (
                "kind = \"ring\"",
                6,
                BINARY,
                "logistic",
                "[privacy]\nepsilon = 1.0\ndelta = 1e-6",
            );
            trained(&checked(SCHEMA, &algorithm, ring).unwrap()).models[0].agents.clone()
        };
        // Four colluders leave nobody two honest neighbours in a row on a ring of six: all hide
        // themselves, whatever is shared.
        let (little, much) = (model(1.0), model(30.0));
        for (a, b) in little.iter().flatten().zip(much.iter().flatten()) {
            assert!((a - b).abs() <= 1e-9 * (1.0 + a.abs()), "{a} {b}");
        }
    }

    /// The finer histograms of one algorithm made messages longer than another's, which ended the
    /// run.
    #[test]
    fn algorithms_with_histograms_of_their_own_run_side_by_side() {
        let (local, shared) = ("kind = \"dgd\"\nrounds = 2", "kind = \"decor\"\nrounds = 2");
        let made = |algorithm: &str, epsilon: f64| {
            let privacy = format!("[privacy]\nepsilon = {epsilon}\ndelta = 1e-6");
            checked(SCHEMA, algorithm, ("kind = \"ring\"", 6, BINARY, "logistic", &privacy))
                .unwrap()
        };
        let width = |algorithm: &str, epsilon| made(algorithm, epsilon).facts.dim;
        let apart =
            [1.0, 2.0, 4.0, 8.0, 16.0].into_iter().find(|&e| width(local, e) < width(shared, e));
        let epsilon = apart.expect("a budget under which less noise means finer histograms");
        let both = made(&format!("{local}\n[[algorithm]]\n{shared}"), epsilon);
        assert_eq!(both.facts.dim, width(shared, epsilon));
        assert_eq!(
            width(&format!("{shared}\n[[algorithm]]\n{local}"), epsilon),
            width(shared, epsilon)
        );
        let models = |e: &Experiment| trained(e).models[0].agents.clone();
        let (alone, both) = (models(&made(local, epsilon)), models(&both));
        assert!(alone.iter().zip(&both).all(|(a, b)| a[..] == b[..a.len()]), "the same bits");
        // An algorithm that begins after the histograms stays the one its noise was made for.
        let after = "kind = \"admm\"\nrounds = 2";
        let (alone, both) =
            (made(after, epsilon), made(&format!("{after}\n[[algorithm]]\n{shared}"), epsilon));
        assert!(alone.facts.dim < both.facts.dim && both.planned[0].protocol.kind() == "admm");
        let (alone, both) = (models(&alone), models(&both));
        assert!(alone.iter().zip(&both).all(|(a, b)| a[..] == b[..a.len()]), "the same bits");
    }

    /// Sums go up a tree and come down again: without noise every graph gives the model of the
    /// complete one, to rounding.
    #[test]
    fn every_graph_gives_the_same_model() {
        let model = |graph: &str| {
            trained(&experiment(graph, 7, BINARY, "logistic", "")).models[0].agents.clone()
        };
        let complete = model("kind = \"complete\"");
        for graph in ["kind = \"ring\"", "kind = \"star\"", "kind = \"path\""] {
            let found = model(graph);
            assert!(found.iter().all(|m| m == &found[0]), "{graph}: all agents have one model");
            for (a, b) in found[0].iter().zip(&complete[0]) {
                assert!((a - b).abs() < 1e-6 * (1.0 + a.abs()), "{graph}: {a} {b}");
            }
        }
    }

    /// Ranges that are ten times too wide at one end push all scores to one side, and clipped
    /// gradients follow the commonest class: the direction was found and the threshold lost.
    #[test]
    fn a_threshold_is_found_where_noise_is_large() {
        let wide = SCHEMA.replace("max = 100", "max = 600").replace("max = 3", "max = 30");
        let budget = "[privacy]\nepsilon = 2.0\ndelta = 1e-5";
        let several = "classes = [\"low\", \"mid\", \"high\"]";
        for (label, loss) in [(BINARY, "logistic"), (several, "softmax")] {
            let of = ("kind = \"complete\"", 10, label, loss, budget);
            let experiment = checked(&wide, "kind = \"dgd\"", of).unwrap();
            let claim = experiment.planned[0].account.price.as_ref().unwrap().claim.to_string();
            assert_eq!(claim.contains("5 % calibrates"), loss == "logistic", "{claim}");
            let found = trained(&experiment).record;
            let metrics = found.algorithms[0].metrics.clone().unwrap();
            let majority = found.baselines.majority_accuracy.unwrap();
            assert!(metrics.accuracy.unwrap() > majority + 0.1, "{loss}: {majority} {metrics:?}");
            assert!(
                metrics.log_loss.unwrap() < if loss == "softmax" { 1.0 } else { 0.62 },
                "{loss}: {metrics:?}"
            );
        }
    }

    /// Each site's own model fits its records better than the shared one, which it does not change,
    /// and neither it nor its figures are among what may be shared.
    #[test]
    fn personal_models_stay_at_their_sites() {
        use crate::record::{ResultKind, Shareable};
        for (label, loss) in [
            (BINARY, "logistic"),
            ("classes = [\"low\", \"mid\", \"high\"]", "softmax"),
            ("min = -4\nmax = 4", "ridge"),
        ] {
            let of = ("kind = \"ring\"", 4, label, loss, BUDGET);
            let dgd = "kind = \"dgd\"\nrounds = 2";
            let with = |head: &str| trained(&checked_with(head, SCHEMA, dgd, of).unwrap());
            let (shared, personal) = (with(""), with("models = \"personal\"\n"));
            assert_eq!(
                shared.models[0].agents, personal.models[0].agents,
                "what is released is the same"
            );
            assert_eq!(shared.record.algorithms[0].epsilon, personal.record.algorithms[0].epsilon);
            assert_eq!(shared.record.algorithms[0].personal, None);
            // Test records are the training records here.
            let found = personal.record.algorithms[0].personal.clone().unwrap();
            assert_eq!(found.sites, 4);
            let error = |m: &crate::model::Metrics| m.log_loss.or(m.rmse).unwrap();
            assert!(error(&found.personal) < error(&found.shared), "{loss}: {found:?}");
            let mut record = personal.record.clone();
            record.kind = ResultKind::Shareable { public_test: true };
            let shared = serde_json::to_string(&Shareable::of(&record).unwrap()).unwrap();
            assert!(
                shared.contains("\"algorithms\"") && !shared.contains("\"personal\""),
                "{shared}"
            );
        }
        let unit = "name = \"x\"\nmodels = \"personal\"\n[data]\nsource = \"logistic\"\nagents = 3\nrecords_per_agent = 9\ndim = 2\n[[algorithm]]\nkind = \"dgd\"\n";
        let spec: ExperimentSpec = toml::from_str(unit).unwrap();
        let source = Box::new(spec.synthetic().unwrap().unwrap());
        let inputs = Inputs {
            file: "x".into(),
            text: unit.into(),
            spec,
            source,
            edges: None,
            entropy: None,
        };
        assert!(Experiment::check(inputs).unwrap_err().to_string().contains("scouted"));
    }

    /// A run without noise ends at the optimum of the reference.
    #[test]
    fn without_noise_it_converges() {
        for (label, loss) in [
            (BINARY, "logistic"),
            ("classes = [\"low\", \"mid\", \"high\"]", "softmax"),
            ("min = -4\nmax = 4", "ridge"),
        ] {
            let finished = trained(&experiment("kind = \"complete\"", 4, label, loss, ""));
            let gap = finished.record.algorithms[0].optimum_gap;
            assert!(gap.abs() < 1e-2, "{loss}: {gap}");
        }
    }

    /// The gate took the histograms of the message before for the iterate: where they were large, of
    /// many records or under much noise, no local problem was posed and every agent stopped.
    #[test]
    fn large_histograms_do_not_stop_algorithms_that_solve_local_problems() {
        let budget = "[privacy]\nepsilon = 1e-4\ndelta = 1e-6";
        let of = ("kind = \"complete\"", 3, BINARY, "logistic", budget);
        let admm = "kind = \"admm\"\nexact = true\nrounds = 1";
        let found = trained(&checked(SCHEMA, admm, of).unwrap()).record;
        assert_eq!(found.algorithms[0].agents_stopped, 0.0);
    }

    /// Agents that exchange messages have the simulator's models, bit for bit, and are charged what
    /// they claim.
    #[test]
    fn messages_give_the_simulators_models() {
        for (graph, algorithm) in [
            ("kind = \"complete\"", "kind = \"dgd\""),
            ("kind = \"path\"", "kind = \"dgd\""),
            ("kind = \"path\"", "kind = \"admm\"\nrounds = 8"),
            ("kind = \"ring\"", "kind = \"gradient-tracking\"\nrounds = 8"),
            ("kind = \"complete\"", "kind = \"extra\"\nrounds = 8"),
        ] {
            let experiment =
                checked(SCHEMA, algorithm, (graph, 5, BINARY, "logistic", BUDGET)).unwrap();
            let simulated = trained(&experiment).models[0].agents.clone();
            let sites: Vec<_> = (0..5).map(|i| experiment.site(i).unwrap()).collect();
            let plan = |i: usize| &sites[i].plan;
            let mut agents: Vec<Agent> =
                (0..5).map(|i| experiment.site(i).unwrap().agent).collect();
            let (mut events, mut done, mut turn) = (vec![Vec::new(); 5], 0, 0);
            while done < 5 {
                let i = turn % 5;
                turn += 1;
                while let Some(effect) = agents[i].poll() {
                    match effect {
                        Effect::Charge { charge, .. } => {
                            events[i].extend(charge.events().into_iter().map(|e| e.1));
                        }
                        Effect::Send(m) => {
                            for j in agents[i].neighbours().to_vec() {
                                agents[j as usize]
                                    .handle(&Message::received(i as u32, m.round(), m.values()))
                                    .unwrap();
                            }
                        }
                        Effect::Done(_) => done += 1,
                    }
                }
            }
            for (i, agent) in agents.iter().enumerate() {
                assert_eq!(agent.model().unwrap(), &simulated[i][..], "{graph}, agent {i}");
                let claim = plan(i).claim.as_ref().unwrap();
                let spent =
                    crate::privacy::compose(&events[i], claim.delta).unwrap().best().unwrap().1;
                assert!(
                    spent <= claim.epsilon * 1.001 && spent > 0.99 * claim.epsilon,
                    "{spent} {}",
                    claim.epsilon
                );
                assert!(claim.epsilon <= 3.0);
            }
        }
    }

    /// The worst pair of records, told apart by the exact likelihood ratio over all stages, is
    /// hidden as claimed; and the attack is worth its name.
    #[test]
    fn an_audit_of_all_stages_stays_below_the_claim() {
        use crate::audit::{Options, Verdict};
        let budget = BUDGET.replace("3.0", "8.0");
        let large = BUDGET.replace("3.0", "30.0");
        let inferring = format!("{budget}\n[inference]\n");
        for (label, loss, budget) in [
            (BINARY, "logistic", &budget),
            ("min = -4\nmax = 4", "ridge", &budget),
            ("classes = [\"low\", \"mid\", \"high\"]", "softmax", &large),
            ("min = -4\nmax = 4", "ridge", &large),
            (BINARY, "logistic", &inferring),
        ] {
            let experiment = experiment("kind = \"complete\"", 2, label, loss, budget);
            // Little noise has looks at the lengths of gradients too.
            let claim = experiment.claim(0).unwrap().caveats.join(" ");
            assert_eq!(claim.contains("asks how long gradients are"), budget == &large, "{claim}");
            let options = Options { trials: 3_000, confidence: 1.0 - 1e-6, seed: 3 };
            let found =
                experiment.audit(crate::experiment::AuditTarget::Experiment, options).unwrap();
            let found = found[0].audit.expect("a claim");
            assert_eq!(found.verdict, Verdict::Consistent, "{loss}: {found:?}");
            assert!(found.mu_lower > 0.3 * found.mu_claimed.unwrap(), "{loss}: {found:?}");
        }
    }

    /// A record that is replaced moves twice as far as one that counts for nothing: an audit that
    /// replaced it would call a sound claim violated. One that never removed a record would not see
    /// what removing it shows.
    #[test]
    fn an_audit_of_scouted_columns_zeroes_or_removes_the_record_as_the_claim_says() {
        use crate::audit::{Options, Verdict};
        for relation in ["zero-out", "add-remove"] {
            let budget = format!("{}\nneighbours = \"{relation}\"", BUDGET.replace("3.0", "8.0"));
            let experiment = experiment("kind = \"complete\"", 2, BINARY, "logistic", &budget);
            let options = Options { trials: 1_500, confidence: 1.0 - 1e-6, seed: 3 };
            let found =
                experiment.audit(crate::experiment::AuditTarget::Experiment, options).unwrap();
            assert_eq!(found[0].silence.told_apart, 0, "{relation}");
            let found = found[0].audit.expect("a claim");
            assert_eq!(found.verdict, Verdict::Consistent, "{relation}: {found:?}");
            assert!(found.mu_lower > 0.0, "the attack sees the record, {relation}: {found:?}");
        }
    }

    /// A sum of shares moves by the one that is taken away, if its number is announced as before:
    /// half of what replacing a record needs, and what a record that counts for nothing does.
    #[test]
    fn a_removed_record_moves_a_scouted_sum_by_its_own_share_only() {
        let of = |relation: &str| {
            let budget = format!("{BUDGET}\nneighbours = \"{relation}\"");
            experiment("kind = \"complete\"", 3, BINARY, "logistic", &budget)
        };
        let [removed, zeroed, replaced] = ["add-remove", "zero-out", "replace-one"].map(of);
        let step = |e: &Experiment, round: usize| {
            e.planned[0].account.noise_schedules().next().unwrap().steps[round].l2
        };
        let last = removed.planned[0].timetable.rounds as usize - 1;
        let trained = (0..last).rev().find(|&k| step(&removed, k) > 0.0).unwrap();
        assert!((step(&removed, 0) / step(&replaced, 0) - 0.5f64.sqrt()).abs() < 1e-9);
        assert!((step(&removed, trained) - 1.0).abs() < 1e-6, "{}", step(&removed, trained));
        assert!((step(&removed, trained) / step(&zeroed, trained) - 1.0).abs() < 1e-9);
        // The very sums of a player, with all records and without the first: announced numbers are
        // those of all, and every other record's share is the same.
        let locals = removed.locals(0).unwrap();
        let protocol = &removed.planned[0].protocol;
        let counts: Vec<usize> = locals.iter().map(|l| l.site_weight().records).collect();
        let of_agent = protocol.of_agent(0, &removed.graphs[0], &counts).unwrap();
        let all = locals[0].mean_loss().unwrap().records();
        let less = removed.objective_on(all.select(&(1..all.len()).collect::<Vec<_>>()));
        let one = removed.objective_on(all.select(&[0]));
        let dim = removed.facts.dim;
        let rows = vec![0.0; 3 * dim];
        let mixing = crate::graph::Mixing::metropolis(&removed.graphs[0]);
        let weights =
            crate::protocol::Weights { own: mixing.own(0), neighbours: mixing.neighbours(0) };
        let neighbours = removed.graphs[0].neighbours(0);
        let view = crate::protocol::View::new(&rows, dim, 0, neighbours, 0, weights, 0);
        let sum = |local: &crate::problem::LocalObjective| {
            let width = of_agent.active(1, dim).map_or(dim, |active| active.len());
            let (mut step, mut public) = (vec![0.0; width], vec![0.0; of_agent.memory() * dim]);
            let memory = crate::protocol::Memory { public: &mut public, private: &mut [] };
            let mut work = crate::problem::Workspace::default();
            of_agent.step(&view, memory, &[], local, &mut work, &mut step);
            step
        };
        let (whole, rest, share) = (sum(&locals[0]), sum(&less), sum(&one));
        for ((w, r), s) in whole.iter().zip(&rest).zip(&share) {
            assert_eq!(w - r, *s, "counts of the others are the same");
        }
        let moved = share.iter().map(|s| s * s).sum::<f64>().sqrt();
        assert!(moved > 0.0 && moved <= step(&removed, 0) * (1.0 + 1e-12), "{moved}");
    }

    /// Algorithms that begin once columns are scouted learn from them, end with the standard that
    /// all agents share, keep their budget and write down what repeats them; what cannot says why
    /// and what to do.
    #[test]
    fn other_kinds_begin_once_columns_are_scouted() {
        let budget = BUDGET.replace("3.0", "60.0");
        for kind in [
            "admm\"",
            "admm\"\naggregation = \"fixed\"",
            "admm\"\nexact = true",
            "extra\"",
            "gradient-tracking\"",
            "consensus-admm\"",
            "output-admm\"",
            "gd\"",
            "gd-star\"",
            "pdop\"",
        ] {
            let algorithm = format!("kind = \"{kind}\nrounds = 60");
            let graph = if kind == "gd\"" { "kind = \"complete\"" } else { "kind = \"ring\"" };
            let experiment =
                checked(SCHEMA, &algorithm, (graph, 5, BINARY, "logistic", &budget)).unwrap();
            let claim = experiment.claim(0).unwrap();
            assert!(claim.epsilon <= 60.0 && claim.epsilon > 58.0, "{kind}: {}", claim.epsilon);
            assert!(
                claim.caveats.join(" ").contains("10 % scouts the columns, 90 % trains"),
                "{:?}",
                claim.caveats
            );
            let finished = trained(&experiment);
            let auc = finished.record.algorithms[0].test_auc.unwrap();
            assert!(auc > 0.7, "{kind}: {auc}");
            let models = &finished.models[0].agents;
            let standard = |m: &Vec<f64>| split(&experiment.planned[0], m).unwrap().0.to_vec();
            assert!(models.iter().all(|m| standard(m) == standard(&models[0])), "{kind}");
            let written = experiment.resolved_for_network(&experiment.planned[0].label).unwrap();
            assert_eq!(written.algorithm[0]["rounds"], 60, "{kind}");
        }
        for (kind, why) in [
            ("pp", "its noise stands inside a problem"),
            ("dvp", "its noise stands inside a problem"),
            ("rcd", "one charge covers an epoch"),
            ("admm\"\nnoise = \"none", "without noise nothing is gained"),
        ] {
            let algorithm = format!("kind = \"{kind}\"");
            let refused =
                checked(SCHEMA, &algorithm, ("kind = \"ring\"", 5, BINARY, "logistic", &budget));
            let said = refused.unwrap_err().to_string();
            assert!(said.contains(why) && said.contains("use kind = \"dgd\""), "{said}");
        }
    }

    /// Attacks algorithms behind a scouting stage, one with a private memory, one that
    /// solves problems; rows that are as long as they can be.
    #[test]
    fn an_audit_of_staged_algorithms_stays_below_the_claim() {
        use crate::audit::{Options, Verdict};
        for (algorithm, label, loss, least) in [
            ("kind = \"admm\"\naggregation = \"fixed\"\nrounds = 6", BINARY, "logistic", 0.15),
            ("kind = \"extra\"\nrounds = 6", BINARY, "logistic", 0.0),
            (
                "kind = \"admm\"\nexact = true\naggregation = \"fixed\"\nrounds = 4",
                BINARY,
                "logistic",
                0.05,
            ),
            ("kind = \"gradient-tracking\"\nrounds = 6", "min = -4\nmax = 4", "ridge", 0.15),
        ] {
            let budget = BUDGET.replace("3.0", "8.0");
            let others = ("kind = \"complete\"", 2, label, loss, &*budget);
            let experiment = checked(SCHEMA, algorithm, others).unwrap();
            let options = Options { trials: 1_500, confidence: 1.0 - 1e-6, seed: 3 };
            let found =
                experiment.audit(crate::experiment::AuditTarget::Experiment, options).unwrap();
            let found = found[0].audit.expect("a claim");
            assert_eq!(found.verdict, Verdict::Consistent, "{algorithm}: {found:?}");
            assert!(found.mu_lower >= least * found.mu_claimed.unwrap(), "{algorithm}: {found:?}");
        }
    }

    /// A person with seven records is hidden as one record is without them: histograms have seven times
    /// the noise, gradients are cut together. The claim says so, and other encodings say that they do
    /// not.
    #[test]
    fn a_person_with_seven_records_is_not_charged_as_one_record() {
        let dose = "name = \"dose\"\nkind = \"numeric\"\nmin = -1\nmax = 3\n";
        let schema = SCHEMA.replace(dose, "name = \"dose\"\nkind = \"person\"\nrecords = 7\n");
        let plain = SCHEMA.replace(dose, "name = \"dose\"\nkind = \"ignored\"\n");
        for more in ["", "\n[inference]\n"] {
            let budget = format!("{BUDGET}{more}");
            let of =
                |schema: &str| under(schema, "kind = \"complete\"", 3, BINARY, "logistic", &budget);
            let (persons, records) = (of(&schema), of(&plain));
            let moved = |e: &Experiment, round: u32| {
                let planned = &e.planned[0];
                let none = Sensitivity { l1: 0.0, l2: 0.0, linf: 0.0 };
                let scouted = planned.scouted.as_ref().unwrap();
                scouted.step_sensitivity(round, 0, &none, &e.facts).l2
            };
            let rounds = records.planned[0].scouted.as_ref().unwrap().rounds();
            let all = persons.planned[0].scouted.as_ref().unwrap().rounds();
            // One histogram at least is released, and seven records move it by 7√2.
            assert!(moved(&persons, 1) >= 7.0 * 2f64.sqrt());
            assert!((moved(&persons, all) / moved(&records, rounds) - 1.0).abs() < 1e-6);
            let claim = persons.claim(0).unwrap();
            assert!(claim.epsilon <= 3.0 && claim.epsilon > 2.97, "{}", claim.epsilon);
            let said = claim.caveats.join(" ");
            assert!(said.contains("all of the at most 7 records that one person has"), "{said}");
            trained(&persons);
        }
    }

    /// What the schema knows is used as it is and costs nothing: its part of the budget trains.
    #[test]
    fn what_the_schema_knows_is_not_scouted() {
        let known = SCHEMA
            .replace("max = 100\n", "max = 100\nmean = 50\nsd = 28\n")
            .replace("max = 3\n", "max = 3\nmean = 0.5\nsd = 0.3\n");
        let label = format!("{BINARY}\nprevalence = 0.45");
        let some = under(&known, "kind = \"complete\"", 5, &label, "logistic", BUDGET);
        let layout = some.layout.as_ref().unwrap();
        assert!(layout.known(0).is_some() && layout.known(1).is_some());
        assert!(layout.known_shares(2).is_none() && layout.prevalence().is_some());
        let said = |e: &Experiment| e.claim(0).unwrap().caveats.join(" ");
        assert!(said(&some).contains("4 % scouts the columns"), "{}", said(&some));
        let finished = trained(&some);
        let (standard, _) = split(&some.planned[0], &finished.models[0].agents[0]).unwrap();
        assert_eq!(&standard[..4], &[0.5, 0.28, 0.375, 0.075]);
        let shares = some.layout.as_ref().unwrap().label_part(standard);
        assert!((shares[0] - 0.55).abs() < 1e-12 && (shares[1] - 0.45).abs() < 1e-12, "{shares:?}");
        let nothing = known
            .replace("\"categorical\"\ncategories = [\"f\", \"m\"]", "\"ignored\"")
            .replace("\"categorical\"\ncategories = [\"a\", \"b\", \"c\"]", "\"ignored\"");
        let all = under(&nothing, "kind = \"ring\"", 5, &label, "logistic", BUDGET);
        assert!(said(&all).contains("0 % scouts the columns"), "{}", said(&all));
        let claim = all.claim(0).unwrap();
        assert!(claim.epsilon <= 3.0 && claim.epsilon > 2.97, "{}", claim.epsilon);
        let record = trained(&all).record;
        assert!(
            record.algorithms[0].test_auc.unwrap() > 0.75,
            "{:?}",
            record.algorithms[0].test_auc
        );
    }

    /// Mean and deviation of a label, and the shares of categories, were accepted and ignored.
    #[test]
    fn what_the_schema_knows_of_the_label_and_of_levels_is_used() {
        let known = SCHEMA
            .replace("[\"f\", \"m\"]", "[\"f\", \"m\"]\nshares = [0.7, 0.3]")
            .replace("\"c\"]", "\"c\"]\nshares = [0.25, 0.25, 0.5]");
        let label = "min = -4\nmax = 4\nmean = 1.0\nsd = 1.5";
        let some = under(&known, "kind = \"complete\"", 5, label, "ridge", BUDGET);
        let finished = trained(&some);
        let (standard, _) = split(&some.planned[0], &finished.models[0].agents[0]).unwrap();
        assert_eq!(&standard[4..9], &[0.7, 0.3, 0.25, 0.25, 0.5]);
        assert_eq!(some.layout.as_ref().unwrap().label_part(standard), &[0.625, 0.1875]);
        let wrong = known.replace("0.25, 0.25, 0.5", "0.5, 0.5");
        let said = toml::from_str::<Schema>(&format!("{wrong}{label}\n")).unwrap_err().to_string();
        assert!(said.contains("lists 2 shares for 3 categories"), "{said}");
    }

    /// Labels in a hundredth of their range had one cell, and training never got away from the
    /// middle: second looks find them, are charged for and hide the worst pair as claimed.
    #[test]
    fn a_label_in_a_small_part_of_its_range_is_found() {
        use crate::audit::{Options, Verdict};
        let wide = SCHEMA.replace("max = 3\n", "max = 400\n");
        let label = "min = -1000\nmax = 3000";
        let made = |epsilon: &str| {
            let budget = BUDGET.replace("3.0", epsilon);
            under(&wide, "kind = \"complete\"", 10, label, "ridge", &budget)
        };
        let experiment = made("20.0");
        let finished = trained(&experiment);
        let (standard, _) = split(&experiment.planned[0], &finished.models[0].agents[0]).unwrap();
        let part = experiment.layout.as_ref().unwrap().label_part(standard);
        let (centre, scale) = (-1000.0 + 4000.0 * part[0], 4000.0 * part[1]);
        assert!(centre.abs() < 5.0 && (0.5..10.0).contains(&scale), "{centre} {scale}");
        let r2 = finished.record.algorithms[0].metrics.as_ref().unwrap().r2.unwrap();
        assert!(r2 > 0.4, "{r2}");
        let small =
            under(&wide, "kind = \"complete\"", 2, label, "ridge", &BUDGET.replace("3.0", "30.0"));
        assert!(small.facts.rounds > small.planned[0].scouted.as_ref().unwrap().steps() + 1);
        let options = Options { trials: 1_500, confidence: 1.0 - 1e-6, seed: 3 };
        let found = small.audit(crate::experiment::AuditTarget::Experiment, options).unwrap();
        let found = found[0].audit.expect("a claim");
        assert_eq!(found.verdict, Verdict::Consistent, "{found:?}");
    }

    /// With the same records and seed a larger budget gives a better model, up to the noise of a
    /// run; the plan predicts it.
    #[test]
    fn more_budget_is_never_worse_beyond_noise() {
        let (mut best, mut share) = (0.0f64, 1.0f64);
        for epsilon in ["0.3", "1.0", "3.0", "10.0", "30.0"] {
            let budget = BUDGET.replace("3.0", epsilon);
            let experiment = experiment("kind = \"complete\"", 5, BINARY, "logistic", &budget);
            let auc = trained(&experiment).record.algorithms[0].test_auc.unwrap();
            assert!(auc > best - 0.02, "ε = {epsilon}: {auc} after {best}");
            best = best.max(auc);
            let predicted = experiment.recommendation().noise_share.unwrap();
            assert!(predicted < share, "ε = {epsilon}: {predicted} after {share}");
            share = predicted;
        }
        assert!(best > 0.75, "{best}");
    }

    /// Records of four sites for a task: what is predicted follows two of four columns and a
    /// category.
    fn made_up(task: &str, privacy: &str, (sites, runs): ([usize; 4], u32)) -> Experiment {
        let mut state = 3u64;
        let mut uniform = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            ((state >> 11) as f64 + 0.5) / (1u64 << 53) as f64
        };
        let mut normal =
            || (-2.0 * libm::log(uniform())).sqrt() * libm::cos(std::f64::consts::TAU * uniform());
        let mut table = String::from("a,b,c,d,ward,site,y\n");
        for (site, records) in sites.into_iter().enumerate() {
            for _ in 0..records {
                let (a, b, c, d) = (normal(), normal(), normal(), normal());
                let ward = (normal().abs() * 1.5).min(2.0) as usize;
                let score = 1.1 * a - 0.8 * b + 0.3 * c + 0.5 * ward as f64;
                let noisy = score + normal();
                let y = match task {
                    "regression" => format!("{:.4}", 300.0 + 20.0 * noisy),
                    "amounts" => format!("{:.4}", libm::exp(5.0 + noisy)),
                    "six" => {
                        let over = [-1.2, -0.4, 0.3, 1.0, 1.9].iter().filter(|t| noisy > **t);
                        format!("k{}", over.count())
                    }
                    "rare" => if noisy > 2.6 { "yes" } else { "no" }.to_owned(),
                    _ => if noisy > 0.3 { "yes" } else { "no" }.to_owned(),
                };
                let (a, ward) = (40.0 + 12.0 * a, ["x", "y", "z"][ward]);
                writeln!(table, "{a},{b},{c},{d},{ward},s{site},{y}").unwrap();
            }
        }
        let mut schema = String::from("reviewed = true\n");
        for (name, low, high) in
            [("a", 0.0, 400.0), ("b", -8.0, 8.0), ("c", -8.0, 8.0), ("d", -50.0, 10.0)]
        {
            write!(
                schema,
                "[[column]]\nname = \"{name}\"\nkind = \"numeric\"\nmin = {low}\nmax = {high}\n"
            )
            .unwrap();
        }
        schema += "[[column]]\nname = \"ward\"\nkind = \"categorical\"\ncategories = [\"x\", \"y\", \"z\"]\n\
            [[column]]\nname = \"site\"\nkind = \"site\"\n[[column]]\nname = \"y\"\nkind = \"label\"\n";
        let (label, loss) = match task {
            "regression" => ("min = 0\nmax = 5000", "ridge"),
            "amounts" => ("min = 1\nmax = 20000\ntransform = \"log\"", "ridge"),
            "six" => ("classes = [\"k0\", \"k1\", \"k2\", \"k3\", \"k4\", \"k5\"]", "softmax"),
            _ => (BINARY, "logistic"),
        };
        let schema = toml::from_str::<Schema>(&format!("{schema}{label}\n")).unwrap();
        let records = csv::read(table.as_bytes(), "made-up", &schema).unwrap();
        let data = Dataset::new(vec![records.clone()], Some(&records), Encoding::Scouted).unwrap();
        let text = format!(
            "name = \"made-up\"\nruns = {runs}\n[data]\npath = \"x.csv\"\nencoding = \"scouted\"\npartition = {{ by = \"site\" }}\n\
             [objective]\nloss = \"{loss}\"\n[graph]\nkind = \"complete\"\n{privacy}\n[[algorithm]]\nkind = \"dgd\"\n"
        );
        let spec: ExperimentSpec = toml::from_str(&text).unwrap();
        let source = Box::new(data);
        let inputs =
            Inputs { file: "made-up".into(), text, spec, source, edges: None, entropy: None };
        Experiment::check(inputs).unwrap()
    }

    /// Amounts whose logarithm is linear in the columns: models learn the logarithm, and answers and
    /// figures are amounts. A record's logarithm is a function of the record, so that the noise and
    /// the claim are as before.
    #[test]
    fn a_label_is_learned_by_its_logarithm_and_judged_as_it_is() {
        use crate::audit::{Options, Verdict};
        let budget = BUDGET.replace("3.0", "10.0");
        let some = made_up("amounts", &budget, ([100, 200, 300, 400], 1));
        let finished = trained(&some);
        let metrics = finished.record.algorithms[0].metrics.clone().unwrap();
        let model = &finished.models[0].agents[0];
        let (standard, _) = split(&some.planned[0], model).unwrap();
        let (_, x) = some.fitted("dgd", model).unwrap();
        let test = some.test_records(0).unwrap();
        let rows = some.layout.as_ref().unwrap().encode(standard, &test);
        let amounts: Vec<f64> = test.labels().iter().map(|y| y.exp()).collect();
        let answer = |row: usize| -> f64 {
            let score: f64 = rows.row(row).iter().zip(&x).map(|(z, w)| z * w).sum();
            score.exp().clamp(1.0, 20_000.0)
        };
        let mean = amounts.iter().sum::<f64>() / amounts.len() as f64;
        let left: f64 = amounts.iter().enumerate().map(|(i, y)| (y - answer(i)).powi(2)).sum();
        let all: f64 = amounts.iter().map(|y| (y - mean).powi(2)).sum();
        let r2 = metrics.r2.unwrap();
        assert!((r2 - (1.0 - left / all)).abs() < 1e-9 && r2 > 0.25, "{metrics:?}");
        assert!(amounts.iter().all(|y| *y >= 1.0) && mean > 100.0, "{mean}");
        // The optimum without noise is judged in the same unit.
        let baselines = &finished.record.baselines;
        let best = baselines.central_optimum_r2.unwrap();
        assert!((0.25..0.9).contains(&best) && r2 < best + 0.1, "{r2} {best}");
        let answers = some.site_model_of("dgd", model).answers(&rows, &x, 0.5).unwrap();
        assert_eq!(answers.len(), amounts.len());
        for (row, found) in answers.iter().enumerate() {
            let crate::model::Prediction::Number(found) = found.prediction else { panic!() };
            assert!((found / answer(row) - 1.0).abs() < 1e-12, "{found}");
        }
        let price = |e: &Experiment| e.planned[0].account.price.as_ref().unwrap().claim.epsilon;
        let plain = made_up("regression", &budget, ([100, 200, 300, 400], 1));
        assert_eq!(price(&some), price(&plain));
        let small = made_up("amounts", &BUDGET.replace("3.0", "30.0"), ([10, 10, 10, 10], 1));
        let options = Options { trials: 200, confidence: 1.0 - 1e-6, seed: 4 };
        let found = small.audit(crate::experiment::AuditTarget::Experiment, options).unwrap();
        assert_eq!(found[0].audit.expect("a claim").verdict, Verdict::Consistent);
    }

    /// The figure a task is judged by.
    fn figure(experiment: &Experiment) -> f64 {
        let record = trained(experiment).record;
        let metrics = record.algorithms[0].metrics.clone().unwrap();
        metrics.auc.or(metrics.r2).or(metrics.accuracy).unwrap()
    }

    /// As ε grows models tend to those without privacy, and never step back on the way by more than
    /// a run's noise. (A clip that stayed, a label that stood in the middle of its range, steps too
    /// short for several classes and offsets for scores that were cut off kept them away, whatever
    /// the budget.)
    fn tend_to_no_privacy(size: ([usize; 4], u32), budgets: &[&str], tasks: &[(&str, f64, f64)]) {
        for &(task, near, noise) in tasks {
            let plain = figure(&made_up(task, "", size));
            let mut best = f64::NEG_INFINITY;
            let mut last = best;
            for epsilon in budgets {
                let budget = BUDGET.replace("3.0", epsilon);
                last = figure(&made_up(task, &budget, size));
                assert!(last > best - noise, "{task}, ε = {epsilon}: {last} after {best}");
                best = best.max(last);
            }
            assert!((plain - last) < near, "{task}: {last} at ε = 100, {plain} without noise");
        }
    }

    #[test]
    #[ignore = "a minute: cargo xtask soak"]
    fn models_tend_to_those_without_privacy() {
        let budgets = ["0.3", "1.0", "3.0", "10.0", "30.0", "100.0"];
        let tasks = [
            ("binary", 0.003, 0.01),
            ("six", 0.005, 0.015),
            ("regression", 0.01, 0.02),
            ("rare", 0.003, 0.02),
        ];
        tend_to_no_privacy(([200, 700, 2_000, 6_000], 5), &budgets, &tasks);
    }

    /// Fewer records and budgets, for every build.
    #[test]
    fn few_models_tend_to_those_without_privacy() {
        let tasks = [("binary", 0.003, 0.02), ("six", 0.01, 0.03), ("regression", 0.01, 0.03)];
        tend_to_no_privacy(([100, 200, 400, 800], 1), &["1.0", "10.0", "100.0"], &tasks);
    }

    /// Whatever piece of the method is left out, the claim is the same and the model another one; on
    /// columns that are not scouted there is nothing to leave out.
    #[test]
    fn a_piece_that_is_left_out_changes_the_model_and_not_the_claim() {
        let made = |without: &str, label: &str, loss: &str| {
            let algorithm = format!("kind = \"dgd\"\nwithout = [{without}]");
            let of = ("kind = \"complete\"", 5, label, loss, BUDGET);
            let experiment = checked(SCHEMA, &algorithm, of).unwrap();
            let claim = experiment.planned[0].account.price.as_ref().unwrap().claim.epsilon;
            assert!(claim <= 3.0 && claim > 2.99, "{without}: {claim}");
            (trained(&experiment).models[0].agents[0].clone(), experiment)
        };
        let three = "classes = [\"low\", \"mid\", \"high\"]";
        let number = "min = -40\nmax = 40";
        for (pieces, label, loss) in [
            (&["centres", "calibration", "long-clips"][..], BINARY, "logistic"),
            (&["classes", "momentum"][..], three, "softmax"),
            (&["looks", "shrinkage"][..], number, "ridge"),
        ] {
            let whole = made("", label, loss).0;
            for piece in pieces {
                let (model, experiment) = made(&format!("\"{piece}\""), label, loss);
                assert_ne!(model, whole, "{piece}");
                let kept = &experiment.planned[0].protocol.parameters()["without"][0];
                assert_eq!(kept, piece);
            }
        }
        let unknown = "kind = \"dgd\"\nwithout = [\"noise\"]";
        let of = ("kind = \"complete\"", 5, BINARY, "logistic", BUDGET);
        let said = checked(SCHEMA, unknown, of).err().unwrap().to_string();
        assert!(said.contains("unknown variant"), "{said}");
    }

    /// A regression of noise alone ends at the mean: its weights are shrunk to next to nothing.
    #[test]
    fn a_regression_of_noise_alone_falls_back_to_the_mean() {
        let of = |epsilon: &str| {
            let budget = BUDGET.replace("3.0", epsilon);
            let label = "min = -4\nmax = 4\nmean = 0.3\nsd = 1.5";
            let some = under(SCHEMA, "kind = \"complete\"", 3, label, "ridge", &budget);
            let model = trained(&some).models[0].agents[0].clone();
            split(&some.planned[0], &model).unwrap().1.to_vec()
        };
        let weights = |x: &[f64]| x[..x.len() - 1].iter().map(|w| w * w).sum::<f64>();
        assert!(weights(&of("0.01")) < 1e-3);
        assert!(weights(&of("100.0")) > 0.1);
    }

    /// Looks at the lengths of gradients find a good fit's residuals: with standardised columns and
    /// a label of known deviation, the last look has the deviation that is left.
    #[test]
    fn lengths_of_gradients_follow_the_residuals() {
        let schema = SCHEMA
            .replace("max = 100\n", "max = 100\nmean = 50\nsd = 29\n")
            .replace("max = 3\n", "max = 3\nmean = 0.5\nsd = 0.29\n");
        let label = "min = -8\nmax = 8\nmean = 0.3\nsd = 1.5";
        let budget = BUDGET.replace("3.0", "1000.0");
        let some = under(&schema, "kind = \"complete\"", 5, label, "ridge", &budget);
        let finished = trained(&some);
        let model = &finished.models[0].agents[0];
        let lengths = some.planned[0].scouted.as_ref().unwrap().lengths_of(model).to_vec();
        // What age and sex leave of a deviation of 1.5 is a uniform law of width three.
        let left = (3.0 / 12f64.sqrt()) / 1.5;
        assert!(lengths.iter().all(|l| *l > 0.0 && *l <= 1.0), "{lengths:?}");
        // Momentum swings about where it ends.
        assert!(lengths.iter().all(|l| (l - left).abs() < 0.12), "{lengths:?} {left}");
        let noisy = under(&schema, "kind = \"complete\"", 5, label, "ridge", BUDGET);
        let without = checked(
            &schema,
            "kind = \"dgd\"\nwithout = [\"lengths\"]",
            ("kind = \"complete\"", 5, label, "ridge", &budget),
        );
        let said = |e: &Experiment| e.claim(0).unwrap().caveats.join(" ");
        assert!(said(&some).contains("2 % asks how long gradients are"), "{}", said(&some));
        assert!(!said(&without.unwrap()).contains("asks"), "{}", said(&noisy));
    }

    /// What a weight's noise is said to be, against the spread of models over runs whose noise alone
    /// differs.
    #[test]
    fn the_noise_of_weights_is_what_runs_differ_by() {
        let schema = SCHEMA
            .replace("max = 100\n", "max = 100\nmean = 50\nsd = 29\n")
            .replace("max = 3\n", "max = 3\nmean = 0.5\nsd = 0.29\n")
            .replace("[\"f\", \"m\"]", "[\"f\", \"m\"]\nshares = [0.7, 0.3]")
            .replace("\"c\"]", "\"c\"]\nshares = [0.3, 0.3, 0.4]");
        let label = "min = -8\nmax = 8\nmean = 0.3\nsd = 1.5";
        for (epsilon, without) in [("2.0", "\"shrinkage\", \"lengths\""), ("20.0", "\"shrinkage\"")]
        {
            let budget = BUDGET.replace("3.0", epsilon);
            let algorithm = format!("kind = \"dgd\"\nwithout = [{without}]");
            let of = ("kind = \"complete\"", 5, label, "ridge", budget.as_str());
            let made = |seed: u32| {
                checked_with(&format!("seed = {seed}\n"), &schema, &algorithm, of).unwrap()
            };
            let some = made(1);
            let models: Vec<_> =
                (1..=60).map(|seed| trained(&made(seed)).models.remove(0)).collect();
            let scouted = some.planned[0].scouted.as_ref().unwrap();
            let first = &models[0].agents[0];
            let noise =
                scouted.noise_deviation(scouted.split(first).0, scouted.lengths_of(first)).unwrap();
            for (weight, noise) in noise.iter().enumerate().take(2) {
                let all: Vec<f64> =
                    models.iter().map(|m| scouted.split(&m.agents[0]).1[weight]).collect();
                let mean = all.iter().sum::<f64>() / 60.0;
                let spread = (all.iter().map(|w| (w - mean).powi(2)).sum::<f64>() / 59.0).sqrt();
                // It allows for columns that go together, which these do not.
                let ratio = noise / spread;
                assert!((0.8..2.6).contains(&ratio), "ε = {epsilon}: {ratio}");
            }
        }
    }

    /// A file as its readers complete it.
    fn completed(text: &str) -> Result<ExperimentSpec, crate::experiment::SpecError> {
        let spec: ExperimentSpec = toml::from_str(text).unwrap();
        spec.complete(&toml::from_str(text).unwrap(), "f.toml")
    }

    fn kinds(text: &str) -> (Vec<String>, Encoding) {
        let spec = completed(text).unwrap();
        let kind = |a: &crate::protocol::Parameters| a["kind"].as_str().unwrap().to_owned();
        (spec.algorithm.iter().map(kind).collect(), spec.data.encoding)
    }

    /// `auto` stands for a kind that goes with what else the file says, and for nothing that the
    /// file says already.
    #[test]
    fn auto_picks_by_what_is_public() {
        let file = |data: &str, rest: &str| {
            format!(
                "name = \"a\"\n[data]\n{data}\n[graph]\nkind = \"ring\"\n{rest}\n[[algorithm]]\nkind = \"auto\"\n"
            )
        };
        let own = "path = \"x.csv\"\nschema = \"s.toml\"";
        assert_eq!(kinds(&file(own, BUDGET)), (vec!["dgd".into()], Encoding::Scouted));
        assert_eq!(
            kinds(&file("source = \"heart\"", BUDGET)),
            (vec!["dgd".into()], Encoding::Scouted)
        );
        let synthetic = "source = \"logistic\"\nagents = 3\nrecords_per_agent = 9\ndim = 4";
        assert_eq!(kinds(&file(synthetic, BUDGET)), (vec!["dgd".into()], Encoding::OneHot));
        assert_eq!(kinds(&file(own, "")), (vec!["extra".into()], Encoding::OneHot));
        let few = format!("{BUDGET}\nadversary = {{ colluders = 1, eavesdropper = true }}");
        assert_eq!(kinds(&file(own, &few)), (vec!["decor".into()], Encoding::Scouted));
        let three = completed(&file(own, &few.replace("colluders = 1", "colluders = 3"))).unwrap();
        assert_eq!(three.algorithm[0]["colluders"], 3, "as many as are feared");
        let said = completed(&format!("{}step = 1.0\n", file(own, BUDGET))).unwrap_err();
        assert!(said.message.contains("\"auto\" chooses step itself"), "{said}");
    }

    /// The last word of a plan: what to do, how much noise to expect, and no divergence of its own
    /// defaults.
    #[test]
    fn a_plan_ends_in_one_recommendation() {
        let mut before = 1.0;
        for epsilon in ["0.1", "1.0", "10.0"] {
            let budget = BUDGET.replace("3.0", epsilon);
            let experiment = experiment("kind = \"ring\"", 5, BINARY, "logistic", &budget);
            let found = experiment.recommendation();
            assert!(
                found.text.starts_with("Run it as it is: a look at the columns"),
                "{}",
                found.text
            );
            let share = found.noise_share.unwrap();
            assert!(share < before, "{share} is less than {before}");
            assert!(share > 0.5 || !found.text.contains("That is much"), "{}", found.text);
            before = share;
        }
        for kind in crate::protocol::KINDS.iter().filter(|k| !["linear-admm", "decor"].contains(k))
        {
            let text = format!(
                "name = \"a\"\nruns = 1\n[data]\nsource = \"logistic\"\nagents = 4\nrecords_per_agent = 50\ndim = 5\n\
                 [graph]\nkind = \"ring\"\n{BUDGET}\n[[algorithm]]\nkind = \"{kind}\"\n"
            );
            for text in [text.clone(), text.replace(BUDGET, "")] {
                let spec = completed(&text).unwrap();
                let source = Box::new(spec.synthetic().unwrap().unwrap());
                let inputs = Inputs {
                    file: "made-up".into(),
                    text,
                    spec,
                    source,
                    edges: None,
                    entropy: None,
                };
                // Some kinds need noise or parameters of their own.
                let Ok(experiment) = Experiment::check(inputs) else { continue };
                let plan = &experiment.plan()[0];
                let said =
                    format!("{kind}: {} {}", plan.assessment.standing, plan.assessment.inequality);
                assert!(plan.assessment.standing != crate::theory::Certainty::Unstable, "{said}");
                assert!(!said.contains("diverge"), "{said}");
                assert!(!experiment.recommendation().text.contains("Do not"), "{said}");
            }
        }
    }

    /// A round that is charged nothing must use no record: algorithms that only pass on in some
    /// rounds do so behind a stage that scouts, too.
    #[test]
    fn rounds_that_cost_nothing_use_no_record() {
        for algorithm in ["kind = \"muffliato\"\nmixings = 2", "kind = \"aug-dgm\""] {
            let of = ("kind = \"ring\"", 5, BINARY, "logistic", BUDGET);
            let text = format!("{algorithm}\nrounds = 6\ngossip = 0");
            let experiment = checked(SCHEMA, &text, of).unwrap();
            let (planned, one) = (&experiment.planned[0], Sensitivity::from_l2(1.0, 3));
            let (last, mut free) = (planned.timetable.rounds, 0);
            for round in last - 5..=last {
                let moved = planned.protocol.step_sensitivity(round, 2, &one, &experiment.facts);
                let passes_on = planned.protocol.passes_on(round);
                assert_eq!(moved.l2 == 0.0, passes_on, "{algorithm}: round {round}");
                free += u32::from(passes_on);
            }
            assert!((3..=4).contains(&free), "{algorithm}: {free} rounds pass on");
            let found = trained(&experiment);
            let claim = found.record.algorithms[0].epsilon.as_ref().unwrap().claim;
            assert!(claim <= 3.0, "{algorithm}: {claim}");
        }
    }

    /// One site that brings most of the noise, or has most of the weight, is named with the number.
    #[test]
    fn a_site_that_dominates_is_named() {
        let heavy = experiment("kind = \"complete\"", 3, BINARY, "logistic", BUDGET);
        let said = heavy.warnings().join(" ");
        assert!(
            said.contains("site 3 has 68 % of the weight") && !said.contains("of the noise"),
            "{said}"
        );
        let loud = super::super::notes::loudest_site(&[3000, 20, 3000], None).unwrap();
        assert!(loud.starts_with("site 2 with its 20 records brings 100 % of all noise"), "{loud}");
        assert_eq!(super::super::notes::loudest_site(&[300, 200, 300, 400], None), None);
    }

    /// The encoder of a fitted model gives the rows that training used.
    #[test]
    fn a_fitted_encoder_encodes_what_was_trained_on() {
        let experiment = experiment("kind = \"complete\"", 3, BINARY, "logistic", BUDGET);
        let finished = trained(&experiment);
        let model = &finished.models[0].agents[0];
        // A site that evaluates public test records sees what the simulation saw.
        let seen = finished.record.algorithms[0].test_accuracy.unwrap();
        assert!((experiment.test_accuracy(model).unwrap() - seen).abs() < 1e-12);
        let (encoder, x) = experiment.fitted("dgd", model).unwrap();
        assert_eq!(x.len(), encoder.dim());
        let back: Encoder = toml::from_str(&toml::to_string(&encoder).unwrap()).unwrap();
        assert_eq!(back, encoder);
        let (standard, _) = split(&experiment.planned[0], model).unwrap();
        let layout = experiment.layout.as_ref().unwrap();
        let (mut direct, mut raw) = (vec![0.0; encoder.dim()], vec![0.0; encoder.dim()]);
        encoder.encode(&[37.0, 0.5, 1.0, 2.0], &mut direct);
        layout.standardise(standard, &[0.37, 0.375, 1.0, 2.0], &mut raw);
        assert_eq!(direct, raw);
    }
}
