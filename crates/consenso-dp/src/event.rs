//! Privacy events: what was released, as frozen data that the accountants interpret.
//!
//! An event never carries a cost of its own choosing, only the parameters from which every
//! accountant computes one, so a ledger written today keeps its meaning. In JSON an event is one
//! object with the key `mechanism`:
//!
//! ```
//! use consenso_dp::{Mechanism, parse_events};
//! let events = parse_events(r#"[{"mechanism":"laplace","epsilon":0.01,"count":1400},
//!                              {"mechanism":"gaussian","mu":0.02,"count":1000}]"#)?;
//! assert_eq!(events[0].count, 1400);
//! assert_eq!(events[1].mechanism, Mechanism::Gaussian { mu: 0.02 });
//! # Ok::<(), consenso_dp::AccountingError>(())
//! ```

use super::sampled::Sampling;
use super::{AccountingError, NeighbourRelation};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The largest `count` of one entry: beyond it an integer no longer fits a float exactly.
pub const MAX_COUNT: u64 = 1 << 53;

/// A mechanism and its parameters.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "mechanism", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Mechanism {
    /// Laplace noise; `epsilon` is the l1 sensitivity over the scale.
    ///
    /// This covers vectors: `d` independent Laplace coordinates under a shift `t` reveal no more
    /// than one coordinate under a shift `‖t‖₁`. The kernel
    /// `k_s(y) = (1 − ∂²/∂s²) ∏_l ½e^{−|y_l − λ_l s|}`, `λ = |t|/‖t‖₁`, is non-negative (between
    /// kinks the exponent's slope in `s` is at most 1 in size, and every kink is a local maximum)
    /// and maps `Lap(s)` to the product at `λs` for every `s` (`½e^{−|x|}` is the Green's function
    /// of `1 − ∂²`, and bounded solutions are unique; the mass of `k_s` is `(1 − ∂²)1 = 1`), so the
    /// vector release is post-processing of the scalar one.
    Laplace {
        /// l1 sensitivity over scale.
        epsilon: f64,
    },
    /// Gaussian noise; `mu` is the l2 sensitivity over σ.
    Gaussian {
        /// l2 sensitivity over standard deviation.
        mu: f64,
    },
    /// [`Self::Laplace`] on a sum over a secret Poisson sample of the records ([`sampled`]).
    ///
    /// [`sampled`]: super::sampled
    #[serde(rename = "laplace")]
    SampledLaplace {
        /// l1 sensitivity over scale, as if the record in question were drawn. Where it is
        /// replaced, contributions are at most half as long.
        epsilon: f64,
        /// The chance of every record to be drawn, from 0 to 1.
        sampling: f64,
        /// What the sensitivity is about: a sampled release costs differently if a record is
        /// replaced than if it is added, removed or zeroed out.
        #[serde(skip_serializing_if = "is_add_remove")]
        neighbours: NeighbourRelation,
    },
    /// [`Self::Gaussian`] on a sum over a secret Poisson sample of the records ([`sampled`]).
    ///
    /// [`sampled`]: super::sampled
    #[serde(rename = "gaussian")]
    SampledGaussian {
        /// l2 sensitivity over σ, as if the record in question were drawn. Where it is replaced,
        /// contributions are at most half as long.
        mu: f64,
        /// How far the record moves the release beside that whether it is drawn or not, over σ.
        #[serde(skip_serializing_if = "is_nothing")]
        undrawn: f64,
        /// The chance of every record to be drawn, from 0 to 1.
        sampling: f64,
        /// As for [`Self::SampledLaplace`].
        #[serde(skip_serializing_if = "is_add_remove")]
        neighbours: NeighbourRelation,
    },
    /// Any ε-differentially private mechanism about which nothing else is known.
    Pure {
        /// The ε it satisfies.
        epsilon: f64,
    },
    /// Any mechanism known to satisfy ρ-zCDP.
    Zcdp {
        /// The ρ it satisfies.
        rho: f64,
    },
    /// A uniform point of an interval plus Laplace noise, charged at the interval's actual width.
    /// The width is a function of the transcript, so these costs compose through a
    /// [filter](super::filter) fixed in advance and nothing else.
    IntervalLaplace {
        /// Rényi orders, increasing, each above 1.
        orders: Vec<f64>,
        /// Rényi cost at each order.
        costs: Vec<f64>,
        /// The pure ε this release costs whatever the width.
        pure: f64,
    },
    /// A point of an interval with Gaussian noise; it satisfies no pure ε.
    IntervalGaussian {
        /// Rényi orders, increasing, each above 1; none where only `mu` is added up.
        orders: Vec<f64>,
        /// Rényi cost at each order.
        costs: Vec<f64>,
        /// The l2 shift over σ, which bounds the cost whatever the width; absent for filters that
        /// did not add it up.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mu: Option<f64>,
    },
    /// Any mechanism whose Rényi divergences are known at some orders: added up by a
    /// [filter](super::filter) of these orders and nothing else.
    Renyi {
        /// Rényi orders, increasing, each above 1.
        orders: Vec<f64>,
        /// Rényi cost at each order.
        costs: Vec<f64>,
    },
    /// A function of what is already public: free.
    PostProcessing,
}

