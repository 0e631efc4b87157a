//! `exchange = "secret-shared"`: what an experiment needs for it, and the range its numbers can have.

use super::check::{Context, Planned};
use super::problem::Tied;
use crate::account::{Account, Accounting, Mechanism, NoiseSpec, RESERVED};
use crate::gate::{Grid, Noise, RoundNoise};
use crate::privacy::Adversary;
use crate::privacy::distributed_noise::{TAIL, Together};
use crate::protocol::{Needs, Parameters, Protocol, PublicFacts};
use crate::sharing::{FixedPoint, ShareError};
use serde::Deserialize;
use std::sync::Arc;

/// How agents exchange their vectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ExchangeKind {
    /// Everybody sends its vector to its neighbours.
    #[default]
    Plain,
    /// Algorithm 3: only sums are revealed.
    SecretShared,
}

/// A secret-shared exchange, as far as the file fixes it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SharingSpec {
    /// The largest number an agent may have to share.
    pub range: Option<f64>,
    /// Bits after the point.
    pub fraction_bits: Option<u32>,
    /// How many agents may pool what they know against the others' noise.
    pub colluders: Option<usize>,
}

/// With 40 bits a round adds at most 2^−41 to the error of the mean.
const FRACTION_BITS: u32 = 40;

/// Under noise, as many bits as make an agent's part at least 2^20 steps: rounding then adds less than a part in 10^13 to its variance.
const NOISE_BITS: i32 = 20;

const SECRET: &str = "exchange = \"secret-shared\"";

/// Whether a run can be secret-shared; the text begins with the key at fault.
pub(super) fn check(
    protocol: &dyn Protocol,
    facts: &PublicFacts,
    context: &Context<'_>,
) -> Result<(), String> {
    if facts.agents < 3 {
        return Err(format!(
            "{SECRET} needs at least 3 agents, not {}: of two, each learns the other's vector from the sum",
            facts.agents
        ));
    }
    if !facts.complete {
        return Err(format!("{SECRET} needs a complete graph: set graph.kind = \"complete\""));
    }
    match (protocol.needs(), protocol.kind()) {
        (Needs::Rows, "gd") => {
            return Err(format!(
                "{SECRET} reveals the mean alone, and random weights need the two agents farthest apart: set aggregation = \"fixed\""
            ));
        }
        (Needs::Rows, kind) => {
            return Err(format!(
                "{SECRET} reveals sums alone, and {kind} needs each vector: use gd, admm or linear-admm"
            ));
        }
        (Needs::Sum | Needs::Total, kind) if facts.private => {
            return Err(format!("{SECRET}: {}; or set noise = \"none\"", ShareError::Noise { kind }));
        }
        _ => {}
    }
    if context.spec.start.is_some() {
        return Err(format!("{SECRET} starts everybody from one point: leave start out"));
    }
    if !context.terms.bounds.public {
        return Err(format!(
            "{SECRET} takes its range from the bounds of the rows, and these were computed from the records: review the schema and set \
             reviewed = true in it"
        ));
    }
    Ok(())
}

