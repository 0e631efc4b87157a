//! (to be written)

pub mod gaussian_interval;
pub mod mixture;
mod quadrature;
pub mod renyi_table;
