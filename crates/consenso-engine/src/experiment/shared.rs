//! `exchange = "secret-shared"`: what an experiment needs for it, and the range its numbers can
//! have.

use super::planned::{Context, Planned};
use super::problem::CoupledProblem;
use crate::account::{self, Account, Accounting, NoiseKind, NoiseSpec, RESERVED};
use crate::config_error::ConfigError;
use crate::gate::{Grid, Masks, Noise, Pair, Round, RoundNoise};
use crate::graph::Graph;
use crate::privacy::distributed_noise::{DistributedNoise, TAIL};
use crate::privacy::{Adversary, masked};
use crate::protocol::{Parameters, Protocol, PublicFacts};
use crate::random::Seed;
use crate::sharing::{FixedPoint, ShareError};
use crate::simulate::DropOut;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;

/// How agents exchange their vectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExchangeKind {
    /// Everybody sends its vector to its neighbours.
    #[default]
    Plain,
    /// Algorithm 3: only sums are revealed.
    SecretShared,
    /// Sums under masks that neighbours share: on any graph, and agents may drop out.
    Masked,
}

impl ExchangeKind {
    /// Whether every vector is sent as it is.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        *self == Self::Plain
    }
}

/// A secret-shared or masked exchange, as far as the file fixes it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SharingSpec {
    /// Whether vectors leave under masks instead of in shares.
    pub masked: bool,
    /// How many agents may drop out of masked sums.
    pub drop_outs: usize,
    /// The largest number an agent may have to share.
    pub range: Option<f64>,
    /// Bits after the point.
    pub fraction_bits: Option<u32>,
    /// How many agents may pool what they know against the others' noise.
    pub colluders: Option<usize>,
}

/// With 40 bits a round adds at most 2^−41 to the error of the mean.
const FRACTION_BITS: u32 = 40;

/// Under noise, as many bits as make an agent's part at least 2^20 steps: rounding then adds less
/// than a part in 10^13 to its variance.
const NOISE_BITS: i32 = 20;

impl SharingSpec {
    /// The exchange as a file has it.
    pub(super) fn key(&self) -> &'static str {
        key(self.masked)
    }
}

fn key(masked: bool) -> &'static str {
    if masked { "exchange = \"masked\"" } else { "exchange = \"secret-shared\"" }
}

/// Masked sums of one algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Masking {
    /// t.
    pub(super) drop_outs: usize,
    /// So many agents cannot single out anybody: said where nothing else is claimed.
    hidden_from: usize,
}

/// Everybody learns the mean of all, whoever talks to whom: to an algorithm it is a complete graph.
pub(super) fn as_complete(facts: &mut PublicFacts) {
    let n = facts.agents;
    (facts.complete, facts.degrees) = (true, (n - 1, n - 1));
    (facts.laplacian_max, facts.mixing, facts.mixing_min) = (n as f64, 0.0, 0.0);
}

/// The masked sums of a run; `None` for other exchanges.
pub(super) fn masking(spec: &SharingSpec, private: bool, graphs: &[Arc<Graph>]) -> Option<Masking> {
    let most = |graph: &Arc<Graph>| {
        let all = graph.agents().saturating_sub(2);
        largest(all, |c| masked::smallest_hiding_set(graph, c).size >= 2)
    };
    let hidden_from = || distinct(graphs).map(most).min().unwrap_or(0);
    spec.masked.then(|| Masking {
        drop_outs: spec.drop_outs,
        hidden_from: if private { 0 } else { hidden_from() },
    })
}

/// The largest number up to `most` of which something holds that holds of all smaller ones; 0 if
/// there is none.
fn largest(most: usize, holds: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, most);
    while low < high {
        let middle = (low + high).div_ceil(2);
        if holds(middle) { low = middle } else { high = middle - 1 }
    }
    low
}

fn distinct(graphs: &[Arc<Graph>]) -> impl Iterator<Item = &Arc<Graph>> {
    let mut last: Option<&Arc<Graph>> = None;
    graphs
        .iter()
        .filter(move |graph| !last.replace(graph).is_some_and(|before| Arc::ptr_eq(before, graph)))
}

