//! The page of a reproduction: the paper's figures, its claims with verdicts, and what it does not
//! say.

use crate::{
    CsvTable, DUAL_SIGN, Finding, PaperFigure, Part, Quantity, ReferenceCheck, Reproduction,
    USEFUL, Verdict,
};
use consenso_engine::record::{AlgorithmRecord, Record};
use consenso_study::report::format::{count, epsilon, escape, exact, number, percent, thousands};
use consenso_study::report::{chart, page};

/// A reproduction as one self-contained page: verdicts, figures with their claims, the same run
/// under two accountings, errata, the setting people should use, and how to repeat it.
#[must_use]
pub fn paper_html(reproduction: &Reproduction) -> String {
    let figures = reproduction.figures();
    let body = [
        honest(reproduction),
        verdicts(reproduction),
        parts(reproduction, &figures),
        accountings(reproduction),
        errata(reproduction, &figures),
        useful(reproduction, &figures),
        references(reproduction),
        data(reproduction),
        repeat(reproduction),
    ];
    let body = body.concat();
    let main = header(reproduction) + &page::contents_of(&body) + &body;
    page::shell("The paper, reproduced", &reproduction.version, &main)
}

fn header(reproduction: &Reproduction) -> String {
    let names: Vec<&str> = reproduction.parts.iter().map(|part| part.name()).collect();
    let runs = reproduction.records.iter().map(|record| record.runs).max().unwrap_or(0);
    let seeds: Vec<String> = seeds(reproduction);
    let runs = if runs == 0 {
        String::new()
    } else {
        format!(" {}, seed {}.", escape(&count(runs as usize, "run")), seeds.join(", "))
    };
    let stopped = if reproduction.interrupted() {
        "<aside class=\"warnings\"><h2>Stopped early</h2><p>Only finished runs count, and some figures may be missing.</p></aside>\n"
    } else {
        ""
    };
    format!(
        "<header>\n<p class=\"kicker\">Reproduction</p>\n<h1>Local Differential Privacy in Decentralized Optimization</h1>\n\
         <p class=\"lead\">Figures {} of Xiao, Ye and Devadas, computed again from the bundled UCI Adult records.{runs} Every verdict follows \
         from a stated rule and the data of this run.</p>\n</header>\n{stopped}",
        escape(&names.join(", ")),
    )
}

fn seeds(reproduction: &Reproduction) -> Vec<String> {
    let mut seeds: Vec<u64> = reproduction.records.iter().map(|record| record.seed).collect();
    seeds.sort_unstable();
    seeds.dedup();
    seeds.iter().map(u64::to_string).collect()
}

/// What a reader must know before the figures, said only where this run shows it.
fn honest(reproduction: &Reproduction) -> String {
    let mut items = Vec::new();
    let (worse, all) = reproduction.worse_than_zero();
    if let Some(record) = reproduction.records.iter().find(|r| r.problem.regularization >= 1.0)
        && all > 0
    {
        let zero = number(record.baselines.zero_model.log_error, 3);
        let verdict = if worse == all {
            format!("better than every one of the {all} private results below")
        } else {
            format!("better than {worse} of the {all} private results below")
        };
        items.push(format!(
            "The zero model, which has seen no record, scores {zero} in the paper’s accuracy metric: {verdict}."
        ));
    }
    if let Some(record) = reproduction.records.iter().find(|r| r.problem.regularization >= 1.0)
        && let (Some(optimum), Some(majority)) =
            (record.baselines.central_optimum_accuracy, record.baselines.majority_accuracy)
        && optimum <= majority + 5e-4
    {
        items.push(format!(
            "At the paper’s μ = {} the exact optimum itself gives every test record the majority’s label ({} %): accuracy here says how near \
             x* a method comes, not that anything was learned.",
            exact(record.problem.regularization),
            percent(optimum)
        ));
    }
    if reproduction.record(USEFUL).is_some() {
        items.push("The setting to use is at the end of this page, beside the paper’s.".into());
    }
    if items.is_empty() {
        return String::new();
    }
    let items: String = items.iter().map(|item| format!("<li>{item}</li>\n")).collect();
    format!(
        "<aside class=\"warnings\">\n<h2>Before you read on</h2>\n<ul>\n{items}</ul>\n</aside>\n"
    )
}

