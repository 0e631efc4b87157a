//! What studies of one site's records may cost together: who may begin, who may go on, and why not.
//!
//! A site's own `budget` is a hard cap from the first start on that saw it, whatever a study says: it
//! can be lowered and never raised. A site without one takes the first study's for it until
//! `site.toml` has one. Which studies add up is decided by [`consenso_ledger::policy`], as in the
//! ledger beside the records.

use crate::frame::Hex;
use crate::store::{BudgetOrigin, Entry, Row, StoreError, StudyStart};
use consenso_engine::privacy::studies::{EpsilonDelta, Limit, Rule, StudyCost, StudyRefused};
use consenso_engine::privacy::{Claim, NeighbourRelation};
use consenso_ledger::policy::{self, Mismatch, StudyKind};
use serde::Serialize;

/// What is to be done about a study.
#[derive(Clone, Debug, PartialEq)]
pub enum Admission {
    /// It began before, and goes on as study `number`.
    GoesOn {
        /// Its number.
        number: i64,
        /// Its name in the ledger of the records.
        id: String,
    },
    /// It begins as study `number`.
    Begins {
        /// Its number.
        number: i64,
        /// The limit for all studies; `None` where nothing is protected.
        limit: Option<Limit>,
    },
}

/// Decides from the rows of a ledger whether a study may begin or go on.
///
/// # Errors
/// The reason why not.
pub fn admit(rows: &[Row], opening: &StudyStart) -> Result<Admission, StoreError> {
    claims_something(opening)?;
    let (experiment, graph) =
        (Hex(&opening.experiment).to_string(), Hex(&opening.graph).to_string());
    let mut number = 1;
    for row in rows {
        let Entry::Study { experiment: e, graph: g, claim, seeded, id, .. } = &row.entry else {
            continue;
        };
        if (e, g) == (&experiment, &graph) {
            if crate::studies::given_up(rows, row.study).is_some() {
                return Err(StoreError::Unprotected(
                    "this study was abandoned here: what it would send again, its neighbours may have already\n  \
                     help: agree on a study with another name to run it again",
                ));
            }
            goes_on((claim.as_deref(), *seeded), (opening.claim.as_ref(), opening.seeded))?;
            let id = id.clone().unwrap_or_else(|| Hex(&row.hash).to_string());
            return Ok(Admission::GoesOn { number: row.study, id });
        }
        number = row.study + 1;
    }
    adds_up(rows, opening)?;
    let limit = limit(rows, opening)?;
    if let (Some(limit), Some(cost)) =
        (limit, opening.cost.or_else(|| opening.claim.as_ref().map(claimed)))
    {
        within(rows, opening, limit, cost)?;
    }
    Ok(Admission::Begins { number, limit })
}

/// A study without a claim sends what its records say; only the site itself can allow that.
fn claims_something(opening: &StudyStart) -> Result<(), StoreError> {
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

/// The limit that a ledger has, and where it comes from.
struct Known<'a> {
    limit: Option<(f64, f64)>,
    rule: Rule,
    origin: Option<BudgetOrigin>,
    time: &'a str,
}

impl Known<'_> {
    fn of(rows: &[Row]) -> Option<Known<'_>> {
        rows.iter().rev().find_map(|row| match &row.entry {
            Entry::Budget { limit, rule, origin, time, .. } => {
                Some(Known { limit: *limit, rule: *rule, origin: *origin, time })
            }
            _ => None,
        })
    }

    /// Where it comes from, when, and what can be done about it.
    fn words(&self) -> String {
        match self.origin {
            Some(BudgetOrigin::Site) => {
                format!("budget in site.toml, for life since {}", self.time)
            }
            Some(BudgetOrigin::Study) => format!(
                "the first study of these records, since {}, for site.toml had no budget: write one there to change it",
                self.time
            ),
            None => format!("budget in site.toml or the first study, for life since {}", self.time),
        }
    }
}

/// Whether the site has said itself by now what its records may cost, where the first study's word
/// was taken so far.
pub(crate) fn is_replaced(rows: &[Row], opening: &StudyStart) -> bool {
    let studys = |known: Known<'_>| known.origin == Some(BudgetOrigin::Study);
    opening.budget.is_some() && Known::of(rows).is_some_and(studys)
}

/// Where the limit of a ledger comes from, and since when: for a refusal.
#[must_use]
pub fn origin(rows: &[Row]) -> Option<String> {
    Known::of(rows).map(|known| known.words())
}

