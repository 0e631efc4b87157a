//! `consenso node audit`: the ledger, the log and the claims of a site.

use super::{agreed, opened, short_text};
use crate::{Failure, output, studies};
use anyhow::anyhow;
use consenso_engine::privacy::studies::{EpsilonDelta, Rule};
use consenso_engine::privacy::{printed_down, printed_up};
use consenso_ledger::RecordsLedger;
use consenso_node::folder::Folder;
use consenso_node::frame::{Digest, Hex};
use consenso_node::store::{Entry, Row};
use consenso_node::{books, claim, node};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// What the ledger beside the records says, where there is one.
fn of_records(path: &Path) -> Result<Option<consenso_ledger::LedgerSummary>, Failure> {
    // An auditor may have the ledger alone.
    let Ok(folder) = Folder::read(path) else { return Ok(None) };
    if !folder.records().exists() {
        return Ok(None);
    }
    RecordsLedger::look(&folder.records(), folder.ledger().as_deref())
        .map_err(|e| Failure::Run(anyhow!(e)))
}

/// The log against the ledger: releases that both know, that only the ledger knows, and that only
/// the log knows. Of a release eight bytes are remembered.
struct LogCheck {
    running: bool,
    logged: HashSet<u64>,
    both: usize,
    missing: usize,
}

impl LogCheck {
    fn new(path: &Path) -> Self {
        // The log is read before the ledger, of which a node that runs may have written more since.
        let running = node::is_running(path);
        let logged = consenso_node::audit_log::marks(path);
        Self { running, logged, both: 0, missing: 0 }
    }

    fn see(&mut self, row: &Row) {
        if !matches!(row.entry, Entry::Release { .. }) {
            return;
        }
        let short = row.hash.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
        if self.logged.remove(&short) { self.both += 1 } else { self.missing += 1 }
    }

    fn finish(self) -> (usize, usize, usize) {
        if self.running { (self.both, 0, 0) } else { (self.both, self.missing, self.logged.len()) }
    }
}

/// An (ε, δ) that was spent, its ε rounded up.
fn amount(a: EpsilonDelta) -> String {
    format!("ε = {}, δ = {:e}", printed_up(a.epsilon, 6), a.delta)
}

/// What all studies cost together, by both rules, and which of them holds.
fn describe(s: &books::LedgerSummary) -> String {
    let holds = |rule: Rule| if s.rule == rule { "   ← this rule holds" } else { "" };
    let mut text = format!(
        "budget     {} for all studies of these records ({})\n",
        amount(s.limit),
        s.limit_origin
    );
    text += &format!("sum        {}{}\n", amount(s.sum), holds(Rule::Sum));
    if let Some((rule, spent)) = s.filter {
        text += &format!("filter     {}{}\n", amount(spent), holds(rule));
    }
    text += &format!("rule       {}\n", s.rule.meaning());
    if let Some(relation) = s.relation {
        text += &format!("relation   {relation}: {}\n", relation.meaning());
    }
    if let Some(adversary) = &s.adversary {
        text += &format!("adversary  {adversary}\n");
    }
    let entropy = match s.entropy {
        "seed" => "a seed that everybody knows: for science, protects nobody",
        _ => "the operating system",
    };
    text + &format!("entropy    {entropy}\n")
}

pub(super) fn command(args: &super::Audit, json: bool) -> Result<(), Failure> {
    let path = args.folder.as_path();
    let audited = Audited::of(path, &args.against)?;
    if json {
        output::print_json(&audited.json());
    } else {
        output::print(&audited.text());
    }
    audited.verdict(path)
}

/// What an audit of a site found.
struct Audited {
    rows: usize,
    head: Digest,
    /// Releases that the log has; those that it lacks; and those that the ledger lacks.
    log: (usize, usize, usize),
    /// What other sites' logs prove.
    compared: Vec<Value>,
    standing: Option<books::LedgerSummary>,
    /// The ledger beside the records, if it is another one.
    elsewhere: Option<consenso_ledger::LedgerSummary>,
    remaining: Option<EpsilonDelta>,
    studies: Vec<claim::Audited>,
}

impl Audited {
    fn of(path: &Path, against: &[PathBuf]) -> Result<Self, Failure> {
        // Once through the ledger, a row at a time: it may be longer than the memory.
        let store = opened(path)?;
        let (mut auditor, mut headings, mut rows) = (claim::Auditor::default(), Vec::new(), 0usize);
        let mut log = LogCheck::new(path);
        store.scan(|row| {
            auditor.see(&row);
            log.see(&row);
            rows += 1;
            if !matches!(row.entry, Entry::Release { .. }) {
                headings.push(row);
            }
        })?;
        let log = log.finish();
        let compared = match against {
            [] => Vec::new(),
            logs => studies::against(path, &store.rows()?, logs)?,
        };
        let studies =
            auditor.finish().map_err(|e| Failure::Run(anyhow!("{}: {e}", path.display())))?;
        let standing = books::standing(&headings);
        let elsewhere = of_records(path)?;
        // The tighter of the two says what is left.
        let remaining = standing.as_ref().map(|s| {
            let other = elsewhere.as_ref().and_then(|e| e.remaining).unwrap_or(s.remaining);
            if other.epsilon < s.remaining.epsilon { other } else { s.remaining }
        });
        let head = *store.head();
        Ok(Self { rows, head, log, compared, standing, elsewhere, remaining, studies })
    }