fn badge(verdict: Verdict) -> String {
    let words = match verdict {
        Verdict::Reproduced => "reproduced",
        Verdict::Partly => "partly reproduced",
        Verdict::Not => "not reproduced",
    };
    format!("<span class=\"verdict {}\">{words}</span>", verdict.name())
}

fn verdicts(reproduction: &Reproduction) -> String {
    let findings = reproduction.findings();
    if findings.is_empty() {
        return String::new();
    }
    let row = |f: &Finding| {
        format!(
            "<tr><th scope=\"row\"><a href=\"#{}\">{}</a></th><td>{}</td><td>{}</td><td>{}</td></tr>\n",
            f.figure,
            escape(f.claim),
            escape(&f.paper),
            escape(&f.measured),
            badge(f.verdict)
        )
    };
    let rows: String = findings.iter().map(row).collect();
    format!(
        "<section id=\"verdicts\">\n<h2>What the paper claims, and what came out</h2>\n<div class=\"scroll\" role=\"region\" aria-label=\"Verdicts\" tabindex=\"0\">\n\
         <table class=\"results verdicts\">\n<thead><tr><th scope=\"col\">Claim</th><th scope=\"col\">Paper</th><th scope=\"col\">Here</th>\
         <th scope=\"col\">Verdict</th></tr></thead>\n<tbody class=\"algorithms\">\n{rows}</tbody>\n</table>\n</div>\n\
         <p class=\"note\">The rule of each verdict stands under its figure and in <code>data/findings.csv</code>.</p>\n</section>\n"
    )
}

fn parts(reproduction: &Reproduction, figures: &[PaperFigure]) -> String {
    let title = |part: Part| match part {
        Part::One => "Figure 1: how much random weights hide",
        Part::Two => "Figure 2: ten agents",
        Part::B => "Figure (B): a hundred agents",
        Part::C => "Figure (C): gradient descent",
        Part::D => "Figure (D): what random weights cost",
    };
    let mut out = String::new();
    for &part in &reproduction.parts {
        let own = figures.iter().filter(|f| f.part == Some(part) && !f.name.starts_with("erratum"));
        let charts: String = own.map(|figure| element(reproduction, figure)).collect();
        if charts.is_empty() {
            continue;
        }
        let tables: String = part
            .experiments()
            .iter()
            .filter(|name| **name != DUAL_SIGN)
            .filter_map(|name| reproduction.record(name))
            .map(results)
            .collect();
        out += &format!(
            "<section id=\"part-{}\">\n<h2>{}</h2>\n<div class=\"figures\">\n{charts}</div>\n{tables}</section>\n",
            part.name().to_lowercase(),
            title(part)
        );
    }
    out
}

/// A figure with its caption, setting and claims.
fn element(reproduction: &Reproduction, figure: &PaperFigure) -> String {
    let findings = reproduction.findings();
    let claims: String = findings
        .iter()
        .filter(|f| f.figure == figure.name)
        .map(|f| {
            format!(
                "<span class=\"finding\">{} <b>{}.</b> Paper: {}. Here: {}. <span class=\"sub\">Rule: {}.</span></span>",
                badge(f.verdict),
                escape(f.claim),
                escape(&f.paper),
                escape(&f.measured),
                escape(f.rule)
            )
        })
        .collect();
    let record = figure.experiment.as_deref().and_then(|name| reproduction.record(name));
    let setting = record.map_or_else(String::new, |record| {
        format!(" <span class=\"sub\">{}</span>", escape(&setting(record)))
    });
    let caption = format!(
        "<b>{}.</b> {}{setting}{claims}",
        escape(&figure.paper),
        escape(&figure.figure.description)
    );
    chart::element(&figure.name, &figure.figure, &caption)
}

