//! Answers to read: text for a terminal, CSV, LaTeX, and one page that works offline.

use crate::answers::{Answer, Answered};
use crate::escape;
use crate::question::QuestionKind;
use std::fmt::Write as _;

/// A number with as many digits as its uncertainty deserves: two of the interval's width.
fn digits(x: f64, width: f64) -> String {
    if !x.is_finite() {
        return "–".into();
    }
    let decimals = if width > 0.0 && width.is_finite() {
        (1.0 - libm::floor(libm::log10(width))).clamp(0.0, 6.0) as usize
    } else if x == libm::round(x) {
        0
    } else {
        4
    };
    let shown = format!("{x:.decimals$}");
    if shown.trim_start_matches('-').chars().all(|c| c == '0' || c == '.') {
        shown.trim_start_matches('-').to_owned()
    } else {
        shown
    }
}

/// How wide the interval is that decides about digits: quantiles of whole numbers are whole.
fn width(a: &Answer) -> f64 {
    let whole = [a.estimate, a.low, a.high].iter().all(|x| *x == libm::round(*x));
    if whole && a.what == "quantile" { 0.0 } else { a.high - a.low }
}

/// The estimate as it may be shown: never a number that noise alone could have made.
fn estimate(a: &Answer) -> String {
    if a.below_noise { "below noise".into() } else { digits(a.estimate, width(a)) }
}

/// The estimate with half of its interval's width, in a unit of so many to one.
fn give_or_take(a: &Answer, unit: f64) -> String {
    let half = 0.5 * unit * (a.high - a.low);
    if a.below_noise {
        estimate(a)
    } else if half > 0.0 {
        format!("{} ± {}", digits(unit * a.estimate, 2.0 * half), digits(half, 2.0 * half))
    } else {
        digits(unit * a.estimate, 0.0)
    }
}

fn interval(a: &Answer) -> String {
    let width = width(a);
    if a.low == a.high && a.noise == 0.0 {
        return "exact".into();
    }
    format!("{} to {}", digits(a.low, width), digits(a.high, width))
}

/// What an answer is of, beside its group.
fn label(a: &Answer) -> String {
    let mut words = Vec::new();
    words.extend(a.column.clone());
    words.extend(a.level.clone());
    words.extend(a.q.map(|q| format!("{} %", digits(100.0 * q, 0.0))));
    words.extend(a.at.map(|at| format!("at {at}")));
    words.join(": ")
}

/// The answers to show: of a curve that is lost in noise from some point on that point alone, marked.
fn told(answers: &[Answer]) -> Vec<(&Answer, bool)> {
    let lost = |a: &Answer| a.below_noise && a.what == "survival";
    let mut all: Vec<(&Answer, bool)> = Vec::new();
    for a in answers {
        match all.last_mut() {
            Some((last, later)) if lost(last) && lost(a) && last.group == a.group => *later = true,
            _ => all.push((a, false)),
        }
    }
    all
}

/// How likely chance is, as people write it.
fn likely(p: f64) -> String {
    if p < 1e-4 { "p < 0.0001".into() } else { format!("p = {p:.4}") }
}

/// One text table for every question.
#[must_use]
pub fn text(answered: &[Answered]) -> String {
    let mut out = String::new();
    for question in answered {
        let free = if question.known { "   (known already: cost nothing)" } else { "" };
        let _ = writeln!(out, "{}{free}", question.question);
        if question.kind == QuestionKind::Summary {
            out.push_str(&table_one(question));
        } else {
            let row = |(a, later): (&Answer, bool)| {
                let group = a.group.clone().unwrap_or_default();
                let label = if later { format!("{} and later", label(a)) } else { label(a) };
                vec![group, a.what.into(), label, estimate(a), interval(a)]
            };
            let rows: Vec<Vec<String>> = told(&question.answers).into_iter().map(row).collect();
            let head = [question.by.as_deref().unwrap_or(""), "", "", "estimate", "interval"];
            out.push_str(&aligned(&head.map(str::to_owned), &rows));
        }
        for test in &question.tests {
            let group = test.group.as_ref().map_or_else(String::new, |g| format!(" ({g})"));
            let p = likely(test.p);
            let _ = writeln!(
                out,
                "  {}{group}: {:.2} on {} df, {p}",
                test.name, test.statistic, test.df
            );
        }
        for note in &question.notes {
            let _ = writeln!(out, "  {note}");
        }
        out.push('\n');
    }
    out
}

