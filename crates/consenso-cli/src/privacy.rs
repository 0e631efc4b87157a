//! `consenso privacy`: the accountants, one question at a time.

use crate::{Failure, audit, explain, output, statement, table, trust};
use anyhow::{Context as _, Result};
use consenso_engine::privacy::calibrate::{
    Calibration, NoiseKind, Request, calibrate, complete_sensitivity,
};
use consenso_engine::privacy::{
    Bound, Composition, NeighbourRelation, Sampling, compose, mixture, parse_events,
};
use serde_json::json;
use std::fmt::Write as _;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// What releases cost, and how much noise a budget needs
///
/// Every ε that is printed is an upper bound, rounded up.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// How much a random weight amplifies privacy: γ of the paper's Theorem 2.3
    #[command(after_help = "\
Example:
  consenso privacy gamma --omega 0.1 --beta 10 --shift 0.01 --json

exact is E[loss]/worst case; bound is a valid closed-form bound of it; printed is the closed form
of the paper, which is no upper bound (null unless ω > shift > 0).")]
    Gamma(Mixture),
    /// The loss of one released value: Theorem 2.2, beside the worst case
    #[command(after_help = "\
Example:
  consenso privacy loss --omega 0.1 --beta 10 --shift 0.01 --x 0.05

A realised loss depends on private data: it is the agent's own to see.")]
    Loss {
        #[command(flatten)]
        mixture: Mixture,
        /// The released value, measured from the interval's low end (the private step included)
        #[arg(long, allow_negative_numbers = true)]
        x: f64,
    },
    /// The Rényi cost of one released coordinate, worst over shifts
    #[command(
        after_help = "Example:\n  consenso privacy renyi --omega 0.1 --beta 10 --shift 0.01 --order 8"
    )]
    Renyi {
        #[command(flatten)]
        mixture: Mixture,
        /// Rényi order, above 1
        #[arg(long, allow_negative_numbers = true)]
        order: f64,
    },
    /// What a schedule of releases costs together, by every method that is valid for it
    #[command(after_help = "\
Example:
  echo '[{\"mechanism\":\"laplace\",\"epsilon\":0.01,\"count\":1400}]' > events.json
  consenso privacy compose --events events.json --delta 1e-6

Mechanisms: laplace (epsilon = l1 sensitivity/scale), gaussian (mu = l2 sensitivity/σ),
pure (epsilon), zcdp (rho), interval-laplace (orders, costs, pure),
interval-gaussian (orders, costs), post-processing.
Each entry stands for `count` releases.

With \"sampling\": q a laplace or gaussian release is a sum over a secret sample, which every
record is in with probability q: epsilon and mu are then those of a release that has drawn the
record in question, added or removed. \"neighbours\": \"replace-one\" says that they are those of
a replaced record; each record's contribution is then at most half as long.
  [{\"mechanism\":\"gaussian\",\"mu\":0.5,\"sampling\":0.01,\"count\":1000}]")]
    Compose {
        /// JSON array of events, or - for stdin
        #[arg(long, value_name = "FILE.json")]
        events: PathBuf,
        /// δ of every method but pure, which holds at 0
        #[arg(long, allow_negative_numbers = true)]
        delta: f64,
    },
    /// The least noise that keeps a schedule of releases within a budget
    #[command(after_help = "\
Example:
  consenso privacy calibrate --epsilon 1 --delta 1e-6 --rounds 200 --dim 106 --sensitivity-l2 6.7e-4

Give at least one sensitivity of the released step: how far one record can move it in that norm.
More of them can only lower the noise.

With --sampling Q every record is in a round with probability Q, in secret; sensitivities are those
of a round that has drawn the record in question.")]
    Calibrate(BudgetArgs),
    Explain(explain::Args),
    Audit(audit::Args),
    Map(trust::MapArgs),
    Exposure(trust::ExposureArgs),
    Statement(statement::Args),
}

#[derive(clap::Args)]
struct Mixture {
    /// ω, the width of the public interval
    #[arg(long, allow_negative_numbers = true)]
    omega: f64,
    /// β, the rate of the Laplace noise (1/scale)
    #[arg(long, allow_negative_numbers = true)]
    beta: f64,
    /// How far the private step can move: its l∞ sensitivity
    #[arg(long, allow_negative_numbers = true)]
    shift: f64,
}

#[derive(clap::Args)]
struct BudgetArgs {
    /// The budget's ε
    #[arg(long, allow_negative_numbers = true)]
    epsilon: f64,
    /// The budget's δ
    #[arg(long, allow_negative_numbers = true)]
    delta: f64,
    /// Releases, one a round
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rounds: u32,
    /// Length of the released vector
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    dim: u32,
    #[command(flatten)]
    sensitivity: Sensitivity,
    /// The noise to use [default: whichever has less variance]
    #[arg(long, value_enum)]
    mechanism: Option<Kind>,
    /// The probability with which every record is drawn for a round [default: all are in it]
    #[arg(long, value_name = "Q", allow_negative_numbers = true)]
    sampling: Option<f64>,
    /// What happens to the one record, for --sampling
    #[arg(long, value_enum, default_value_t = Change::AddRemove, requires = "sampling")]
    neighbours: Change,
}

