//! Records, graphs and the simulator.

#[path = "../common/mod.rs"]
mod common;

mod data_bounds;
mod data_synthetic;
mod graph_golden;
mod graph_spectrum;
mod graph_topology;
mod modules;
mod own_source;
mod simulator;
