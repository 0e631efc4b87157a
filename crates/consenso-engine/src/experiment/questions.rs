//! Questions: statistics of all records, as one exchange of noised sums.
//!
//! A questionnaire is a study like any other. What a record adds to its sums is a bounded vector
//! ([`consenso_queries`]), the mean of these vectors is the gradient of the linear loss at any point,
//! and one step of length 1 from zero releases it: through the same gate, exchange, account, claim,
//! auditor and ledger as a step of training. Everything after the release is a function of it.

use super::check::Experiment;
use super::division::shards;
use super::run::Finished;
use super::source::Source;
use super::spec::{ExperimentSpec, ObjectiveSpec, PartitionSpec};
use super::{ExchangeKind, NoiseKind, own_records};
use crate::account::Accounting;
use crate::config_error::ConfigError;
use crate::data::{Dataset, Encoding, FILE, Grouping, Records, RowBounds, Task};
use crate::gate::{Noise, Round};
use crate::privacy::{NeighbourRelation, gdp};
use crate::problem::{LossKind, SiteWeights, WeightRule};
use crate::protocol::Parameters;
use crate::random::Seed;
use consenso_queries::{
    Answered, Columns, Expected, KnownPart, Plan, Question, QuestionError, QuestionnaireFacts,
    Released, answer,
};
use std::sync::Arc;

/// The questions of a study, planned: what everybody may know before they are asked.
#[derive(Debug)]
pub struct Questionnaire {
    plan: Plan,
    /// The records before they are added up.
    raw: Arc<Dataset>,
    /// Standard deviation of the noise of the sum over all sites, and of one site's.
    sigma: [f64; 2],
}

/// What the sum of all sites' vectors is about: not the sites that dropped out of a masked sum.
#[derive(Clone, Debug, Default)]
struct LeftOut(Vec<usize>);

/// A study with the questions in place of algorithms, before its noise is known.
pub(super) struct Prepared {
    pub(super) spec: ExperimentSpec,
    pub(super) source: Arc<dyn Source>,
    pub(super) plan: Plan,
    raw: Arc<Dataset>,
}

/// What is left to ask of a questionnaire.
#[derive(Debug)]
pub enum Asking {
    /// Nothing: all of it follows from what was released before, and from public numbers.
    Known(Vec<Answered>),
    /// A study that releases what is new.
    ToAsk(Box<Experiment>),
}

/// What of a file decides how its questions are planned.
pub(super) struct QuestionKeys<'a> {
    pub(super) spec: &'a ExperimentSpec,
    pub(super) raw: &'a Arc<Dataset>,
    /// Records of every site, where those of one alone are here.
    pub(super) site: Option<&'a [usize]>,
    pub(super) real_noise: bool,
    pub(super) known: &'a [KnownPart],
}

/// The records of a source, as questions need them.
pub(super) fn raw_records(source: Box<dyn Source>) -> Result<Arc<Dataset>, ConfigError> {
    let refused = |why: &str| ConfigError::at("query", why);
    match source.into_dataset() {
        Some(data) if data.stored.is_some() || data.elsewhere.is_some() => {
            Err(refused("questions need the records in memory; leave --stream and mpirun out"))
        }
        Some(data) if data.encoding == Encoding::Scouted => Ok(Arc::new(data)),
        Some(_) => Err(refused("questions are about columns as they are; leave data.encoding out")),
        None => Err(refused(
            "questions are about the columns of a schema, and these records have none; name a file of records and its schema",
        )),
    }
}

fn refused(error: &QuestionError) -> ConfigError {
    ConfigError::at("query", error.to_string())
}

/// Which sites there are, and whose records are whose.
struct Sites {
    names: Vec<String>,
    counts: Vec<usize>,
    rows: Vec<Vec<usize>>,
}

impl Sites {
    fn of(asking: &QuestionKeys<'_>) -> Result<Self, ConfigError> {
        if let Some(counts) = asking.site {
            let names = (1..=counts.len()).map(|k| format!("site {k}")).collect();
            let rows = vec![(0..asking.raw.train.len()).collect()];
            return Ok(Self { names, counts: counts.to_vec(), rows });
        }
        own_records::check_division(asking.spec, asking.raw, asking.real_noise)?;
        let seed = Seed::from(asking.spec.seed).for_run(0);
        let shards = shards(asking.spec, asking.raw, &seed)?;
        Ok(Self {
            names: shards.iter().map(|s| s.name.clone()).collect(),
            counts: shards.iter().map(|s| s.rows.len()).collect(),
            rows: shards.into_iter().map(|s| s.rows).collect(),
        })
    }
}

