//! `consenso privacy audit`: claims under attack.

use crate::machine::Threads;
use crate::{Failure, files, output, table};
use anyhow::anyhow;
use consenso_engine::audit::{Audit, Options, Verdict};
use consenso_engine::experiment::{AlgorithmAudit, AuditTarget};
use serde_json::json;
use std::fmt::Write as _;

/// A lower bound on ε from many runs on two neighbouring data sets, beside what is claimed
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  consenso privacy audit                                    the built-in experiment `adult`
  consenso privacy audit mine.toml --trials 200000 --json
  consenso privacy audit --set privacy.neighbours=paper     what the paper's convention is worth (exit code 1)

The auditor plays every other agent and chooses the records. It counts how well the releases tell the two data
sets apart; ε at the claim's δ is at least `ε seen` with the stated confidence, whatever the proof says.
`μ seen` bounds the μ of a Gaussian claim, which common events test far better than any event of probability δ.
A bound below the claim proves nothing; one above it refutes the claim, and the exit code is 1.")]
pub(crate) struct Args {
    /// An experiment file, or the name of a built-in experiment [default: adult]
    experiment: Option<String>,
    /// Change a key of the experiment, as for `consenso run`
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    #[command(flatten)]
    format: files::FormatArgs,
    /// What is put under attack
    #[arg(long, value_enum, default_value_t = Target::Agent)]
    target: Target,
    /// Releases on each of the two data sets [default: 200000 for mechanism, 10000 for agent, 200
    /// for experiment]
    #[arg(long, value_name = "N")]
    trials: Option<u32>,
    /// Probability that the lower bounds hold
    #[arg(long, value_name = "C", default_value_t = 0.95, allow_negative_numbers = true)]
    confidence: f64,
    /// Seed of the trials
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    threads: Threads,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Target {
    /// The noise of the dearest round, on one number
    Mechanism,
    /// One agent over all rounds, on the worst records, among adversaries
    Agent,
    /// The experiment as it is, but for one record of the first agent
    Experiment,
}

impl Target {
    /// The library's name of it, and trials that take seconds.
    fn with_trials(self) -> (AuditTarget, u32) {
        match self {
            Self::Mechanism => (AuditTarget::Mechanism, 200_000),
            Self::Agent => (AuditTarget::Agent, 10_000),
            Self::Experiment => (AuditTarget::Experiment, 200),
        }
    }
}

pub(crate) fn command(args: &Args, json: bool) -> Result<(), Failure> {
    args.threads.start()?;
    let experiment = files::checked(args.experiment.as_deref(), &args.set, &args.format)?;
    let (target, trials) = args.target.with_trials();
    let options = Options {
        trials: args.trials.unwrap_or(trials),
        confidence: args.confidence,
        seed: args.seed,
    };
    let found = experiment.audit(target, options).map_err(anyhow::Error::from)?;
    if found.iter().all(|a| a.audit.is_none()) {
        Err(anyhow!(
            "{}: nothing is claimed, so there is nothing to audit; add [privacy]",
            experiment.spec().name
        ))?;
    }
    let violated: Vec<&str> = found
        .iter()
        .filter(|a| a.audit.is_some_and(|a| a.verdict == Verdict::Violated))
        .map(|a| a.label.as_str())
        .collect();
    if json {
        output::print_json(&json!({
            "target": target,
            "trials": options.trials,
            "confidence": options.confidence,
            "algorithms": found,
            "violated": !violated.is_empty(),
        }));
    } else {
        output::print(&text(&found, options));
    }
    if violated.is_empty() {
        return Ok(());
    }
    Err(Failure::Run(anyhow!("the claim is violated by {}", violated.join(", "))))
}

fn text(found: &[AlgorithmAudit], options: Options) -> String {
    let header = ["algorithm", "ε seen", "ε claimed", "δ", "μ seen", "μ claimed", "verdict"];
    let mut rows = table::plain(&header, 1);
    for algorithm in found {
        rows.add_row(match &algorithm.audit {
            Some(audit) => row(&algorithm.label, audit),
            None => [&algorithm.label, "–", "nothing", "–", "–", "–", "–"].map(str::to_owned),
        });
    }
    let mut out = table::text(&rows);
    let _ = writeln!(
        out,
        "\nlower bounds at confidence {} from {} trials on each of two data sets",
        options.confidence, options.trials
    );
    for algorithm in found {
        let Some(audit) = &algorithm.audit else { continue };
        let would = match audit.visible_shortfall {
            Some(factor) => format!(
                "noise {} times too small would have been found out, less would not",
                table::rounded_up(factor, 2)
            ),
            None => "no shortfall of noise would have been found out: use more --trials, or --target agent".to_owned(),
        };
        let _ = writeln!(out, "{}: {would}", algorithm.label);
    }
    if let Some(first) = found.first() {
        let _ = writeln!(out, "neighbours: {} ({})", first.neighbours, first.neighbours.meaning());
    }
    let (tried, apart) =
        found.iter().fold((0, 0), |(t, a), f| (t + f.silence.tried, a + f.silence.told_apart));
    let _ = writeln!(
        out,
        "neighbours that leave the protocol: {tried} ways tried, {apart} told two data sets apart by silence"
    );
    for algorithm in found {
        let _ = match algorithm.cancels {
            None => Ok(()),
            Some(true) => writeln!(
                out,
                "{}: noise that neighbours share cancels in the sum of all messages",
                algorithm.label
            ),
            Some(false) => {
                writeln!(out, "{}: noise that neighbours share does NOT cancel", algorithm.label)
            }
        };
    }
    out
}

fn row(label: &str, audit: &Audit) -> [String; 7] {
    // What was seen is rounded down, what is claimed up: print and judgement cannot disagree the
    // wrong way.
    let seen = |x: f64| format!("{:.4}", (x * 1e4).floor() / 1e4);
    let claimed = |x: f64| table::rounded_up(x, 5);
    let verdict = match audit.verdict {
        Verdict::Consistent => "consistent",
        Verdict::Violated => "VIOLATED",
    };
    [
        label.to_owned(),
        seen(audit.epsilon_lower),
        claimed(audit.epsilon_claimed),
        format!("{:e}", audit.delta),
        seen(audit.mu_lower),
        audit.mu_claimed.map_or_else(|| "–".into(), claimed),
        verdict.into(),
    ]
}
