//! The weights of the golden rounds, made by an independent program, are ours.

use consenso_engine::graph::{Graph, Mixing};
use serde_json::Value;

#[test]
fn metropolis_weights_are_those_of_the_golden_rounds() {
    let golden: Value = serde_json::from_str(include_str!("../golden/rounds.json")).unwrap();
    let edges: Vec<(u32, u32)> =
        serde_json::from_value(golden["problem"]["edges"].clone()).unwrap();
    let graph = Graph::from_edges(5, &edges).unwrap();
    let weights = Mixing::metropolis(&graph);
    let cases = golden["cases"].as_array().unwrap();
    let mixing: Vec<&Value> =
        cases.iter().map(|case| &case["inputs"]["mixing"]).filter(|m| !m.is_null()).collect();
    assert_eq!(
        mixing.len(),
        26,
        "dgd, decor, muffliato, extra, gradient-tracking, eleven exact methods, four compressed ones, gt-svrg, accelerated, rcd, rcd-block, pdop and pdop-ball"
    );
    for matrix in mixing {
        let matrix: Vec<Vec<f64>> = serde_json::from_value(matrix.clone()).unwrap();
        for (i, row) in matrix.iter().enumerate() {
            for (j, &expected) in row.iter().enumerate() {
                let ours = if i == j {
                    weights.own(i)
                } else {
                    let at = graph.neighbours(i).binary_search(&(j as u32));
                    at.map_or(0.0, |at| weights.neighbours(i)[at])
                };
                assert!((ours - expected).abs() < 1e-15, "w[{i}][{j}] = {ours}, not {expected}");
            }
        }
    }
}