/// Who adds the noise of the sum; `None` for a run without noise.
pub(super) fn together(
    spec: &SharingSpec,
    noise: Option<&NoiseSpec>,
    facts: &PublicFacts,
    context: &Context<'_>,
) -> Result<Option<Together>, String> {
    let Some(privacy) = context.spec.privacy.filter(|_| facts.private) else {
        return match (spec.colluders, noise) {
            (_, Some(noise)) if *noise != NoiseSpec::None => Err(format!(
                "noise under {SECRET} is accounted for as the sum's: add [privacy] with a delta, or set noise = \"none\""
            )),
            (Some(_), _) => Err(format!(
                "colluders divides the noise of {SECRET}, and there is none: shares alone hide from any {}; leave it out",
                facts.agents.saturating_sub(2)
            )),
            _ => Ok(None),
        };
    };
    if privacy.accounting == Accounting::Filter {
        return Err(format!(
            "{SECRET} has no intervals whose width could count: set privacy.accounting = \"schedule\""
        ));
    }
    let laplace = "parts of Laplace noise do not add up to Laplace noise";
    if privacy.mechanism == Some(Mechanism::Laplace) {
        return Err(format!("{SECRET}: {laplace}; leave privacy.mechanism out"));
    }
    if !matches!(noise, None | Some(NoiseSpec::Gaussian(_))) {
        return Err(format!("noise must be {{ gaussian = … }} under {SECRET}, or left out: {laplace}"));
    }
    let (agents, most) = (facts.agents, Together::most(facts.agents));
    let colluders = spec.colluders.unwrap_or(most);
    match Together::new(agents, colluders) {
        Some(together) => Ok(Some(together)),
        // Fewer than three agents are refused with a reason of their own.
        None if agents < 3 => Ok(None),
        None => Err(format!(
            "colluders = {colluders} of {agents} agents is too many: at most {}, for all but one read the last one's vector; against them use \
             the plain exchange",
            agents - 2
        )),
    }
}

/// The code of a run, or why there is none; the text begins with the key at fault.
///
/// The range is proved, not hoped for: an agent that had to stop because of its own numbers would tell something about them.
pub(super) fn code(
    spec: &SharingSpec,
    protocol: &dyn Protocol,
    facts: &PublicFacts,
    context: &Context<'_>,
    account: &Account,
) -> Result<FixedPoint, String> {
    let parts = parts(account);
    let proved = reach(protocol, facts, context, &parts);
    let range = match (spec.range, proved) {
        (Some(range), Some(proved)) if range < proved => {
            return Err(format!(
                "range = {range} is too small: numbers of this run can reach {proved:.6}; set range = {} or leave it out",
                up(proved)
            ));
        }
        (Some(range), _) => range,
        (None, Some(proved)) => up(proved),
        (None, None) => {
            let bound = if context.tied.is_some() {
                "low and high of every agent"
            } else {
                "an objective.constraint"
            };
            return Err(format!(
                "{SECRET} needs range, the largest number that can occur: nothing bounds {} in advance; {bound} would",
                protocol.kind()
            ));
        }
    };
    let least = parts.iter().copied().fold(f64::INFINITY, f64::min);
    let enough = || (f64::from(NOISE_BITS) - libm::log2(least)).ceil().clamp(0.0, 60.0) as u32;
    let open = if parts.is_empty() { FRACTION_BITS } else { enough() };
    let bits = spec.fraction_bits.unwrap_or(open);
    let place =
        spec.fraction_bits.map_or(format!("range = {range}"), |bits| format!("fraction_bits = {bits}"));
    FixedPoint::new(facts.agents, range, bits).map_err(|e| format!("{place}: {e}"))
}

/// An agent's own part of the noise, by round; empty without noise.
fn parts(account: &Account) -> Vec<f64> {
    let part =
        |together: Together| account.noise().iter().map(|n| together.part(n.noise().scale())).collect();
    account.together.map(part).unwrap_or_default()
}