/// The parameters of an experiment in a sentence, from its record.
fn setting(record: &Record) -> String {
    let p = &record.problem;
    let (least, most) = p.records;
    let records = if least == most {
        thousands(least)
    } else {
        format!("{}–{}", thousands(least), thousands(most))
    };
    let rounds = record.algorithms.iter().map(|a| a.rounds).max().unwrap_or(0);
    format!(
        "N = {}, |E| = {}, {records} records an agent, d = {}, μ = {}, {}, {}, seed {}.",
        p.agents,
        p.edges,
        p.dim,
        exact(p.regularization),
        count(rounds as usize, "round"),
        count(record.runs as usize, "run"),
        record.seed
    )
}

/// The last round of an experiment as a table, with its parameters.
fn results(record: &Record) -> String {
    let row = |a: &AlgorithmRecord| {
        let published = a.published.as_ref().map(|p| p.epsilon.mean);
        let e = a.epsilon.as_ref();
        cells(
            &a.label,
            &[
                number(a.curve.last().map_or(a.log_error, |at| at.log_error.mean), 3),
                optional(a.test_accuracy, percent),
                optional(published, epsilon),
                optional(e.and_then(|e| e.realised_mean), epsilon),
                optional(e.and_then(|e| e.worst_case_pure), epsilon),
                e.map_or_else(
                    || NONE.into(),
                    |e| {
                        format!(
                            "{} <span class=\"sub\">δ = {}</span>",
                            epsilon(e.claim),
                            exact(e.delta)
                        )
                    },
                ),
            ],
        )
    };
    let rows: String = record.algorithms.iter().map(row).collect();
    let b = &record.baselines;
    let blank = || NONE.to_string();
    let zero = cells(
        "Zero model",
        &[
            number(b.zero_model.log_error, 3),
            optional(b.zero_model.accuracy, percent),
            blank(),
            blank(),
            blank(),
            blank(),
        ],
    );
    let majority = cells(
        "Most frequent class",
        &[blank(), optional(b.majority_accuracy, percent), blank(), blank(), blank(), blank()],
    );
    format!(
        "<details open=\"open\">\n<summary>{} after the last round</summary>\n<div class=\"scroll\" role=\"region\" aria-label=\"Results\" tabindex=\"0\">\n\
         <table class=\"results\">\n<thead><tr><th scope=\"col\">Algorithm</th><th scope=\"col\">Log error</th><th scope=\"col\">Test accuracy, %</th>\
         <th scope=\"col\">ε, authors’ account</th><th scope=\"col\">ε realised</th><th scope=\"col\">Pure ε, ours</th>\
         <th scope=\"col\">ε certified</th></tr></thead>\n<tbody class=\"algorithms\">\n{rows}</tbody>\n\
         <tbody class=\"baselines\">\n<tr><th scope=\"rowgroup\" colspan=\"7\">To compare with</th></tr>\n{zero}{majority}</tbody>\n</table>\n</div>\n\
         <p class=\"note\">{}</p>\n{}</details>\n",
        escape(&record.name),
        escape(&setting(record)),
        parameters(record)
    )
}

const NONE: &str = "<span class=\"none\">–</span>";

fn cells(head: &str, values: &[String]) -> String {
    let values: String = values.iter().map(|value| format!("<td>{value}</td>")).collect();
    format!("<tr><th scope=\"row\">{}</th>{values}</tr>\n", escape(head))
}

fn optional(value: Option<f64>, show: impl Fn(f64) -> String) -> String {
    value.map_or_else(|| NONE.into(), show)
}

fn parameters(record: &Record) -> String {
    let one = |a: &AlgorithmRecord| {
        let noise =
            if a.noise.is_empty() { String::new() } else { format!("; noise: {}", a.noise) };
        format!(
            "<li><b>{}</b> <code>{}</code>{}</li>\n",
            escape(&a.label),
            escape(&a.parameters.to_string()),
            escape(&noise)
        )
    };
    let all: String = record.algorithms.iter().map(one).collect();
    format!(
        "<details class=\"minor\">\n<summary>Parameters</summary>\n<ul class=\"note\">\n{all}</ul>\n</details>\n"
    )
}