/// Whether a simulation can play these drop-outs.
pub(super) fn check_drop_outs(
    gone: &[DropOut],
    planned: &[Planned],
    graphs: &[Arc<Graph>],
) -> Result<(), ConfigError> {
    let Some(first) = gone.first() else { return Ok(()) };
    let mut all = BTreeSet::new();
    for (index, &DropOut { agent, round }) in gone.iter().enumerate() {
        let agents = graphs[0].agents();
        if agent as usize >= agents || !all.insert(agent) || round == 0 {
            return Err(ConfigError::at(
                "drop_out",
                format!(
                    "[[drop_out]] {} has agent = {agent} and round = {round}: there are agents 0 to {}, each of which can die once, and rounds from 1 on",
                    index + 1,
                    agents - 1
                ),
            ));
        }
    }
    for planned in planned {
        let Some(masking) = planned.masking else { continue };
        for graph in distinct(graphs) {
            crate::sharing::remaining(graph, &all, masking.drop_outs, Round(first.round))
                .map_err(|e| ConfigError::at("drop_out", format!("{}: {e}", planned.label)))?;
        }
    }
    Ok(())
}

/// The masks of an agent's edges: in a simulation all secrets come from the run's own seed,
/// elsewhere the ends of every edge have still to agree on one.
pub(super) fn masks(agent: usize, graph: &Graph, seed: Option<&Seed>) -> Masks {
    let pair = |&other: &u32| match seed {
        Some(seed) => Pair::new(agent as u32, other, seed.clone()),
        None => Pair::awaited(agent as u32, other),
    };
    Masks::new(graph.neighbours(agent).iter().map(pair).collect::<Vec<_>>(), graph.agents())
}

/// How many colluders to count on where the file does not say: half of the agents among shares; in
/// masked sums as many of these as, with those that drop out, cannot cut the graph, but one at
/// least.
fn open_colluders(spec: &SharingSpec, agents: usize, graphs: &[Arc<Graph>]) -> usize {
    if !spec.masked {
        return DistributedNoise::most(agents);
    }
    let most = (agents / 2).min(agents.saturating_sub(2 + spec.drop_outs)).max(1);
    let whole = |c: usize| {
        let taken = c + spec.drop_outs;
        distinct(graphs).all(|graph| {
            masked::smallest_hiding_set(graph, taken).size == agents.saturating_sub(taken)
        })
    };
    largest(most, whole).max(1)
}

/// Who adds the noise of the sum; `None` for a run without noise.
pub(super) fn distributed_noise(
    spec: &SharingSpec,
    noise: Option<&NoiseSpec>,
    facts: &PublicFacts,
    context: &Context<'_>,
    graphs: &[Arc<Graph>],
) -> Result<Option<DistributedNoise>, ConfigError> {
    let Some(privacy) = context.spec.privacy.filter(|_| facts.private) else { return Ok(None) };
    // The rules refuse these with their reasons; nothing is proved of them.
    if privacy.accounting == Accounting::Filter
        || privacy.mechanism == Some(NoiseKind::Laplace)
        || !matches!(noise, None | Some(NoiseSpec::Gaussian(_)))
    {
        return Err(account::no_bound());
    }
    let (agents, drop_outs) = (facts.agents, spec.drop_outs);
    let feared = match privacy.adversary {
        Some(Adversary::Colluders(c)) if spec.masked => Some(c.colluders),
        _ => None,
    };
    let colluders =
        spec.colluders.or(feared).unwrap_or_else(|| open_colluders(spec, agents, graphs));
    let distributed_noise = if spec.masked {
        DistributedNoise::masked(distinct(graphs).map(|graph| &**graph), colluders, drop_outs)
    } else {
        DistributedNoise::new(agents, colluders)
    };
    match distributed_noise {
        Some(distributed_noise) => Ok(Some(distributed_noise)),
        // Fewer than three agents are refused with a reason of their own.
        None if agents < 3 => Ok(None),
        None if drop_outs > 0 => Err(ConfigError::at(
            "drop_outs",
            format!(
                "drop_outs = {drop_outs} and colluders = {colluders} of {agents} agents are too many: together at most {}, for two at least must be left to hide each other",
                agents - 2
            ),
        )),
        None => Err(ConfigError::at(
            "colluders",
            format!(
                "colluders = {colluders} of {agents} agents is too many: at most {}, for all but one read the last one's vector; against them use \
             the plain exchange",
                agents - 2
            ),
        )),
    }
}