/// Plans the questions and puts the study that releases their sums together. `sigma` is the noise of
/// a vector that one record moves by 1, where it is known already.
pub(super) fn prepare(
    asking: &QuestionKeys<'_>,
    epsilon: Option<f64>,
    sigma: Option<[f64; 2]>,
) -> Result<Prepared, ConfigError> {
    let QuestionKeys { spec, raw, .. } = asking;
    let sites = Sites::of(asking)?;
    if asking.site.is_some() && spec.questions.correlated {
        let why = "sites of a network end with their own vectors under correlated noise; use exchange = \"masked\"";
        return Err(ConfigError::at("correlated", why));
    }
    let neighbours = spec.privacy.map(|p| p.neighbours).unwrap_or_default();
    if spec.privacy.is_some() && neighbours == NeighbourRelation::Paper {
        let why = "the paper's convention is about gradients; use \"replace-one\", \"add-remove\" or \"zero-out\" for questions";
        return Err(ConfigError::at("neighbours", why));
    }
    // Until the noise is known, precision decides nothing.
    let loose = |q: &Question| Question { precision: None, ..q.clone() };
    let questions: Vec<Question> = match sigma {
        Some(_) => spec.query.clone(),
        None => spec.query.iter().map(loose).collect(),
    };
    let plan = plan(asking, &sites, sigma, &questions)?;
    let source = Arc::new(summed(&plan, raw, &sites, asking.site.is_some()));
    let spec = release_of(spec, epsilon, asking.site.is_some());
    Ok(Prepared { spec, source, plan, raw: Arc::clone(raw) })
}

fn plan(
    asking: &QuestionKeys<'_>,
    sites: &Sites,
    sigma: Option<[f64; 2]>,
    questions: &[Question],
) -> Result<Plan, ConfigError> {
    let QuestionKeys { spec, raw, .. } = asking;
    let neighbours = spec.privacy.map(|p| p.neighbours).unwrap_or_default();
    let level = spec.questions.level.unwrap_or(0.95);
    if !(level > 0.0 && level < 1.0) {
        return Err(ConfigError::at("level", format!("{level} must lie between 0 and 1")));
    }
    // A site of a network ends with the mean of all.
    let shared = !spec.questions.exchange.is_plain() || spec.questions.correlated;
    let shared = shared || asking.site.is_some();
    let request = QuestionnaireFacts {
        sites: sites.names.clone(),
        counts: sites.counts.clone(),
        blocks: shared,
        zero_out: neighbours == NeighbourRelation::ZeroOut,
        level,
        sampling: spec.questions.sampling,
        sigma,
        about: about(asking, sites),
        known: asking.known.to_vec(),
    };
    Plan::new(questions, &Columns::of(&raw.schema), &request).map_err(|e| refused(&e))
}

/// About how large the noise of a sum will be that one record moves by 1, from what the file says:
/// good enough to say how fine bins should be. `None` where wanted precision decides the budget.
fn about(asking: &QuestionKeys<'_>, sites: &Sites) -> Option<f64> {
    let (spec, n) = (asking.spec, sites.counts.len() as f64);
    let (Some(privacy), Budget::Given(given)) = (spec.privacy, budget(spec)) else {
        return spec.privacy.is_none().then_some(0.0);
    };
    let curator = gdp::mu_for(given?, privacy.delta).ok()?.recip();
    let factor = match (spec.questions.exchange, spec.questions.correlated) {
        (ExchangeKind::Plain, false) => n.sqrt(),
        (ExchangeKind::Plain, true) => n.powf(0.25),
        _ => (n / (n - spec.questions.colluders.unwrap_or(1) as f64).max(1.0)).sqrt(),
    };
    Some(curator * factor * f64::from(records_per_person(asking.raw)))
}

/// The study that releases the sums of a questionnaire: one step of one algorithm.
fn release_of(spec: &ExperimentSpec, epsilon: Option<f64>, network: bool) -> ExperimentSpec {
    let mut one = spec.clone();
    (one.runs, one.trace_every, one.start) = (1, None, None);
    // The sum is made in one round; whoever dies in a later one of an algorithm is in it.
    one.drop_out.retain(|d| d.round <= 1);
    (one.sweep, one.delays, one.inference, one.problem) = (None, None, None, None);
    one.objective =
        ObjectiveSpec { loss: LossKind::Linear, regularization: 1.0, ..ObjectiveSpec::default() };
    let data = &mut one.data;
    data.encoding = Encoding::Numeric;
    data.weights = SiteWeights::Rule(WeightRule::Records);
    data.partition = Some(PartitionSpec::By(FILE.to_owned()));
    (data.agents, data.records_per_agent, data.hold_out, data.test) = (None, None, None, None);
    if let Some(privacy) = &mut one.privacy {
        privacy.epsilon = epsilon;
        (privacy.mechanism, privacy.accounting) = (Some(NoiseKind::Gaussian), Accounting::Schedule);
    }
    one.algorithm = vec![algorithm(spec, network)];
    one
}