    fn holds(&self) -> bool {
        self.studies.iter().all(|s| s.holds)
    }

    fn json(&self) -> Value {
        let (log, standing) = (self.log, self.standing.as_ref());
        json!({
            "log": { "releases": log.0, "missing": log.1, "unknown": log.2 },
            "chain": "intact", "rows": self.rows, "head": Hex(&self.head).to_string(),
            "budget": standing.map(|s| s.limit), "remaining": self.remaining,
            "relation": standing.and_then(|s| s.relation), "adversary": standing.and_then(|s| s.adversary.clone()),
            "entropy": standing.map(|s| s.entropy), "rule": standing.map(|s| s.rule),
            "spent": standing.map(|s| s.spent), "sum": standing.map(|s| s.sum),
            "filter": standing.and_then(|s| s.filter).map(|(rule, spent)| json!({ "rule": rule, "spent": spent })),
            "records_ledger": self.elsewhere, "studies": self.studies, "holds": self.holds(), "against": self.compared,
        })
    }

    fn text(&self) -> String {
        let mut text =
            format!("chain      intact, {} rows, head {}\n", self.rows, Hex(&self.head[..8]));
        text += &match self.log {
            (known, 0, 0) => format!("log        all {known} releases are in audit.jsonl\n"),
            (_, missing, 0) => format!(
                "log        {missing} releases are not in audit.jsonl; the next start writes them from the ledger\n"
            ),
            (_, _, unknown) => format!(
                "log        {unknown} releases of audit.jsonl are NOT in the ledger: it is an old copy, or was cut\n"
            ),
        };
        for other in &self.compared {
            text += &format!(
                "against    {}: {} releases agree, {} of them with this site's signature; {} never reached it; {}\n",
                other["site"].as_str().unwrap_or_default(),
                other["agree"],
                other["signed"],
                other["only_here"],
                if other["holds"] == true {
                    "it can prove nothing else"
                } else {
                    "it can prove MORE than the ledger has"
                },
            );
        }
        text += &self
            .standing
            .as_ref()
            .map_or("budget     none: nothing is protected\n".to_owned(), describe);
        if let Some(ledger) = &self.elsewhere {
            text += &format!(
                "records    {} studies of these records in {}: ε = {}, δ = {:e} ({}); added up {}\n",
                ledger.studies,
                ledger.ledger.display(),
                printed_up(ledger.spent.epsilon, 6),
                ledger.spent.delta,
                ledger.rule.meaning(),
                amount(ledger.sum),
            );
        }
        if let Some(left) = self.remaining {
            let epsilon = printed_down(left.epsilon, 6);
            text += &format!("remaining: ε = {epsilon}, δ = {:e} for the next study\n", left.delta);
        }
        text + &self.studies.iter().map(study).collect::<String>()
    }

    /// The error if something does not add up.
    fn verdict(&self, path: &Path) -> Result<(), Failure> {
        if self.log.2 > 0 {
            let what = "audit.jsonl knows releases that the ledger does not";
            return Err(Failure::Run(anyhow!("{}: {what}", path.display())));
        }
        if let Some(other) = self.compared.iter().find(|c| c["holds"] != true) {
            let (site, unknown) = (other["site"].as_str().unwrap_or_default(), &other["unknown"]);
            let what = format!(
                "{site} has releases that this site signed and its ledger does not have: {unknown}"
            );
            return Err(Failure::Run(anyhow!("{}: {what}", path.display())));
        }
        if !self.holds() {
            return Err(Failure::Run(anyhow!(
                "{}: the events cost more than was claimed",
                path.display()
            )));
        }
        Ok(())
    }
}

/// One study: its releases, what was claimed, and what its events cost.
fn study(study: &claim::Audited) -> String {
    let mut text = format!(
        "\nstudy {}    {} of {}{}\n  releases   {} ({} charged){}\n",
        study.study,
        short_text(&study.experiment),
        study.began,
        if study.seeded { ", seeded: for science, protects nobody" } else { "" },
        study.releases,
        study.charged,
        study.ended.as_ref().map_or(", not over".to_owned(), |r| format!(", ended: {r}")),
    );
    text += &agreed(&study.changes, "  agreement ");
    for (agent, round, weight) in &study.without {
        text += &format!("  without    agent {agent} from round {round} on (weight {weight:.3})\n");
    }
    if let (Some(claim), Some(found)) = (&study.claimed, &study.recomputed) {
        text += &format!(
            "  claimed    ε = {}, δ = {:e} ({})\n",
            printed_up(claim.epsilon, 6),
            claim.delta,
            claim.method
        );
        text += &format!(
            "  recomputed ε = {}, δ = {:e} ({}, {}) from the events alone: {}\n",
            printed_up(found.epsilon, 6),
            found.delta,
            found.method,
            found.norm,
            if study.holds { "within the claim" } else { "ABOVE the claim" }
        );
    }
    text
}