/// How many hide each agent in masked sums, whoever colludes or drops out; `None` where as many hide
/// all.
pub(super) fn hiding_set_sizes(
    distributed_noise: Option<DistributedNoise>,
    spec: &SharingSpec,
    graphs: &[Arc<Graph>],
) -> Option<Arc<[u32]>> {
    let distributed_noise = distributed_noise.filter(|_| spec.masked)?;
    let taken = distributed_noise.colluders() + distributed_noise.drop_outs();
    let least = distinct(graphs)
        .map(|graph| masked::hiding_set_sizes(graph, taken))
        .reduce(|a, b| a.into_iter().zip(b).map(|(a, b)| a.min(b)).collect())?;
    let differ = least.iter().any(|m| *m != least[0]);
    differ.then(|| least.into_iter().map(|m| m as u32).collect())
}

/// How many hide an agent, over all of them: as if everybody had the same part of the noise.
pub(super) fn typical_hiding_set(
    distributed_noise: DistributedNoise,
    hiding_set_sizes: Option<&Arc<[u32]>>,
) -> f64 {
    let Some(hiding_set_sizes) = hiding_set_sizes else {
        return distributed_noise.hiding_set_size() as f64;
    };
    hiding_set_sizes.len() as f64
        / hiding_set_sizes.iter().map(|&m| 1.0 / f64::from(m)).sum::<f64>()
}

/// The code of a run, or why there is none.
///
/// The range is proved, not hoped for: an agent that had to stop because of its own numbers would
/// tell something about them.
pub(super) fn code(
    spec: &SharingSpec,
    protocol: &dyn Protocol,
    facts: &PublicFacts,
    context: &Context<'_>,
    account: &Account,
) -> Result<FixedPoint, ConfigError> {
    let exchange = spec.key();
    let Parts { least: smallest, most: parts } = parts(account);
    let proved = message_bound(protocol, facts, context, &parts, spec.drop_outs);
    let range = match (spec.range, proved) {
        (Some(range), Some(proved)) if range < proved => {
            return Err(ConfigError::at(
                "range",
                format!(
                    "range = {range} is too small: numbers of this run can reach {proved:.6}; set range = {} or leave it out",
                    up(proved)
                ),
            ));
        }
        (Some(range), _) => range,
        (None, Some(proved)) => up(proved),
        (None, None) => {
            let bound = if context.coupled.is_some() {
                "low and high of every agent"
            } else {
                "an objective.constraint"
            };
            return Err(ConfigError::at(
                "exchange",
                format!(
                    "{exchange} needs range, the largest number that can occur: nothing bounds {} in advance; {bound} would",
                    protocol.kind()
                ),
            ));
        }
    };
    let least = smallest.iter().copied().fold(f64::INFINITY, f64::min);
    let enough = || (f64::from(NOISE_BITS) - libm::log2(least)).ceil().clamp(0.0, 60.0) as u32;
    let open = if parts.is_empty() { FRACTION_BITS } else { enough() };
    let bits = spec.fraction_bits.unwrap_or(open);
    FixedPoint::new(facts.agents, range, bits).map_err(|e| match spec.fraction_bits {
        Some(bits) => ConfigError::at("fraction_bits", format!("fraction_bits = {bits}: {e}")),
        None => ConfigError::at("range", format!("range = {range}: {e}")),
    })
}

/// The least and the largest part of the noise that any agent adds, by round; empty without noise.
struct Parts {
    least: Vec<f64>,
    most: Vec<f64>,
}

fn parts(account: &Account) -> Parts {
    let Some(distributed_noise) = account.distributed_noise else {
        return Parts { least: Vec::new(), most: Vec::new() };
    };
    let (fewest, many) = account.hiding_set_sizes(distributed_noise);
    let of = |hiding_set_size: usize| {
        let part = |n: &RoundNoise| DistributedNoise::part_of(n.noise().scale(), hiding_set_size);
        account.noise().iter().map(part).collect()
    };
    Parts { least: of(many), most: of(fewest) }
}