/// One step from zero. In a network everybody then mixes what all released, so that every site
/// ends with the mean. Only masked sums go on without somebody: everybody knows without whom.
fn algorithm(spec: &ExperimentSpec, network: bool) -> Parameters {
    let asked = &spec.questions;
    let mut table = Parameters::new();
    let mut set = |key: &str, value: serde_json::Value| {
        table.insert(key.to_owned(), value);
    };
    set("label", "questions".into());
    set("rounds", 1.into());
    set("step", 1.0.into());
    set("tail", 0.0.into());
    let kind = match (asked.exchange, asked.correlated) {
        (ExchangeKind::Plain, false) if !network => "dgd",
        (ExchangeKind::Plain, true) => "decor",
        _ => "gd",
    };
    set("kind", kind.into());
    let shared = asked.correlated || !asked.exchange.is_plain();
    if let (true, Some(colluders)) = (shared, asked.colluders) {
        set("colluders", colluders.into());
    }
    if let Some(drop_outs) = asked.drop_outs.filter(|t| *t > 0) {
        set("drop_outs", drop_outs.into());
    }
    if kind == "gd" {
        set("aggregation", "fixed".into());
    }
    match asked.exchange {
        ExchangeKind::Plain => set("gossip", u32::from(network).into()),
        exchange => set("exchange", serde_json::to_value(exchange).unwrap_or_default()),
    }
    table
}

/// The records of a site as one row that holds the sum of what they add, and empty ones, so that
/// their mean is the mean of what they add and their number is what it is.
fn totals(plan: &Plan, raw: &Dataset, rows: &[usize], site: usize, out: &mut Records) {
    let sum = plan.totals(&raw.train.select(rows), site);
    let entries = sum.iter().enumerate().filter(|(_, v)| **v != 0.0);
    out.push_entries(entries.map(|(k, v)| (k as u32, *v)), 0.0);
    for _ in 1..rows.len() {
        out.push_entries(std::iter::empty(), 0.0);
    }
}

/// How many records a person has at most: the noise hides all of them.
fn records_per_person(raw: &Dataset) -> u32 {
    raw.person.as_ref().map_or(1, |(_, most)| *most)
}

fn summed(plan: &Plan, raw: &Dataset, sites: &Sites, alone: bool) -> Dataset {
    let mut train = Records::sparse(plan.width().max(1));
    let mut codes = Vec::new();
    for (site, rows) in sites.rows.iter().enumerate().filter(|(_, rows)| !rows.is_empty()) {
        totals(plan, raw, rows, site, &mut train);
        codes.extend(std::iter::repeat_n(site as u32, rows.len()));
    }
    // All records of a person may be replaced at once.
    let (norms, most) = (plan.norms(), f64::from(records_per_person(raw)));
    let bounds = RowBounds::declared(most * norms.l1, most * norms.l2, most * norms.linf)
        .at_most_apart(most * norms.apart)
        .public_if(raw.schema.is_reviewed());
    let names = sites.names.clone();
    let grouping = Grouping { column: FILE.to_owned(), names, codes };
    Dataset {
        train: Arc::new(train),
        test: None,
        bounds,
        task: Task::Regression { min: -1.0, max: 1.0 },
        classes: Vec::new(),
        features: (1..=plan.width()).map(|k| format!("sum {k}")).collect(),
        encoding: Encoding::Numeric,
        groupings: if alone { Vec::new() } else { vec![grouping] },
        test_report: None,
        test_sites: None,
        test_groupings: Vec::new(),
        person: None,
        ..raw.clone()
    }
}

/// What decides the noise: a budget, or the precision that all questions want of it.
pub(super) enum Budget {
    /// ε, or nothing without `[privacy]`.
    Given(Option<f64>),
    /// Wanted precision alone.
    Wanted,
}

pub(super) fn budget(spec: &ExperimentSpec) -> Budget {
    let given = spec.questions.epsilon.or_else(|| spec.privacy.and_then(|p| p.epsilon));
    match (spec.privacy, given) {
        (Some(_), None) => Budget::Wanted,
        (_, given) => Budget::Given(given),
    }
}

/// The ε that gives the sum of a vector that one record moves by 1 the noise that is needed, where ε
/// = 1 gives it this much.
pub(super) fn epsilon_for(needed: f64, at_one: f64, delta: f64) -> Result<f64, ConfigError> {
    let one = gdp::mu_for(1.0, delta).map_err(ConfigError::no_claim)?;
    let mu = one * at_one * needed.sqrt();
    let epsilon = gdp::epsilon_of_mu(mu, delta);
    if epsilon.is_finite() && epsilon > 0.0 {
        // A little more, so that rounding up elsewhere leaves what was wanted.
        Ok(epsilon * (1.0 + 1e-6))
    } else {
        Err(ConfigError::at("precision", "no budget gives such narrow intervals"))
    }
}