#[derive(clap::Args)]
#[group(required = true, multiple = true)]
struct Sensitivity {
    /// l1 sensitivity of the released step
    #[arg(long, value_name = "B", allow_negative_numbers = true)]
    sensitivity_l1: Option<f64>,
    /// l2 sensitivity
    #[arg(long, value_name = "B", allow_negative_numbers = true)]
    sensitivity_l2: Option<f64>,
    /// l∞ sensitivity
    #[arg(long, value_name = "B", allow_negative_numbers = true)]
    sensitivity_linf: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Change {
    AddRemove,
    ReplaceOne,
    ZeroOut,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    Laplace,
    Gaussian,
}

pub(crate) fn command(args: &Args, json: bool) -> Result<(), Failure> {
    let (value, text) = match &args.command {
        Command::Gamma(m) => {
            let found = mixture::gamma(m.omega, m.beta, m.shift)?;
            let value =
                json!({ "exact": found.exact, "printed": found.printed, "bound": found.bound });
            let printed =
                found.printed.map_or("not defined here (needs ω > shift > 0)".into(), number);
            let text = format!(
                "γ exact    {}\nγ printed  {printed}\nγ bound    {}\n",
                number(found.exact),
                number(found.bound)
            );
            (value, text)
        }
        Command::Loss { mixture: m, x } => {
            let found = mixture::loss(m.omega, m.beta, m.shift, *x)?;
            let text = format!("loss   {}\nworst  {}\n", number(found.loss), number(found.worst));
            (json!({ "loss": found.loss, "worst": found.worst }), text)
        }
        Command::Renyi { mixture: m, order } => {
            let cost = mixture::renyi(m.omega, m.beta, m.shift, *order)?;
            (json!({ "cost": cost }), format!("cost  {}\n", number(cost)))
        }
        Command::Compose { events, delta } => {
            let found = composition(events, *delta)?;
            (composition_json(&found), composition_text(&found))
        }
        Command::Calibrate(budget) => {
            let found = calibrated(budget)?;
            (json!(found), calibration_text(&found))
        }
        Command::Explain(args) => return explain::command(args, json),
        Command::Audit(args) => return audit::command(args, json),
        Command::Map(args) => return trust::map(args, json),
        Command::Exposure(args) => return trust::exposure(args, json),
        Command::Statement(args) => return statement::command(args, json),
    };
    if json {
        output::print_json(&value);
    } else {
        output::print(&text);
    }
    Ok(())
}

/// Eight digits, rounded up.
fn number(value: f64) -> String {
    table::rounded_up(value, 8)
}

fn composition(path: &Path, delta: f64) -> Result<Composition> {
    let name = path.display();
    let mut text = String::new();
    if path == Path::new("-") {
        std::io::stdin()
            .read_to_string(&mut text)
            .context("the events cannot be read from stdin")?;
    } else {
        text = std::fs::read_to_string(path).with_context(|| format!("{name}: cannot be read"))?;
    }
    let events = parse_events(&text).with_context(|| name.to_string())?;
    Ok(compose(&events, delta)?)
}

fn composition_json(found: &Composition) -> serde_json::Value {
    let mut value = json!(found);
    value["best"] = match found.best() {
        Some((method, epsilon)) => json!({ "method": method.name(), "epsilon": epsilon }),
        None => serde_json::Value::Null,
    };
    value
}

fn composition_text(found: &Composition) -> String {
    let mut out = String::new();
    for (method, bound) in found.bounds() {
        let _ = match bound {
            Bound::Value(epsilon) => writeln!(out, "{:9} {}", method.name(), number(*epsilon)),
            Bound::NotValid { reason } => writeln!(out, "{:9} –  ({reason})", method.name()),
        };
    }
    match found.best() {
        Some((method, epsilon)) => {
            let delta =
                if method.name() == "pure" { "0".to_owned() } else { format!("{:e}", found.delta) };
            let _ = writeln!(
                out,
                "\nbest      ε = {} at δ = {delta}: {}",
                number(epsilon),
                method.theorem()
            );
        }
        None => out.push_str("\nno method covers these releases\n"),
    }
    out
}

fn calibrated(budget: &BudgetArgs) -> Result<Calibration> {
    let known = &budget.sensitivity;
    let sensitivity = complete_sensitivity(
        known.sensitivity_l1,
        known.sensitivity_l2,
        known.sensitivity_linf,
        budget.dim as usize,
    )?;
    let mut request = Request::new(
        budget.epsilon,
        budget.delta,
        budget.rounds as usize,
        budget.dim as usize,
        sensitivity,
    );
    request.noise = budget.mechanism.map(|kind| match kind {
        Kind::Laplace => NoiseKind::Laplace,
        Kind::Gaussian => NoiseKind::Gaussian,
    });
    let neighbours = match budget.neighbours {
        Change::AddRemove => NeighbourRelation::AddRemove,
        Change::ReplaceOne => NeighbourRelation::ReplaceOne,
        Change::ZeroOut => NeighbourRelation::ZeroOut,
    };
    request.sampling = budget.sampling.map(|rate| Sampling::new(rate, neighbours));
    Ok(calibrate(&request)?)
}

fn calibration_text(found: &Calibration) -> String {
    let (kind, scale) = match found.mechanism {
        NoiseKind::Laplace => ("Laplace", "scale b"),
        NoiseKind::Gaussian => ("Gaussian", "σ"),
    };
    let spent = &found.spent;
    format!(
        "{kind} noise, {scale} = {} a coordinate in each of {} rounds\nspends ε = {} at δ = {:e}: {}\n",
        number(found.multiplier),
        found.schedule.len(),
        number(spent.epsilon),
        spent.delta,
        spent.method.theorem()
    )
}