/// Gives every agent its part of the noise, on the grid of the code, and says in the claim what
/// that assumes and adds to δ.
pub(super) fn distribute(
    account: &mut Account,
    masked: bool,
    code: &FixedPoint,
    facts: &PublicFacts,
    context: &Context<'_>,
) -> Result<(), ConfigError> {
    let (Some(distributed_noise), Some(privacy)) =
        (account.distributed_noise, context.spec.privacy)
    else {
        return Ok(());
    };
    let grid = Grid::new(-(code.fraction_bits() as i32)).map_err(ConfigError::of)?;
    let (sigmas, (fewest, many)) =
        (account.noise().to_vec(), account.hiding_set_sizes(distributed_noise));
    let of = |hiding_set_size: usize| -> Arc<[RoundNoise]> {
        let part = |n: &RoundNoise| DistributedNoise::part_of(n.noise().scale(), hiding_set_size);
        let noise = |n| RoundNoise::on_grid(Noise::Gaussian { sigma: part(n) }, grid);
        sigmas.iter().map(noise).collect()
    };
    for n in of(fewest).iter().chain(&*of(many)) {
        let wrong = |e: ShareError| format!("fraction_bits = {}: {e}", code.fraction_bits());
        code.holds(n).map_err(|e| ConfigError::at("fraction_bits", wrong(e)))?;
    }
    let least = of(many);
    let distance = distributed_noise
        .distance(facts.dim, least.iter().map(|n| n.noise().scale() / grid.step()));
    for (class, noise_schedule) in account.noise_schedules_by_hiding_mut() {
        // Where all are hidden alike there is one class, which says nothing.
        let hiding_set_size = if fewest == many { fewest } else { class as usize };
        noise_schedule.share_noise(&of(hiding_set_size), distance);
        let Some(price) = &mut noise_schedule.price else { continue };
        let epsilon = price.claim.clone().within(privacy.epsilon).epsilon;
        let extra = DistributedNoise::extra_delta(epsilon, distance);
        if extra.is_nan() || extra > privacy.delta * RESERVED {
            return Err(ConfigError::at(
                "noise",
                format!(
                    "noise is so small (ε = {epsilon:.1}) that rounding a sum by summands costs δ = {extra:.1e}: add more, or more fraction_bits"
                ),
            ).refusing_claim());
        }
        let claim = &mut price.claim;
        claim.against = Adversary::coalition(distributed_noise.colluders(), masked);
        let part = if fewest == many {
            format!("1/{fewest} of the variance")
        } else {
            format!("1/{fewest} to 1/{many} of the variance, by how many must hide it")
        };
        claim.sampler = format!("{}, an agent's part having {part}", claim.sampler);
        claim.delta = privacy.delta;
        claim.bounds = None;
        let (adversary, caveat) = if masked {
            under_masks(distributed_noise, many)
        } else {
            in_shares(distributed_noise)
        };
        claim.adversary = adversary;
        claim.caveats.push(format!(
            "{caveat}. δ has {extra:.1e} for rounding their parts one by one and for the ends of the range"
        ));
    }
    account.settle();
    Ok(())
}

/// Whom shares protect from, and what that rests on.
fn in_shares(distributed_noise: DistributedNoise) -> (String, String) {
    let (colluders, agents) = (distributed_noise.colluders(), distributed_noise.agents());
    let adversary = format!(
        "up to {colluders} of {agents} agents collude, pool all they see and subtract their own noise; all follow the protocol"
    );
    let honest = distributed_noise.honest();
    let caveat = format!(
        "the noise is the sum's: the {honest} agents who do not collude add all of it together"
    );
    (adversary, caveat)
}

/// Whom masked sums protect from, and what that rests on.
fn under_masks(distributed_noise: DistributedNoise, many: usize) -> (String, String) {
    let (colluders, agents, t) =
        (distributed_noise.colluders(), distributed_noise.agents(), distributed_noise.drop_outs());
    let (meanwhile, tries) = match t {
        0 => (String::new(), "nobody may drop out".to_owned()),
        1 => (
            ", while up to 1 agent drops out".to_owned(),
            "one further try is paid for, for the agent that may drop out".to_owned(),
        ),
        t => (
            format!(", while up to {t} agents drop out"),
            format!("{t} further tries are paid for, one for every agent that may drop out"),
        ),
    };
    let adversary = format!(
        "any {colluders} of {agents} agents, fixed before the run, pool all they know and leave the protocol as they like, and somebody reads every message on every \
         link{meanwhile}; all others follow the protocol and keep the secrets of their edges"
    );
    let hidden = match distributed_noise.hiding_set_size() {
        m if m < many => format!(
            "every sum that can be read holds the parts of agents who do not collude that add up to all of the noise; an agent's part is the \
             smaller the more agents stay with it whoever is taken away, {m} to {many} (fewer colluders, fewer drop_outs or more edges would \
             need less noise)"
        ),
        1 => format!(
            "{} agents can cut off one alone, so each hides itself (fewer colluders, fewer drop_outs or more edges would need less noise)",
            colluders + t
        ),
        m => format!("at least {m} agents who do not collude are in every sum that can be read"),
    };
    (adversary, format!("masked sums: {hidden}; {tries}"))
}

