//! `exchange = "secret-shared"`: what an experiment needs for it, and the range its numbers can have.

use super::budget::Context;
use crate::privacy::NeighbourRelation;
use crate::protocol::{Needs, Protocol, PublicFacts};
use crate::sharing::FixedPoint;
use serde::Deserialize;

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

/// Fixed point of a secret-shared exchange, as far as the file fixes it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SharingSpec {
    /// The largest number an agent may have to share.
    pub range: Option<f64>,
    /// Bits after the point.
    pub fraction_bits: Option<u32>,
}

/// With 40 bits a round adds at most 2^−41 to the error of the mean.
const FRACTION_BITS: u32 = 40;

/// The code of a run, or why it cannot be secret-shared; the text begins with the key at fault.
///
/// The range is proved, not hoped for: an agent that had to stop because of its own numbers would tell something about them.
pub(super) fn code(
    spec: &SharingSpec,
    protocol: &dyn Protocol,
    facts: &PublicFacts,
    context: &Context<'_>,
) -> Result<FixedPoint, String> {
    let secret = "exchange = \"secret-shared\"";
    if facts.agents < 3 {
        return Err(format!(
            "{secret} needs at least 3 agents, not {}: of two, each learns the other's vector from the sum",
            facts.agents
        ));
    }
    if !facts.complete {
        return Err(format!("{secret} needs a complete graph: set graph.kind = \"complete\""));
    }
    match (protocol.needs(), protocol.kind()) {
        (Needs::Rows, "gd") => {
            return Err(format!(
                "{secret} reveals the mean alone, and random weights need the two agents farthest apart: set aggregation = \"fixed\""
            ));
        }
        (Needs::Rows, kind) => {
            return Err(format!("{secret} reveals sums alone, and {kind} needs each vector: use gd or admm"));
        }
        _ => {}
    }
    if context.spec.start.is_some() {
        return Err(format!("{secret} starts everybody from one point: leave start out"));
    }
    if !context.bounds.public {
        return Err(format!(
            "{secret} takes its range from the bounds of the rows, and these were computed from the records: review the schema and set \
             reviewed = true in it"
        ));
    }
    if facts.private {
        return Err(format!(
            "{secret} adds no noise of its own: set noise = \"none\" here, or leave [privacy] out"
        ));
    }
    let proved = reach(protocol, facts, context);
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
            return Err(format!(
                "{secret} needs range, the largest number that can occur: nothing bounds {} in advance; an objective.constraint would",
                protocol.kind()
            ));
        }
    };
    let bits = spec.fraction_bits.unwrap_or(FRACTION_BITS);
    let place =
        spec.fraction_bits.map_or(format!("range = {range}"), |bits| format!("fraction_bits = {bits}"));
    FixedPoint::new(facts.agents, range, bits).map_err(|e| format!("{place}: {e}"))
}

/// The keys of a resolved file.
pub(super) fn keys(code: &FixedPoint) -> toml::Table {
    let mut table = toml::Table::new();
    table.insert("exchange".into(), "secret-shared".into());
    table.insert("range".into(), code.range().into());
    table.insert("fraction_bits".into(), i64::from(code.fraction_bits()).into());
    table
}

/// The next power of two, which is exact.
fn up(x: f64) -> f64 {
    libm::exp2(libm::ceil(libm::log2(x.max(1.0) * (1.0 + 1e-9))))
}

/// The largest |x[l]| of any message of the run; `None` where nothing bounds it.
fn reach(protocol: &dyn Protocol, facts: &PublicFacts, context: &Context<'_>) -> Option<f64> {
    let within = context.spec.objective.constraint.reach(facts.dim);
    if within.is_some() {
        // Every agent moves its vector into the set before it shares it.
        return within;
    }
    // One record alone is an upper bound on the mean of many.
    let gradient = context.objective.sensitivity(context.bounds, 1, NeighbourRelation::AddRemove).linf;
    let (mut before, mut largest) = (0.0, 0.0f64);
    for round in 1..=facts.rounds {
        before = protocol.reach(round, before, gradient, facts)? * (1.0 + 1e-9) + 1e-9;
        largest = largest.max(before);
    }
    largest.is_finite().then_some(largest)
}

#[cfg(test)]
mod tests {
    use crate::experiment::{Experiment, ExperimentSpec, Inputs, Silent, Source, SpecError, run};

    fn check(agents: usize, graph: &str, algorithm: &str) -> Result<Experiment, SpecError> {
        let text = format!(
            "name = \"small\"\nruns = 2\n[data]\nsource = \"logistic\"\nagents = {agents}\nrecords_per_agent = 30\ndim = 4\n\
             [graph]\nkind = \"{graph}\"\n{algorithm}"
        );
        let spec: ExperimentSpec = toml::from_str(&text).unwrap();
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
        let record = run(&experiment, &Silent).unwrap();
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
        let spec: ExperimentSpec = toml::from_str(&text).unwrap();
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
        let private = format!("{}[privacy]\nepsilon = 1.0\ndelta = 1e-6\n", gd(""));
        refused(4, "complete", &private, &["noise = \"none\"", "[privacy]"]);
        assert!(check(4, "complete", &admm("range = 100.0\n")).is_ok());
    }

    #[test]
    fn iterates_that_leave_a_declared_range_fail_the_run() {
        // Nothing bounds ADMM in advance; its vectors leave ±0.01 at once.
        let text = format!("[[algorithm]]\nkind = \"admm\"\nrounds = 20\n{SECRET}range = 0.01\n");
        let error = run(&check(4, "complete", &text).unwrap(), &Silent).unwrap_err();
        assert!(error.contains("outside the declared range ±0.01 in round 1; nothing was sent"), "{error}");
    }
}
