//! Studies in files: what reads experiments and schemas in TOML, records as people export them,
//! what brings bundled records, and what draws reports. The mathematics is in the crate
//! [`consenso_engine`], which knows no file.
//!
//! ```
//! use consenso::Study;
//! use consenso::experiment::{ExperimentSpec, Inputs};
//! use consenso_study::ExperimentFile as _;
//!
//! let text = r#"
//!     name = "small"
//!     runs = 1
//!     data = { source = "logistic", agents = 4, records_per_agent = 1000, dim = 5 }
//!     graph = { kind = "ring" }
//!     privacy = { epsilon = 1.0, delta = 1e-6 }
//!     algorithm = [{ kind = "dgd" }]
//! "#;
//! let spec = ExperimentSpec::from_toml(text, "small.toml")?;
//! let source = Box::new(spec.synthetic().ok_or("synthetic records")??);
//! let (file, text) = ("small.toml".to_owned(), text.to_owned());
//! let fitted = Study::from(Inputs { file, text, spec, source, edges: None, entropy: None }).run()?;
//! assert!(consenso_study::report::report_html(fitted.record()).contains("small"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod bundled;
pub mod experiment;
pub mod files;
pub mod frames;
pub mod packed;
pub mod report;
pub mod schema;
pub mod scratch;
mod sheets;
pub mod statement;
mod study;

pub use experiment::ExperimentFile;
pub use schema::SchemaFile;
pub use study::StudyFiles;