/// Gives every agent its part of the noise, on the grid of the code, and says in the claim what that assumes and adds to δ.
pub(super) fn distribute(
    account: &mut Account,
    code: &FixedPoint,
    facts: &PublicFacts,
    context: &Context<'_>,
) -> Result<(), String> {
    let (Some(together), Some(privacy)) = (account.together, context.spec.privacy) else { return Ok(()) };
    let grid = Grid::new(-(code.fraction_bits() as i32)).map_err(|e| e.to_string())?;
    let parts = parts(account);
    let noise: Arc<[RoundNoise]> =
        parts.iter().map(|&sigma| RoundNoise::on_grid(Noise::Gaussian { sigma }, grid)).collect();
    for n in &*noise {
        code.holds(n).map_err(|e| format!("fraction_bits = {}: {e}", code.fraction_bits()))?;
    }
    for allotment in account.allotments_mut() {
        allotment.hidden_by = allotment.noise.iter().map(RoundNoise::noise).collect();
        allotment.noise = Arc::clone(&noise);
        let Some(price) = &mut allotment.price else { continue };
        let epsilon = privacy.epsilon.map_or(price.claim.epsilon, |e| e.min(price.claim.epsilon));
        let extra = together.extra_delta(epsilon, facts.dim, parts.iter().map(|s| s / grid.step()));
        if extra.is_nan() || extra > privacy.delta * RESERVED {
            return Err(format!(
                "noise is so small (ε = {epsilon:.1}) that rounding a sum by summands costs δ = {extra:.1e}: add more, or more fraction_bits"
            ));
        }
        let claim = &mut price.claim;
        claim.against = Adversary::coalition(together.colluders(), false);
        claim.adversary = format!(
            "up to {} of {} agents collude, pool all they see and subtract their own noise; all follow the protocol",
            together.colluders(),
            together.agents()
        );
        claim.sampler =
            format!("{}, an agent's part having 1/{} of the variance", claim.sampler, together.honest());
        claim.delta = privacy.delta;
        claim.bounds = None;
        claim.caveats.push(format!(
            "the noise is the sum's: the {} agents who do not collude add all of it together. δ has {extra:.1e} for rounding their \
             parts one by one and for the ends of the range",
            together.honest()
        ));
    }
    account.settle();
    Ok(())
}

/// The noise in words, and from whom shares hide what.
pub(super) fn describe(planned: &Planned) -> String {
    let noise = planned.account.describe();
    match (&planned.sharing, planned.account.together) {
        (Some(_), Some(t)) => format!(
            "{noise} an agent; secret-shared, the sum hides a record from up to {} colluders",
            t.colluders()
        ),
        (Some(code), None) => {
            format!("{noise}; secret-shared, hidden from up to {} colluders", code.agents() - 2)
        }
        (None, _) => noise,
    }
}

/// The keys of a resolved file.
pub(super) fn keys(planned: &Planned) -> Parameters {
    let mut table = Parameters::new();
    if let Some(code) = &planned.sharing {
        table.insert("exchange".into(), "secret-shared".into());
        table.insert("range".into(), code.range().into());
        table.insert("fraction_bits".into(), i64::from(code.fraction_bits()).into());
        let colluders = planned.account.together.map(|t| t.colluders() as i64);
        table.extend(colluders.map(|c| ("colluders".into(), c.into())));
    }
    table
}

/// The next power of two, which is exact.
fn up(x: f64) -> f64 {
    libm::exp2(libm::ceil(libm::log2(x.max(1.0) * (1.0 + 1e-9))))
}

/// The range a run needs; `None` where nothing bounds it.
fn reach(protocol: &dyn Protocol, facts: &PublicFacts, context: &Context<'_>, parts: &[f64]) -> Option<f64> {
    if let Some(tied) = context.tied {
        return contributions(tied);
    }
    let within = context.spec.objective.constraint.reach(facts.dim);
    if parts.is_empty() && within.is_some() {
        // Every agent moves its vector into the set before it shares it.
        return within;
    }
    // One record alone is an upper bound on the mean of many.
    let gradient = context.terms.steepest();
    let wide = |x: f64| x * (1.0 + 1e-9) + 1e-9;
    let (mut before, mut largest) = (0.0, 0.0f64);
    for round in 1..=facts.rounds {
        let message = wide(protocol.reach(round, before, gradient, facts)?);
        let Some(part) = parts.get(round as usize - 1) else {
            before = message;
            largest = largest.max(message);
            continue;
        };
        // The three parts of a noised message and what each may have of the range: half, a quarter and a quarter (see `Gate::share`).
        let low = wide(protocol.reach(round, before, 0.0, facts)?);
        let step = wide(protocol.reach(round, 0.0, gradient, facts)?);
        let tail = wide((TAIL + 1.0) * part);
        largest = largest.max(2.0 * low).max(4.0 * step).max(4.0 * tail);
        before = within.unwrap_or(f64::INFINITY).min(message + tail);
    }
    largest.is_finite().then_some(largest)
}

