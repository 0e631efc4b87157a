//! What studies of one site's records may cost together: who may begin, who may go on, and why not.
//!
//! A site's own `budget` is a hard cap from its first start on, whatever a study says. What is added up must be of one kind: claims about the same
//! neighbouring data sets, against the same adversary, under noise that nobody knows. Anything else is refused, because no theorem adds it.

use crate::frame::Hex;
use crate::store::{Entry, Opening, Row, StoreError};
use consenso::privacy::Claim;

/// Largest ε that becomes a limit without the operator having written it down.
pub const LARGEST_UNSAID_EPSILON: f64 = 10.0;

/// What is to be done about a study.
#[derive(Clone, Debug, PartialEq)]
pub enum Admission {
    /// It began before, and goes on as study `number`.
    GoesOn {
        /// Its number.
        number: i64,
    },
    /// It begins as study `number`.
    Begins {
        /// Its number.
        number: i64,
        /// The limit for all studies; `None` where nothing is protected.
        limit: Option<(f64, f64)>,
    },
}

/// Decides from the rows of a ledger whether a study may begin or go on.
///
/// # Errors
/// The reason why not.
pub fn admit(rows: &[Row], opening: &Opening) -> Result<Admission, StoreError> {
    claims_something(opening)?;
    let (experiment, graph) = (Hex(&opening.experiment).to_string(), Hex(&opening.graph).to_string());
    let mut number = 1;
    for row in rows {
        let Entry::Study { experiment: e, graph: g, claim, seeded, .. } = &row.entry else { continue };
        if (e, g) == (&experiment, &graph) {
            goes_on((claim.as_deref(), *seeded), (opening.claim.as_ref(), opening.seeded))?;
            return Ok(Admission::GoesOn { number: row.study });
        }
        number = row.study + 1;
    }
    adds_up(rows, opening)?;
    let limit = limit(rows, opening)?;
    within(rows, limit, opening.claim.as_ref())?;
    Ok(Admission::Begins { number, limit })
}

/// A study without a claim sends what its records say; only the site itself can allow that.
fn claims_something(opening: &Opening) -> Result<(), StoreError> {
    if opening.claim.is_some() {
        return Ok(());
    }
    if opening.budget.is_some() {
        return Err(StoreError::Unprotected(
            "this site has a budget, and this study makes no privacy claim (no [privacy], or noise = \"none\"): it would spend without limit\n  \
             help: ask for a study with [privacy] and calibrated noise",
        ));
    }
    if !opening.unprotected {
        return Err(StoreError::Unprotected(
            "this study makes no privacy claim (no [privacy], or noise = \"none\"): what this site sends would not be protected\n  \
             help: ask for a study with [privacy] and calibrated noise; if these records need no protection, set unprotected = true in site.toml",
        ));
    }
    Ok(())
}

/// What these records may cost in all: the ledger's first row, never more than what the site's own file says now.
fn limit(rows: &[Row], opening: &Opening) -> Result<Option<(f64, f64)>, StoreError> {
    let tighter = |a: (f64, f64), b: (f64, f64)| (a.0.min(b.0), a.1.min(b.1));
    match rows.first().map(|row| &row.entry) {
        Some(Entry::Budget { limit: Some(limit), .. }) => {
            Ok(Some(opening.budget.map_or(*limit, |own| tighter(*limit, own))))
        }
        Some(_) => match opening.claim {
            Some(_) => Err(StoreError::Unprotected(
                "these records were already used without protection, so no budget can hold for them: use another site folder for other records",
            )),
            None => Ok(None),
        },
        None => first_limit(opening),
    }
}

/// The limit of a new ledger: the site's own, else the study's if nobody would call it careless.
fn first_limit(opening: &Opening) -> Result<Option<(f64, f64)>, StoreError> {
    let Some(claim) = &opening.claim else { return Ok(None) };
    if opening.budget.is_some() {
        return Ok(opening.budget);
    }
    let (epsilon, delta) = opening.announced.unwrap_or((claim.epsilon, claim.delta));
    let (epsilon, delta) = (epsilon.max(claim.epsilon), delta.max(claim.delta));
    let careful = epsilon <= LARGEST_UNSAID_EPSILON && delta * (opening.records as f64) < 1.0;
    if careful {
        return Ok(Some((epsilon, delta)));
    }
    Err(StoreError::NoBudget { epsilon, delta, records: opening.records })
}

