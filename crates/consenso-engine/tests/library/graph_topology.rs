//! Graphs are connected, simple and exactly what was asked for; bad requests are errors that say
//! what would be accepted.

use consenso_engine::graph::{Graph, GraphError, GraphSpec};
use consenso_engine::random::Seed;
use proptest::prelude::*;
use statrs::distribution::{ChiSquared, ContinuousCDF};
use std::collections::HashMap;

/// Everything a `Graph` promises, recomputed from its rows alone.
fn assert_sound(graph: &Graph, agents: usize, edges: usize) {
    assert_eq!((graph.agents(), graph.edges()), (agents, edges));
    assert_eq!((0..agents).map(|i| graph.degree(i)).sum::<usize>(), 2 * edges);
    for i in 0..agents {
        let row = graph.neighbours(i);
        assert!(
            row.windows(2).all(|pair| pair[0] < pair[1]),
            "row {i} is not strictly ascending: {row:?}"
        );
        for &j in row {
            assert_ne!(i, j as usize, "a loop");
            assert!(graph.has_edge(j as usize, i), "{i} knows {j} but not the other way round");
        }
    }
    assert_eq!(graph.iter_edges().count(), edges);
    let mut reached = vec![false; agents];
    let mut stack = vec![0];
    reached[0] = true;
    while let Some(i) = stack.pop() {
        for &j in graph.neighbours(i) {
            if !std::mem::replace(&mut reached[j as usize], true) {
                stack.push(j as usize);
            }
        }
    }
    assert!(reached.iter().all(|&r| r), "not connected");
}

proptest! {
    #[test]
    fn a_random_graph_is_connected_with_exactly_its_edges(agents in 2_usize..80, fill in 0.0_f64..=1.0, seed: u64) {
        let (least, most) = (agents - 1, agents * (agents - 1) / 2);
        let edges = least + ((most - least) as f64 * fill * fill * fill) as usize;
        let graph = Graph::random(agents, edges, &seed.into()).unwrap();
        assert_sound(&graph, agents, edges);
        prop_assert_eq!(graph, Graph::random(agents, edges, &seed.into()).unwrap());
    }

    #[test]
    fn a_regular_graph_is_regular(agents in 3_usize..40, pick in 0.0_f64..1.0, seed: u64) {
        let degree = 2 + ((agents - 2) as f64 * pick) as usize;
        let built = Graph::regular(agents, degree, &seed.into());
        if agents * degree % 2 == 1 {
            prop_assert!(matches!(built, Err(GraphError::Degree { .. })), "{:?}", built);
        } else {
            let graph = built.unwrap();
            assert_sound(&graph, agents, agents * degree / 2);
            prop_assert!((0..agents).all(|i| graph.degree(i) == degree));
        }
    }

    #[test]
    fn a_small_world_keeps_its_edges(agents in 5_usize..80, half in 2_usize..4, rewire in 0.0_f64..=1.0, seed: u64) {
        prop_assume!(2 * half < agents);
        let graph = Graph::small_world(agents, 2 * half, rewire, &seed.into()).unwrap();
        assert_sound(&graph, agents, agents * half);
    }

    #[test]
    fn an_edge_list_reads_back_any_graph(agents in 2_usize..40, extra in 0_usize..30, seed: u64, comma: bool) {
        let edges = (agents - 1 + extra).min(agents * (agents - 1) / 2);
        let graph = Graph::random(agents, edges, &seed.into()).unwrap();
        let separator = if comma { " , " } else { "\t" };
        let mut text = String::from("# from, to\n\n");
        for (a, b) in graph.iter_edges() {
            text += &format!("{b}{separator}{a}  # a comment\r\n");
        }
        prop_assert_eq!(&graph, &Graph::from_edge_list(text.as_bytes(), "list", agents).unwrap());
        let mut listed: Vec<_> = graph.iter_edges().map(|(a, b)| (b, a)).collect();
        listed.reverse();
        prop_assert_eq!(&graph, &Graph::from_edges(agents, &listed).unwrap());
    }

    #[test]
    fn an_edge_list_of_anything_is_a_graph_or_an_error(bytes: Vec<u8>, text in "[0-9 ,#\n]{0,40}", agents in 0_usize..9) {
        for input in [bytes.as_slice(), text.as_bytes()] {
            if let Ok(graph) = Graph::from_edge_list(input, "noise", agents) {
                assert_sound(&graph, agents, graph.edges());
            }
        }
    }

    #[test]
    fn checking_a_specification_agrees_with_building_it(agents in 0_usize..12, number in 0_usize..12, rewire in -0.2_f64..1.2) {
        let specs = [
            GraphSpec::Random { edges: number }, GraphSpec::Complete {}, GraphSpec::Ring {}, GraphSpec::Path {}, GraphSpec::Star {},
            GraphSpec::Grid { rows: Some(number) }, GraphSpec::Grid { rows: None }, GraphSpec::Regular { degree: number },
            GraphSpec::SmallWorld { degree: number, rewire },
        ];
        for spec in specs {
            let (checked, built) = (spec.check(agents), spec.build(agents, &3.into()));
            match (&checked, &built) {
                (Err(checked), Err(built)) => prop_assert_eq!(checked.to_string(), built.to_string()),
                (Ok(()), Err(GraphError::Unlucky { .. })) => {}
                (checked, built) => prop_assert!(checked.is_ok() && built.is_ok(), "{:?} {:?} {:?}", spec, checked, built),
            }
        }
    }
}

