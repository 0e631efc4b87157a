//! `consenso privacy explain`: what an ε means, as sentences, as numbers and as a page with the curve
//! of the best attacker.

use crate::{Failure, output, table};
use anyhow::{Result, anyhow};
use consenso_engine::privacy::{GaussianMeaning, Meaning};
use consenso_study::report::{Axis, Figure, Point, Scale, Series, chart, escape, page};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::PathBuf;

/// What an ε means: as odds, and for somebody who tries to find out who is in the data
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  consenso privacy explain --epsilon 1
  consenso privacy explain --epsilon 1 --delta 1e-6 --html epsilon.html    to show to those concerned
  consenso privacy explain --epsilon 1 --delta 1e-6 --json

Every figure is a limit that no attacker passes, whatever they know or compute: one who tries less
cleverly learns less. `consenso privacy audit` tries.")]
pub(crate) struct Args {
    /// ε of the claim
    #[arg(long, allow_negative_numbers = true)]
    epsilon: f64,
    /// δ of the claim
    #[arg(long, default_value_t = 0.0, allow_negative_numbers = true)]
    delta: f64,
    /// Write a page with the curve of the best attacker
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

pub(crate) fn command(args: &Args, json: bool) -> Result<(), Failure> {
    let (epsilon, delta) = (args.epsilon, args.delta);
    let meaning = Meaning::of(epsilon, delta).ok_or_else(|| {
        anyhow!("--epsilon {epsilon} --delta {delta}: ε must be a number from 0 on, and δ from 0 to below 1")
    })?;
    if let Some(path) = &args.html {
        std::fs::write(path, html(&meaning))
            .map_err(|e| Failure::Run(anyhow!("{}: {e}", path.display())))?;
    }
    match (json, &args.html) {
        (true, _) => output::print_json(&numbers(&meaning)),
        (false, Some(path)) => output::print(&format!("{}: written", path.display())),
        (false, None) => output::print(&explanation(&meaning)),
    }
    Ok(())
}

/// Shares of wrong accusations for which `explain` says how many members are found.
const FALSE_ALARMS: [f64; 4] = [0.0001, 0.001, 0.01, 0.1];

/// What an attacker may have believed before.
const BELIEFS: [f64; 4] = [0.01, 0.1, 0.5, 0.9];

fn numbers(meaning: &Meaning) -> Value {
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
    json!({
        "epsilon": meaning.epsilon, "delta": meaning.delta, "odds": meaning.odds, "right_guess": meaning.right_guess,
        "membership": alarms, "beliefs": beliefs, "groups": groups,
        "beyond_twice_odds": meaning.beyond(2.0), "gaussian": gaussian_json(meaning),
    })
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
    let _ = writeln!(
        out,
        "odds         Whatever was exchanged, the odds of any guess about one person's record \
         grow at most by the factor e^ε = {}{}",
        table::rounded_up(meaning.odds, 4),
        beyond(meaning)
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
        "\ntwo guesses  Somebody who knows all other records and has narrowed one person's \
         record down to two equally likely possibilities is right at most {} of the time (a coin: 50 %).",
        percent(meaning.right_guess)
    );
    let _ = writeln!(
        out,
        "\nmembership   An attacker who says of people whether they are in the data finds at most \
         this share of those who are, for the share of others that they accuse wrongly:"
    );
    for share in FALSE_ALARMS {
        let _ = writeln!(
            out,
            "             {:>6} accused wrongly: at most {} found",
            percent(share),
            percent(meaning.detection(share))
        );
    }
    match meaning.gaussian() {
        Some(gaussian) => out.push_str(&gaussian_text(&gaussian)),
        None => {
            out.push_str("             No attacker is above this curve (··· a coin):\n\n");
            out.push_str(&roc(|share| meaning.detection(share)));
        }
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
    output::folded(&out, Some(output::columns().map_or(100, |columns| columns.min(100))))
}

/// How often odds grow by more than e^ε: never where δ = 0.
fn beyond(meaning: &Meaning) -> String {
    if meaning.delta == 0.0 {
        return ".".into();
    }
    let any = format!(
        " or less, but for rare transcripts: by more than twice that with a chance of at most {}.",
        table::rounded_up(meaning.beyond(2.0), 2)
    );
    let Some(gaussian) = meaning.gaussian() else { return any };
    format!(
        "{any} δ is not the chance to pass e^ε itself: under Gaussian noise with this claim that is {}, {} times δ.",
        table::rounded_up(gaussian.beyond, 3),
        table::rounded_up(gaussian.beyond / meaning.delta, 3)
    )
}

/// Shares of wrong accusations at which the curve of the best attacker is given: every fiftieth,
/// and more of them near 0, where it is steep. Straight lines between them are below the curve,
/// so there have to be many.
fn shares() -> Vec<f64> {
    let small = (-6..-1).flat_map(|k| [1.0, 2.0, 5.0].map(|digit| digit * 10f64.powi(k)));
    let mut all: Vec<f64> =
        small.chain((0..=50).map(|k| f64::from(k) / 50.0)).chain([0.05, 0.1]).collect();
    all.sort_by(f64::total_cmp);
    all.dedup_by(|a, b| (*a - *b).abs() < 1e-9);
    all
}

fn gaussian_json(meaning: &Meaning) -> Value {
    let Some(gaussian) = meaning.gaussian() else { return Value::Null };
    let curve: Vec<_> = shares()
        .into_iter()
        .map(|share| {
            json!({
                "false_alarms": share,
                "detected_at_most": gaussian.detection(share),
                "detected_at_most_any_mechanism": meaning.detection(share),
            })
        })
        .collect();
    json!({
        "mu": gaussian.mu, "beyond_odds": gaussian.beyond, "right_guess": gaussian.right_guess,
        "curve": curve,
    })
}

/// What Gaussian noise with the claim allows, with a picture of the best attacker.
fn gaussian_text(gaussian: &GaussianMeaning) -> String {
    let mut out = format!(
        "\nGaussian     Noise of this program that is Gaussian and has this claim (μ = {}) allows \
         less: two guesses are told apart {} of the time, and no attacker is above this curve (··· a coin):\n\n",
        table::rounded_up(gaussian.mu, 4),
        percent(gaussian.right_guess)
    );
    out.push_str(&roc(|share| gaussian.detection(share)));
    for share in FALSE_ALARMS {
        let _ = writeln!(
            out,
            "             {:>6} accused wrongly: at most {} found",
            percent(share),
            percent(gaussian.detection(share))
        );
    }
    out
}

/// The share of members found (upwards) by the share of others accused wrongly (to the right).
fn roc(detected: impl Fn(f64) -> f64) -> String {
    const ROWS: usize = 10;
    const COLUMNS: usize = 40;
    let heights: Vec<usize> = (0..COLUMNS)
        .map(|column| {
            let share = (column as f64 + 0.5) / COLUMNS as f64;
            ((detected(share) * ROWS as f64).ceil() as usize).clamp(1, ROWS)
        })
        .collect();
    let mut out = String::new();
    for row in (1..=ROWS).rev() {
        let label = match row {
            ROWS => "found 100 %",
            1 => "        0 %",
            _ => "",
        };
        let cells: String = heights
            .iter()
            .enumerate()
            .map(|(column, &height)| {
                let coin = (column * ROWS) / COLUMNS + 1;
                if height == row {
                    '●'
                } else if coin == row {
                    '·'
                } else {
                    ' '
                }
            })
            .collect();
        let _ = writeln!(out, "             {label:>11} │{}", cells.trim_end());
    }
    let _ = writeln!(out, "             {:>11} └{}", "", "─".repeat(COLUMNS));
    let _ = writeln!(out, "             {:>11}  0 %{:>36}", "", "accused wrongly 100 %");
    out
}

/// A claim as people write it.
fn claim(meaning: &Meaning) -> String {
    match meaning.delta == 0.0 {
        true => format!("ε = {}", meaning.epsilon),
        false => format!("ε = {}, δ = {:e}", meaning.epsilon, meaning.delta),
    }
}

/// The best attacker under any mechanism with the claim, under Gaussian noise with it, and a coin.
fn attackers(meaning: &Meaning, scale: Scale) -> Figure {
    let log = scale == Scale::Log;
    let at: Vec<f64> = match log {
        true => (0..=240).map(|k| 10f64.powf(f64::from(k) / 40.0 - 6.0)).collect(),
        false => (0..=400).map(|k| f64::from(k) / 400.0).collect(),
    };
    let line = |name: &str, index, detected: &dyn Fn(f64) -> f64| {
        let points = at.iter().map(|&share| Point::from((share, detected(share)))).collect();
        Series::new(name, index, points)
    };
    let mut series = vec![line("any mechanism with this claim", 1, &|s| meaning.detection(s))];
    if let Some(gaussian) = meaning.gaussian() {
        series.push(line("Gaussian noise with this claim", 0, &|s| gaussian.detection(s)));
    }
    series.push(line("a coin", 2, &|share| share));
    let near = if log { ", accusing few" } else { "" };
    let axis = |label: &str| {
        let limits = Some(if log { (1e-6, 1.0) } else { (0.0, 1.0) });
        Axis { limits, ..Axis::new(label, scale) }
    };
    Figure {
        title: format!("The best attacker{near}"),
        description: "The largest share of members that can be found, by the share of others who \
            are accused wrongly. Nobody is above the lines; a coin finds as many members as it \
            accuses others."
            .into(),
        x: axis("share of others accused wrongly"),
        y: axis("share of members found"),
        series,
        lines: Vec::new(),
    }
}

/// A table of two columns, its rows as text.
fn rows(heads: [&str; 2], all: &[[String; 2]]) -> String {
    let mut out = format!(
        "<div class=\"scroll\"><table><thead><tr><th scope=\"col\">{}</th><th scope=\"col\">{}</th></tr></thead>\n<tbody>\n",
        escape(heads[0]),
        escape(heads[1])
    );
    for [name, value] in all {
        let _ = writeln!(
            out,
            "<tr><th scope=\"row\">{}</th><td>{}</td></tr>",
            escape(name),
            escape(value)
        );
    }
    out + "</tbody></table></div>\n"
}

/// A page for those whose records they are: sentences, tables and the curve of the best attacker.
fn html(meaning: &Meaning) -> String {
    let title = format!("What {} means", claim(meaning));
    let mut main = format!(
        "<header>\n<p class=\"kicker\">Differential privacy</p>\n<h1>{}</h1>\n<p class=\"lead\">What anybody \
         can learn about one person's record from everything that was exchanged. These limits hold for \
         every attacker, with any knowledge and any computer.</p>\n</header>\n",
        escape(&title)
    );
    main += &section("odds", "How much surer somebody can become", &odds_html(meaning));
    main += &section("attacker", "Who is in the data", &attacker_html(meaning));
    main += &section("several", "A person with several records", &several_html(meaning));
    main += &section(
        "not",
        "What it does not say",
        "<p>That nothing can be learned about people in general. If the model shows that smokers fall ill, \
         that is so of smokers who are not in the data as well, and no ε changes it. The limits above are \
         about what one record adds.</p>\n<p>Whether this ε is small enough: that is a choice of those who \
         are in the data and of those who answer for it, not a result.</p>\n",
    );
    let _ = writeln!(
        main,
        "<footer class=\"note\">Made by consenso {}: <code>consenso privacy explain --epsilon {}{} --html FILE</code>. \
         Every figure is rounded up.</footer>",
        env!("CARGO_PKG_VERSION"),
        meaning.epsilon,
        if meaning.delta == 0.0 { String::new() } else { format!(" --delta {:e}", meaning.delta) }
    );
    page::shell(&title, env!("CARGO_PKG_VERSION"), &main)
}

fn section(id: &str, title: &str, html: &str) -> String {
    format!("<section id=\"{id}\">\n<h2>{}</h2>\n{html}</section>\n", escape(title))
}

fn odds_html(meaning: &Meaning) -> String {
    let beliefs = BELIEFS.map(|before| [percent(before), percent(meaning.belief(before))]);
    let mut out = format!(
        "<p>The odds of any guess about one person's record grow at most by the factor e<sup>ε</sup> = {}.</p>\n",
        table::rounded_up(meaning.odds, 4)
    );
    if meaning.delta > 0.0 {
        let _ = write!(
            out,
            "<p>Rare transcripts are the exception that δ stands for. Odds grow by more than twice \
             that factor with a chance of at most {}.",
            table::rounded_up(meaning.beyond(2.0), 2)
        );
        if let Some(gaussian) = meaning.gaussian() {
            let _ = write!(
                out,
                " δ is not the chance to pass e<sup>ε</sup> itself: under Gaussian noise with this \
                 claim that chance is {}, which is {} times δ.",
                table::rounded_up(gaussian.beyond, 3),
                table::rounded_up(gaussian.beyond / meaning.delta, 3)
            );
        }
        out += "</p>\n<p>But for those transcripts:</p>\n";
    }
    out + &rows(["sure before", "sure after, at most"], &beliefs)
}

fn attacker_html(meaning: &Meaning) -> String {
    let mut out = format!(
        "<p>Somebody who knows all other records, and has narrowed one person's record down to two \
         equally likely possibilities, is right at most {} of the time{}. A coin is right 50 % of the \
         time.</p>\n<p>An attacker who says of people whether they are in the data finds at most this \
         share of those who are:</p>\n",
        percent(meaning.right_guess),
        meaning.gaussian().map_or(String::new(), |gaussian| format!(
            " ({} under Gaussian noise with this claim)",
            percent(gaussian.right_guess)
        )),
    );
    out += "<div class=\"figures\">\n";
    for (name, scale) in [("attacker-roc", Scale::Linear), ("attacker-few", Scale::Log)] {
        let figure = attackers(meaning, scale);
        out += &chart::element(name, &figure, &escape(&figure.description));
    }
    out += "</div>\n";
    let found = FALSE_ALARMS.map(|share| [percent(share), percent(meaning.detection(share))]);
    out += &rows(["others accused wrongly", "members found, at most"], &found);
    if let Some(gaussian) = meaning.gaussian() {
        let found = FALSE_ALARMS.map(|share| [percent(share), percent(gaussian.detection(share))]);
        let _ = writeln!(
            out,
            "<p>Under Gaussian noise with this claim (μ = {}) it is less:</p>",
            table::rounded_up(gaussian.mu, 4)
        );
        out += &rows(["others accused wrongly", "members found, at most"], &found);
    }
    out
}

fn several_html(meaning: &Meaning) -> String {
    let all = [2, 5, 10].map(|k| {
        let told = meaning.group(k).map_or("none: δ reaches 1".into(), |group| {
            let epsilon = format!("ε = {}", table::rounded_up(group.epsilon, 4));
            match group.delta == 0.0 {
                true => epsilon,
                false => format!("{epsilon}, δ = {}", table::rounded_up(group.delta, 3)),
            }
        });
        [k.to_string(), told]
    });
    let words = "<p>A claim is about one record, unless it names a person as its unit. A person with \
        several records in one site's data has a weaker one:</p>\n";
    words.to_owned() + &rows(["records of one person", "their claim"], &all)
}
