//! The `consenso` command.
fn main() {}
