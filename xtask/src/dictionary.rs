//! The dictionary of algorithms (`docs/algorithms.md`), made from their sources: what each file and
//! its type say of the update, the paper and the claim, what the table of capabilities says, and how
//! it ranked on the board whose ranks are kept in `docs/board/`.
//!
//! Read as text, as the reference of keys is.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

const PROTOCOLS: &str = "crates/consenso-agents/src/protocol";

/// Ranks of a board, as `consenso benchmark` writes them.
const RANKS: &str = "docs/board/ranks.csv";

/// The whole chapter as Markdown, or what it cannot explain.
pub(crate) fn chapter(root: &Path) -> Result<String, String> {
    let sources = sources(&root.join(PROTOCOLS))?;
    let kinds = kinds(sources.get("mod").ok_or("protocol/mod.rs was not found")?);
    if kinds.is_empty() {
        return Err("the table of algorithms was not found".into());
    }
    let ranks = std::fs::read_to_string(root.join(RANKS)).unwrap_or_default();
    let mut out = String::from(
        "# Every algorithm\n\n<!-- Made by `cargo xtask docs` from crates/consenso-agents/src/protocol; a test fails when it lags. -->\n\n\
         What each `kind` of an `[[algorithm]]` does in a round, where it comes from, and what is claimed of it. Under a budget the ε of every one of them is certified from \
         the noise that is added and the sensitivity of what it is added to, whatever its authors published; where they did, a record shows both. \
         [Keys and their defaults](reference.md), [what goes with what](combinations.md), [how they compare](benchmark.md).\n\n| kind | | |\n|---|---|---|\n",
    );
    let mut entries = String::new();
    for (kind, name) in &kinds {
        let head = format!("pub struct {name}");
        let is = |text: &&String| {
            text.lines().any(|line| {
                line.strip_prefix(&head).is_some_and(|rest| rest.starts_with([' ', ';', '(', '<']))
            })
        };
        let source = sources.values().find(is).ok_or(format!("{kind}: no file has {head}"))?;
        let (title, paper) = title(source, kind)?;
        let title = title.replace("(docs/paper.md section 2", "([the paper](paper.md), section 2");
        let about = type_docs(source, &head);
        if about.is_empty() {
            return Err(format!(
                "{kind}: {name} has no documentation comment: write one beside it"
            ));
        }
        let _ = writeln!(out, "| [`{kind}`](#{}) | {title} | {paper} |", anchor(kind));
        // A star in a name is no mark of Markdown's.
        let _ = write!(entries, "\n## {kind}\n\n**{}**", title.replace('*', "\\*"));
        let _ = match paper.is_empty() {
            true => writeln!(entries, ".\n"),
            false => writeln!(entries, " ({paper}).\n"),
        };
        entries += &about;
        let facts = facts(source);
        if !facts.is_empty() {
            let _ = writeln!(entries, "\n{}", facts.join(" "));
        }
        let _ = writeln!(entries, "\nConvergence: {}.", guarantee(source));
        let _ = writeln!(entries, "\nUnder a budget: {}.", certified(source));
        entries += &on_the_board(&ranks, kind);
    }
    Ok(out + &entries)
}

/// Every source of the folder by its name without the ending.
fn sources(folder: &Path) -> Result<BTreeMap<String, String>, String> {
    let mut found = BTreeMap::new();
    let entries = std::fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        if path.extension().is_some_and(|e| e == "rs") {
            let text =
                std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            found.insert(name, text);
        }
    }
    Ok(found)
}

/// The lines of the table `algorithms!`: kind and type.
fn kinds(source: &str) -> Vec<(String, String)> {
    let table = source.split("\nalgorithms! {").nth(1).and_then(|t| t.split("\n}").next());
    let entry = |line: &str| {
        let (kind, name) = line.trim().trim_end_matches(',').split_once("\" => ")?;
        Some((kind.trim_start_matches('"').to_owned(), name.to_owned()))
    };
    table.unwrap_or_default().lines().filter_map(entry).collect()
}

/// The first sentence of a file, without its end, and the paper in brackets behind it.
fn title(source: &str, kind: &str) -> Result<(String, String), String> {
    let lines = source.lines().map_while(|line| line.strip_prefix("//!"));
    let first: Vec<&str> = lines.map(str::trim).take_while(|line| !line.is_empty()).collect();
    let text = plain(&first.join(" "));
    if text.is_empty() {
        return Err(format!("{kind}: its file says nothing of it"));
    }
    let paper = text.rsplit_once(" (").and_then(|(_, rest)| Some(rest.split_once(')')?.0));
    // Only what ends in a year is a paper; the rest of a sentence stays where it is.
    let year = |p: &&str| p.len() > 4 && p[p.len() - 4..].chars().all(|c| c.is_ascii_digit());
    match paper.filter(|p| p.is_char_boundary(p.len().saturating_sub(4))).filter(year) {
        Some(paper) => {
            let title = text.replacen(&format!(" ({paper})"), "", 1);
            Ok((title.trim_end_matches('.').to_owned(), paper.to_owned()))
        }
        None => Ok((text.trim_end_matches('.').to_owned(), String::new())),
    }
}