/// The noise in words, and from whom shares hide what.
pub(super) fn describe(planned: &Planned) -> String {
    let noise = planned.account.describe();
    let how = if planned.masking.is_some() { "masked" } else { "secret-shared" };
    match (&planned.sharing, planned.account.distributed_noise) {
        (Some(_), Some(t)) if t.drop_outs() > 0 => format!(
            "{noise} an agent; {how}, the sum hides a record from up to {} colluders while up to {} agents drop out",
            t.colluders(),
            t.drop_outs()
        ),
        (Some(_), Some(t)) => {
            format!(
                "{noise} an agent; {how}, the sum hides a record from up to {} colluders",
                t.colluders()
            )
        }
        (Some(code), None) => {
            let most = planned.masking.map_or(code.agents() - 2, |masking| masking.hidden_from);
            format!("{noise}; {how}, hidden from up to {most} colluders")
        }
        (None, _) => noise,
    }
}

/// The keys of a resolved file.
pub(super) fn keys(planned: &Planned) -> Parameters {
    let mut table = Parameters::new();
    if let Some(code) = &planned.sharing {
        let masking = planned.masking;
        table.insert(
            "exchange".into(),
            if masking.is_some() { "masked" } else { "secret-shared" }.into(),
        );
        let drop_outs = masking.map(|m| m.drop_outs as i64).filter(|&t| t > 0);
        table.extend(drop_outs.map(|t| ("drop_outs".into(), t.into())));
        table.insert("range".into(), code.range().into());
        table.insert("fraction_bits".into(), i64::from(code.fraction_bits()).into());
        let colluders = planned.account.distributed_noise.map(|t| t.colluders() as i64);
        table.extend(colluders.map(|c| ("colluders".into(), c.into())));
    }
    table
}

/// The next power of two, which is exact.
fn up(x: f64) -> f64 {
    libm::exp2(libm::ceil(libm::log2(x.max(1.0) * (1.0 + 1e-9))))
}

/// The range a run needs; `None` where nothing bounds it.
fn message_bound(
    protocol: &dyn Protocol,
    facts: &PublicFacts,
    context: &Context<'_>,
    parts: &[f64],
    drop_outs: usize,
) -> Option<f64> {
    if let Some(coupled) = context.coupled {
        return contributions(coupled);
    }
    let within = context.spec.objective.constraint.radius(facts.dim);
    if parts.is_empty() && within.is_some() {
        // Every agent moves its vector into the set before it shares it.
        return within;
    }
    // One record alone is an upper bound on the mean of many.
    let gradient = context.terms.steepest();
    let wide = |x: f64| x * (1.0 + 1e-9) + 1e-9;
    let (mut before, mut largest) = (0.0, 0.0f64);
    for round in 1..=facts.rounds {
        let message = wide(protocol.message_bound(round, before, gradient, facts)?);
        // A round may be tried again with the noise of a later charge.
        let charges =
            parts.len().min(round as usize - 1)..parts.len().min(round as usize + drop_outs);
        let Some(part) = parts[charges].iter().copied().reduce(f64::max) else {
            before = message;
            largest = largest.max(message);
            continue;
        };
        // The three parts of a noised message and what each may have of the range: half, a quarter
        // and a quarter (see `Gate::share`).
        let low = wide(protocol.message_bound(round, before, 0.0, facts)?);
        let step = wide(protocol.message_bound(round, 0.0, gradient, facts)?);
        let tail = wide((TAIL + 1.0) * part);
        largest = largest.max(2.0 * low).max(4.0 * step).max(4.0 * tail);
        before = within.unwrap_or(f64::INFINITY).min(message + tail);
    }
    largest.is_finite().then_some(largest)
}