/// Whether a sampled event needs not say its neighbour relation.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands it a reference")]
fn is_add_remove(neighbours: &NeighbourRelation) -> bool {
    *neighbours == NeighbourRelation::AddRemove
}

/// Whether a number needs not be said.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands it a reference")]
fn is_nothing(x: &f64) -> bool {
    *x == 0.0
}

/// `count` releases of one mechanism.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Value")]
pub struct Event {
    /// The mechanism.
    #[serde(flatten)]
    pub mechanism: Mechanism,
    /// How many times it was run; at least 1, at most [`MAX_COUNT`].
    pub count: u64,
}

impl Event {
    /// One release of `mechanism`.
    pub fn once(mechanism: Mechanism) -> Self {
        Self { mechanism, count: 1 }
    }

    /// `count` Laplace releases, each with l1 sensitivity over scale `epsilon`.
    pub fn laplace(epsilon: f64, count: u64) -> Self {
        Self { mechanism: Mechanism::Laplace { epsilon }, count }
    }

    /// `count` Gaussian releases, each with l2 sensitivity over σ `mu`.
    pub fn gaussian(mu: f64, count: u64) -> Self {
        Self { mechanism: Mechanism::Gaussian { mu }, count }
    }

    /// `count` releases of any `epsilon`-DP mechanism.
    pub fn pure(epsilon: f64, count: u64) -> Self {
        Self { mechanism: Mechanism::Pure { epsilon }, count }
    }

    /// `count` releases of any `rho`-zCDP mechanism.
    pub fn zcdp(rho: f64, count: u64) -> Self {
        Self { mechanism: Mechanism::Zcdp { rho }, count }
    }

    /// These releases, each over a secret sample that every record is in with probability
    /// `sampling`; `None` for mechanisms that sampling is not known to amplify.
    ///
    /// Sensitivities are those of a release that draws the record in question. Where it is replaced
    /// by another, contributions are at most half as long.
    #[must_use]
    pub fn sampled(self, sampling: f64, neighbours: NeighbourRelation) -> Option<Self> {
        self.drawn(Sampling::new(sampling, neighbours))
    }

    /// [`Self::sampled`], where a record may also be in the release without being drawn: known for
    /// Gaussian noise alone.
    #[must_use]
    pub fn drawn(self, how: Sampling) -> Option<Self> {
        let Sampling { rate: sampling, neighbours, undrawn } = how;
        let mechanism = match self.mechanism {
            Mechanism::Laplace { epsilon } if undrawn == 0.0 => {
                Mechanism::SampledLaplace { epsilon, sampling, neighbours }
            }
            Mechanism::Gaussian { mu } => {
                let undrawn = if undrawn == 0.0 { 0.0 } else { (undrawn * mu).next_up() };
                Mechanism::SampledGaussian { mu, undrawn, sampling, neighbours }
            }
            Mechanism::PostProcessing => Mechanism::PostProcessing,
            _ => return None,
        };
        Some(Self { mechanism, count: self.count })
    }

