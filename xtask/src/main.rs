//! The project's chores: `cargo xtask ci`.
fn main() {}