/// The largest number of any A_i x_i within the agents' limits.
fn contributions(coupled: &CoupledProblem) -> Option<f64> {
    let mut largest = 0.0f64;
    for (agent, costs) in coupled.costs.iter().enumerate() {
        let mut rows = vec![0.0; coupled.coupling.rows()];
        for &(r, c, v) in coupled.coupling.block(agent).entries() {
            let [low, high] = costs.limits()[c];
            rows[r] += (v * low.abs().max(high.abs())).abs();
        }
        largest = rows.into_iter().fold(largest, f64::max);
    }
    (largest.is_finite() && !coupled.costs.is_empty()).then_some(largest * (1.0 + 1e-9))
}

#[cfg(test)]
mod tests {
    use crate::experiment::{
        Experiment, ExperimentSpec, Inputs, Notation, Silent, Source, SpecError, run,
    };

    fn read(text: &str) -> ExperimentSpec {
        let spec: ExperimentSpec = toml::from_str(text).unwrap();
        spec.in_notation(Notation(|spec| toml::to_string_pretty(spec).unwrap()))
    }

    fn check(agents: usize, graph: &str, algorithm: &str) -> Result<Experiment, SpecError> {
        let text = format!(
            "name = \"small\"\nruns = 2\n[data]\nsource = \"logistic\"\nagents = {agents}\nrecords_per_agent = 30\ndim = 4\n\
             [graph]\nkind = \"{graph}\"\n{algorithm}"
        );
        let spec = read(&text);
        let source = Source::Synthetic(spec.synthetic().unwrap().unwrap());
        Experiment::check(Inputs {
            file: "small.toml".into(),
            text,
            spec,
            source,
            edges: None,
            entropy: None,
        })
    }

    const GD: &str =
        "[[algorithm]]\nkind = \"gd\"\nrounds = 20\nstep = 0.5\naggregation = \"fixed\"\n";
    const SECRET: &str = "exchange = \"secret-shared\"\n";

    #[test]
    fn a_secret_shared_run_gives_what_the_plain_one_gives() {
        let both = format!("{GD}{GD}{SECRET}");
        let experiment = check(4, "complete", &both).unwrap();
        // Without a bound on the set, 20 steps of 0.5 along gradients of at most 1 reach no farther
        // than 10.
        assert!(experiment.resolved().contains("range = 16.0"), "{}", experiment.resolved());
        let record = run(&experiment, &Silent).unwrap().record;
        let [plain, shared] = &record.algorithms[..] else { panic!("two algorithms") };
        assert!((plain.objective - shared.objective).abs() < 1e-10);
        assert!(shared.noise.contains("hidden from up to 2 colluders"), "{}", shared.noise);
        assert_eq!(shared.parameters["fraction_bits"], 40);
        // Nothing of this is said of the plain one, whose file stays as it was.
        assert!(!plain.noise.contains("colluders") && plain.parameters.get("exchange").is_none());
    }

    #[test]
    fn a_resolved_file_resolves_to_itself() {
        let experiment = check(4, "complete", &format!("{GD}{SECRET}")).unwrap();
        let text = experiment.resolved();
        let spec = read(&text);
        let source = Source::Synthetic(spec.synthetic().unwrap().unwrap());
        let again = Experiment::check(Inputs {
            file: "again".into(),
            text: text.clone(),
            spec,
            source,
            edges: None,
            entropy: None,
        });
        assert_eq!(again.unwrap().resolved(), text);
    }

