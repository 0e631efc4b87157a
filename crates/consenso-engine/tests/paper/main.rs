//! The paper: its theorems and algorithms, against independent programs.

#[path = "../common/mod.rs"]
mod common;

mod composition;
mod constraints;
mod golden_rounds;
mod mixture;
mod objective_perturbation;
mod rcd;
mod theory;
