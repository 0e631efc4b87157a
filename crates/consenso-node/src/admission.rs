//! What is checked and reserved before a study may release anything: the folder, the site's ledger,
//! and the ledger that stays with the records.

use crate::audit_log::AuditLog;
use crate::decisions;
use crate::driven::Driven;
use crate::error::NodeError;
use crate::folder::{Folder, graph_digest};
use crate::frame::Hex;
use crate::node::lock;
use crate::store::{Entry, Store, StudyStart};
use consenso_engine::experiment::{Experiment, SitePlan};
use consenso_engine::graph::{Graph, Mixing};
use consenso_engine::privacy::studies::{Limit, StudyCost};
use consenso_ledger::{Edited, LimitRequest, RecordsLedger};
use serde_json::json;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// Whether the folder announces what the experiment has.
pub(crate) fn agrees(folder: &Folder, experiment: &Experiment) -> Result<(), NodeError> {
    let (agents, sites) = (experiment.graph().agents(), folder.peers.len());
    if agents != sites {
        let message =
            format!("the experiment has {agents} agents and peers.toml has {sites} sites");
        return Err(NodeError::Experiment(message));
    }
    let announced: Vec<usize> = folder.peers.iter().map(|p| p.records).collect();
    if announced != experiment.records() {
        return Err(NodeError::Experiment(format!(
            "peers.toml announces {announced:?} records, and the experiment gives {:?}",
            experiment.records()
        )));
    }
    Ok(())
}

/// Whether the site has an audit log.
fn has_run(folder: &Folder) -> bool {
    folder.path.join(crate::audit_log::FILE).exists()
}

/// The site's ledger. The log is made after the ledger's first row: a log without a row means that
/// the ledger was lost.
pub(crate) fn ledger(folder: &Folder, dim: usize) -> Result<Store, NodeError> {
    if has_run(folder) && !folder.path.join(crate::store::FILE).exists() {
        return Err(NodeError::LedgerMissing(folder.path.display().to_string()));
    }
    not_old(folder, Store::open(&folder.path, dim)?)
}