/// One run's outputs under the paper's accounting and ours.
fn accountings(reproduction: &Reproduction) -> String {
    let run = reproduction.record("paper-2a").and_then(|record| {
        let own = record.algorithms.iter().find(|a| a.kind == "admm" && a.epsilon.is_some())?;
        Some((record, own, own.epsilon.as_ref()?))
    });
    let Some((record, own, e)) = run else { return String::new() };
    let row = |what: &str, value: Option<f64>, holds: &str| {
        value.map_or_else(String::new, |value| {
            format!(
                "<tr><th scope=\"row\">{what}</th><td>{}</td><td class=\"words\">{holds}</td></tr>\n",
                epsilon(value)
            )
        })
    };
    let certified = format!("Certified at δ = {}, by {}", exact(e.delta), escape(&e.method));
    let rows = [
        row(
            "The paper’s worst case, d·Σ α<sub>k</sub>β<sub>k</sub>B<sub>∞</sub>",
            e.paper_worst_case,
            "A guarantee, √d times larger than it need be",
        ),
        row(
            "Realised loss, mean over agents and runs",
            e.realised_mean,
            "What Figure 2 (b) shows: a statistic of this transcript, no guarantee",
        ),
        row("Pure ε through the l1 norm", e.worst_case_pure, "A guarantee, whatever the data"),
        row("(ε, δ) through the l2 norm", Some(e.claim), &certified),
    ];
    format!(
        "<section id=\"accounting\">\n<h2>The same run, accounted for twice</h2>\n<p>Not one number that was exchanged differs between these rows; {} of \
         {} is charged with the paper’s sum or with the tightest valid composition of the same noise, for the paper’s own neighbour relation \
         (B<sub>∞</sub> = 1/b).</p>\n<div class=\"scroll\"><table class=\"results\">\n<thead><tr><th scope=\"col\">Accounting</th><th scope=\"col\">ε</th>\
         <th scope=\"col\" class=\"words\">What it is</th></tr></thead>\n<tbody class=\"algorithms\">\n{}</tbody></table></div>\n</section>\n",
        escape(&own.label),
        escape(&record.name),
        rows.concat()
    )
}

fn errata(reproduction: &Reproduction, figures: &[PaperFigure]) -> String {
    let own = figures.iter().filter(|figure| figure.name.starts_with("erratum"));
    let charts: String = own.map(|figure| element(reproduction, figure)).collect();
    let items: String = errata_of(reproduction)
        .iter()
        .map(|(what, shown)| {
            let shown = if shown.is_empty() {
                String::new()
            } else {
                format!(" <span class=\"shown\">{shown}</span>")
            };
            format!("<li>{what}{shown}</li>\n")
        })
        .collect();
    let charts = if charts.is_empty() {
        charts
    } else {
        format!("<div class=\"figures\">\n{charts}</div>\n")
    };
    format!(
        "<section id=\"errata\">\n<h2>Errata of the printed paper</h2>\n<p>Where the print and the checked mathematics differ, this software follows the \
         mathematics.</p>\n<ol class=\"errata\">\n{items}</ol>\n{charts}</section>\n"
    )
}