    #[test]
    fn what_cannot_be_shared_is_refused_with_line_key_and_fix() {
        let refused = |agents, graph: &str, algorithm: &str, parts: &[&str]| {
            let error = check(agents, graph, algorithm).unwrap_err().to_string();
            assert!(parts.iter().all(|part| error.contains(part)), "{parts:?} not in {error}");
        };
        let gd = |more: &str| format!("{GD}{SECRET}{more}");
        let admm =
            |more: &str| format!("[[algorithm]]\nkind = \"admm\"\nrounds = 20\n{SECRET}{more}");
        refused(2, "complete", &gd(""), &["small.toml:15: ", "at least 3 agents, not 2"]);
        refused(
            4,
            "ring",
            &admm(""),
            &["small.toml:13: ", "complete graph", "graph.kind = \"complete\""],
        );
        refused(
            4,
            "complete",
            &gd("range = 0.5\n"),
            &["small.toml:16: ", "range = 0.5 is too small", "range = 16"],
        );
        refused(
            4,
            "complete",
            &gd("fraction_bits = 60\n"),
            &["small.toml:16: ", "not below 2^63", "fraction bits"],
        );
        refused(4, "complete", &gd("gossip = 3\n"), &["small.toml:16: ", "gossip", "leave it out"]);
        refused(
            4,
            "complete",
            &gd("noise = { gaussian = 1.0 }\n"),
            &["small.toml:16: ", "noise = \"none\""],
        );
        refused(4, "complete", &admm(""), &["needs range", "objective.constraint"]);
        let random = gd("").replace("fixed", "random");
        refused(4, "complete", &random, &["aggregation = \"fixed\""]);
        let star = format!("[[algorithm]]\nkind = \"gd-star\"\nrounds = 9\n{SECRET}");
        refused(4, "complete", &star, &["gd-star needs each vector"]);
        refused(
            4,
            "complete",
            &format!("{GD}range = 2.0\n"),
            &["small.toml:15: ", "exchange = \"secret-shared\""],
        );
        refused(
            4,
            "complete",
            &gd("colluders = 1\n"),
            &["small.toml:16: ", "colluders", "leave it out"],
        );
        refused(
            4,
            "complete",
            &format!("{GD}colluders = 1\n"),
            &["small.toml:15: ", "secret-shared"],
        );
        assert!(check(4, "complete", &admm("range = 100.0\n")).is_ok());
    }

    fn private(algorithm: &str, privacy: &str) -> String {
        format!("{algorithm}[privacy]\nepsilon = 1.0\ndelta = 1e-6\n{privacy}")
    }

    #[test]
    fn noise_that_cannot_be_divided_is_refused_with_line_key_and_fix() {
        let refused = |algorithm: &str, privacy: &str, parts: &[&str]| {
            let checked = check(4, "complete", &private(algorithm, privacy)).map(|_| ());
            let error = checked.unwrap_err().to_string();
            assert!(parts.iter().all(|part| error.contains(part)), "{parts:?} not in {error}");
        };
        let gd = |more: &str| format!("{GD}{SECRET}{more}");
        refused(
            &gd("colluders = 3\n"),
            "",
            &["small.toml:16: ", "colluders = 3 of 4", "at most 2", "plain exchange"],
        );
        refused(
            &gd("range = 1.0\n"),
            "",
            &["small.toml:16: ", "range = 1 is too small", "leave it out"],
        );
        refused(
            &gd("fraction_bits = 3\n"),
            "",
            &["small.toml:16: ", "at least 4", "more fraction bits"],
        );
        refused(
            &gd("fraction_bits = 46\n"),
            "",
            &["small.toml:16: ", "2^52", "fewer fraction bits"],
        );
        refused(
            &gd(""),
            "mechanism = \"laplace\"\n",
            &["do not add up to Laplace", "leave privacy.mechanism out"],
        );
        refused(
            &gd("noise = { laplace_scale = 1.0 }\n"),
            "",
            &["small.toml:16: ", "noise must be", "gaussian"],
        );
        refused(&gd(""), "accounting = \"filter\"\n", &["accounting = \"schedule\""]);
        let unlimited =
            private(&gd("noise = { gaussian = 1e-4 }\n"), "").replace("epsilon = 1.0\n", "");
        let error = check(4, "complete", &unlimited).map(|_| ()).unwrap_err().to_string();
        assert!(
            error.contains("small.toml:16: ") && error.contains("noise is so small"),
            "{error}"
        );
        let admm = format!("[[algorithm]]\nkind = \"admm\"\nrounds = 20\n{SECRET}range = 100.0\n");
        refused(
            &admm,
            "",
            &["goes on from each agent's own vector", "gd with aggregation", "noise = \"none\""],
        );
        assert!(check(4, "complete", &private(&format!("{admm}noise = \"none\"\n"), "")).is_ok());
    }