/// What these records may cost in all: what the ledger says, never more than what the site's own
/// file says now.
fn limit(rows: &[Row], opening: &StudyStart) -> Result<Option<Limit>, StoreError> {
    match Known::of(rows) {
        Some(Known { limit: Some((epsilon, delta)), rule, .. }) => {
            let own = opening.budget.unwrap_or((f64::INFINITY, 1.0));
            let (epsilon, delta) = match is_replaced(rows, opening) {
                true => own,
                false => (epsilon.min(own.0), delta.min(own.1)),
            };
            Ok(Some(Limit { epsilon, delta, rule }))
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

/// What a start of this study would fix that cannot be taken back, or would take for granted: a
/// sentence to be shown before. Nothing for a study that goes on.
#[must_use]
pub fn about_to_fix(rows: &[Row], opening: &StudyStart) -> Option<String> {
    let Ok(Admission::Begins { limit: Some(limit), .. }) = admit(rows, opening) else {
        return None;
    };
    let amount = format!("ε = {}, δ = {:e}", limit.epsilon, limit.delta);
    match (Known::of(rows).is_none() || is_replaced(rows, opening), opening.budget) {
        (false, _) => None,
        (true, Some(_)) => Some(format!(
            "budget in site.toml: {amount} is the limit for all studies of these records for life from now on; it can be lowered and never raised"
        )),
        (true, None) => Some(format!(
            "site.toml has no budget: this study's {amount} is the limit for all studies of these records until it has one"
        )),
    }
}

/// The limit of a new ledger: the site's own, else the study's if nobody would call it careless.
fn first_limit(opening: &StudyStart) -> Result<Option<Limit>, StoreError> {
    let Some(claim) = &opening.claim else { return Ok(None) };
    let rule = opening.rule.unwrap_or_else(|| match opening.cost {
        Some(cost) if cost.delta > 0.0 => Rule::covering(&[cost]),
        _ => Rule::Sum,
    });
    if let Some((epsilon, delta)) = opening.budget {
        return Ok(Some(Limit { epsilon, delta, rule }));
    }
    let (epsilon, delta) = opening.announced.unwrap_or((claim.epsilon, claim.delta));
    let (epsilon, delta) = (epsilon.max(claim.epsilon), delta.max(claim.delta));
    if policy::is_careful(epsilon, delta, opening.records) {
        return Ok(Some(Limit { epsilon, delta, rule }));
    }
    Err(StoreError::NoBudget { epsilon, delta, records: opening.records })
}

fn claimed(claim: &Claim) -> StudyCost {
    StudyCost::claimed(claim.epsilon, claim.delta)
}

/// Whether the study's claim is of the kind that the ledger adds up.
fn adds_up(rows: &[Row], opening: &StudyStart) -> Result<(), StoreError> {
    let now = opening.claim.as_ref();
    if let Some(claim) = now {
        let kind = StudyKind::of(claim, opening.seeded);
        kind.is_bookable().map_err(|why| mixed(why, (claim, opening.seeded), claim))?;
    }
    for row in rows {
        let Entry::Study { claim, seeded, .. } = &row.entry else { continue };
        match (claim.as_deref(), now) {
            (Some(before), Some(now)) => StudyKind::of(now, opening.seeded)
                .adds_to(&StudyKind::of(before, *seeded))
                .map_err(|why| mixed(why, (before, *seeded), now))?,
            // What claims nothing has noise of one kind or the other all the same.
            _ if *seeded != opening.seeded => return Err(other_noise(*seeded)),
            _ => {}
        }
    }
    Ok(())
}

/// Why the study `now` is not added to `before`, and what the site can do about it.
fn mixed(why: Mismatch, (before, seeded): (&Claim, bool), now: &Claim) -> StoreError {
    match why {
        Mismatch::Noise => other_noise(seeded),
        Mismatch::Paper => StoreError::Mixed(
            "neighbours = \"paper\" charges half of what replacing a record costs, and no ledger of real records adds that up\n  \
             help: agree on a study with neighbours = \"replace-one\""
                .into(),
        ),
        Mismatch::Relation => StoreError::Mixed(format!(
            "the studies of this ledger are about neighbours = \"{}\" ({}), and this one about \"{}\" ({}): claims about different changes \
             do not add up\n  help: agree on a study with neighbours = \"{}\"",
            before.neighbours,
            before.neighbours.meaning(),
            now.neighbours,
            now.neighbours.meaning(),
            before.neighbours
        )),
        Mismatch::Adversary => StoreError::Mixed(format!(
            "the studies of this ledger hold against: {}; this one against: {}; claims against different adversaries do not add up\n  \
             help: agree on a study against the same adversary, or use other records in another site folder",
            before.adversary, now.adversary
        )),
    }
}

fn other_noise(seeded: bool) -> StoreError {
    StoreError::Mixed(if seeded {
        "this ledger holds seeded studies, whose noise everybody knows: what they cost cannot be added to a study with noise of the \
         operating system\n  help: use a new site folder for it"
            .into()
    } else {
        "this ledger holds studies with noise of the operating system, and entropy = \"seed\" would use the same records with noise that \
         everybody knows\n  help: set entropy = \"os\" in site.toml; seeded studies are for public records, in a site folder of their own"
            .into()
    })
}

/// Whether a study that was begun as `before` may go on as `now`: what was reserved for it must be
/// what it costs.
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

/// Whether another study fits what the records may cost in all. A study counts whole from its
/// beginning, finished or not.
///
/// The rule of [`consenso_engine::privacy::studies`] was fixed with the first study, so that it
/// holds for studies chosen after looking at the earlier ones.
fn within(
    rows: &[Row],
    opening: &StudyStart,
    limit: Limit,
    asked: StudyCost,
) -> Result<(), StoreError> {
    let studies = costs(rows);
    let lowered = opening.budget.is_some_and(|own| own == (limit.epsilon, limit.delta));
    let origin = match origin(rows) {
        Some(origin) if !lowered => origin,
        _ if opening.budget.is_some() => "budget in site.toml".to_owned(),
        _ => "this study".to_owned(),
    };
    match policy::admit(&limit, &studies, &asked) {
        Ok(()) => Ok(()),
        Err(StudyRefused::OverLimit { .. }) if limit.rule != Rule::Sum => {
            let spent = limit.spent(&studies).map_or(f64::INFINITY, |s| s.epsilon);
            Err(StoreError::OverBudget {
                limit: limit.epsilon,
                limit_delta: limit.delta,
                spent,
                spent_delta: limit.delta,
                asked: asked.epsilon,
                asked_delta: asked.delta,
                origin,
            })
        }
        Err(StudyRefused::OverLimit { .. }) => {
            let sum = |of: fn(&StudyCost) -> f64| studies.iter().map(of).sum();
            Err(StoreError::OverBudget {
                limit: limit.epsilon,
                limit_delta: limit.delta,
                spent: sum(|c| c.epsilon),
                spent_delta: sum(|c| c.delta),
                asked: asked.epsilon,
                asked_delta: asked.delta,
                origin,
            })
        }
        Err(other) => Err(StoreError::Mixed(format!(
            "{other}\n  help: agree on a study with noise of that kind; or say budget = {{ …, rule = \"sum\" }} in site.toml before the first study"
        ))),
    }
}

/// What every study that was begun costs.
fn costs(rows: &[Row]) -> Vec<StudyCost> {
    let cost = |row: &Row| match &row.entry {
        Entry::Study { claim: Some(_), .. } => crate::studies::cost_of(rows, row.study),
        _ => None,
    };
    rows.iter().filter_map(cost).collect()
}

/// What a ledger says about all its studies together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SiteLedgerSummary {
    /// The limit for all studies.
    pub limit: EpsilonDelta,
    /// Where the limit comes from, and since when.
    pub limit_origin: String,
    /// How studies are added up, fixed with the first of them.
    pub rule: Rule,
    /// What they cost by that rule.
    pub spent: EpsilonDelta,
    /// What their claims add up to, for comparison.
    pub sum: EpsilonDelta,
    /// What they would cost by the best filter that covers them, for comparison: the rule that
    /// holds is `rule`.
    pub filter: Option<(Rule, EpsilonDelta)>,
    /// What one more study may cost.
    pub remaining: EpsilonDelta,
    /// Which data sets are neighbours in all studies.
    pub relation: Option<NeighbourRelation>,
    /// Who looks, in all studies.
    pub adversary: Option<String>,
    /// Where the noise of all studies comes from.
    pub entropy: &'static str,
}

/// Where the records stand: what was spent, by which rule, and what is left. `None` for a ledger
/// that protects nothing.
#[must_use]
pub fn standing(rows: &[Row]) -> Option<SiteLedgerSummary> {
    let Known { limit: Some((epsilon, delta)), rule, .. } = Known::of(rows)? else { return None };
    let limit = Limit { epsilon, delta, rule };
    let studies = costs(rows);
    let by = |rule| Limit { rule, ..limit }.spent(&studies);
    let sum = by(Rule::Sum).unwrap_or(EpsilonDelta { epsilon: f64::INFINITY, delta: 1.0 });
    let best = Rule::covering(&studies);
    let first = rows.iter().find_map(|row| match &row.entry {
        Entry::Study { claim, seeded, .. } => Some((claim.as_deref(), *seeded)),
        _ => None,
    });
    let claim = first.and_then(|f| f.0);
    let mut remaining = limit.remaining(&studies);
    // A study that took the whole limit on its own claim leaves nothing, whatever rounding says.
    let spent = by(limit.rule).unwrap_or(sum);
    if spent.epsilon >= limit.epsilon {
        remaining = EpsilonDelta { epsilon: 0.0, delta: 0.0 };
    }
    Some(SiteLedgerSummary {
        limit: EpsilonDelta { epsilon, delta },
        limit_origin: origin(rows).unwrap_or_default(),
        rule: limit.rule,
        spent,
        sum,
        filter: by(best).filter(|_| best != Rule::Sum && delta > 0.0).map(|spent| (best, spent)),
        remaining,
        relation: claim.map(|c| c.neighbours),
        adversary: claim.map(|c| c.adversary.clone()),
        entropy: if first.is_some_and(|f| f.1) { "seed" } else { "os" },
    })
}