/// Columns of a table side by side, empty ones left out.
fn aligned(head: &[String], rows: &[Vec<String>]) -> String {
    let used: Vec<usize> =
        (0..head.len()).filter(|&c| rows.iter().any(|row| !row[c].is_empty())).collect();
    let length = |s: &str| s.chars().count();
    let width =
        |c: usize| rows.iter().map(|r| length(&r[c])).max().unwrap_or(0).max(length(&head[c]));
    let widths: Vec<usize> = used.iter().map(|&c| width(c)).collect();
    let mut out = String::new();
    for row in std::iter::once(head).chain(rows.iter().map(Vec::as_slice)) {
        let cells: Vec<String> = used
            .iter()
            .zip(&widths)
            .map(|(&c, &w)| format!("{}{}", row[c], " ".repeat(w - length(&row[c]))))
            .collect();
        let _ = writeln!(out, "  {}", cells.join("  ").trim_end());
    }
    out
}

/// The rows of a summary: a column or one of its levels, a cell for every group, and the
/// standardised difference from the first group.
fn summary_rows(question: &Answered) -> (Vec<String>, Vec<Vec<String>>) {
    let mut groups: Vec<Option<String>> = Vec::new();
    let mut keys: Vec<(Option<String>, Option<String>)> = Vec::new();
    for a in &question.answers {
        if !groups.contains(&a.group) {
            groups.push(a.group.clone());
        }
        let key = (a.column.clone(), a.level.clone());
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    let mut head = vec![String::new()];
    head.extend(groups.iter().map(|g| g.clone().unwrap_or_else(|| "all".into())));
    let compared = groups.len() > 1;
    if compared {
        head.push("std. difference".into());
    }
    let mut rows = Vec::new();
    for (column, level) in keys {
        let found = |group: &Option<String>, what: &str| {
            question
                .answers
                .iter()
                .find(|a| (&a.group, &a.column, &a.level, a.what) == (group, &column, &level, what))
        };
        let mut row = vec![match &level {
            Some(level) => format!("{} = {level}", column.clone().unwrap_or_default()),
            None => format!("{}, mean (sd)", column.clone().unwrap_or_default()),
        }];
        for group in &groups {
            row.push(
                match (
                    found(group, "mean"),
                    found(group, "sd"),
                    found(group, "count"),
                    found(group, "share"),
                ) {
                    (Some(mean), Some(sd), _, _) if mean.below_noise => {
                        estimate(if sd.below_noise { sd } else { mean })
                    }
                    (Some(mean), Some(sd), _, _) => {
                        format!("{} ({})", give_or_take(mean, 1.0), give_or_take(sd, 1.0))
                    }
                    (_, _, Some(count), Some(_)) if count.below_noise => estimate(count),
                    (_, _, Some(count), Some(share)) => {
                        let percent = give_or_take(share, 100.0);
                        format!("{} ({percent} %)", give_or_take(count, 1.0))
                    }
                    _ => String::new(),
                },
            );
        }
        if compared {
            let differences = groups.iter().skip(1).filter_map(|g| found(g, "difference"));
            row.push(differences.map(|d| give_or_take(d, 1.0)).collect::<Vec<_>>().join(", "));
        }
        rows.push(row);
    }
    (head, rows)
}

fn table_one(question: &Answered) -> String {
    let (head, rows) = summary_rows(question);
    aligned(&head, &rows)
}

/// All answers, one line each.
#[must_use]
pub fn csv(answered: &[Answered]) -> String {
    let mut out =
        String::from("question,group,what,column,level,q,at,estimate,low,high,noise,below_noise\n");
    let quoted = |s: &str| match s.contains([',', '"', '\n']) {
        true => format!("\"{}\"", s.replace('"', "\"\"")),
        false => s.to_owned(),
    };
    for question in answered {
        for a in &question.answers {
            let option = |x: Option<f64>| x.map_or_else(String::new, |x| x.to_string());
            let words = |x: &Option<String>| quoted(x.as_deref().unwrap_or_default());
            let column = a.column.clone().or_else(|| question.column.clone());
            let shown = if a.below_noise { String::new() } else { a.estimate.to_string() };
            let cells = [
                quoted(&question.question),
                words(&a.group),
                a.what.to_owned(),
                words(&column),
                words(&a.level),
                option(a.q),
                option(a.at),
                shown,
                a.low.to_string(),
                a.high.to_string(),
                a.noise.to_string(),
                a.below_noise.to_string(),
            ];
            let _ = writeln!(out, "{}", cells.join(","));
        }
    }
    out
}

/// A table for every question, to paste into a paper.
#[must_use]
pub fn latex(answered: &[Answered]) -> String {
    let mut out = String::new();
    for question in answered {
        let (head, rows) = if question.kind == QuestionKind::Summary {
            summary_rows(question)
        } else {
            let head = [question.by.as_deref().unwrap_or(""), "", "estimate", "interval"];
            let rows = question.answers.iter().map(|a| {
                let of = [a.what.to_owned(), label(a)].join(" ").trim().to_owned();
                vec![a.group.clone().unwrap_or_default(), of, estimate(a), interval(a)]
            });
            (head.map(str::to_owned).to_vec(), rows.collect())
        };
        let line = |row: &[String]| {
            format!(
                "{} \\\\\n",
                row.iter().map(|c| escape::latex(c)).collect::<Vec<_>>().join(" & ")
            )
        };
        let _ = write!(
            out,
            "% {}\n\\begin{{tabular}}{{l{}}}\n\\hline\n{}\\hline\n",
            question.question,
            "r".repeat(head.len() - 1),
            line(&head)
        );
        rows.iter().for_each(|row| out.push_str(&line(row)));
        out.push_str("\\hline\n\\end{tabular}\n\n");
    }
    out
}

/// One page: a figure and a table for every question. It holds no script and asks for nothing.
#[must_use]
pub fn html(title: &str, claim: &str, answered: &[Answered]) -> String {
    let mut out = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{0}</title><style>\
         body{{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}}\
         table{{border-collapse:collapse;margin:.5rem 0 1rem}}td,th{{padding:.15rem .8rem .15rem 0;text-align:left;border-bottom:1px solid #ddd}}\
         td.n{{text-align:right;font-variant-numeric:tabular-nums}}.claim,.note{{color:#555}}svg{{max-width:100%;height:auto}}\
         svg text{{font:11px system-ui,sans-serif;fill:#333}}pre{{white-space:pre-wrap;font-size:.85em}}\
         .wide{{overflow-x:auto}}td,th{{white-space:nowrap}}\
         </style><h1>{0}</h1>",
        escape::html(title),
    );
    // The first line says what it costs; the rest is for who wants to know.
    let (first, rest) = claim.split_once('\n').unwrap_or((claim, ""));
    let _ = write!(out, "<p class=\"claim\">{}</p>", escape::html(first));
    if !rest.is_empty() {
        let _ = write!(
            out,
            "<details class=\"claim\"><summary>The claim in full</summary><pre>{}</pre></details>",
            escape::html(rest)
        );
    }
    for question in answered {
        let _ = write!(out, "<h2>{}</h2>", escape::html(&question.question));
        if question.kind == QuestionKind::Summary {
            let (head, rows) = summary_rows(question);
            html_table(&mut out, &head, &rows);
        } else {
            figure(&mut out, question);
            let head = [question.by.as_deref().unwrap_or(""), "", "estimate", "interval"];
            let row = |(a, later): (&Answer, bool)| {
                let of = [a.what.to_owned(), label(a)].join(" ").trim().to_owned();
                let of = if later { format!("{of} and later") } else { of };
                vec![a.group.clone().unwrap_or_default(), of, estimate(a), interval(a)]
            };
            let rows: Vec<Vec<String>> = told(&question.answers).into_iter().map(row).collect();
            html_table(&mut out, &head.map(str::to_owned), &rows);
        }
        for test in &question.tests {
            let group = test.group.as_ref().map_or_else(String::new, |g| format!(" ({g})"));
            let _ = write!(
                out,
                "<p>{}{}: {:.2} on {} degrees of freedom, {}; the test knows the noise.</p>",
                test.name,
                escape::html(&group),
                test.statistic,
                test.df,
                escape::html(&likely(test.p))
            );
        }
        if !question.notes.is_empty() {
            let notes: Vec<String> = question.notes.iter().map(|note| escape::html(note)).collect();
            let _ = write!(out, "<p class=\"note\">{}</p>", notes.join("<br>"));
        }
    }
    out.push_str("</html>\n");
    out
}

fn html_table(out: &mut String, head: &[String], rows: &[Vec<String>]) {
    out.push_str("<div class=\"wide\"><table><tr>");
    head.iter().for_each(|h| {
        let _ = write!(out, "<th>{}</th>", escape::html(h));
    });
    out.push_str("</tr>");
    for row in rows {
        out.push_str("<tr>");
        for (c, cell) in row.iter().enumerate() {
            let class = if c > 0 && cell.starts_with(|c: char| c.is_ascii_digit()) {
                " class=\"n\""
            } else {
                ""
            };
            let _ = write!(out, "<td{class}>{}</td>", escape::html(cell));
        }
        out.push_str("</tr>");
    }
    out.push_str("</table></div>");
}

const COLOURS: [&str; 6] = ["#1b6ca8", "#d1495b", "#2e8b57", "#8d5a97", "#c77d0a", "#555555"];

/// Curves with bands for what is asked at several points, bars with intervals otherwise.
fn figure(out: &mut String, question: &Answered) {
    match question.kind {
        QuestionKind::Survival => curves(out, question, "survival"),
        QuestionKind::Roc => curves(out, question, "true positive rate"),
        QuestionKind::Correlation => bars(out, question, "correlation"),
        QuestionKind::Mean => bars(out, question, "mean"),
        _ => bars(out, question, ""),
    }
}

fn bars(out: &mut String, question: &Answered, what: &str) {
    let shown: Vec<&Answer> =
        question.answers.iter().filter(|a| what.is_empty() || a.what == what).collect();
    if shown.is_empty() || shown.len() > 80 {
        return;
    }
    let low = shown.iter().map(|a| a.low).fold(0.0f64, f64::min);
    let high = shown.iter().map(|a| a.high).fold(0.0f64, f64::max);
    let name = |a: &Answer| -> String {
        let name = [a.group.clone().unwrap_or_default(), label(a)].join(" ");
        name.trim().chars().take(34).collect()
    };
    // Labels of 11 pixels are at most 7 wide a letter.
    let letters = shown.iter().map(|a| name(a).chars().count()).max().unwrap_or(0);
    let (left, width, row) = (16.0 + 6.5 * letters as f64, 320.0, 20.0);
    let x = |v: f64| left + width * (v - low) / (high - low).max(1e-300);
    let _ = write!(
        out,
        "<svg role=\"img\" aria-label=\"{}\" width=\"{1}\" height=\"{2}\" viewBox=\"0 0 {1} {2}\">",
        escape::html(&question.question),
        left + width + 90.0,
        row * shown.len() as f64 + 12.0
    );
    for (k, a) in shown.iter().enumerate() {
        let y = row * k as f64 + 6.0;
        let _ = write!(
            out,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
            left - 8.0,
            y + 12.0,
            escape::html(&name(a))
        );
        if !a.below_noise {
            let (from, to) =
                (x(0.0f64.max(low)).min(x(a.estimate)), x(a.estimate).max(x(0.0f64.max(low))));
            let _ = write!(
                out,
                "<rect x=\"{from:.1}\" y=\"{}\" width=\"{:.1}\" height=\"13\" fill=\"{}\" opacity=\".55\"/>",
                y + 1.0,
                to - from,
                COLOURS[0]
            );
        }
        let _ = write!(
            out,
            "<path d=\"M{:.1} {m}H{:.1}M{:.1} {t}v8M{:.1} {t}v8\" stroke=\"#222\" fill=\"none\"/>",
            x(a.low),
            x(a.high),
            x(a.low),
            x(a.high),
            m = y + 7.5,
            t = y + 3.5
        );
        let _ = write!(
            out,
            "<text x=\"{}\" y=\"{}\">{}</text>",
            left + width + 8.0,
            y + 12.0,
            escape::html(&estimate(a))
        );
    }
    out.push_str("</svg>");
}

/// Survival by time, or true by false positive rates.
fn curves(out: &mut String, question: &Answered, what: &str) {
    let mut groups: Vec<Option<String>> = Vec::new();
    for a in question.answers.iter().filter(|a| a.what == what) {
        if !groups.contains(&a.group) {
            groups.push(a.group.clone());
        }
    }
    let survival = what == "survival";
    let points_at = || question.answers.iter().filter(|a| a.what == what).filter_map(|a| a.at);
    let (first, last) = match survival {
        true => (points_at().fold(f64::INFINITY, f64::min), points_at().fold(0.0, f64::max)),
        false => (0.0, 1.0),
    };
    // Where a point of the curve lies: at its time, or at the false positive rate of its threshold.
    let place = |a: &Answer| match survival {
        true => a.at.unwrap_or(first),
        false => {
            let same = |b: &&Answer| {
                b.what == "false positive rate" && (&b.group, b.at) == (&a.group, a.at)
            };
            question.answers.iter().find(same).map_or(0.0, |b| b.estimate)
        }
    };
    let (left, width, height) = (40.0, 520.0, 260.0);
    let start = if survival { first - (last - first) / 15.0 } else { first };
    let x = |v: f64| left + width * (v - start) / (last - start).max(1e-300);
    let y = |v: f64| 10.0 + height * (1.0 - v);
    let _ = write!(
        out,
        "<svg role=\"img\" aria-label=\"{}\" width=\"680\" height=\"310\" viewBox=\"0 0 680 310\">",
        escape::html(&question.question)
    );
    for tick in [0.0, 0.25, 0.5, 0.75, 1.0] {
        let _ = write!(
            out,
            "<path d=\"M{left} {0:.1}h{width}\" stroke=\"#ddd\"/><text x=\"4\" y=\"{1:.1}\">{tick}</text>",
            y(tick),
            y(tick) + 4.0
        );
    }
    for (k, group) in groups.iter().enumerate() {
        let colour = COLOURS[k % COLOURS.len()];
        let points: Vec<&Answer> = question
            .answers
            .iter()
            .filter(|a| a.what == what && &a.group == group && !a.below_noise)
            .collect();
        let at = |a: &Answer| x(place(a));
        // Both curves go through the upper corner: everybody is alive, everything is positive.
        let corner = if survival { start } else { 1.0 };
        let begin = format!("{:.1},{:.1} ", x(corner), y(1.0));
        let line = |f: &dyn Fn(&Answer) -> f64| -> Vec<String> {
            points.iter().map(|a| format!("{:.1},{:.1}", at(a), y(f(a)))).collect()
        };
        let (low, mut high) = (line(&|a| a.low), line(&|a| a.high));
        high.reverse();
        let _ = write!(
            out,
            "<polygon points=\"{begin}{} {}\" fill=\"{colour}\" opacity=\".15\"/>\
             <polyline points=\"{begin}{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>\
             <text x=\"575\" y=\"{}\" style=\"fill:{colour}\">{}</text>",
            low.join(" "),
            high.join(" "),
            line(&|a| a.estimate).join(" "),
            24 + 16 * k,
            escape::html(group.as_deref().unwrap_or("all"))
        );
    }
    let _ = write!(
        out,
        "<text x=\"{left}\" y=\"288\">{}</text><text x=\"{}\" y=\"288\" text-anchor=\"end\">{last}</text>\
         <text x=\"{}\" y=\"302\" text-anchor=\"middle\">{}</text></svg>",
        crate::part::round(start),
        left + width,
        left + 0.5 * width,
        match survival {
            true => escape::html(question.column.as_deref().unwrap_or("time")),
            false => "false positive rate; the curve shows the true positive rate".to_owned(),
        }
    );
}