    #[test]
    fn a_calibrated_run_keeps_its_budget_and_resolves_to_itself() {
        let experiment = check(4, "complete", &private(&format!("{GD}{SECRET}"), "")).unwrap();
        let text = experiment.resolved();
        assert!(text.contains("colluders = 2") && text.contains("gossip = 0"), "{text}");
        let record = run(&experiment, &Silent).unwrap().record;
        let epsilon = record.algorithms[0].epsilon.as_ref().unwrap();
        assert!(
            epsilon.claim <= 1.0 && epsilon.claim > 0.999 && epsilon.delta == 1e-6,
            "{epsilon:?}"
        );
        assert_eq!(record.algorithms[0].agents_stopped, 0.0);
        assert!(
            record.algorithms[0].noise.contains("2 colluders"),
            "{}",
            record.algorithms[0].noise
        );
        let spec = read(&text);
        let source = Source::Synthetic(spec.synthetic().unwrap().unwrap());
        let inputs = Inputs {
            file: "again".into(),
            text: text.clone(),
            spec,
            source,
            edges: None,
            entropy: None,
        };
        assert_eq!(Experiment::check(inputs).unwrap().resolved(), text);
    }

    /// On a path every agent can be cut off with those behind it: the ends hide themselves, and the
    /// middle has the parts of half of all. Everybody had the whole of the noise before.
    #[test]
    fn a_leaf_of_masked_sums_does_not_cost_the_others_their_company() {
        let masked = format!("{GD}exchange = \"masked\"\ncolluders = 1\n");
        let experiment = check(8, "path", &private(&masked, "")).unwrap();
        let account = &experiment.planned[0].account;
        let distributed_noise = account.distributed_noise.unwrap();
        let hiding_set_sizes: Vec<usize> =
            (0..8).map(|i| account.hiding_set_size(distributed_noise, i)).collect();
        assert_eq!(hiding_set_sizes, [1, 2, 3, 4, 4, 3, 2, 1]);
        let graph = &experiment.graphs[0];
        let of = |i| account.noise_schedule(i, experiment.site_weight(i), graph.degree(i)).unwrap();
        let whole = of(0).hidden_by[0].scale();
        for (i, &hiding_set_size) in hiding_set_sizes.iter().enumerate() {
            let part = of(i).noise[0].noise().scale();
            assert!((part * part * hiding_set_size as f64 / (whole * whole) - 1.0).abs() < 1e-9);
            assert_eq!(of(i).hidden_by, of(0).hidden_by, "the claim is the same for all");
            assert_eq!(of(i).noise[0].grid(), of(0).noise[0].grid(), "and so is the grid");
        }
        let record = run(&experiment, &Silent).unwrap().record;
        let epsilon = record.algorithms[0].epsilon.as_ref().unwrap();
        assert!(epsilon.claim <= 1.0 && epsilon.claim > 0.999, "{epsilon:?}");
    }

    /// Both ends of every edge draw with one deviation on one grid, whatever their own noises are.
    #[test]
    fn edges_of_an_irregular_graph_have_one_noise_and_agents_their_own() {
        let decor = "[[algorithm]]\nkind = \"decor\"\nrounds = 20\nstep = 0.5\ncolluders = 1\n";
        let experiment = check(8, "path", &private(decor, "")).unwrap();
        let account = &experiment.planned[0].account;
        let graph = &experiment.graphs[0];
        let of = |i| account.noise_schedule(i, experiment.site_weight(i), graph.degree(i)).unwrap();
        let shared = account.correlated.as_ref().unwrap().shared_noise();
        let own: Vec<f64> = (0..8).map(|i| of(i).noise[3].noise().scale()).collect();
        assert!(own[0] > 1.2 * own[3] && own[0] == own[7], "{own:?}");
        assert!((0..8).all(|i| of(i).noise[3].grid() == shared[3].grid()));
        let fixed =
            check(8, "path", &private(&format!("{decor}noise = {{ gaussian = 0.5 }}\n"), ""));
        let account = &fixed.unwrap().planned[0].account;
        let all: Vec<f64> = account.all_noise().map(|n| n[3].noise().scale()).collect();
        assert!(all.iter().all(|s| (s - 0.5).abs() < 1e-9), "what a file fixes is kept: {all:?}");
    }

    #[test]
    fn iterates_that_leave_a_declared_range_fail_the_run() {
        // Nothing bounds ADMM in advance; its vectors leave ±0.01 at once.
        let text = format!("[[algorithm]]\nkind = \"admm\"\nrounds = 20\n{SECRET}range = 0.01\n");
        let error = run(&check(4, "complete", &text).unwrap(), &Silent).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("outside the declared range ±0.01 in round 1; nothing was sent"),
            "{error}"
        );
    }
}
