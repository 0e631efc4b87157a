//! `consenso tour`: the first hour in a minute, without questions.

use crate::{Failure, output};
use anyhow::{Context as _, anyhow};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Walk through a run, predictions, a network and its audit, on bundled records, in a minute
///
/// Runs the commands that it prints and keeps what they wrote, to be looked at afterwards.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  consenso tour --out first")]
pub(crate) struct Args {
    /// Folder for everything that the tour writes; it must not exist yet
    #[arg(long, value_name = "DIR", default_value = "consenso-tour")]
    out: PathBuf,
}

/// One command and what it is for.
struct Step {
    why: &'static str,
    words: Vec<String>,
    /// Lines of its answer that are shown.
    shown: usize,
}

/// Three people who are not in the bundled records, in the columns of the Adult census.
const PEOPLE: &str = "\
39, Private, 120000, Bachelors, 13, Married-civ-spouse, Exec-managerial, Husband, White, Male, 0, 0, 45, United-States
23, Private, 180000, HS-grad, 9, Never-married, Sales, Own-child, Black, Female, 0, 0, 25, United-States
52, Self-emp-inc, 150000, Masters, 14, Married-civ-spouse, Prof-specialty, Wife, White, Female, 15024, 0, 50, United-States
";

fn steps(out: &Path) -> Vec<Step> {
    let at = |name: &str| out.join(name).display().to_string();
    let step = |why, words: &[&str], shown| Step {
        why,
        words: words.iter().map(|w| (*w).to_owned()).collect(),
        shown,
    };
    let (run, people, net, site) = (at("run"), at("people.csv"), at("net"), at("net/a"));
    let mut all = vec![
        step(
            "Ten agents with 3,000 census records each train one model. Nobody sends a record; \
             everybody sends noised vectors, within (ε = 1, δ = 1e-6) for every record.",
            &["run", "adult-scouted", "--set", "runs=1", "--out", &run],
            12,
        ),
        step(
            "The model on three people whom it has not seen.",
            &["predict", &run, &people, "--proba"],
            8,
        ),
        step(
            "What that ε means for somebody who tries to find out about one person.",
            &["privacy", "explain", "--epsilon", "1", "--delta", "1e-6"],
            11,
        ),
    ];
    if cfg!(feature = "network") {
        all.extend([
            step(
                "The same as a real network: three sites, each with its key, certificate and \
                 ledger.",
                &["network", "new", &net, "--sites", "a,b,c", "--experiment", "adult"],
                6,
            ),
            step(
                "Three processes that talk over mutual TLS; every charge is on disk before its \
                 message leaves.",
                &["network", "up", &net],
                12,
            ),
            step(
                "An auditor reads a site's ledger and recomputes ε from its events alone.",
                &["node", "audit", &site],
                20,
            ),
            step(
                "What that site can state to a data-protection officer, and what is left open \
                 for a person.",
                &["privacy", "statement", &site],
                24,
            ),
        ]);
    }
    all
}

pub(crate) fn command(args: &Args, json: bool) -> Result<(), Failure> {
    let out = &args.out;
    std::fs::create_dir(out).with_context(|| {
        format!(
            "{}: cannot be made, or is there already\n  help: give another folder with --out",
            out.display()
        )
    })?;
    let people = out.join("people.csv");
    std::fs::write(&people, PEOPLE).with_context(|| format!("{}", people.display()))?;
    let began = Instant::now();
    let mut done: Vec<Value> = Vec::new();
    let all = steps(out);
    for (number, step) in (1..).zip(&all) {
        let line = format!("consenso {}", step.words.join(" "));
        if !json {
            let space = if number == 1 { "" } else { "\n" };
            let why = format!("{number}/{}  {}", all.len(), step.why.replace(". ", ".\n     "));
            let why = output::folded(&why, output::columns());
            output::print(&format!("{space}{}\n\n  $ {line}\n", why.trim_end()));
        }
        let started = Instant::now();
        let mut command = crate::itself()?;
        // Answers are shown indented.
        if let Some(columns) = output::columns() {
            command.env("COLUMNS", columns.saturating_sub(2).to_string());
        }
        let answer = command.args(&step.words).output().context("this program")?;
        let seconds = started.elapsed().as_secs_f64();
        let text = String::from_utf8_lossy(&answer.stdout);
        if !answer.status.success() {
            let said = String::from_utf8_lossy(&answer.stderr);
            return Err(Failure::Run(anyhow!("{line}: {}", said.trim())));
        }
        if !json {
            output::print(&excerpt(&text, step.shown));
        }
        done.push(json!({ "command": line, "seconds": seconds }));
    }
    let seconds = began.elapsed().as_secs_f64();
    if json {
        output::print_json(&json!({ "out": out, "seconds": seconds, "steps": done }));
    } else {
        output::print(&ending(out, seconds));
    }
    Ok(())
}

/// The first lines of an answer, indented.
fn excerpt(text: &str, most: usize) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    let mut out = String::new();
    for line in lines.iter().take(most) {
        let _ = writeln!(out, "  {line}");
    }
    if lines.len() > most {
        let _ = writeln!(out, "  … {} more lines", lines.len() - most);
    }
    out
}

fn ending(out: &Path, seconds: f64) -> String {
    format!(
        "{seconds:.0} s. Look at {0}/run/report.html in a browser. Next, with records of your own:\n\n  \
         consenso data schema FILE.csv --label COLUMN > schema.toml\n  \
         docs/your-own-records.md of the guide",
        out.display()
    )
}