/// What is wrong, and what of this run shows it.
fn errata_of(reproduction: &Reproduction) -> Vec<(&'static str, String)> {
    let diverged = reproduction.record(DUAL_SIGN).map_or_else(String::new, |record| {
        let end = |printed: bool| {
            let find = |a: &&AlgorithmRecord| {
                (a.parameters["printed_dual_sign"].as_bool() == Some(true)) == printed
            };
            record
                .algorithms
                .iter()
                .find(find)
                .and_then(|a| a.curve.last())
                .map_or(f64::NAN, |at| at.log_error.mean)
        };
        format!(
            "Shown below: log error {} with the printed sign, {} with the other.",
            number(end(true), 3),
            number(end(false), 3)
        )
    });
    let below = reproduction
        .gamma
        .iter()
        .filter(|p| p.printed.is_some_and(|printed| printed < p.exact))
        .count();
    let least = reproduction
        .gamma
        .iter()
        .filter_map(|p| Some(p.printed? / p.exact - 1.0))
        .fold(0.0, f64::min);
    let gamma = match reproduction.gamma.len() {
        0 => String::new(),
        all => format!(
            "Shown below: too small at {below} of {all} grid points, by up to {} %.",
            number(-100.0 * least, 2)
        ),
    };
    let random =
        reproduction.findings().into_iter().find(|f| f.claim.contains("Algorithm 2 no accuracy"));
    let random = random
        .map_or_else(String::new, |f| format!("Shown in Figure (D): {}.", escape(&f.measured)));
    vec![
        (
            "Algorithm 1’s dual update is printed with the wrong sign; as printed it diverges on every graph tried.",
            diverged,
        ),
        (
            "Theorem 2.3: for x &lt; ω/2 the worst shift is t = +s, not −s, so the printed closed form is below the exact γ for many (ω, β) and is no \
          bound; its proof also prints e<sup>ωαB</sup> for e<sup>βαB</sup>.",
            gamma,
        ),
        (
            "Labels {0, 1} make the loss of class 0 constant; they must be ±1. The sensitivity of replacing a record is then 2/b, not 1/b: the \
          experiments above keep the paper’s 1/b, everything else here uses 2/b.",
            String::new(),
        ),
        (
            "B<sub>q</sub> is defined on f; it must be on ∇f. The definition of local differential privacy needs e<sup>ε</sup> where ε is printed.",
            String::new(),
        ),
        (
            "Theorem 3.1’s matrix G has ζ where its proof needs 1/ζ; (GD_rule) sums over i instead of j; (GD_new_1) lacks [l] on the gradient.",
            String::new(),
        ),
        (
            "“Randomisation costs no accuracy” holds for Algorithm 1, but only roughly for Algorithm 2: a single draw of its weights is not doubly \
          stochastic.",
            random,
        ),
        (
            "Theorems 3.1 and 3.2 do not certify the parameters of the experiments (D = 10, ζ = 0.5): they are only predicted to be stable.",
            String::new(),
        ),
    ]
}

/// The setting people should use beside the paper's.
fn useful(reproduction: &Reproduction, figures: &[PaperFigure]) -> String {
    let Some(record) = reproduction.record(USEFUL) else { return String::new() };
    let row = |of: &str,
               label: &str,
               accuracy: Option<f64>,
               claim: String,
               majority: Option<f64>| {
        let gain = accuracy
            .zip(majority)
            .map(|(a, m)| format!("{:+.1}", 100.0 * (a - m)).replace('-', "−"));
        format!(
            "<tr><th scope=\"row\">{}</th><td class=\"words\">{}</td><td>{claim}</td><td>{}</td><td>{}</td></tr>\n",
            escape(label),
            escape(of),
            optional(accuracy, percent),
            gain.unwrap_or_else(|| NONE.into())
        )
    };
    let rows = |record: &Record, of: &str| -> String {
        let majority = record.baselines.majority_accuracy;
        let private = record.algorithms.iter().filter_map(|a| Some((a, a.epsilon.as_ref()?)));
        let rows: String = private
            .map(|(a, e)| {
                let claim = format!(
                    "{} <span class=\"sub\">δ = {}</span>",
                    epsilon(e.claim),
                    exact(e.delta)
                );
                row(of, &a.label, a.test_accuracy, claim, majority)
            })
            .collect();
        rows + &row(
            of,
            "optimum of all records",
            record.baselines.central_optimum_accuracy,
            NONE.into(),
            majority,
        )
    };
    let paper = reproduction
        .record("paper-2a")
        .map_or_else(String::new, |record| rows(record, "the paper’s, μ = 1"));
    let here = format!("useful, μ = {}", exact(record.problem.regularization));
    let chart: String = figures
        .iter()
        .filter(|f| f.name == "useful-accuracy")
        .map(|f| element(reproduction, f))
        .collect();
    format!(
        "<section id=\"useful\">\n<h2>The setting people should use</h2>\n<p>One-hot features over a public schema, weak regularisation, thousands of records \
         an agent, a total budget for replacing any one record. Here private training beats the majority by several points.</p>\n\
         <div class=\"scroll\"><table class=\"results\">\n<thead><tr><th scope=\"col\">Algorithm</th><th scope=\"col\" class=\"words\">Setting</th>\
         <th scope=\"col\">ε certified</th><th scope=\"col\">Test accuracy, %</th><th scope=\"col\">Above the majority, points</th></tr></thead>\n\
         <tbody class=\"algorithms\">\n{}{paper}</tbody></table></div>\n<div class=\"figures\">\n{chart}</div>\n</section>\n",
        rows(record, &here)
    )
}

