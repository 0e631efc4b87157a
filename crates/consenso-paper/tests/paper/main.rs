//! The paper's algorithms on its own records, and its figures.

#[path = "../../../consenso-engine/tests/common/mod.rs"]
mod common;
#[path = "../../../consenso-study/tests/support/html.rs"]
mod html;
#[path = "../../../consenso-study/tests/support/made_up.rs"]
mod made_up;

mod algorithms;
mod budget;
mod figures;
mod linear;
mod problem;
mod reproduce;
mod sharing;