/// The answers, where nothing new is needed for any of them.
pub(super) fn known(asking: &QuestionKeys<'_>) -> Result<Option<Vec<Answered>>, ConfigError> {
    let loose = |q: &Question| Question { precision: None, ..q.clone() };
    let questions: Vec<Question> = asking.spec.query.iter().map(loose).collect();
    let plan = plan(asking, &Sites::of(asking)?, None, &questions)?;
    if plan.width() > 0 {
        return Ok(None);
    }
    // What was released before was released without the same sites.
    let gone = LeftOut::simulated(asking.spec);
    let left = plan.without(&gone.0);
    let mut answers = answer(&left, &Released::of(&left, &[], &[], [0.0, 0.0]));
    gone.note(&plan, plan.sites(), &mut answers);
    Ok(Some(answers))
}

/// What 1/σ² the wanted precision takes, where it alone decides the budget.
pub(super) fn needed(asking: &QuestionKeys<'_>) -> Result<f64, ConfigError> {
    let plan = plan(asking, &Sites::of(asking)?, None, &asking.spec.query)?;
    Ok(plan.needed())
}

impl Prepared {
    /// The questionnaire, once its study is planned.
    pub(super) fn questionnaire(self, experiment: &Experiment) -> Questionnaire {
        let sigma = noise_of_sums(experiment);
        Questionnaire { plan: self.plan, raw: self.raw, sigma }
    }
}

impl LeftOut {
    /// The sites that drop out of a simulated questionnaire.
    fn simulated(spec: &ExperimentSpec) -> Self {
        let masked = spec.questions.exchange == ExchangeKind::Masked;
        let gone = spec.drop_out.iter().filter(|d| masked && d.round <= 1);
        Self::of(gone.map(|d| d.agent))
    }

    fn of(agents: impl Iterator<Item = u32>) -> Self {
        let mut all: Vec<usize> = agents.map(|agent| agent as usize).collect();
        all.sort_unstable();
        all.dedup();
        Self(all)
    }

    fn has(&self, agent: usize) -> bool {
        self.0.contains(&agent)
    }

    /// Says with every answer whose records it is not about.
    fn note(&self, plan: &Plan, names: &[String], answers: &mut [Answered]) {
        if self.0.is_empty() {
            return;
        }
        let of =
            |k: &usize| Some(format!("{} ({} records)", names.get(*k)?, plan.counts().get(*k)?));
        let gone: Vec<String> = self.0.iter().filter_map(of).collect();
        let here = (0..plan.counts().len()).filter(|k| !self.has(*k));
        let (sites, records) =
            here.fold((0, 0), |(sites, records), k| (sites + 1, records + plan.counts()[k]));
        let note = format!(
            "without {}, which dropped out: about the {records} records of the other {sites} sites",
            gone.join(" and ")
        );
        answers.iter_mut().for_each(|question| question.notes.insert(0, note.clone()));
    }
}

/// Standard deviation of the noise of the sum over all sites, and of one site's.
pub(super) fn noise_of_sums(experiment: &Experiment) -> [f64; 2] {
    noise_without(experiment, &LeftOut::default())
}

/// Standard deviation of the noise of the sum over the sites that are left, and of one site's.
///
/// An agent's vector is −(N/B)·(the sum of its records' vectors), B being all records; agents draw
/// independent noise. A round that is tried again has the noise of another charge.
fn noise_without(experiment: &Experiment, gone: &LeftOut) -> [f64; 2] {
    let (planned, graph) = (&experiment.planned[0], &experiment.graphs[0]);
    let deviation = |agent: usize| {
        let noise_schedule = planned.account.noise_schedule(
            agent,
            experiment.site_weight(agent),
            graph.degree(agent),
        )?;
        let of_try = noise_schedule.noise.get(gone.0.len()).or(noise_schedule.noise.last())?;
        Some(match of_try.noise() {
            Noise::Gaussian { sigma } => sigma,
            Noise::Laplace { scale } => scale * std::f64::consts::SQRT_2,
        })
    };
    let agents = experiment.counts.len();
    let here = (0..agents).filter(|agent| !gone.has(*agent));
    let all: Vec<f64> = here.filter_map(deviation).collect();
    let unit = experiment.counts.iter().sum::<usize>() as f64 / agents as f64;
    let total = all.iter().map(|s| s * s).sum::<f64>().sqrt();
    [unit * total, unit * all.iter().copied().fold(0.0, f64::max)]
}