/// The documentation of a type, paragraph by paragraph.
fn type_docs(source: &str, head: &str) -> String {
    let lines: Vec<&str> = source.lines().collect();
    let Some(at) = lines.iter().position(|line| line.starts_with(head)) else {
        return String::new();
    };
    let above = lines[..at].iter().rev().skip_while(|line| !line.starts_with("///"));
    let mut docs: Vec<&str> = above.map_while(|line| line.strip_prefix("///")).collect();
    docs.reverse();
    let mut out = String::new();
    let mut code = false;
    for line in docs {
        let line = line.strip_prefix(' ').unwrap_or(line);
        code ^= line.starts_with("```");
        let _ = writeln!(out, "{}", if code { line.to_owned() } else { plain(line) });
    }
    // Links may be broken over two lines.
    plain(&out)
}

/// Text without links into the code: `[Name](path::Name)`, `[name](self)` and `` [`Name`] `` are their
/// names.
fn plain(text: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(open) = rest.find('[') {
        let Some(close) = rest[open..].find(']').map(|c| open + c) else { break };
        let (name, after) = (&rest[open + 1..close], &rest[close + 1..]);
        let target = after.strip_prefix('(').and_then(|t| Some(&t[..t.find(')')?]));
        out += &rest[..open];
        match target {
            Some(target) if !target.contains("://") && !target.contains(".md") => {
                out += name;
                rest = &after[target.len() + 2..];
            }
            None if name.starts_with('`') => {
                out += name;
                rest = after;
            }
            _ => {
                out.push('[');
                rest = &rest[open + 1..];
            }
        }
    }
    out + rest
}

/// What the capabilities of an algorithm mean, in sentences.
fn facts(source: &str) -> Vec<&'static str> {
    let code = source.split("#[cfg(test)]").next().unwrap_or_default();
    let table = code.split("Capabilities {").nth(2).or(code.split("Capabilities {").nth(1));
    let table = table.and_then(|t| t.split('}').next()).unwrap_or_default();
    let known = [
        ("complete: true", "It needs a complete graph."),
        ("coupled: true", "Its agents have variables of their own under a linear constraint."),
        ("charges_ahead: true", "One charge covers the rounds after it."),
        ("pairwise: true", "Neighbours share noise over their edges."),
        ("absence: true", "It can go on without an agent that leaves."),
        ("stale: true", "It can mix what arrived in an earlier round."),
        ("needs: Needs::Sum", "Its sums can be exchanged in secret shares or under masks."),
        ("needs: Needs::Mean", "Its mean can be exchanged in secret shares or under masks."),
        ("needs: Needs::Total", "Its sums can be exchanged in secret shares or under masks."),
    ];
    let mut all: Vec<&str> =
        known.iter().filter(|(words, _)| table.contains(words)).map(|(_, said)| *said).collect();
    if code.contains("impl Priced for") {
        all.push("Its authors published an account of its noise, which a record shows beside the certified one.");
    }
    all
}

/// What is known of how it converges: what its file promises, and why no theorem says so where none
/// does.
fn guarantee(source: &str) -> String {
    let code = source.split("#[cfg(test)]").next().unwrap_or_default();
    let of = |part: &str| {
        let (_, assess) = code.split_once("fn assess")?;
        let (_, rest) = assess.split_once(part)?;
        let (text, _) = rest.split_once('"')?.1.split_once('"')?;
        // A text may go on in the next line.
        let words: Vec<&str> = text.split_whitespace().filter(|word| *word != "\\").collect();
        Some(words.join(" "))
    };
    // The last one is a recursion that another file assesses for both.
    let says = ["certify()", "certified(inputs)", "assess_step(", "CertifiedBound", "recursion!("];
    if says.iter().any(|word| code.contains(word)) || code.contains("Certainty::Certified") {
        return "a theorem certifies it where its conditions hold; `consenso plan` says whether they do, and which fails".into();
    }
    let rule = ["working(", "PredictedStable"].iter().any(|word| code.contains(word));
    let why = of("let why =").or_else(|| of("open(")).or_else(|| of("working("));
    match (rule, why) {
        (true, Some(why)) => format!("a working rule for the step predicts that it does; {why}"),
        (false, Some(why)) => format!("`consenso plan` checks that steps descend; {why}"),
        (_, None) if code.contains(".assess(inputs)") => {
            "as of the method that it is built on".into()
        }
        (_, None) => "no theorem or working rule here covers it".into(),
    }
}

