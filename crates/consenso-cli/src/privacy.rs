//! `consenso privacy`: the accountants, one question at a time.

use crate::{Failure, audit, output, table, trust};
use anyhow::{Context as _, Result, anyhow};
use consenso_engine::privacy::calibrate::{
    Calibration, NoiseKind, Request, calibrate, complete_sensitivity,
};
use consenso_engine::privacy::{Bound, Composition, Meaning, compose, mixture, parse_events};
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
Each entry stands for `count` releases.")]
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
More of them can only lower the noise.")]
    Calibrate(BudgetArgs),
    /// What an ε means: as odds, and for somebody who tries to find out who is in the data
    #[command(after_help = "\
Example:
  consenso privacy explain --epsilon 1
  consenso privacy explain --epsilon 1 --delta 1e-6 --json

Every figure is a limit that no attacker passes, whatever they know or compute: one who tries less
cleverly learns less. `consenso privacy audit` tries.")]
    Explain {
        /// ε of the claim
        #[arg(long, allow_negative_numbers = true)]
        epsilon: f64,
        /// δ of the claim
        #[arg(long, default_value_t = 0.0, allow_negative_numbers = true)]
        delta: f64,
    },
    Audit(audit::Args),
    Map(trust::MapArgs),
    Exposure(trust::ExposureArgs),
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
        Command::Explain { epsilon, delta } => explained(*epsilon, *delta)?,
        Command::Audit(args) => return audit::command(args, json),
        Command::Map(args) => return trust::map(args, json),
        Command::Exposure(args) => return trust::exposure(args, json),
    };
    if json {
        output::print_json(&value);
    } else {
        output::print(&text);
    }
    Ok(())
}

/// Shares of wrong accusations for which `explain` says how many members are found.
const FALSE_ALARMS: [f64; 4] = [0.0001, 0.001, 0.01, 0.1];

/// What an attacker may have believed before.
const BELIEFS: [f64; 4] = [0.01, 0.1, 0.5, 0.9];

fn explained(epsilon: f64, delta: f64) -> Result<(serde_json::Value, String)> {
    let meaning = Meaning::of(epsilon, delta).ok_or_else(|| {
        anyhow!("--epsilon {epsilon} --delta {delta}: ε must be a number from 0 on, and δ from 0 to below 1")
    })?;
    let alarms: Vec<_> = FALSE_ALARMS
        .iter()
        .map(
            |&share| json!({ "false_alarms": share, "detected_at_most": meaning.detection(share) }),
        )
        .collect();
    let beliefs: Vec<_> = BELIEFS
        .iter()
        .map(|&before| json!({ "before": before, "after_at_most": meaning.belief(before) }))
        .collect();
    let groups: Vec<_> = [2, 5, 10]
        .iter()
        .map(|&k| match meaning.group(k) {
            Some(group) => json!({ "records": k, "epsilon": group.epsilon, "delta": group.delta }),
            None => json!({ "records": k, "epsilon": null, "delta": null }),
        })
        .collect();
    let value = json!({
        "epsilon": epsilon, "delta": delta, "odds": meaning.odds, "right_guess": meaning.right_guess,
        "membership": alarms, "beliefs": beliefs, "groups": groups,
    });
    Ok((value, explanation(&meaning)))
}

/// A share as a percentage with four digits, rounded up.
fn percent(share: f64) -> String {
    let digits = table::rounded_up(100.0 * share, 4);
    let short = if digits.contains(['e', '∞']) || !digits.contains('.') {
        digits.as_str()
    } else {
        digits.trim_end_matches('0').trim_end_matches('.')
    };
    format!("{short} %")
}

fn explanation(meaning: &Meaning) -> String {
    let (epsilon, delta) = (meaning.epsilon, meaning.delta);
    let mut out = format!(
        "ε = {epsilon}, δ = {}\n\n",
        if delta == 0.0 { "0".into() } else { format!("{delta:e}") }
    );
    let aside = if delta == 0.0 {
        String::new()
    } else {
        format!(", except with a probability of about δ = {delta:e}")
    };
    let _ = writeln!(
        out,
        "odds         Whatever was exchanged, the odds of any guess about one person's record grow at most by the\n             \
         factor e^ε = {}{aside}.",
        table::rounded_up(meaning.odds, 4)
    );
    for before in BELIEFS {
        let _ = writeln!(
            out,
            "             {:>6} sure before: at most {} after",
            percent(before),
            percent(meaning.belief(before))
        );
    }
    let _ = writeln!(
        out,
        "\ntwo guesses  Somebody who knows all other records and has narrowed one person's record down to two equally\n             \
         likely possibilities is right at most {} of the time (a coin: 50 %).",
        percent(meaning.right_guess)
    );
    let _ = writeln!(
        out,
        "\nmembership   An attacker who says of people whether they are in the data finds at most this share of those\n             \
         who are, for the share of others that they accuse wrongly:"
    );
    for share in FALSE_ALARMS {
        let _ = writeln!(
            out,
            "             {:>6} accused wrongly: at most {} found",
            percent(share),
            percent(meaning.detection(share))
        );
    }
    let _ = writeln!(
        out,
        "\nseveral      A person with k records in one site's data has the weaker claim"
    );
    for k in [2, 5, 10] {
        let _ = match meaning.group(k) {
            Some(group) if group.delta == 0.0 => {
                writeln!(
                    out,
                    "             k = {k:<2}  ε = {}",
                    table::rounded_up(group.epsilon, 4)
                )
            }
            Some(group) => writeln!(
                out,
                "             k = {k:<2}  ε = {}, δ = {}",
                table::rounded_up(group.epsilon, 4),
                table::rounded_up(group.delta, 3)
            ),
            None => writeln!(out, "             k = {k:<2}  none: δ reaches 1"),
        };
    }
    out.push_str("\nThese limits hold for every attacker, with any knowledge and any computer.\n");
    out
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
