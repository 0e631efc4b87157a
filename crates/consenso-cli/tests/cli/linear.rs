//! `[problem]`: agents tied by a linear constraint.

use crate::Place;

const FILE: &str = "\
name = \"two\"
runs = 1

[problem]
rhs = [3.0, 1.0]

[[problem.agent]]
name = \"north\"
quadratic = [1.0, 2.0]
linear = [-1.0, 0.5]
low = [0.0, 0.0]
high = [4.0, 4.0]

[[problem.agent]]
name = \"south\"
quadratic = 0.5
low = 0.0
high = 2.0
matrix = [[1.0], [1.0]]

[[algorithm]]
kind = \"linear-admm\"
exact = true
";

#[test]
fn a_file_of_costs_runs_to_its_optimum() {
    let place = Place::new("linear-run");
    place.write("two.toml", FILE);
    let value = place.consenso(&["run", "two.toml", "--out", "out", "--json"]).json();
    let algorithm = &value["algorithms"][0];
    assert!(algorithm["optimum_gap"].as_f64().unwrap().abs() < 1e-9, "{algorithm}");
    assert!(algorithm["violation"].as_f64().unwrap() < 1e-9);
    // What a run writes down repeats it.
    let again = place.consenso(&["run", "out/experiment.toml", "--out", "again", "--json"]).json();
    assert_eq!(again["algorithms"][0]["objective"], algorithm["objective"]);
    let plan = place.consenso(&["plan", "two.toml", "--json"]).json();
    assert_eq!(plan["algorithms"][0]["standing"], "predicted-stable");
}

#[test]
fn a_budget_protects_declared_costs() {
    let place = Place::new("linear-private");
    let text = FILE
        .replace(
            "rhs = [3.0, 1.0]",
            "rhs = [3.0, 1.0]\nmarginal = [-2.0, 20.0]\ncurvature = [1.0, 4.0]",
        )
        .replace("exact = true", "rounds = 50")
        + "\n[privacy]\nepsilon = 5.0\ndelta = 1e-5\n";
    place.write("two.toml", &text);
    let value = place.consenso(&["run", "two.toml", "--out", "out", "--json"]).json();
    let epsilon = &value["algorithms"][0]["epsilon"];
    assert!(epsilon["claim"].as_f64().unwrap() <= 5.0, "{epsilon}");
    assert!(epsilon["statement"].as_str().unwrap().contains("whole cost function"), "{epsilon}");
    let refused = place.consenso(&["privacy", "audit", "two.toml"]);
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("cannot be audited"), "{}", refused.stderr);
}

#[test]
fn what_cannot_work_says_where_and_why() {
    let cases = [
        (
            "rhs = [3.0, 1.0]",
            "rhs = [30.0, 1.0]",
            "two.toml:5: rhs: infeasible: row 1 asks for = 30",
        ),
        (
            "rhs = [3.0, 1.0]",
            "rhs = [0.5, 6.0]",
            "two.toml:5: rhs: infeasible: no point within the limits satisfies all rows; row 2 stays",
        ),
        ("rhs = [3.0, 1.0]", "rhs = [3.0]", "south: the matrix has 2 rows, rhs has 1"),
        (
            "rhs = [3.0, 1.0]",
            "rhs = [3.0, 1.0, 2.0]",
            "north: matrix is missing: 3 lists of 2 numbers",
        ),
        ("rhs = [3.0, 1.0]", "rhs = []", "two.toml:5: rhs: there is no row"),
        ("rhs = [3.0, 1.0]", "rhs = [3.0, 1.0]\nrelation = [\"<=\"]", "1 relations for 2 rows"),
        (
            "matrix = [[1.0], [1.0]]",
            "matrix = [[1.0, 2.0], [1.0]]",
            "south: row 1 of the matrix has 2 numbers for 1 variables",
        ),
        (
            "matrix = [[1.0], [1.0]]",
            "entries = [[3, 1, 1.0]]",
            "south: entry [3, 1, …] is outside the matrix",
        ),
        ("linear = [-1.0, 0.5]", "linear = -1.0", "north: linear has 1 numbers, quadratic has 2"),
        ("quadratic = 0.5", "quadratic = 0.0", "south: quadratic = 0 must be positive"),
        ("low = 0.0\n", "low = 3.0\n", "south: variable 1"),
        ("exact = true", "gossip = 3", "gossip would mix variables"),
        ("exact = true", "penalty = 0.01\nrho = [0.0, 1.0]", "penalty = 0.01 does not keep"),
        (
            "kind = \"linear-admm\"\nexact = true",
            "kind = \"dgd\"",
            "kind dgd brings all agents to one model",
        ),
        (
            "[[algorithm]]",
            "[privacy]\nepsilon = 1.0\ndelta = 1e-6\n\n[[algorithm]]",
            "curvature = [least, most] is missing",
        ),
    ];
    let place = Place::new("linear-bad");
    for (from, to, message) in cases {
        place.write("two.toml", &FILE.replacen(from, to, 1));
        let answer = place.consenso(&["run", "two.toml", "--out", "out"]);
        assert_eq!(answer.code, 2, "{to}: {}", answer.stderr);
        assert!(answer.stderr.contains(message), "{to}: {}", answer.stderr);
        assert!(!place.path("out").exists());
    }
    let ring = place.consenso(&["run", "sharing", "--set", "graph.kind=ring", "--out", "out"]);
    assert_eq!(ring.code, 2);
    assert!(ring.stderr.contains("needs everybody's releases"), "{}", ring.stderr);
    // An algorithm for linear constraints without one.
    let plain =
        place.consenso(&["run", "adult", "--set", "algorithm.0.kind=linear-admm", "--out", "out"]);
    assert_eq!(plain.code, 2);
    assert!(plain.stderr.contains("add [problem]"), "{}", plain.stderr);
}
