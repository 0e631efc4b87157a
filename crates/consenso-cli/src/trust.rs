//! `consenso privacy map` and `consenso privacy exposure`: who can learn what about whom.

use crate::{Failure, files, output, table};
use anyhow::Context as _;
use consenso_engine::audit::views::PairwiseMap;
use consenso_engine::experiment::ExposureReport;
use serde_json::json;
use std::fmt::Write as _;
use std::path::PathBuf;

/// ε of every agent against every single other one, as a heat map
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  consenso privacy map                                  the built-in experiment `adult`
  consenso privacy map mine.toml --rounds 20 --out map  map.json, map.csv and map.svg in a folder

For gossip with fixed weights and Gaussian noise (dgd, decor). Each agent sees what its neighbours send,
and through it something of everybody else. Gradients are taken as fixed numbers: the map is a
non-adaptive view and no claim. More rounds show more; the mean after half of them is given beside.
With --observers 1,4,7 agents 1, 4 and 7 pool what they receive and know.
JSON: agents, epsilon (a row for every agent, a column for every observer), distance, rounds, view,
coalition (observers, epsilon).")]
pub(crate) struct MapArgs {
    /// An experiment file, or the name of a built-in experiment [default: adult]
    experiment: Option<String>,
    /// Change a key of the experiment, as for `consenso run`
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    #[command(flatten)]
    format: files::FormatArgs,
    /// Rounds to look at, from the first
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=200))]
    rounds: u32,
    /// Agents who look together, numbered from 0
    #[arg(long, value_name = "AGENT,…", value_delimiter = ',')]
    observers: Vec<u32>,
    /// A folder for map.json, map.csv and map.svg
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Which gradients one agent reconstructs from gossip without noise, and that noise prevents it
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  consenso privacy exposure paper-2a
  consenso privacy exposure mine.toml --json

On the experiment's own records and graph, every agent takes one gradient step without noise and all
gossip with fixed weights. From what its neighbours send, an observer solves for the gradients of
agents it never talks to (Mrini, Cyffers and Bellet 2024). The same attack is then played under the
noise of the first private algorithm. Run it on records you may look at.")]
pub(crate) struct ExposureArgs {
    /// An experiment file, or the name of a built-in experiment [default: adult]
    experiment: Option<String>,
    /// Change a key of the experiment, as for `consenso run`
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    #[command(flatten)]
    format: files::FormatArgs,
}

pub(crate) fn map(args: &MapArgs, json: bool) -> Result<(), Failure> {
    let experiment = files::checked(args.experiment.as_deref(), &args.set, &args.format)?;
    let map = experiment.map_with(args.rounds, &args.observers).map_err(anyhow::Error::from)?;
    if let Some(folder) = &args.out {
        let name = folder.display();
        std::fs::create_dir_all(folder).with_context(|| format!("{name}: cannot be made"))?;
        let text = format!("{:#}\n", json!(map));
        for (file, text) in [("map.json", text), ("map.csv", map.csv()), ("map.svg", map.svg())] {
            let path = folder.join(file);
            std::fs::write(&path, text)
                .with_context(|| format!("{}: cannot be written", path.display()))?;
        }
    }
    if json {
        output::print_json(&json!(map));
    } else {
        output::print(&map_text(&map));
        if let Some(folder) = &args.out {
            output::print(&format!("written to {}\n", folder.display()));
        }
    }
    Ok(())
}