#[test]
fn fixed_shapes_have_their_edges() {
    for agents in 2..20 {
        assert_sound(&Graph::complete(agents).unwrap(), agents, agents * (agents - 1) / 2);
        assert_sound(&Graph::path(agents).unwrap(), agents, agents - 1);
        assert_sound(&Graph::star(agents).unwrap(), agents, agents - 1);
        if agents > 2 {
            assert_sound(&Graph::ring(agents).unwrap(), agents, agents);
        }
    }
    let grid = Graph::grid(12, None).unwrap();
    assert_sound(&grid, 12, 3 * 3 + 2 * 4);
    assert_eq!(grid.neighbours(5), &[1, 4, 6, 9]);
    assert_eq!(Graph::grid(12, Some(1)).unwrap(), Graph::path(12).unwrap());
    assert_eq!(Graph::grid(12, Some(12)).unwrap(), Graph::path(12).unwrap());
    assert!(Graph::complete(9).unwrap().is_complete() && !Graph::star(9).unwrap().is_complete());
}

#[test]
fn diameters_are_the_closed_forms() {
    assert_eq!(Graph::complete(9).unwrap().diameter(), Some(1));
    assert_eq!(Graph::path(9).unwrap().diameter(), Some(8));
    assert_eq!(Graph::ring(9).unwrap().diameter(), Some(4));
    assert_eq!(Graph::star(9).unwrap().diameter(), Some(2));
    assert_eq!(Graph::grid(12, None).unwrap().diameter(), Some(2 + 3));
    assert_eq!(
        Graph::path(1_000_000).unwrap().diameter(),
        None,
        "too much work is declined, not done"
    );
}

#[test]
fn a_small_world_without_rewiring_is_the_lattice_and_with_it_is_not() {
    let lattice = Graph::small_world(10, 4, 0.0, &1.into()).unwrap();
    assert_eq!(lattice.neighbours(0), &[1, 2, 8, 9]);
    assert_ne!(lattice, Graph::small_world(10, 4, 0.5, &1.into()).unwrap());
}

#[test]
fn seeds_matter() {
    let graphs: Vec<Graph> =
        (0..4).map(|seed| Graph::random(30, 60, &Seed::from(seed)).unwrap()).collect();
    assert!(graphs.windows(2).all(|pair| pair[0] != pair[1]));
}

/// χ² over all labelled connected graphs with 4 agents: 16 with 3 edges, 15 with 4, 6 with 5. False
/// alarm 10^-6 each.
#[test]
fn random_graphs_of_four_agents_are_uniform() {
    for (edges, graphs) in [(3, 16), (4, 15), (5, 6)] {
        let draws = 300 * graphs;
        let mut counts: HashMap<Vec<(u32, u32)>, usize> = HashMap::new();
        for seed in 0..draws {
            let graph = Graph::random(4, edges, &Seed::from(seed as u64)).unwrap();
            *counts.entry(graph.iter_edges().collect()).or_default() += 1;
        }
        assert_eq!(counts.len(), graphs, "{edges} edges");
        let statistic: f64 = counts.values().map(|&c| (c as f64 - 300.0).powi(2) / 300.0).sum();
        let limit = ChiSquared::new((graphs - 1) as f64).unwrap().inverse_cdf(1.0 - 1e-6);
        assert!(statistic < limit, "{edges} edges: χ² = {statistic} ≥ {limit}");
    }
}