    /// Whether only a filter may add it up: the cost may be a function of the transcript.
    pub fn is_transcript_dependent(&self) -> bool {
        matches!(
            self.mechanism,
            Mechanism::IntervalLaplace { .. }
                | Mechanism::IntervalGaussian { .. }
                | Mechanism::Renyi { .. }
        )
    }

    /// Checks every number of the event; `index` is its place in the caller's list, for the
    /// message.
    ///
    /// # Errors
    /// [`AccountingError::BadValue`] for a negative, infinite or NaN parameter, a count outside
    /// `1..=MAX_COUNT`, orders that do not increase from above 1, and
    /// [`AccountingError::BadLength`] if orders and costs do not pair up.
    pub fn check(&self, index: usize) -> Result<(), AccountingError> {
        let amount = |key, x: f64| check_amount(index, key, x);
        if self.count == 0 || self.count > MAX_COUNT {
            return Err(bad(index, "count", "an integer from 1 to 2^53", self.count.to_string()));
        }
        match &self.mechanism {
            Mechanism::Laplace { epsilon } | Mechanism::Pure { epsilon } => {
                amount("epsilon", *epsilon)
            }
            Mechanism::Gaussian { mu } => amount("mu", *mu),
            Mechanism::SampledLaplace { epsilon, sampling, neighbours } => {
                amount("epsilon", *epsilon)?;
                check_sampling(index, *sampling, *neighbours)
            }
            Mechanism::SampledGaussian { mu, undrawn, sampling, neighbours } => {
                amount("mu", *mu)?;
                amount("undrawn", *undrawn)?;
                check_sampling(index, *sampling, *neighbours)
            }
            Mechanism::Zcdp { rho } => amount("rho", *rho),
            Mechanism::PostProcessing => Ok(()),
            Mechanism::IntervalLaplace { pure, .. } if amount("pure", *pure).is_err() => {
                amount("pure", *pure)
            }
            Mechanism::IntervalGaussian { mu: Some(mu), .. } if amount("mu", *mu).is_err() => {
                amount("mu", *mu)
            }
            Mechanism::IntervalLaplace { orders, costs, .. }
            | Mechanism::IntervalGaussian { orders, costs, .. }
            | Mechanism::Renyi { orders, costs } => {
                costs.iter().try_for_each(|&cost| amount("costs", cost))?;
                let gaussian =
                    matches!(self.mechanism, Mechanism::IntervalGaussian { mu: Some(_), .. });
                if !(gaussian && orders.is_empty()) {
                    check_orders(index, orders)?;
                }
                if orders.len() != costs.len() {
                    return Err(AccountingError::BadLength {
                        name: "costs",
                        expected: orders.len(),
                        found: costs.len(),
                    });
                }
                Ok(())
            }
        }
    }

    fn from_json(index: usize, value: &Value) -> Result<Self, AccountingError> {
        let Value::Object(fields) = value else {
            return Err(AccountingError::NotAnObject { index, found: kind(value) });
        };
        let reader = Reader { index, fields };
        let name = reader.text("mechanism")?;
        let sampled = fields.contains_key("sampling");
        let (mechanism, keys): (_, &[&str]) = match name {
            "laplace" if sampled => (
                Mechanism::SampledLaplace {
                    epsilon: reader.number("epsilon")?,
                    sampling: reader.number("sampling")?,
                    neighbours: reader.neighbours()?,
                },
                &["epsilon", "sampling", "neighbours"],
            ),
            "gaussian" if sampled => (
                Mechanism::SampledGaussian {
                    mu: reader.number("mu")?,
                    undrawn: if fields.contains_key("undrawn") {
                        reader.number("undrawn")?
                    } else {
                        0.0
                    },
                    sampling: reader.number("sampling")?,
                    neighbours: reader.neighbours()?,
                },
                &["mu", "undrawn", "sampling", "neighbours"],
            ),
            "laplace" => (Mechanism::Laplace { epsilon: reader.number("epsilon")? }, &["epsilon"]),
            "gaussian" => (Mechanism::Gaussian { mu: reader.number("mu")? }, &["mu"]),
            "pure" => (Mechanism::Pure { epsilon: reader.number("epsilon")? }, &["epsilon"]),
            "zcdp" => (Mechanism::Zcdp { rho: reader.number("rho")? }, &["rho"]),
            "post-processing" => (Mechanism::PostProcessing, &[]),
            "interval-laplace" => (
                Mechanism::IntervalLaplace {
                    orders: reader.numbers("orders")?,
                    costs: reader.numbers("costs")?,
                    pure: reader.number("pure")?,
                },
                &["orders", "costs", "pure"],
            ),
            "interval-gaussian" => (
                Mechanism::IntervalGaussian {
                    orders: reader.numbers("orders")?,
                    costs: reader.numbers("costs")?,
                    mu: fields.get("mu").map(|_| reader.number("mu")).transpose()?,
                },
                &["orders", "costs", "mu"],
            ),
            "renyi" => (
                Mechanism::Renyi {
                    orders: reader.numbers("orders")?,
                    costs: reader.numbers("costs")?,
                },
                &["orders", "costs"],
            ),
            _ => {
                return Err(AccountingError::UnknownMechanism {
                    index,
                    mechanism: name.to_owned(),
                });
            }
        };
        reader.no_other_key_than(keys, name)?;
        let event = Self { mechanism, count: reader.count()? };
        event.check(index)?;
        Ok(event)
    }
}