impl Questionnaire {
    /// Returns the questions and how their sums are released.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns what is expected of every answer, by question, from public numbers alone.
    #[must_use]
    pub fn expected(&self) -> Vec<Vec<Expected>> {
        self.plan.expected(self.sigma)
    }

    /// Returns how many records a person has at most, all of which the claim is about.
    #[must_use]
    pub fn records_per_person(&self) -> u32 {
        records_per_person(&self.raw)
    }

    /// The records of a site whose records alone are here, as its study sees them.
    pub(super) fn site_records(&self, site: usize) -> Records {
        let mut records = Records::sparse(self.plan.width().max(1));
        let rows: Vec<usize> = (0..self.raw.train.len()).collect();
        totals(&self.plan, &self.raw, &rows, site, &mut records);
        records
    }

    /// The noised sums that the released vectors of all agents hold, and what they answer; `mean`
    /// is that of the agents that are left.
    fn answered(
        &self,
        experiment: &Experiment,
        agents: &[Vec<f64>],
        mean: &[f64],
        gone: &LeftOut,
    ) -> (Released, Vec<Answered>) {
        let records = experiment.counts.iter().sum::<usize>() as f64;
        let n = experiment.counts.len();
        let left = (n - gone.0.len()) as f64 / n as f64;
        let total: Vec<f64> = mean.iter().map(|m| -records * left * m).collect();
        let plain = experiment.spec.questions.exchange.is_plain();
        let own = plain && !experiment.spec.questions.correlated && !experiment.alone;
        let unit = records / agents.len().max(1) as f64;
        let site = |vector: &Vec<f64>| vector.iter().map(|v| -unit * v).collect();
        let sites: Vec<Vec<f64>> = if own { agents.iter().map(site).collect() } else { Vec::new() };
        let sigma = match gone.0.is_empty() {
            true => self.sigma,
            false => noise_without(experiment, gone),
        };
        let plan = self.plan.without(&gone.0);
        let released = Released::of(&plan, &total, &sites, sigma);
        let answers = answer(&plan, &released);
        (released, answers)
    }
}

impl Experiment {
    /// Returns the questions, where the study asks instead of training.
    #[must_use]
    pub fn questionnaire(&self) -> Option<&Questionnaire> {
        self.questions.as_deref()
    }

    /// Returns the answers of a site of a network from what all sites end with, their mean; `gone`
    /// are the agents that a masked sum was made without, each with the first round that it is not
    /// in.
    #[must_use]
    pub fn site_answers(
        &self,
        mean: &[f64],
        names: &[String],
        gone: &[(u32, Round)],
    ) -> Option<Vec<Answered>> {
        let asked = self.questions.as_deref()?;
        let gone = LeftOut::of(gone.iter().filter(|(_, since)| since.0 <= 1).map(|(k, _)| *k));
        let (_, mut answers) = asked.answered(self, &[], mean, &gone);
        // Sites have names where their network is known.
        let own = |group: &mut Option<String>| {
            let known = group.as_ref()?.strip_prefix("site ")?.parse::<usize>().ok()?;
            *group = Some(names.get(known.checked_sub(1)?)?.clone());
            Some(())
        };
        for question in answers.iter_mut().filter(|q| q.by.as_deref() == Some("site")) {
            question.answers.iter_mut().for_each(|a| {
                own(&mut a.group);
            });
        }
        gone.note(&asked.plan, names, &mut answers);
        Some(answers)
    }

    /// Returns what a finished run released of the questions, and the answers.
    #[must_use]
    pub fn answered(&self, finished: &Finished) -> Option<(Released, Vec<Answered>)> {
        let (asked, trained) = (self.questions.as_deref()?, finished.models.first()?);
        let gone = LeftOut::simulated(&self.spec);
        // Whoever dropped out has no part in the mean that the others have.
        let left = trained.agents.iter().enumerate().find(|(agent, _)| !gone.has(*agent));
        let mean = match (gone.0.is_empty(), left) {
            (false, Some((_, model))) => model,
            _ => &trained.mean,
        };
        let (released, mut answers) = asked.answered(self, &trained.agents, mean, &gone);
        gone.note(&asked.plan, asked.plan.sites(), &mut answers);
        Some((released, answers))
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::Inputs;
    use super::super::run::run;
    use super::super::{AuditTarget, Silent};
    use super::*;
    use crate::audit::{Options, Verdict};
    use crate::data::{Schema, csv};
    use consenso_queries::Answer;
    use std::fmt::Write as _;

    const SCHEMA: &str = "reviewed = true\n[[column]]\nname = \"age\"\nkind = \"numeric\"\nmin = 0\nmax = 100\nmean = 50\nsd = 15\n\
        [[column]]\nname = \"time\"\nkind = \"numeric\"\nmin = 0\nmax = 10\n\
        [[column]]\nname = \"sex\"\nkind = \"categorical\"\ncategories = [\"f\", \"m\"]\n\
        [[column]]\nname = \"site\"\nkind = \"site\"\n\
        [[column]]\nname = \"dead\"\nkind = \"label\"\nclasses = [\"no\", \"yes\"]\n";

    /// Records of sites of different sizes: age, time, sex (0, 1) and whether dead (0, 1).
    fn records(sites: &[usize]) -> Vec<Vec<[f64; 4]>> {
        let mut state = 11u64;
        let mut uniform = move || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            ((state >> 11) as f64 + 0.5) / (1u64 << 53) as f64
        };
        let mut one = || {
            let sex = f64::from(u8::from(uniform() < 0.4));
            let normal = (0..12).map(|_| uniform()).sum::<f64>() - 6.0;
            let age = (50.0 + 5.0 * sex + 15.0 * normal).clamp(0.0, 100.0);
            let death = -libm::log(uniform()) * if sex > 0.5 { 4.0 } else { 8.0 };
            let end = 10.0 * uniform();
            [age, death.min(end), sex, f64::from(u8::from(death < end))]
        };
        sites.iter().map(|&n| (0..n).map(|_| one()).collect()).collect()
    }

