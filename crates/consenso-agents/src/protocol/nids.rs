//! NIDS: an exact method whose step does not depend on the graph (Li, Shi and Yan, 2019).

use super::{
    Assessed, Capabilities, Configured, Memory, Parameters, Parts, Protocol, PublicFacts, View,
    exact_diffusion, table_of,
};
use crate::config_error::ConfigError;
use crate::problem::{LocalObjective, Sensitivity, Workspace};
use crate::theory::{Assessment, TheoremInputs};
use serde::{Deserialize, Serialize};

/// x^{k+1} = ½(I+W)(2x^k − x^{k−1} − α(∇f(x^k) − ∇f(x^{k−1}))), with x¹ = x⁰ − α∇f(x⁰): the
/// recursion of [`ExactDiffusion`](super::ExactDiffusion) after a first step that nobody averages.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nids {
    /// α.
    pub step: Option<f64>,
}

exact_diffusion::recursion!(Nids, "nids", |round| round > 1);
