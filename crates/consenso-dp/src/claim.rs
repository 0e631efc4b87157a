//! What is claimed about a run's privacy, with everything a reader needs to check or doubt it.

use super::Adversary;
use super::compose::{Bound, Composition, Method};
use crate::NeighbourRelation;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A privacy claim. Printing it shows all of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// ε, an upper bound.
    pub epsilon: f64,
    /// δ; 0 for a pure claim.
    pub delta: f64,
    /// The theorem behind ε.
    pub method: Method,
    /// What one individual's data may change.
    pub neighbours: NeighbourRelation,
    /// Who is assumed to look, and at what.
    pub adversary: String,
    /// Whom it protects from, as a type that programs can compare.
    #[serde(default)]
    pub against: Adversary,
    /// How the noise was drawn.
    pub sampler: String,
    /// Conditions under which the claim does not hold, or holds only in part.
    pub caveats: Vec<String>,
    /// ε by every method, where a fixed schedule was composed.
    pub bounds: Option<Composition>,
}

impl Claim {
    /// The adversary of docs/paper.md section 4.
    pub const COLLUDING_NEIGHBOURS: &str =
        "every other agent colludes and sees every exchanged vector";

    /// The best claim a composition supports; `None` if no method is valid.
    pub fn from_composition(
        composition: Composition,
        neighbours: NeighbourRelation,
        sampler: impl Into<String>,
    ) -> Option<Self> {
        let (method, epsilon) = composition.best()?;
        let delta = if method == Method::Pure { 0.0 } else { composition.delta };
        Some(Self {
            epsilon,
            delta,
            method,
            neighbours,
            adversary: Self::COLLUDING_NEIGHBOURS.to_owned(),
            against: Adversary::Local,
            sampler: sampler.into(),
            caveats: Vec::new(),
            bounds: Some(composition),
        })
    }

    /// This claim for releases that stop at a budget: its ε is the budget where the whole schedule
    /// would cost more.
    #[must_use]
    pub fn within(mut self, budget: Option<f64>) -> Self {
        if let Some(budget) = budget
            && self.epsilon > budget
        {
            (self.epsilon, self.bounds) = (budget, None);
        }
        self
    }

    /// Whom it protects from. Claims of before the type are read by their words.
    #[must_use]
    pub fn protects_from(&self) -> Adversary {
        Adversary::from_words(&self.adversary).unwrap_or(self.against)
    }

    /// Adds a caveat.
    #[must_use]
    pub fn with_caveat(mut self, caveat: impl Into<String>) -> Self {
        self.caveats.push(caveat.into());
        self
    }
}

/// Digits for a reader, rounded up so that the printed ε is a claim too.
fn digits_up(epsilon: f64) -> String {
    if epsilon == 0.0 || !epsilon.is_finite() {
        return epsilon.to_string();
    }
    let decimals = (4 - epsilon.log10().floor() as i32).clamp(0, 300);
    let unit = 10f64.powi(-decimals);
    // What a reader would type back decides, not a quotient that was itself rounded.
    let mut steps = (epsilon / unit).floor();
    loop {
        let printed = format!("{:.*}", decimals as usize, steps * unit);
        if printed.parse::<f64>().is_ok_and(|typed| typed >= epsilon) {
            return printed;
        }
        steps += 1.0;
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "privacy claim  ε = {}, δ = {:e}", digits_up(self.epsilon), self.delta)?;
        writeln!(f, "  method       {} — {}", self.method, self.method.theorem())?;
        writeln!(f, "  neighbours   {} — {}", self.neighbours, self.neighbours.meaning())?;
        writeln!(f, "  adversary    {}", self.adversary)?;
        writeln!(f, "  sampler      {}", self.sampler)?;
        for caveat in &self.caveats {
            writeln!(f, "  caveat       {caveat}")?;
        }
        let Some(composition) = &self.bounds else { return Ok(()) };
        writeln!(f, "  by method    (δ = {:e}; pure holds at δ = 0)", composition.delta)?;
        for (method, bound) in composition.bounds() {
            match bound {
                Bound::Value(epsilon) => {
                    writeln!(f, "    {:<10} ε = {}", method.name(), digits_up(*epsilon))?;
                }
                Bound::NotValid { reason } => writeln!(f, "    {:<10} –  {reason}", method.name())?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Event, compose};

    #[test]
    fn a_printed_claim_says_everything() {
        let composition = compose(&[Event::laplace(0.01, 1400)], 1e-6).unwrap();
        let claim = Claim::from_composition(
            composition,
            NeighbourRelation::ReplaceOne,
            "seeded simulation",
        )
        .unwrap()
        .with_caveat("these figures hold only for a run on OS entropy");
        let text = claim.to_string();
        for part in [
            "ε = 1.6369",
            "δ = 1e-6",
            "pld",
            "replace-one",
            "colludes",
            "seeded",
            "OS entropy",
            "14.00",
        ] {
            assert!(text.contains(part), "{part} is missing from\n{text}");
        }
        let json = serde_json::to_string(&claim).unwrap();
        assert!(json.contains("\"replace-one\""));
        let back: Claim = serde_json::from_str(&json).unwrap();
        assert_eq!(back.method, claim.method);
    }

    #[test]
    fn printed_digits_are_never_below_the_bound() {
        for epsilon in [1.636_851, 0.126_000_1, 12345.6, 3e-7] {
            let printed: f64 = digits_up(epsilon).parse().unwrap();
            assert!(printed >= epsilon && printed < epsilon * 1.001, "{epsilon} {printed}");
        }
    }
}