/// Whether the study's claim is of the kind that the ledger adds up.
fn adds_up(rows: &[Row], opening: &Opening) -> Result<(), StoreError> {
    for row in rows {
        let Entry::Study { claim, seeded, .. } = &row.entry else { continue };
        if *seeded != opening.seeded {
            return Err(StoreError::Mixed(if *seeded {
                "this ledger holds seeded studies, whose noise everybody knows: what they cost cannot be added to a study with noise of the \
                 operating system\n  help: use a new site folder for it"
                    .into()
            } else {
                "this ledger holds studies with noise of the operating system, and entropy = \"seed\" would use the same records with noise that \
                 everybody knows\n  help: set entropy = \"os\" in site.toml; seeded studies are for public records, in a site folder of their own"
                    .into()
            }));
        }
        let (Some(before), Some(now)) = (claim.as_deref(), &opening.claim) else { continue };
        if before.neighbours != now.neighbours {
            return Err(StoreError::Mixed(format!(
                "the studies of this ledger are about neighbours = \"{}\" ({}), and this one about \"{}\" ({}): claims about different changes \
                 do not add up\n  help: agree on a study with neighbours = \"{}\"",
                before.neighbours,
                before.neighbours.meaning(),
                now.neighbours,
                now.neighbours.meaning(),
                before.neighbours
            )));
        }
        if before.adversary != now.adversary {
            return Err(StoreError::Mixed(format!(
                "the studies of this ledger hold against: {}; this one against: {}; claims against different adversaries do not add up\n  \
                 help: agree on a study against the same adversary, or use other records in another site folder",
                before.adversary, now.adversary
            )));
        }
    }
    Ok(())
}

/// Whether a study that was begun as `before` may go on as `now`: what was reserved for it must be what it costs.
fn goes_on(before: (Option<&Claim>, bool), now: (Option<&Claim>, bool)) -> Result<(), StoreError> {
    if now.1 && !before.1 {
        return Err(StoreError::Unprotected(
            "this study began with noise of the operating system, and entropy = \"seed\" would go on with noise that everybody knows\n  \
             help: set entropy = \"os\" in site.toml",
        ));
    }
    let cost = |claim: Option<&Claim>| claim.map_or((f64::INFINITY, 1.0), |c| (c.epsilon, c.delta));
    let (reserved, asked) = (cost(before.0), cost(now.0));
    if asked.0 > reserved.0 * (1.0 + 1e-12) || asked.1 > reserved.1 * (1.0 + 1e-12) {
        return Err(StoreError::Unprotected(
            "this version of consenso finds that the study costs more than was reserved when it began\n  \
             help: end it here, and begin another one if the budget allows",
        ));
    }
    Ok(())
}

/// Whether another study fits what the records may cost in all.
///
/// Σ ε ≤ ε and Σ δ ≤ δ is a filter that holds for studies chosen after looking at the earlier ones (Rogers, Roth, Ullman and Vadhan 2016). A study
/// counts whole from its beginning, finished or not.
fn within(rows: &[Row], limit: Option<(f64, f64)>, asked: Option<&Claim>) -> Result<(), StoreError> {
    let (Some((limit, limit_delta)), Some(asked)) = (limit, asked) else { return Ok(()) };
    let (spent, spent_delta) = spent(rows);
    // Decimal budgets such as 0.1 + 0.2 ≤ 0.3 should fit; a part in 10^12 is below every claim's own rounding.
    let fits = |sum: f64, limit: f64| sum <= limit * (1.0 + 1e-12);
    if fits(spent + asked.epsilon, limit) && fits(spent_delta + asked.delta, limit_delta) {
        return Ok(());
    }
    let (asked, asked_delta) = (asked.epsilon, asked.delta);
    Err(StoreError::OverBudget { limit, limit_delta, spent, spent_delta, asked, asked_delta })
}

/// Σ ε and Σ δ of all studies that were begun.
#[must_use]
pub fn spent(rows: &[Row]) -> (f64, f64) {
    let claims = rows.iter().filter_map(|row| match &row.entry {
        Entry::Study { claim, .. } => claim.as_deref(),
        _ => None,
    });
    claims.fold((0.0, 0.0), |sum, claim| (sum.0 + claim.epsilon, sum.1 + claim.delta))
}
