//! What was released: noised sums of every part, in the units of the sums.

use crate::plan::Plan;
use crate::strategy::Strategy;
use serde::{Deserialize, Serialize};

/// The noised sums of one part. They may be shared, and asked again for free.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KnownPart {
    /// What the sums are of.
    pub key: String,
    /// How bins were measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<Strategy>,
    /// The sums over all sites; empty where they were released by site.
    pub total: Vec<f64>,
    /// The sums of every site, where they are known.
    pub sites: Vec<Vec<f64>>,
    /// Standard deviation of the noise of a number of `total`.
    pub sigma: f64,
    /// Standard deviation of the noise of a number of `sites`.
    pub site_sigma: f64,
}

/// The noised sums of every part of a plan, in its order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Released {
    /// One for each part.
    pub parts: Vec<KnownPart>,
}

impl Released {
    /// Takes apart the noised sum over all sites, and where `sites` has them, those of every site;
    /// `sigma` is the deviation of the noise of a number of the sum, and of a site's.
    #[must_use]
    pub fn of(plan: &Plan, total: &[f64], sites: &[Vec<f64>], sigma: [f64; 2]) -> Self {
        let parts = plan.parts.iter().zip(&plan.known).map(|(part, known)| {
            if let Some(known) = known {
                return known.clone();
            }
            if part.is_public() {
                let counts: Vec<f64> = plan.counts.iter().map(|&c| c as f64).collect();
                return KnownPart {
                    key: part.key(),
                    strategy: None,
                    total: vec![counts.iter().sum()],
                    sites: counts.into_iter().map(|c| vec![c]).collect(),
                    sigma: 0.0,
                    site_sigma: 0.0,
                };
            }
            let width = part.width();
            let natural = |vector: &[f64], at: usize| -> Vec<f64> {
                vector[at..at + width].iter().map(|v| v / part.scale).collect()
            };
            let blocks = plan.blocks && part.by_site;
            let sites: Vec<Vec<f64>> = if blocks {
                (0..plan.sites.len()).map(|s| natural(total, part.offset + s * width)).collect()
            } else {
                sites.iter().map(|vector| natural(vector, part.offset)).collect()
            };
            KnownPart {
                key: part.key(),
                strategy: part.strategy(),
                total: if blocks { Vec::new() } else { natural(total, part.offset) },
                sites,
                sigma: sigma[0] / part.scale,
                site_sigma: if blocks { sigma[0] } else { sigma[1] } / part.scale,
            }
        });
        Self { parts: parts.collect() }
    }

    /// The sums of a part over all sites or of one, and the deviation of their noise.
    pub(crate) fn values(&self, part: usize, site: Option<usize>) -> (Vec<f64>, f64) {
        let known = &self.parts[part];
        match site {
            Some(site) if site < known.sites.len() => (known.sites[site].clone(), known.site_sigma),
            _ if known.total.is_empty() => {
                let mut sum = vec![0.0; known.sites.first().map_or(0, Vec::len)];
                for site in &known.sites {
                    sum.iter_mut().zip(site).for_each(|(s, v)| *s += v);
                }
                (sum, known.site_sigma * (known.sites.len() as f64).sqrt())
            }
            _ => (known.total.clone(), known.sigma),
        }
    }
}
