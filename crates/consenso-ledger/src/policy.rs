//! Which studies add up, and how much may be spent without a word: one policy for the ledger beside
//! a file of records and for that of a site.
//!
//! What is added up must be of one kind: claims about the same neighbouring data sets, against the
//! same adversary, under noise that nobody knows. Anything else is refused, because no theorem adds
//! it. Who is told so, and what to do about it, is each ledger's own to say.

use consenso_engine::privacy::studies::{Limit, StudyCost, StudyRefused};
use consenso_engine::privacy::{Adversary, Claim, NeighbourRelation};

/// What the claims of all studies of one ledger have in common.
#[derive(Clone, Copy, Debug)]
pub struct StudyKind<'a> {
    /// Which data sets are neighbours.
    pub relation: NeighbourRelation,
    /// Who looks, if that is known as a type.
    pub against: Option<Adversary>,
    /// Who looks, in words.
    pub adversary: &'a str,
    /// Whether the noise comes from a seed, so that whoever knows it can take the noise away.
    pub seeded: bool,
}

/// Why the cost of a study is not added to that of those before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// Noise of a seed, and noise that nobody knows.
    Noise,
    /// The paper's convention charges half of what replacing a record costs.
    Paper,
    /// Claims about different neighbours.
    Relation,
    /// Claims against different adversaries.
    Adversary,
}

impl<'a> StudyKind<'a> {
    /// The kind of a claim.
    #[must_use]
    pub fn of(claim: &'a Claim, seeded: bool) -> Self {
        Self {
            relation: claim.neighbours,
            against: Some(claim.protects_from()),
            adversary: &claim.adversary,
            seeded,
        }
    }

    /// Whether such a study may be in a ledger at all. Under noise of a seed nothing is protected,
    /// and nothing has to be refused.
    ///
    /// # Errors
    /// [`Mismatch::Paper`].
    pub fn is_bookable(&self) -> Result<(), Mismatch> {
        match self.relation {
            NeighbourRelation::Paper if !self.seeded => Err(Mismatch::Paper),
            _ => Ok(()),
        }
    }

    /// Whether its cost adds up with that of a study `before`.
    ///
    /// # Errors
    /// The first thing in which they differ.
    pub fn adds_to(&self, before: &StudyKind<'_>) -> Result<(), Mismatch> {
        if self.seeded != before.seeded {
            return Err(Mismatch::Noise);
        }
        if self.relation != before.relation {
            return Err(Mismatch::Relation);
        }
        if self.is_against_the_same(before) { Ok(()) } else { Err(Mismatch::Adversary) }
    }

    /// Entries of before adversaries were types have words alone, which are read.
    fn is_against_the_same(&self, other: &StudyKind<'_>) -> bool {
        let whom =
            |kind: &StudyKind<'_>| kind.against.or_else(|| Adversary::from_words(kind.adversary));
        match (whom(self), whom(other)) {
            (Some(mine), Some(theirs)) => mine == theirs,
            _ => self.adversary == other.adversary,
        }
    }
}

/// Whether a study fits under a limit, beside those before it.
///
/// Decimal budgets such as 0.1 + 0.2 ≤ 0.3 fit: a part in 10¹² is below every claim's own rounding.
///
/// # Errors
/// Why it does not.
pub fn admit(limit: &Limit, before: &[StudyCost], next: &StudyCost) -> Result<(), StudyRefused> {
    let up = |x: f64| x * (1.0 + 1e-12);
    let raised = Limit { epsilon: up(limit.epsilon), delta: up(limit.delta), ..*limit };
    // What is refused is told of the limit as it was said.
    raised.admit(before, next).or_else(|_| limit.admit(before, next))
}

/// Largest ε that is spent without a word of whoever keeps the records.
pub const LARGEST_UNSAID_EPSILON: f64 = 10.0;

/// Whether nobody has to be asked about such a cost: ε is at most [`LARGEST_UNSAID_EPSILON`], and δ
/// is below one over the number of records, so that releasing some record as it is would break it.
#[must_use]
pub fn is_careful(epsilon: f64, delta: f64, records: usize) -> bool {
    epsilon <= LARGEST_UNSAID_EPSILON && delta * (records as f64) < 1.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use consenso_engine::privacy::studies::Rule;

    fn kind(relation: NeighbourRelation, adversary: &str, seeded: bool) -> StudyKind<'_> {
        StudyKind { relation, against: None, adversary, seeded }
    }

    #[test]
    fn what_no_theorem_adds_is_told_apart() {
        let first = kind(NeighbourRelation::ReplaceOne, "everybody", false);
        assert_eq!(first.adds_to(&first), Ok(()));
        let other = |relation, adversary, seeded| kind(relation, adversary, seeded).adds_to(&first);
        assert_eq!(other(NeighbourRelation::ReplaceOne, "everybody", true), Err(Mismatch::Noise));
        assert_eq!(other(NeighbourRelation::ZeroOut, "everybody", false), Err(Mismatch::Relation));
        assert_eq!(
            other(NeighbourRelation::ReplaceOne, "somebody", false),
            Err(Mismatch::Adversary)
        );
        let paper = |seeded| kind(NeighbourRelation::Paper, "everybody", seeded).is_bookable();
        assert_eq!((paper(false), paper(true)), (Err(Mismatch::Paper), Ok(())));
    }

    #[test]
    fn decimal_budgets_that_add_up_fit_and_no_more_does() {
        let limit = Limit::new(0.3, 1e-5, Rule::Sum).unwrap();
        let study = |epsilon: f64| StudyCost::claimed(epsilon, 1e-6);
        assert!(admit(&limit, &[study(0.1)], &study(0.2)).is_ok());
        let refused = admit(&limit, &[study(0.1)], &study(0.200_001)).unwrap_err().to_string();
        assert!(refused.contains("ε = 0.3") && !refused.contains("0.300000"), "{refused}");
        assert!(is_careful(10.0, 1e-6, 1000) && !is_careful(10.1, 1e-6, 10));
        assert!(!is_careful(1.0, 1e-3, 1000), "one record in the clear has δ = 1/n");
    }
}
