//! The board: methods beside each other on the same problems, graphs, conditions and budgets.
//!
//! A board file names what is compared ([`spec`]); every cell of it is an ordinary experiment,
//! which the caller runs and hands back as a [`cell::Unit`]. What comes out is a table of figures
//! ([`results`]), ranks with their confidence ([`stats`]), and the files that show them ([`show`]).
//! Somebody else's method joins as a file of [`claimed`] results. Nothing here runs anything or
//! opens a file.
//!
//! ```
//! use consenso_board::spec::Board;
//!
//! let board = Board::from_toml(consenso_board::built_in("quick").unwrap(), "quick")?;
//! assert!(board.settings().len() > 20);
//! # Ok::<(), consenso_board::BoardError>(())
//! ```

pub mod cell;
pub mod claimed;
mod error;
pub mod results;
pub mod school;
pub mod show;
pub mod spec;
pub mod stats;

pub use error::BoardError;

/// Boards that come with the software: name, one line about it, and the file.
pub const BUILT_IN: &[(&str, &str, &str)] = &[
    (
        "quick",
        "every method with its defaults on seven problems, six graphs, seven conditions, epsilon 1, 3 and none (minutes)",
        include_str!("../boards/quick.toml"),
    ),
    (
        "full",
        "every method, tuned, on larger problems, more graphs, conditions, budgets and seeds (hours)",
        include_str!("../boards/full.toml"),
    ),
    (
        "anchors",
        "published figures beside ours: FLamby's heart, and School with --school FILE",
        include_str!("../boards/anchors.toml"),
    ),
];

/// Returns the text of a built-in board.
#[must_use]
pub fn built_in(name: &str) -> Option<&'static str> {
    BUILT_IN.iter().find(|board| board.0 == name).map(|board| board.2)
}