/// χ² over the 3-regular graphs on 6 agents: 60 labelled prisms and 10 labelled K_{3,3}. False
/// alarm 10^-6.
#[test]
fn regular_graphs_of_six_agents_are_uniform() {
    let mut counts: HashMap<Vec<(u32, u32)>, usize> = HashMap::new();
    for seed in 0..7000_u64 {
        let graph = Graph::regular(6, 3, &Seed::from(seed)).unwrap();
        *counts.entry(graph.iter_edges().collect()).or_default() += 1;
    }
    assert_eq!(counts.len(), 70);
    let statistic: f64 = counts.values().map(|&c| (c as f64 - 100.0).powi(2) / 100.0).sum();
    let limit = ChiSquared::new(69.0).unwrap().inverse_cdf(1.0 - 1e-6);
    assert!(statistic < limit, "χ² = {statistic} ≥ {limit}");
}

#[test]
fn a_million_agents_make_a_sound_graph_without_hubs() {
    let graph = Graph::random(1_000_000, 2_000_000, &5.into()).unwrap();
    assert_sound(&graph, 1_000_000, 2_000_000);
    assert!(
        graph.max_degree() < 40,
        "a tree plus uniform edges has no hubs: {}",
        graph.max_degree()
    );
}

#[test]
fn errors_say_what_would_be_accepted() {
    let seed = &Seed::from(1);
    let text = |result: Result<Graph, GraphError>| result.unwrap_err().to_string();
    let cases = [
        (
            text(Graph::random(10, 8, seed)),
            "10 agents cannot be connected with 8 edges: between 9 and 45 are possible",
        ),
        (
            text(Graph::random(10, 46, seed)),
            "10 agents cannot be connected with 46 edges: between 9 and 45 are possible",
        ),
        (text(Graph::random(0, 0, seed)), "a graph needs at least 2 agents, not 0"),
        (text(Graph::complete(1)), "a graph needs at least 2 agents, not 1"),
        (text(Graph::ring(2)), "a ring graph needs at least 3 agents, not 2"),
        (
            text(Graph::regular(5, 3, seed)),
            "a regular graph of 5 agents cannot have degree 3: agents × degree = 15 must be even",
        ),
        (
            text(Graph::regular(5, 5, seed)),
            "a regular graph of 5 agents cannot have degree 5: it must be at least 1 and below 5",
        ),
        (
            text(Graph::regular(6, 1, seed)),
            "a regular graph of 6 agents cannot have degree 1: pairs alone are not connected; it must be at least 2",
        ),
        (
            text(Graph::small_world(9, 3, 0.1, seed)),
            "a small-world graph of 9 agents cannot have degree 3: it must be even, at least 2 and below 9",
        ),
        (
            text(Graph::small_world(9, 4, 1.5, seed)),
            "rewire = 1.5 is not a probability: it must be between 0 and 1",
        ),
        (
            text(Graph::small_world(9, 4, f64::NAN, seed)),
            "rewire = NaN is not a probability: it must be between 0 and 1",
        ),
        (text(Graph::grid(12, Some(5))), "12 agents do not fill a grid of 5 rows"),
        (text(Graph::grid(12, Some(0))), "12 agents do not fill a grid of 0 rows"),
        (
            text(Graph::grid(13, None)),
            "13 agents only make a grid of one row: choose another number, or kind = \"path\"",
        ),
        (
            text(Graph::complete(100_000)),
            "a graph of 100000 agents with 4999950000 edges is too large: the limit is 268435456",
        ),
        (
            text(Graph::from_edges(3, &[(0, 1), (1, 3)])),
            "there is no agent 3: 3 agents are numbered 0 to 2",
        ),
        (text(Graph::from_edges(3, &[(0, 1), (2, 2)])), "agent 2 has an edge to itself"),
        (text(Graph::from_edges(3, &[(0, 1), (1, 2), (1, 0)])), "the edge 0 1 is given twice"),
        (
            text(Graph::from_edges(3, &[(0, 1)])),
            "the graph is not connected: 2 parts; agent 2 cannot reach agent 0",
        ),
    ];
    for (said, expected) in cases {
        assert_eq!(said, expected);
    }
    for huge in [usize::MAX, usize::MAX / 2, 1 << 40] {
        for spec in [
            GraphSpec::Random { edges: huge },
            GraphSpec::Ring {},
            GraphSpec::Grid { rows: None },
            GraphSpec::Regular { degree: huge - 1 },
        ] {
            assert!(matches!(spec.build(huge, seed), Err(GraphError::TooLarge { .. })), "{spec:?}");
        }
    }
}

