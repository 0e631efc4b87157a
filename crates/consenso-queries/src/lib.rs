//! One-shot statistics of records that never leave their sites: counts, means, quantiles, tables,
//! survival curves, with intervals that contain the noise.
//!
//! ```text
//! Question (what is asked) ─► Plan (parts, their shares of the budget, expected errors)
//!     record ─► bounded vector ─► sum over all sites + noise (made elsewhere) ─► Released ─► Answers
//! ```
//!
//! A questionnaire becomes *parts*: tables of counts, sums of a number and its square, sums of
//! products. Every record adds one bounded vector to them, so that a whole questionnaire is one sum
//! of vectors with one sensitivity ([`Plan::norms`]). Who adds the noise, and what that costs, is
//! not decided here: this crate knows neither budgets nor randomness. Everything after the noised
//! sum is a function of it and of public numbers.
//!
//! Categories and ranges come from the public schema, never from records.

mod answers;
mod columns;
mod error;
#[doc(hidden)]
pub mod escape;
mod linear;
mod normal;
mod part;
mod phrase;
mod plan;
mod question;
mod released;
mod render;
mod strategy;

pub use answers::{Answer, Answered, Expected, Test, answer};
pub use columns::{ColumnInfo, ColumnKind, Columns};
pub use error::QuestionError;
pub use plan::{Norms, Plan, QuestionnaireFacts};
pub use question::{Question, QuestionKind};
pub use released::{KnownPart, Released};
pub use render::{csv, html, latex, text};
pub use strategy::Strategy;