fn references(reproduction: &Reproduction) -> String {
    let checks = reproduction.reference_checks();
    if checks.is_empty() {
        return String::new();
    }
    let agree = checks.iter().filter(|check| check.agrees).count();
    let row = |check: &ReferenceCheck| {
        let (what, width) = match check.quantity {
            Quantity::LogError => ("log error", "± 0.15"),
            Quantity::Epsilon => ("ε as the paper counts", "± 6 %"),
        };
        format!(
            "<tr><th scope=\"row\">{}</th><td class=\"words\">{}</td><td class=\"words\">{what}</td><td>{}</td><td>{}</td><td>{width}</td><td>{}</td></tr>\n",
            escape(&check.algorithm),
            escape(check.experiment),
            number(check.reference, 3),
            number(check.measured, 3),
            if check.agrees { "agrees" } else { "<b>differs</b>" }
        )
    };
    let rows: String = checks.iter().map(row).collect();
    format!(
        "<section id=\"independent\">\n<h2>Beside an independent program</h2>\n<p>{agree} of {} values agree with a numpy program that shares no code with this one, \
         run with another seed.</p>\n<details>\n<summary>All of them</summary>\n<div class=\"scroll\"><table class=\"results\">\n<thead><tr>\
         <th scope=\"col\">Algorithm</th><th scope=\"col\" class=\"words\">Experiment</th><th scope=\"col\" class=\"words\">Value</th>\
         <th scope=\"col\">Independent</th><th scope=\"col\">Here</th><th scope=\"col\">Tolerance</th><th scope=\"col\"></th></tr></thead>\n\
         <tbody class=\"algorithms\">\n{rows}</tbody></table></div>\n</details>\n</section>\n",
        checks.len()
    )
}

fn data(reproduction: &Reproduction) -> String {
    let one = |table: &CsvTable| {
        let columns: Vec<String> = table
            .columns
            .iter()
            .map(|column| {
                format!("<li><code>{}</code>: {}</li>", column.name, escape(&column.meaning))
            })
            .collect();
        format!(
            "<details class=\"minor\">\n<summary>data/{}.csv</summary>\n<p class=\"note\">{}</p>\n<ul class=\"note\">{}</ul>\n</details>\n",
            escape(&table.name),
            escape(&table.about),
            columns.concat()
        )
    };
    let tables: String = reproduction.tables().iter().map(one).collect();
    format!("<section id=\"data\">\n<h2>The data behind the figures</h2>\n{tables}</section>\n")
}

fn repeat(reproduction: &Reproduction) -> String {
    let what = match reproduction.parts.as_slice() {
        parts if parts.len() == Part::ALL.len() => "all".to_string(),
        parts => parts.iter().map(|part| part.name()).collect::<Vec<_>>().join(" "),
    };
    // Experiments that kept seeds of their own need no word.
    let seed = match seeds(reproduction).as_slice() {
        [seed] => format!(" --seed {seed}"),
        _ => String::new(),
    };
    let experiments: String = reproduction
        .records
        .iter()
        .map(|record| {
            format!(
                "<details class=\"minor\">\n<summary>{}</summary>\n<pre>{}</pre>\n</details>\n",
                escape(&record.name),
                escape(&record.resolved)
            )
        })
        .collect();
    format!(
        "<section id=\"repeat\">\n<h2>How to repeat it</h2>\n<p>The same version and seed give the same numbers, bit for bit, on any number of threads. Each experiment \
         below also runs alone with <code>consenso run</code>.</p>\n<pre>consenso reproduce {what}{seed}</pre>\n{experiments}</section>\n\
         <footer class=\"meta\">consenso {} · seeded simulation: privacy figures hold only for a run on OS entropy · the numbers behind this page: \
         <code>record.json</code>, <code>data/*.csv</code></footer>\n",
        escape(&reproduction.version)
    )
}