    fn asked(sites: &[usize], rest: &str, seed: u64) -> (Vec<Vec<[f64; 4]>>, Experiment) {
        let all = records(sites);
        let mut table = String::from("age,time,sex,site,dead\n");
        for (site, records) in all.iter().enumerate() {
            for [age, time, sex, dead] in records {
                let (sex, dead) = (["f", "m"][*sex as usize], ["no", "yes"][*dead as usize]);
                writeln!(table, "{age},{time},{sex},s{site},{dead}").unwrap();
            }
        }
        let schema = toml::from_str::<Schema>(SCHEMA).unwrap();
        let table = csv::read(table.as_bytes(), "made-up", &schema).unwrap();
        let data = Dataset::new(vec![table], None, Encoding::Scouted).unwrap();
        let text = format!(
            "name = \"q\"\nseed = {seed}\n[data]\npath = \"x.csv\"\npartition = {{ by = \"site\" }}\n[graph]\nkind = \"complete\"\n{rest}"
        );
        let spec: ExperimentSpec = toml::from_str(&text).unwrap();
        let spec = spec.complete(&toml::from_str(&text).unwrap(), "q").unwrap();
        let source = Box::new(data);
        let inputs = Inputs { file: "q".into(), text, spec, source, edges: None, entropy: None };
        (all, Experiment::check(inputs).unwrap())
    }

    fn answers(experiment: &Experiment) -> Vec<Answered> {
        experiment.answered(&run(experiment, &Silent).unwrap()).unwrap().1
    }

    const QUERIES: &str = "[[query]]\nkind = \"mean\"\ncolumn = \"age\"\nby = \"sex\"\n\
        [[query]]\nkind = \"quantiles\"\ncolumn = \"age\"\n[[query]]\nkind = \"crosstab\"\ncolumns = [\"sex\", \"dead\"]\n\
        [[query]]\nkind = \"mean\"\ncolumn = \"age\"\nby = \"site\"\n\
        [[query]]\nkind = \"survival\"\ncolumn = \"time\"\nevent = \"dead\"\nby = \"sex\"\n\
        [[query]]\nkind = \"share\"\ncolumn = \"dead\"\n[[query]]\nkind = \"count\"\nby = \"site\"\n";