fn map_text(map: &PairwiseMap) -> String {
    let mut out = format!(
        "{} agents, {} rounds of {}, δ = {:e}\n{}\n\ndistance   mean ε\n",
        map.agents, map.rounds, map.label, map.delta, map.view
    );
    for (distance, mean) in (1..).zip(&map.mean_by_distance) {
        let _ = writeln!(out, "{distance:8}   {}", table::rounded_up(*mean, 4));
    }
    let _ = writeln!(
        out,
        "\nmean ε {} (after half of the rounds {}); the claim's bound for these rounds is {}",
        table::rounded_up(map.mean, 4),
        table::rounded_up(map.mean_after_half, 4),
        table::rounded_up(map.claimed, 4)
    );
    if map.mean > 1.001 * map.mean_after_half {
        let _ = writeln!(
            out,
            "more gossip leaks more: the second half of the rounds raised the mean by {:.0} %",
            100.0 * (map.mean / map.mean_after_half.max(f64::MIN_POSITIVE) - 1.0)
        );
    }
    if let Some(coalition) = &map.coalition {
        let names: Vec<String> = coalition.observers.iter().map(u32::to_string).collect();
        let _ = writeln!(out, "\nagents {} together, against\n   agent   ε", names.join(", "));
        for (agent, &epsilon) in coalition.epsilon.iter().enumerate() {
            if !coalition.observers.contains(&(agent as u32)) {
                let _ = writeln!(out, "{agent:8}   {}", table::rounded_up(epsilon, 4));
            }
        }
    }
    out
}

pub(crate) fn exposure(args: &ExposureArgs, json: bool) -> Result<(), Failure> {
    let experiment = files::checked(args.experiment.as_deref(), &args.set, &args.format)?;
    let found = experiment.exposure().map_err(anyhow::Error::from)?;
    if json {
        output::print_json(&json!(found));
    } else {
        output::print(&exposure_text(&found));
    }
    Ok(())
}

fn exposure_text(found: &ExposureReport) -> String {
    let mut out = format!(
        "attacked: {}\nagent {} after {} rounds of gossip:\n\n   agent  distance  error without noise  error under noise\n",
        found.attacked, found.observer, found.rounds
    );
    let error =
        |e: Option<f64>| e.map_or_else(|| "not determined".to_owned(), |e| format!("{e:.1e}"));
    for e in &found.agents {
        let _ = writeln!(
            out,
            "{:8}  {:8}  {:>19}  {:>17}",
            e.agent,
            e.distance,
            error(e.error),
            error(e.error_under_noise)
        );
    }
    let _ = writeln!(
        out,
        "\nwithout noise it knows the gradients of {} agents it never talks to, to a relative error of 1e-6",
        found.non_neighbours_reconstructed
    );
    if let (Some(count), Some(epsilon)) = (found.reconstructed_under_noise, found.epsilon) {
        let _ = writeln!(
            out,
            "under the noise of the claim ε = {} all observers together reconstruct {count}",
            table::rounded_up(epsilon, 4)
        );
    }
    if let Some(record) = &found.record {
        let under = record
            .error_under_noise
            .map_or(String::new(), |e| format!(", under the claim's noise to {e:.1e}"));
        let _ = writeln!(
            out,
            "had agent {} ({} steps away) a single record, its gradient would give that record away to a relative error of {:.1e}{under}",
            record.agent, record.distance, record.error
        );
    }
    if let Some(attack) = &found.map_attack {
        let _ = writeln!(
            out,
            "\nthe map of {} under attack: every agent weighs what it hears in {} rounds by its likelihood ratio, {} draws a side;\n\
             of {} pairs {} told more than the map says (all lower bounds hold with probability {}), and in the mean {:.0} % of its μ",
            attack.label,
            attack.rounds,
            attack.trials,
            attack.pairs,
            if attack.above == 0 { "none".to_owned() } else { attack.above.to_string() },
            attack.confidence,
            100.0 * attack.mean_share
        );
        if let Some(pair) = &attack.nearest {
            let _ = writeln!(
                out,
                "nearest: agent {} seen by agent {}, ε ≥ {:.4} of {}",
                pair.agent,
                pair.observer,
                (pair.lower * 1e4).floor() / 1e4,
                table::rounded_up(pair.epsilon, 4)
            );
        }
    }
    if !found.error_by_epsilon.is_empty() {
        for noise in found.error_by_epsilon.chunk_by(|a, b| a.label == b.label) {
            let _ = writeln!(
                out,
                "\nthe attack on agents the observer never talks to, under the noise of {}\n       ε   least relative error of a gradient   median",
                noise[0].label
            );
            for e in noise {
                let _ = writeln!(out, "{:8}   {:>34.1e}   {:.1e}", e.epsilon, e.least, e.median);
            }
        }
    }
    out
}