#[test]
fn edge_list_errors_name_the_file_and_line() {
    let text = |list: &str| {
        Graph::from_edge_list(list.as_bytes(), "sites.txt", 10).unwrap_err().to_string()
    };
    let malformed = |text: &str| {
        format!("\"{text}\" is not an edge: write two agent numbers, as in \"0 1\" or \"0,1\"")
    };
    assert_eq!(text("0 1\n# c\n1 1\n"), "sites.txt, line 3: agent 1 has an edge to itself");
    assert_eq!(
        text("0 1\n2,10\n"),
        "sites.txt, line 2: there is no agent 10: 10 agents are numbered 0 to 9"
    );
    assert_eq!(text("0 1\n\n1 0"), "sites.txt, line 3: the edge 1 0 was given already on line 1");
    for bad in ["0", "0 1 2", "0;1", "-1 2", "0,1,2", "a b", "0 1.5", ","] {
        assert_eq!(text(bad), format!("sites.txt, line 1: {}", malformed(bad)));
    }
    assert_eq!(text(&"1".repeat(10_000)), "sites.txt, line 1: the line is longer than 4096 bytes");
    let two_parts = "0 1\n1 2\n3 4\n4 5\n5 6\n6 7\n7 8\n8 9\n";
    assert_eq!(
        text(two_parts),
        "sites.txt is not connected: 2 parts; agents 3, 4, 5, 6, 7, … (7 in all) cannot reach agent 0"
    );
    assert_eq!(text(""), "sites.txt is not connected: 10 parts; agent 1 cannot reach agent 0");
}

#[test]
fn a_failing_reader_is_an_error() {
    struct Broken;
    impl std::io::Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("unplugged"))
        }
    }
    let error = Graph::from_edge_list(std::io::BufReader::new(Broken), "sites.txt", 3).unwrap_err();
    assert_eq!(error.to_string(), "sites.txt, line 1: cannot be read");
    assert_eq!(std::error::Error::source(&error).unwrap().to_string(), "unplugged");
}

#[test]
fn specifications_read_as_the_experiment_file_writes_them() {
    let cases = [
        ("kind = 'random'\nedges = 20", GraphSpec::Random { edges: 20 }),
        ("kind = 'complete'", GraphSpec::Complete {}),
        ("kind = 'ring'", GraphSpec::Ring {}),
        ("kind = 'path'", GraphSpec::Path {}),
        ("kind = 'star'", GraphSpec::Star {}),
        ("kind = 'grid'", GraphSpec::Grid { rows: None }),
        ("kind = 'grid'\nrows = 2", GraphSpec::Grid { rows: Some(2) }),
        (
            "kind = 'small-world'\ndegree = 4\nrewire = 0.1",
            GraphSpec::SmallWorld { degree: 4, rewire: 0.1 },
        ),
        ("kind = 'regular'\ndegree = 3", GraphSpec::Regular { degree: 3 }),
        (
            "kind = 'file'\npath = 'a.txt'",
            GraphSpec::File { path: "a.txt".into(), directed: false },
        ),
    ];
    for (text, expected) in cases {
        let spec: GraphSpec = toml::from_str(text).unwrap();
        assert_eq!(spec, expected, "{text}");
        assert_eq!(
            toml::from_str::<GraphSpec>(&toml::to_string(&spec).unwrap()).unwrap(),
            expected
        );
    }
    for bad in [
        "kind = 'ring'\nedges = 3",
        "kind = 'random'",
        "kind = 'random'\nedges = -1",
        "kind = 'torus'",
        "edges = 3",
    ] {
        assert!(toml::from_str::<GraphSpec>(bad).is_err(), "{bad}");
    }
    let error =
        GraphSpec::File { path: "a.txt".into(), directed: false }.build(3, &1.into()).unwrap_err();
    assert_eq!(error.to_string(), "the edge list a.txt has not been read");
}