    /// Without noise every answer is the one that the records give, however they are divided and
    /// exchanged.
    #[test]
    fn without_noise_answers_are_exact_under_every_trust() {
        for trust in [
            "",
            "[questions]\nexchange = \"secret-shared\"\n",
            "[questions]\nexchange = \"masked\"\n",
        ] {
            let (all, experiment) = asked(&[70, 200, 130], &format!("{trust}{QUERIES}"), 1);
            let found = answers(&experiment);
            let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-6 * (1.0 + b.abs()), "{a} {b}");
            let mean = |f: &dyn Fn(&[f64; 4]) -> bool| {
                let ages: Vec<f64> = all.iter().flatten().filter(|r| f(r)).map(|r| r[0]).collect();
                ages.iter().sum::<f64>() / ages.len() as f64
            };
            let of = |q: usize, what: &str| -> Vec<f64> {
                found[q].answers.iter().filter(|a| a.what == what).map(|a| a.estimate).collect()
            };
            close(of(0, "mean")[0], mean(&|r| r[2] == 0.0));
            close(of(0, "mean")[1], mean(&|r| r[2] == 1.0));
            let mut ages: Vec<f64> = all.iter().flatten().map(|r| r[0]).collect();
            ages.sort_by(f64::total_cmp);
            assert!((of(1, "quantile")[1] - ages[200]).abs() < 0.8, "{:?}", of(1, "quantile"));
            for (cell, (sex, dead)) in
                [(0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0)].into_iter().enumerate()
            {
                let count = all.iter().flatten().filter(|r| (r[2], r[3]) == (sex, dead)).count();
                close(of(2, "count")[cell], count as f64);
            }
            for (site, records) in all.iter().enumerate() {
                close(
                    of(3, "mean")[site],
                    records.iter().map(|r| r[0]).sum::<f64>() / records.len() as f64,
                );
                assert_eq!(of(6, "count")[site], records.len() as f64);
            }
            let deaths = all.iter().flatten().filter(|r| r[3] == 1.0).count() as f64;
            close(of(5, "share")[1], deaths / 400.0);
        }
    }

    /// Under every trust the claim is the budget, noise has the size that intervals take it for,
    /// and sharing it costs what one curator's noise would.
    #[test]
    fn noise_is_what_intervals_take_it_for_under_every_trust() {
        let budget = "[privacy]\nepsilon = 1.0\ndelta = 1e-6\n";
        let count = "[[query]]\nkind = \"count\"\nby = \"sex\"\n";
        let mut sizes = Vec::new();
        for trust in [
            "",
            "[questions]\nexchange = \"secret-shared\"\ncolluders = 1\n",
            "[questions]\nexchange = \"masked\"\ncolluders = 1\n",
            "[questions]\ncorrelated = true\ncolluders = 1\n",
        ] {
            let (mut squares, mut noise) = (0.0, 0.0);
            for seed in 0..40 {
                let (all, experiment) = asked(&[300; 8], &format!("{budget}{trust}{count}"), seed);
                let claim = experiment.claim(0).unwrap();
                assert!(claim.epsilon <= 1.0 && claim.epsilon > 0.98, "{trust} {}", claim.epsilon);
                let found = &answers(&experiment)[0].answers[0];
                let true_count = all.iter().flatten().filter(|r| r[2] == 0.0).count() as f64;
                squares += (found.estimate - true_count).powi(2);
                noise = found.noise;
                let expected = experiment.questionnaire().unwrap().expected()[0][0].noise;
                assert!((expected / noise - 1.0).abs() < 1e-12, "{expected} {noise}");
            }
            let ratio = (squares / 40.0).sqrt() / noise;
            assert!((0.65..1.4).contains(&ratio), "{trust}: {ratio}");
            sizes.push(noise);
        }
        // A curator: replacing a record moves two cells by one, and their total is known.
        let curator = 1.0 / gdp::mu_for(1.0, 1e-6).unwrap();
        assert!((sizes[0] / curator / 8f64.sqrt() - 1.0).abs() < 0.01, "{sizes:?} {curator}");
        for shared in &sizes[1..3] {
            assert!((shared / curator - (8.0f64 / 7.0).sqrt()).abs() < 0.01, "{sizes:?} {curator}");
        }
        // Noise that neighbours share leaves each agent's own in the sum: less than local noise,
        // more than a curator's.
        assert!(curator < sizes[3] && sizes[3] < 0.6 * sizes[0], "{sizes:?} {curator}");
    }

    /// A site that dies is in no sum: answers are about the others, with the noise of the others,
    /// and say so. Every try is paid for.
    #[test]
    fn answers_without_a_site_that_dropped_out_are_about_the_others() {
        let masked = "[questions]\nexchange = \"masked\"\ncolluders = 1\ndrop_outs = 1\n";
        let gone = "[[drop_out]]\nagent = 2\nround = 1\n";
        let budget = |epsilon: f64| format!("[privacy]\nepsilon = {epsilon}\ndelta = 1e-6\n");
        let sizes = [300, 200, 500, 400, 250];
        let (all, experiment) =
            asked(&sizes, &format!("{}{masked}{QUERIES}{gone}", budget(20.0)), 4);
        let found = answers(&experiment);
        let left: Vec<&[f64; 4]> =
            all.iter().enumerate().filter(|(k, _)| *k != 2).flat_map(|(_, r)| r).collect();
        let of = |q: usize, what: &str| -> Vec<f64> {
            found[q].answers.iter().filter(|a| a.what == what).map(|a| a.estimate).collect()
        };
        let mean = |rows: &[&[f64; 4]]| rows.iter().map(|r| r[0]).sum::<f64>() / rows.len() as f64;
        for sex in [0.0, 1.0] {
            let group: Vec<&[f64; 4]> = left.iter().copied().filter(|r| r[2] == sex).collect();
            let means: Vec<&Answer> =
                found[0].answers.iter().filter(|a| a.what == "mean").collect();
            let found = means[sex as usize];
            assert!((found.estimate - mean(&group)).abs() < 6.0 * found.noise, "{found:?}");
            assert!(found.noise < 1.0, "{found:?}");
        }
        assert!((of(2, "count").iter().sum::<f64>() - 1150.0).abs() < 1e-6, "{:?}", of(2, "count"));
        let sites: Vec<&str> = found[3]
            .answers
            .iter()
            .filter(|a| a.what == "mean")
            .map(|a| a.group.as_deref().unwrap())
            .collect();
        assert_eq!(sites, ["s0", "s1", "s3", "s4"], "nothing is said of the one that is gone");
        assert_eq!(of(6, "count"), [300.0, 200.0, 400.0, 250.0]);
        for question in &found {
            let note = &question.notes[0];
            assert!(note.contains("s2 (500 records), which dropped out"), "{note}");
            assert!(note.contains("the 1150 records of the other 4 sites"), "{note}");
        }
        // What intervals take noise for is what it is, over all tries; the budget pays for both.
        let count = "[[query]]\nkind = \"count\"\nby = \"sex\"\n";
        let (mut squares, mut noise, mut whole) = (0.0, 0.0, 0.0);
        for seed in 0..40 {
            let text = format!("{}{masked}{count}{gone}", budget(1.0));
            let (all, experiment) = asked(&sizes, &text, seed);
            let claim = experiment.claim(0).unwrap();
            assert!(claim.epsilon <= 1.0 && claim.epsilon > 0.98, "{}", claim.epsilon);
            let found = &answers(&experiment)[0].answers[0];
            let here = all.iter().enumerate().filter(|(k, _)| *k != 2).flat_map(|(_, r)| r);
            let exact = here.filter(|r| r[2] == 0.0).count() as f64;
            squares += (found.estimate - exact).powi(2);
            (noise, whole) =
                (found.noise, experiment.questionnaire().unwrap().expected()[0][0].noise);
        }
        let ratio = (squares / 40.0).sqrt() / noise;
        assert!((0.65..1.4).contains(&ratio), "{ratio}");
        assert!((noise / whole - (4.0f64 / 5.0).sqrt()).abs() < 0.01, "{noise} {whole}");
        // Two tries of one curator's noise, with two of the five taken away.
        let curator = 1.0 / gdp::mu_for(1.0, 1e-6).unwrap();
        let floor = curator * (2.0f64 * 5.0 / 3.0).sqrt();
        assert!((whole / floor - 1.0).abs() < 0.02, "{whole} {floor}");
    }

    /// The auditor attacks the release of a questionnaire and finds no more than is claimed.
    #[test]
    fn the_auditor_finds_no_more_than_is_claimed() {
        for neighbours in ["replace-one", "add-remove", "zero-out"] {
            let rest = format!(
                "[privacy]\nepsilon = 2.0\ndelta = 1e-4\nneighbours = \"{neighbours}\"\n[[query]]\nkind = \"histogram\"\ncolumn = \"age\"\n[[query]]\nkind = \"mean\"\ncolumn = \"age\"\n"
            );
            let (_, experiment) = asked(&[40, 50, 60], &rest, 3);
            let options = Options { trials: 3_000, confidence: 1.0 - 1e-6, seed: 5 };
            let found = experiment.audit(AuditTarget::Experiment, options).unwrap();
            let found = found[0].audit.expect("a claim");
            assert_eq!(found.verdict, Verdict::Consistent, "{neighbours} {found:?}");
        }
    }

    /// A wanted precision takes what it takes, and no more than there is.
    #[test]
    fn precision_decides_the_budget() {
        let of = |privacy: &str, precision: f64| {
            let rest = format!(
                "{privacy}[[query]]\nkind = \"mean\"\ncolumn = \"age\"\nprecision = {precision}\n[[query]]\nkind = \"count\"\nby = \"sex\"\n"
            );
            asked(&[300; 4], &rest, 3).1
        };
        let given = of("[privacy]\nepsilon = 1.0\ndelta = 1e-6\n", 3.0);
        let expected = given.questionnaire().unwrap().expected();
        assert!((expected[0][0].half_width - 3.0).abs() < 0.01, "{expected:?}");
        let rest = "[privacy]\ndelta = 1e-6\n[[query]]\nkind = \"mean\"\ncolumn = \"age\"\nprecision = 1.5\n";
        let (_, open) = asked(&[300; 4], rest, 3);
        let expected = open.questionnaire().unwrap().expected();
        assert!((expected[0][0].half_width - 1.5).abs() < 0.01, "{expected:?}");
        let spent = open.claim(0).unwrap().epsilon;
        assert!(spent > 0.5 && spent < 20.0, "{spent}");
    }
}