/// What its claim is of, and against whom.
fn certified(source: &str) -> &'static str {
    let code = source.split("#[cfg(test)]").next().unwrap_or_default();
    if code.contains("Response::AtNoisedPoint {") {
        "certified against everybody else, by the account of noise inside a local problem"
    } else if code.contains("pairwise: true") {
        "certified against `colluders` agents who pool what they know, and not against everybody else"
    } else if code.contains("impl Remembering for") {
        "certified against everybody else, with `batch` by the account of samples beside what is remembered; Gaussian noise alone"
    } else if code.contains("charges_ahead: true") {
        "certified against everybody else, one charge for all rounds between two uses of a coordinate; Gaussian noise alone"
    } else if code.contains("impl Relaying for") {
        "certified against everybody else, by what each round's share of the budget says; Gaussian noise alone"
    } else if code.contains("batches: true") {
        "certified against everybody else, from noise on its step, by the account of samples with `batch`"
    } else {
        "certified against everybody else, from noise on its step"
    }
}

/// How a kind ranked, if a board's ranks are kept.
fn on_the_board(ranks: &str, kind: &str) -> String {
    let mut lines = ranks.lines();
    let head: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let column = |name: &str| head.iter().position(|h| *h == name);
    let (Some(of), Some(k), Some(rank), Some(wins), Some(settings)) = (
        column("settings_of"),
        column("kind"),
        column("mean_rank"),
        column("wins"),
        column("settings"),
    ) else {
        return String::new();
    };
    let (status, ranked, best_on) = (column("status"), column("ranked"), column("best_on"));
    let mut words = String::new();
    for row in lines.map(|line| line.split(',').collect::<Vec<&str>>()) {
        if row.get(k) != Some(&kind) {
            continue;
        }
        let text = |at: Option<usize>| at.and_then(|at| row.get(at)).copied().unwrap_or_default();
        let number = |at: usize| text(Some(at)).parse::<f64>().unwrap_or(f64::NAN);
        let (budget, condition) = match row[of].strip_prefix("not-private") {
            Some(condition) => ("without privacy", condition),
            None => ("under a budget", row[of].trim_start_matches("private")),
        };
        let condition = match condition.trim_start_matches('-') {
            "" | "plain" => String::new(),
            other => format!(", {}", other.replace('-', " ")),
        };
        let (count, part) = (number(settings), text(status) == "part");
        let settings = match part {
            true => format!("the {count:.0} settings that it goes with"),
            false => format!("{count:.0} settings"),
        };
        let best = match (number(wins), text(best_on)) {
            // A share of a tie among many is no win.
            (wins, _) if wins < 0.5 => String::new(),
            (wins, on) => format!("; the best in {wins:.0} ({})", on.replace(';', ",")),
        };
        let _ = writeln!(
            words,
            "- {budget}{condition}: mean rank {:.1} of {} in {settings}{best}",
            number(rank),
            text(ranked),
        );
    }
    match words.is_empty() {
        true => "\nIt is not on the board `quick`.\n".into(),
        false => format!("\nOn the board `quick`:\n\n{words}"),
    }
}

fn anchor(kind: &str) -> String {
    kind.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every kind has an entry, and the page is what `cargo xtask docs` would write.
    #[test]
    fn the_dictionary_has_every_algorithm() {
        let root = crate::root();
        let made = chapter(&root).unwrap_or_else(|missing| panic!("{missing}"));
        let source = std::fs::read_to_string(root.join(PROTOCOLS).join("mod.rs")).expect("mod.rs");
        let kinds = kinds(&source);
        assert!(kinds.len() > 20, "{kinds:?}");
        for (kind, _) in kinds {
            assert!(made.contains(&format!("\n## {kind}\n")), "{kind} has no entry");
        }
        let written =
            std::fs::read_to_string(root.join("docs/algorithms.md")).expect("docs/algorithms.md");
        assert!(
            made == written,
            "docs/algorithms.md lags behind the sources: run `cargo xtask docs` and commit it"
        );
    }

    #[test]
    fn links_into_the_code_are_names() {
        let text = "of [`Nids`](super::Nids) and [`Dgd`], see [the paper](https://a.org) [0, 1]";
        let made = "of `Nids` and `Dgd`, see [the paper](https://a.org) [0, 1]";
        assert_eq!(plain(text), made);
    }
}
