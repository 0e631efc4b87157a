//! `consenso plan`: what is known of an experiment's parameters before it runs.

use crate::machine::Threads;
use crate::{Failure, ask, files, output};
use consenso_engine::experiment::{AlgorithmPlan, Constants, Recommendation};
use consenso_engine::protocol::Parameters;
use consenso_engine::theory::Certainty;
use serde_json::json;
use std::fmt::Write as _;

/// Whether an experiment's parameters are certified, predicted stable or unstable, and which
/// inequality says so
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  consenso plan                                    the built-in experiment `adult`
  consenso plan paper-2a                           the paper's own parameters: stable, but no theorem certifies them
  consenso plan mine.toml --set algorithm.penalty=2 --json

certified          a theorem covers the parameters, for all records within the public bounds
predicted stable   a working rule, derived from the mean dynamics and tested, predicts convergence
open               neither a theorem nor a rule covers them
unstable           the working rule predicts divergence

Of questions ([[query]]) it prints how far every answer is expected to be off, before anything is asked.
The last line recommends one way to run it, with the share of noise that the trained model is predicted to have.

Nothing private is read: constants come from the public bounds, so a certificate is a worst case.")]
pub(crate) struct Args {
    /// An experiment file, or the name of a built-in experiment [default: adult]
    experiment: Option<String>,
    /// Change a key of the experiment, as for `consenso run`
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    #[command(flatten)]
    format: files::FormatArgs,
    #[command(flatten)]
    threads: Threads,
}

pub(crate) fn command(args: &Args, json: bool) -> Result<(), Failure> {
    args.threads.start()?;
    let experiment = files::checked(args.experiment.as_deref(), &args.set, &args.format)?;
    if let Some((text, value)) = ask::expected(&experiment) {
        match json {
            true => output::print_json(&value),
            false => output::print(&text),
        }
        return Ok(());
    }
    // Questions beside algorithms are a study of their own.
    let asked = match experiment.spec().questions_alone() {
        Some(_) => files::checked_questions(args.experiment.as_deref(), &args.set, &args.format)?,
        None => None,
    };
    let asked = asked.as_ref().and_then(ask::expected);
    let (constants, plans) = (experiment.constants(), experiment.plan());
    let (name, advice) = (&experiment.spec().name, experiment.recommendation());
    if json {
        output::print_json(&json!({
            "name": name,
            "constants": constants,
            "algorithms": plans,
            "recommendation": advice,
            "warnings": experiment.warnings(),
            "questions": asked.map(|(_, value)| value),
        }));
    } else {
        output::print(&text(name, &constants, &plans, experiment.warnings(), &advice));
        if let Some((text, _)) = asked {
            output::print(&text);
        }
    }
    Ok(())
}

fn text(
    name: &str,
    c: &Constants,
    plans: &[AlgorithmPlan],
    warnings: &[String],
    advice: &Recommendation,
) -> String {
    let mut out = format!(
        "{name}: N = {}, d = {}; m = {}, M = {}; σ_max² = {:.3}, σ_min² = {:.3}, ‖A‖² = {:.3}\n",
        c.agents,
        c.dim,
        c.strong_convexity,
        c.smoothness,
        c.sigma_max_squared,
        c.sigma_min_squared,
        c.norm_squared
    );
    for plan in plans {
        let a = &plan.assessment;
        let _ = writeln!(out, "\n{}: {}", plan.label, a.standing);
        let mut line = |name: &str, value: &str| {
            let _ = writeln!(out, "  {name:<22} {value}");
        };
        line("parameters", &inline(&plan.parameters));
        line(if a.standing == Certainty::Open { "because" } else { &a.rule }, &a.inequality);
        if let Some(promise) = &a.promise {
            line("promise", promise);
        }
        if let Some(why) = &a.not_certified {
            line("not certified", why);
        }
        match &a.nearest_certified {
            Some(choice) => line("nearest certified", &inline(choice)),
            None if a.not_certified.is_some() => line("nearest certified", "none"),
            None => {}
        }
    }
    for warning in warnings {
        let _ = writeln!(out, "\nwarning: {warning}");
    }
    let _ = writeln!(out, "\nrecommended: {}", advice.text);
    out
}

/// A table on one line, as it could stand in a file.
fn inline(table: &Parameters) -> String {
    let table = toml::Table::try_from(table).unwrap_or_default();
    let entries: Vec<String> =
        table.iter().map(|(key, value)| format!("{key} = {value}")).collect();
    entries.join(", ")
}