/// The ledger, if it has all that the audit log has.
pub(crate) fn not_old(folder: &Folder, store: Store) -> Result<Store, NodeError> {
    if has_run(folder) && store.is_empty() {
        return Err(NodeError::LedgerMissing(folder.path.display().to_string()));
    }
    // A row is on disk before its line is in the log.
    if let Some(last) = crate::audit_log::last_release(&folder.path) {
        let mut known = false;
        store.back(|row| {
            known = Hex(&row.hash).to_string() == last;
            if known { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        if !known {
            return Err(NodeError::LedgerOld(folder.path.display().to_string()));
        }
    }
    Ok(store)
}

/// Writes into the log what the ledger knows and the log does not: a crash or a full disk came
/// between the two. The ledger is the truth.
pub(crate) fn repair(
    folder: &Folder,
    store: &mut Store,
    audit: &AuditLog,
    agent: &Driven,
) -> Result<(), NodeError> {
    // What was compared before is not read again; a log that has become shorter is.
    let (row, length) = store.logged();
    let (row, length) = if length <= audit.length() { (row, length) } else { (0, 0) };
    let known = crate::audit_log::releases_after(&folder.path, length);
    store.since(row, |row| {
        let Entry::Release { round: exchange, blake3, charge, .. } = row.entry else { return };
        let ledger = Hex(&row.hash).to_string();
        if known.contains(&ledger) {
            return;
        }
        let round = agent.begun_in(exchange);
        let mut fields =
            json!({ "blake3": blake3, "charge": charge, "ledger": ledger, "round": round, "repaired": true });
        if agent.is_shared() {
            fields["exchange"] = exchange.into();
        }
        audit.write("released", fields);
    })?;
    if audit.is_whole() {
        store.keep_logged(audit.length())?;
    }
    Ok(())
}

/// What the site and the study say about what these records may cost.
///
/// # Errors
/// Noise from a seed on records that are not public.
pub fn opening(
    folder: &Folder,
    experiment: &Experiment,
    plan: &SitePlan,
) -> Result<StudyStart, NodeError> {
    let site = &folder.site;
    if plan.seeded && experiment.has_own_records() && !site.public {
        return Err(NodeError::Experiment(
            "entropy = \"seed\": everybody could compute this site's noise and take it away from what it sends\n  \
             help: set entropy = \"os\" in site.toml; or public = true, if everybody may have these records"
                .into(),
        ));
    }
    if let (Some(wanted), Some(claim)) = (site.adversary, &plan.claim)
        && !claim.against.covers(wanted, experiment.graph().agents())
    {
        return Err(NodeError::Experiment(format!(
            "this site accepts claims against adversary = {wanted} at least, and this study's is against {}\n  \
             help: agree on a study that protects from more (local noise, or more colluders), or change adversary in site.toml",
            claim.against
        )));
    }
    Ok(StudyStart {
        site: site.name.clone(),
        experiment: folder.study,
        graph: graph_digest(experiment.graph()),
        claim: plan.claim.clone(),
        cost: plan.cost,
        seeded: plan.seeded,
        rule: site.budget.and_then(|b| b.rule),
        budget: site.budget.map(|b| (b.epsilon, b.delta)),
        announced: experiment.spec().privacy.and_then(|p| Some((p.epsilon?, p.delta))),
        records: plan.records,
        unprotected: site.unprotected,
        answers: match experiment.questionnaire() {
            Some(_) => decisions::accepted(&folder.path)?,
            None => None,
        },
    })
}

/// Reserves the study in the ledger that stays with the records, whichever folder they are used
/// from; its name there.
pub(crate) fn reserve(
    folder: &Folder,
    records: &std::path::Path,
    edited: Edited,
    opening: &StudyStart,
    cost: StudyCost,
    id: Option<String>,
    limit: Option<Limit>,
) -> Result<String, NodeError> {
    let mut ledger = RecordsLedger::open(records, folder.ledger().as_deref(), edited)?;
    let limit = limit_for_records(&ledger, opening, limit);
    // A name that nobody had before: the same experiment in another folder is another study, with
    // noise of its own.
    let id = match id {
        Some(id) => id,
        None => {
            let mut bytes = [0; 16];
            let entropy = ring::rand::SystemRandom::new();
            ring::rand::SecureRandom::fill(&entropy, &mut bytes).map_err(|_| {
                NodeError::Experiment("the operating system gave no entropy".into())
            })?;
            Hex(&bytes).to_string()
        }
    };
    let claim = opening.claim.as_ref().expect("what has a cost has a claim");
    let study = consenso_ledger::StudyRequest {
        id: id.clone(),
        name: format!("{} {}", opening.site, crate::folder::short(&opening.experiment)),
        cost,
        relation: claim.neighbours,
        adversary: claim.adversary.clone(),
        against: Some(claim.protects_from()),
        seeded: opening.seeded,
    };
    ledger.book(limit.as_ref(), Some(&study))?;
    Ok(id)
}

/// The limit that a study which begins sets for its records, whichever folder they are used from.
/// The tightest word counts: the site's own budget, or a limit for life that these records had
/// already.
fn limit_for_records(
    ledger: &RecordsLedger,
    opening: &StudyStart,
    limit: Option<Limit>,
) -> Option<LimitRequest> {
    let limit = limit?;
    let known = ledger.limit();
    let site = &opening.site;
    if opening.budget.is_none() {
        let by = format!("the first study of {site}, whose site.toml has no budget");
        let request = LimitRequest::new(limit.epsilon, limit.delta, by);
        return known.is_none().then(|| request.with_rule(Some(limit.rule)));
    }
    let (epsilon, delta) = match known.filter(|known| known.for_life) {
        Some(cap) => (limit.epsilon.min(cap.limit.epsilon), limit.delta.min(cap.limit.delta)),
        None => (limit.epsilon, limit.delta),
    };
    let by = format!("budget in site.toml of {site}");
    Some(LimitRequest::new(epsilon, delta, by).for_life().with_rule(Some(limit.rule)))
}

/// What a start of this study would fix for all studies of the site's records, in words to be shown
/// before; nothing where it fixes nothing.
///
/// # Errors
/// Those of [`opening`], and a ledger that cannot be read.
pub fn about_to_fix(
    folder: &Folder,
    experiment: &Experiment,
    plan: &SitePlan,
) -> Result<Option<String>, NodeError> {
    let rows = match folder.path.join(crate::store::FILE).exists() {
        true => Store::look(&folder.path)?.headings()?,
        false => Vec::new(),
    };
    Ok(crate::books::about_to_fix(&rows, &opening(folder, experiment, plan)?))
}

/// Makes a new witness for a site whose witness is lost: its ledger as it is counts as the newest.
///
/// # Errors
/// A site that runs, has no ledger, or names no witness.
pub fn renew_witness(folder: &Folder) -> Result<std::path::PathBuf, NodeError> {
    let _lock = lock(folder)?;
    let path = folder.witness().ok_or_else(|| {
        NodeError::Experiment(
            "site.toml has no `witness`, for example: witness = \"/mnt/other-disk/hospital-a\""
                .into(),
        )
    })?;
    if path.exists() {
        let message = format!("{}: there is a witness; it is not overwritten", path.display());
        return Err(NodeError::Experiment(message));
    }
    // The file exists, so the number of pages is its own, whatever the dimension.
    ledger(folder, 1)?.new_witness(&path)?;
    Ok(path)
}

/// The weight of every neighbour in this site's mix.
pub(crate) fn weights(graph: &Graph, me: usize) -> BTreeMap<u32, f64> {
    let mixing = Mixing::metropolis(graph);
    graph.neighbours(me).iter().copied().zip(mixing.neighbours(me).iter().copied()).collect()
}