/// The largest number of any A_i x_i within the agents' limits.
fn contributions(tied: &Tied) -> Option<f64> {
    let mut largest = 0.0f64;
    for (agent, costs) in tied.costs.iter().enumerate() {
        let mut rows = vec![0.0; tied.coupling.rows()];
        for &(r, c, v) in tied.coupling.block(agent).entries() {
            let [low, high] = costs.limits()[c];
            rows[r] += (v * low.abs().max(high.abs())).abs();
        }
        largest = rows.into_iter().fold(largest, f64::max);
    }
    (largest.is_finite() && !tied.costs.is_empty()).then_some(largest * (1.0 + 1e-9))
}

#[cfg(test)]
mod tests {
    use crate::experiment::{Experiment, ExperimentSpec, Inputs, Notation, Silent, Source, SpecError, run};

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

    const GD: &str = "[[algorithm]]\nkind = \"gd\"\nrounds = 20\nstep = 0.5\naggregation = \"fixed\"\n";
    const SECRET: &str = "exchange = \"secret-shared\"\n";

    #[test]
    fn a_secret_shared_run_gives_what_the_plain_one_gives() {
        let both = format!("{GD}{GD}{SECRET}");
        let experiment = check(4, "complete", &both).unwrap();
        // Without a bound on the set, 20 steps of 0.5 along gradients of at most 1 reach no farther than 10.
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
        let admm = |more: &str| format!("[[algorithm]]\nkind = \"admm\"\nrounds = 20\n{SECRET}{more}");
        refused(2, "complete", &gd(""), &["small.toml:15: ", "at least 3 agents, not 2"]);
        refused(4, "ring", &admm(""), &["small.toml:13: ", "complete graph", "graph.kind = \"complete\""]);
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
        refused(4, "complete", &gd("noise = { gaussian = 1.0 }\n"), &["small.toml:16: ", "noise = \"none\""]);
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
        refused(4, "complete", &gd("colluders = 1\n"), &["small.toml:16: ", "colluders", "leave it out"]);
        refused(4, "complete", &format!("{GD}colluders = 1\n"), &["small.toml:15: ", "secret-shared"]);
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
        refused(&gd("range = 1.0\n"), "", &["small.toml:16: ", "range = 1 is too small", "leave it out"]);
        refused(&gd("fraction_bits = 3\n"), "", &["small.toml:16: ", "at least 4", "more fraction bits"]);
        refused(&gd("fraction_bits = 46\n"), "", &["small.toml:16: ", "2^52", "fewer fraction bits"]);
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
        let unlimited = private(&gd("noise = { gaussian = 1e-4 }\n"), "").replace("epsilon = 1.0\n", "");
        let error = check(4, "complete", &unlimited).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("small.toml:16: ") && error.contains("noise is so small"), "{error}");
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
        assert!(epsilon.claim <= 1.0 && epsilon.claim > 0.999 && epsilon.delta == 1e-6, "{epsilon:?}");
        assert_eq!(record.algorithms[0].agents_stopped, 0.0);
        assert!(record.algorithms[0].noise.contains("2 colluders"), "{}", record.algorithms[0].noise);
        let spec = read(&text);
        let source = Source::Synthetic(spec.synthetic().unwrap().unwrap());
        let inputs =
            Inputs { file: "again".into(), text: text.clone(), spec, source, edges: None, entropy: None };
        assert_eq!(Experiment::check(inputs).unwrap().resolved(), text);
    }

    #[test]
    fn iterates_that_leave_a_declared_range_fail_the_run() {
        // Nothing bounds ADMM in advance; its vectors leave ±0.01 at once.
        let text = format!("[[algorithm]]\nkind = \"admm\"\nrounds = 20\n{SECRET}range = 0.01\n");
        let error = run(&check(4, "complete", &text).unwrap(), &Silent).unwrap_err();
        assert!(error.contains("outside the declared range ±0.01 in round 1; nothing was sent"), "{error}");
    }
}