impl TryFrom<Value> for Event {
    type Error = AccountingError;

    fn try_from(value: Value) -> Result<Self, Self::Error> {
        Self::from_json(0, &value)
    }
}

/// Reads a JSON array of events.
///
/// # Errors
/// Names the entry (from 0) and the key of whatever is missing, unknown, of the wrong kind or out
/// of range. An unknown mechanism or key is refused, never skipped: skipping would under-charge.
pub fn parse_events(text: &str) -> Result<Vec<Event>, AccountingError> {
    let value: Value = serde_json::from_str(text)
        .map_err(|error| AccountingError::Json { message: error.to_string() })?;
    let Value::Array(entries) = &value else {
        return Err(AccountingError::NotAnArray { found: kind(&value) });
    };
    entries.iter().enumerate().map(|(index, entry)| Event::from_json(index, entry)).collect()
}

/// One entry's fields, and where it stands in the array.
struct Reader<'a> {
    index: usize,
    fields: &'a Map<String, Value>,
}

impl<'a> Reader<'a> {
    fn get(&self, key: &'static str) -> Result<&'a Value, AccountingError> {
        self.fields.get(key).ok_or(AccountingError::MissingKey { index: self.index, key })
    }

    fn text(&self, key: &'static str) -> Result<&'a str, AccountingError> {
        let value = self.get(key)?;
        value.as_str().ok_or_else(|| bad(self.index, key, "a string", value.to_string()))
    }

    fn number(&self, key: &'static str) -> Result<f64, AccountingError> {
        let value = self.get(key)?;
        value.as_f64().ok_or_else(|| bad(self.index, key, "a number", value.to_string()))
    }

    /// The neighbour relation of a sampled event: that of most published accounts where it is not
    /// said.
    fn neighbours(&self) -> Result<NeighbourRelation, AccountingError> {
        let Some(value) = self.fields.get("neighbours") else {
            return Ok(NeighbourRelation::AddRemove);
        };
        serde_json::from_value(value.clone())
            .map_err(|_| bad(self.index, "neighbours", NEIGHBOURS, value.to_string()))
    }

    fn numbers(&self, key: &'static str) -> Result<Vec<f64>, AccountingError> {
        let value = self.get(key)?;
        let wrong = || bad(self.index, key, "an array of numbers", value.to_string());
        let entries = value.as_array().ok_or_else(wrong)?;
        entries.iter().map(|entry| entry.as_f64().ok_or_else(wrong)).collect()
    }

    fn count(&self) -> Result<u64, AccountingError> {
        let Some(value) = self.fields.get("count") else { return Ok(1) };
        value
            .as_u64()
            .ok_or_else(|| bad(self.index, "count", "an integer from 1 to 2^53", value.to_string()))
    }

    fn no_other_key_than(&self, keys: &[&str], mechanism: &str) -> Result<(), AccountingError> {
        let known = |key: &str| key == "mechanism" || key == "count" || keys.contains(&key);
        match self.fields.keys().find(|key| !known(key)) {
            None => Ok(()),
            Some(key) => Err(AccountingError::UnknownKey {
                index: self.index,
                key: key.clone(),
                mechanism: mechanism.to_owned(),
            }),
        }
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

fn bad(index: usize, key: &'static str, expected: &'static str, found: String) -> AccountingError {
    AccountingError::BadValue { index, key, expected, found }
}

fn check_amount(index: usize, key: &'static str, x: f64) -> Result<(), AccountingError> {
    if x.is_finite() && x >= 0.0 {
        return Ok(());
    }
    Err(bad(index, key, "a finite number, 0 or more", x.to_string()))
}

const NEIGHBOURS: &str = "\"add-remove\", \"replace-one\" or \"zero-out\"";

fn check_sampling(
    index: usize,
    sampling: f64,
    neighbours: NeighbourRelation,
) -> Result<(), AccountingError> {
    if !(0.0..=1.0).contains(&sampling) {
        return Err(bad(index, "sampling", "a chance from 0 to 1", sampling.to_string()));
    }
    if neighbours == NeighbourRelation::Paper {
        // Half of a sensitivity bounds nothing of a record's contribution.
        return Err(bad(index, "neighbours", NEIGHBOURS, neighbours.to_string()));
    }
    Ok(())
}

fn check_orders(index: usize, orders: &[f64]) -> Result<(), AccountingError> {
    let above_one = orders.iter().all(|a| a.is_finite() && *a > 1.0);
    if !orders.is_empty() && above_one && orders.is_sorted_by(|a, b| a < b) {
        return Ok(());
    }
    Err(bad(index, "orders", "increasing finite numbers above 1", format!("{orders:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        parse_events(text).expect_err("must be refused").to_string()
    }

    #[test]
    fn the_form_of_the_command_line_contract_parses() {
        let text = r#"[{"mechanism":"laplace","epsilon":0.01,"count":1400},{"mechanism":"gaussian","mu":0.02}]"#;
        assert_eq!(
            parse_events(text).unwrap(),
            [Event::laplace(0.01, 1400), Event::gaussian(0.02, 1)]
        );
        let sampled = r#"[{"mechanism":"gaussian","mu":0.5,"sampling":0.01,"count":10}]"#;
        let expected = Event::gaussian(0.5, 10).sampled(0.01, NeighbourRelation::AddRemove);
        assert_eq!(parse_events(sampled).unwrap(), [expected.unwrap()]);
        let written = serde_json::to_string(&parse_events(sampled).unwrap()).unwrap();
        assert_eq!(written, sampled, "what most accounts mean is not spelt out");
    }

    #[test]
    fn every_mechanism_survives_a_round_trip() {
        let interval = Mechanism::IntervalLaplace {
            orders: vec![2.0, 4.0],
            costs: vec![1e-3, 2e-3],
            pure: 0.1,
        };
        let events = [
            Event::laplace(0.1, 3),
            Event::gaussian(0.2, 4),
            Event::pure(0.3, 5),
            Event::zcdp(0.4, 6),
            Event::once(interval),
            Event::once(Mechanism::IntervalGaussian {
                orders: vec![2.0, 4.0],
                costs: vec![1e-3, 2e-3],
                mu: None,
            }),
            Event::once(Mechanism::IntervalGaussian {
                orders: vec![],
                costs: vec![],
                mu: Some(0.25),
            }),
            Event::once(Mechanism::Renyi { orders: vec![8.0], costs: vec![1e-3] }),
            Event::once(Mechanism::PostProcessing),
            Event::laplace(0.1, 3).sampled(0.01, NeighbourRelation::AddRemove).unwrap(),
            Event::gaussian(0.2, 4).sampled(0.5, NeighbourRelation::ReplaceOne).unwrap(),
            Event::gaussian(0.2, 4)
                .drawn(Sampling {
                    undrawn: 0.25,
                    ..Sampling::new(0.5, NeighbourRelation::ReplaceOne)
                })
                .unwrap(),
        ];
        let text = serde_json::to_string(&events).unwrap();
        assert_eq!(parse_events(&text).unwrap(), events);
        assert_eq!(serde_json::from_str::<Vec<Event>>(&text).unwrap(), events);
    }

    #[test]
    fn bad_events_name_the_entry_and_the_key() {
        let good = r#"{"mechanism":"pure","epsilon":1}"#;
        for (entry, expected) in [
            (
                r#"{"mechanism":"gaussian","mu":1,"sampling":1.5}"#,
                r#"event 1: "sampling" must be a chance from 0 to 1"#,
            ),
            (
                r#"{"mechanism":"gaussian","mu":1,"sampling":0.5,"neighbours":"paper"}"#,
                r#"event 1: "neighbours" must be "add-remove""#,
            ),
            (
                r#"{"mechanism":"gaussian","mu":1,"neighbours":"replace-one"}"#,
                r#"event 1: the key "neighbours" is not known"#,
            ),
            (
                r#"{"mechanism":"gaussian","mu":1,"sampling":0.5,"undrawn":-1}"#,
                r#"event 1: "undrawn" must be a finite number, 0 or more"#,
            ),
            (
                r#"{"mechanism":"gaussian","mu":1,"undrawn":1}"#,
                r#"event 1: the key "undrawn" is not known"#,
            ),
            (
                r#"{"mechanism":"zcdp","rho":1,"sampling":0.5}"#,
                r#"event 1: the key "sampling" is not known for the mechanism "zcdp""#,
            ),
            (r#"{"mechanism":"laplace"}"#, r#"event 1: the key "epsilon" is missing"#),
            (r#"{"epsilon":1}"#, r#"event 1: the key "mechanism" is missing"#),
            (
                r#"{"mechanism":"laplace","epsilon":-1}"#,
                r#"event 1: "epsilon" must be a finite number, 0 or more"#,
            ),
            (r#"{"mechanism":"laplace","epsilon":"x"}"#, r#"event 1: "epsilon" must be a number"#),
            (
                r#"{"mechanism":"laplace","epsilon":1,"mu":2}"#,
                r#"event 1: the key "mu" is not known"#,
            ),
            (
                r#"{"mechanism":"subsampled","q":1}"#,
                r#"event 1: the mechanism "subsampled" is not known"#,
            ),
            (
                r#"{"mechanism":"pure","epsilon":1,"count":0}"#,
                r#"event 1: "count" must be an integer from 1"#,
            ),
            (
                r#"{"mechanism":"pure","epsilon":1,"count":1.5}"#,
                r#"event 1: "count" must be an integer from 1"#,
            ),
            (
                r#"{"mechanism":"pure","epsilon":1,"count":-1}"#,
                r#"event 1: "count" must be an integer from 1"#,
            ),
            ("7", "event 1: expected an object"),
        ] {
            let message = refusal(&format!("[{good},{entry}]"));
            assert!(message.starts_with(expected), "{entry}: {message}");
        }
        assert!(refusal(r#"{"mechanism":"pure"}"#).contains("must be a JSON array"));
        assert!(refusal(r#"[{"mechanism":"pure","epsilon":NaN}]"#).contains("not valid JSON"));
        assert!(refusal(r#"[{"mechanism":"pure","epsilon":1e999}]"#).contains("not valid JSON"));
    }

    #[test]
    fn events_built_in_code_are_checked_too() {
        assert!(
            Event::laplace(f64::NAN, 1)
                .check(3)
                .unwrap_err()
                .to_string()
                .starts_with("event 3: \"epsilon\"")
        );
        assert!(Event::gaussian(f64::INFINITY, 1).check(0).is_err());
        let orders_fall =
            Mechanism::IntervalLaplace { orders: vec![4.0, 2.0], costs: vec![0.0; 2], pure: 0.0 };
        assert!(Event::once(orders_fall).check(0).is_err());
        let unpaired = Mechanism::IntervalLaplace { orders: vec![2.0], costs: vec![], pure: 0.0 };
        assert!(Event::once(unpaired).check(0).is_err());
    }
}
