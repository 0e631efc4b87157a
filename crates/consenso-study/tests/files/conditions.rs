//! What a simulated network does to messages, and what an algorithm is called.

use consenso_engine::experiment::{
    Experiment, ExperimentSpec, Finished, Inputs, Silent, Source, SpecError, run,
};
use consenso_study::ExperimentFile as _;

const FILE: &str = r#"
name = "lossy"
runs = 1
[data]
source = "logistic"
agents = 8
records_per_agent = 200
dim = 4
[graph]
kind = "ring"
[privacy]
epsilon = 4.0
delta = 1e-5
[conditions]
loss = 0.2
[[algorithm]]
kind = "dgd"
[[algorithm]]
kind = "gd-star"
[[algorithm]]
kind = "muffliato"
[[algorithm]]
kind = "rcd"
"#;

fn checked(text: &str) -> Result<Experiment, SpecError> {
    let spec = ExperimentSpec::from_toml(text, "lossy.toml")?;
    let source = Source::Synthetic(spec.synthetic().unwrap().unwrap());
    let (file, text) = ("lossy.toml".to_owned(), text.to_owned());
    // Agent 0 is heard by three and hears one.
    let links = "0 1\n1 2\n2 3\n3 4\n4 5\n5 6\n6 7\n7 0\n0 3\n0 5\n6 2\n";
    let edges = Some(("links.txt".to_owned(), links.to_owned()));
    Experiment::check(Inputs { file, text, spec, source, edges, entropy: None })
}

fn ran(text: &str) -> Finished {
    run(&checked(text).unwrap(), &Silent).unwrap()
}

/// An experiment of the same records with these tables and algorithms, each with its keys behind it.
fn file(tables: &str, kinds: &[&str]) -> String {
    let head = FILE.split("[graph]").next().unwrap();
    let algorithm = |kind: &&str| {
        let (kind, more) = kind.split_once(' ').unwrap_or((kind, ""));
        format!("[[algorithm]]\nkind = \"{kind}\"\n{}\n", more.replace(", ", "\n"))
    };
    format!("{head}{tables}\n{}", kinds.iter().map(algorithm).collect::<String>())
}

const BUDGET: &str = "[privacy]\nepsilon = 4.0\ndelta = 1e-5\n";
const CURVED: &str = "[objective]\nregularization = 0.1\n";
const ONE_WAY: &str = "[graph]\nkind = \"file\"\npath = \"links.txt\"\ndirected = true\n";

#[test]
fn lost_messages_are_a_function_of_the_seed_and_change_no_claim() {
    let lossy = ran(FILE);
    assert_eq!(lossy.models, ran(FILE).models, "the same seed loses the same messages");
    let perfect = ran(&FILE.replace("loss = 0.2", "loss = 0.0"));
    assert_eq!(perfect.models, ran(&FILE.replace("[conditions]\nloss = 0.2\n", "")).models);
    let other = ran(&FILE.replace("loss = 0.2", "loss = 0.3"));
    for (index, a) in lossy.record.algorithms.iter().enumerate() {
        assert_ne!(lossy.models[index].agents, perfect.models[index].agents, "{}", a.label);
        assert_ne!(lossy.models[index].agents, other.models[index].agents, "{}", a.label);
        let claim = |r: &Finished| r.record.algorithms[index].epsilon.as_ref().unwrap().claim;
        assert_eq!(claim(&lossy), claim(&perfect), "{}", a.label);
        assert!(!a.diverged && a.objective.is_finite(), "{}", a.label);
        let zero = lossy.record.baselines.zero_model.objective;
        assert!(a.objective < zero, "{}: {} of {zero}", a.label, a.objective);
    }
    assert!(lossy.record.resolved.contains("loss = 0.2"), "{}", lossy.record.resolved);
}

/// Over links that lead one way exact methods are exact, and a budget is what it is elsewhere.
#[test]
fn push_methods_reach_the_optimum_over_links_that_lead_one_way() {
    let kinds = ["push-diging rounds = 3000, step = 0.2", "push-sum"];
    let exact = ran(&file(&format!("{CURVED}{ONE_WAY}"), &kinds));
    let [diging, sum] = &exact.record.algorithms[..] else { panic!("two algorithms") };
    assert!(diging.optimum_gap < 1e-9, "{}", diging.optimum_gap);
    let apart = diging.curve.last().unwrap().disagreement.mean;
    assert!(apart < 1e-6, "{apart}");
    let zero = exact.record.baselines.zero_model.objective;
    let all = zero - diging.objective;
    assert!(sum.optimum_gap < 0.1 * all, "{} of {all}", sum.optimum_gap);
    // Without the weights everybody would end at another point: dgd is refused, with a way out.
    let refused = checked(&file(ONE_WAY, &["dgd"])).unwrap_err();
    assert!(refused.help.unwrap().contains("push-sum"), "{}", refused.message);
    let private = ran(&file(&format!("{ONE_WAY}{BUDGET}"), &["push-sum", "push-diging"]));
    for a in &private.record.algorithms {
        let claim = a.epsilon.as_ref().unwrap().claim;
        assert!(claim <= 4.0 && claim > 3.9, "{}: {claim}", a.label);
        assert!(!a.diverged && a.gossip == 0, "{}", a.label);
    }
    let learned = private.record.algorithms[0].objective;
    assert!(learned < private.record.baselines.zero_model.objective, "{learned}");
}

#[test]
fn links_that_average_serve_kinds_that_mix() {
    for graph in ["directed-ring", "exponential", "one-peer-exponential", "hypercube"] {
        let kinds = ["dgd", "diffusion", "push-diging rounds = 2000, step = 0.1"];
        let all = ran(&file(&format!("{CURVED}[graph]\nkind = \"{graph}\""), &kinds));
        for a in &all.record.algorithms {
            let zero = all.record.baselines.zero_model.objective;
            assert!(!a.diverged && a.objective < zero, "{graph}, {}: {}", a.label, a.objective);
        }
        let exact = all.record.algorithms[2].optimum_gap;
        assert!(exact < 1e-9, "{graph}: {exact}");
    }
    let refused = checked(&file("[graph]\nkind = \"exponential\"", &["extra"])).unwrap_err();
    assert!(refused.help.unwrap().contains("push-sum"), "{}", refused.message);
}

/// What a network does changes runs and no claim, and methods that go with it still learn.
#[test]
fn whatever_the_network_does_claims_stay() {
    let all = ["dgd", "diffusion", "atc-tracking"];
    let ring = "[graph]\nkind = \"ring\"\n";
    let perfect = ran(&file(&format!("{ring}{BUDGET}"), &all));
    for condition in [
        "asleep = 0.2",
        "asleep = { enter = 0.05, leave = 0.25 }",
        "links = \"matchings\"",
        "links = { chance = 0.5 }",
        "links = { turns = 2 }",
        "compression = { kind = \"qsgd\", levels = 8 }",
        "compression = { kind = \"sign\" }",
        "compression = { kind = \"top-k\", keep = 0.4 }",
        "compression = { kind = \"rand-k\", keep = 0.4 }",
    ] {
        let kinds = if condition.starts_with("compression") { &all[..2] } else { &all[..] };
        let text = file(&format!("{ring}{BUDGET}[conditions]\n{condition}\n"), kinds);
        let under = ran(&text);
        assert_eq!(under.models, ran(&text).models, "{condition}: a function of the seed");
        let zero = under.record.baselines.zero_model.objective;
        for (index, a) in under.record.algorithms.iter().enumerate() {
            let claim = |r: &Finished| r.record.algorithms[index].epsilon.as_ref().unwrap().claim;
            assert_eq!(claim(&under), claim(&perfect), "{condition}, {}", a.label);
            assert_ne!(under.models[index].agents, perfect.models[index].agents, "{condition}");
            assert!(!a.diverged && a.objective < zero, "{condition}, {}: {}", a.label, a.objective);
            assert_eq!(a.agents_stopped, 0.0, "{condition}, {}", a.label);
        }
        assert!(under.record.resolved.contains(condition.split(' ').next().unwrap()));
    }
    let refused = |condition: &str, kind: &str| {
        let text = file(&format!("{ring}[conditions]\n{condition}\n"), &[kind]);
        checked(&text).unwrap_err().help.expect("a way out")
    };
    assert!(refused("asleep = 0.2", "extra").contains("atc-tracking"));
    assert!(refused("links = \"matchings\"", "admm").contains("atc-tracking"));
    assert!(refused("compression = { kind = \"sign\" }", "push-sum").contains("diffusion"));
    assert!(refused("asleep = 1.5", "dgd").contains("0.1"));
    assert!(refused("loss = { bad = 2.0, enter = 0.1, leave = 0.1 }", "dgd").contains("0.1"));
    let bursts = format!("{ring}[conditions]\nloss = {{ bad = 0.8, enter = 0.05, leave = 0.2 }}\n");
    let bursts = ran(&file(&bursts, &["dgd"]));
    assert!(bursts.record.algorithms[0].objective < bursts.record.baselines.zero_model.objective);
}

/// Exact methods reach the optimum by default, compressed ones too; budgets are kept, and messages
/// that are compressed are counted so.
#[test]
fn methods_with_compressed_or_rare_messages_reach_the_optimum() {
    let ring = "[graph]\nkind = \"ring\"\n";
    let link = "[conditions]\nlatency_ms = 1.0\n";
    let kinds = [
        "lead rounds = 1500",
        "lead rounds = 1500, compression = \"sign\"",
        "aug-dgm rounds = 2000",
        "proxskip rounds = 1000",
        "choco rounds = 1000",
    ];
    let exact = ran(&file(&format!("{CURVED}{ring}{link}"), &kinds));
    for a in &exact.record.algorithms[..4] {
        assert!(a.optimum_gap < 1e-9, "{}: {}", a.label, a.optimum_gap);
    }
    // A constant step keeps its agents apart, as it does without compression.
    assert!(exact.record.algorithms[4].optimum_gap < 1e-2);
    // One of four numbers and its place, four signs and a size, or eight numbers: sixteen a round.
    let bytes = [9.0, 9.0, 64.0, 32.0, 9.0];
    for (a, bytes) in exact.record.algorithms.iter().zip(bytes) {
        let traffic = a.traffic.unwrap();
        assert_eq!(traffic.bytes, traffic.messages * bytes, "{}", a.label);
        assert_eq!(traffic.messages, 16.0 * f64::from(a.rounds), "{}", a.label);
    }
    let private = ["lead", "aug-dgm", "proxskip", "choco"];
    let private = ran(&file(&format!("{ring}{BUDGET}"), &private));
    for a in &private.record.algorithms {
        let claim = a.epsilon.as_ref().unwrap().claim;
        assert!(claim <= 4.0 && claim > 3.9, "{}: {claim}", a.label);
        assert!(!a.diverged && a.agents_stopped == 0.0, "{}", a.label);
    }
    let refused = format!("{ring}{BUDGET}");
    let refused = checked(&file(&refused, &["proxskip probability = 0.5"])).unwrap_err();
    assert!(refused.message.contains("train without privacy"), "{}", refused.message);
}

/// One partner a round, and trackers that add up bring everybody to the optimum all the same, for
/// weights average in every round.
#[test]
fn tracking_is_exact_over_matchings() {
    let tables = format!("{CURVED}[graph]\nkind = \"ring\"\n[conditions]\nlinks = \"matchings\"\n");
    let exact = ran(&file(&tables, &["atc-tracking rounds = 4000, step = 0.05"]));
    let gap = exact.record.algorithms[0].optimum_gap;
    assert!(gap < 1e-9, "{gap}");
}

/// Samples with a full gradient now and then are exact; so is acceleration where all agents have one
/// model, and it needs far fewer rounds than descent with the same step.
#[test]
fn sampled_and_accelerated_methods_reach_the_optimum() {
    let ring = "[graph]\nkind = \"ring\"\n";
    let kinds = ["gt-svrg rounds = 4000", "gt-svrg rounds = 4000, share = 0.3, period = 5"];
    let sampled = ran(&file(&format!("{CURVED}{ring}"), &kinds));
    for a in &sampled.record.algorithms {
        assert!(a.optimum_gap < 1e-9, "{}: {}", a.label, a.optimum_gap);
    }
    assert_ne!(sampled.models[0].agents, sampled.models[1].agents);
    let complete = "[objective]\nregularization = 1e-4\n[graph]\nkind = \"complete\"\n";
    let kinds = ["accelerated rounds = 120", "diffusion rounds = 120"];
    let fast = ran(&file(complete, &kinds));
    let [accelerated, descent] = &fast.record.algorithms[..] else { panic!("two algorithms") };
    let (fast, slow) = (accelerated.optimum_gap, descent.optimum_gap);
    assert!(fast < 0.1 * slow, "{fast} of {slow}");
    // A table of what records said last is exact as well, where samples without it are not.
    let kinds = [
        "privsgp-vr rounds = 4000, step = 0.2, batch = 0.2",
        "push-sum rounds = 4000, step = 0.2, batch = 0.2",
    ];
    let complete = format!("{CURVED}[graph]\nkind = \"complete\"\n");
    let corrected = ran(&file(&complete, &kinds));
    let [table, plain] = &corrected.record.algorithms[..] else { panic!("two algorithms") };
    let (table, plain) = (table.optimum_gap, plain.optimum_gap);
    assert!(table < 1e-3 * plain, "{table} of {plain}");
}

/// Budgets are kept by what shrinks, what is compressed and what is accelerated, over links that lead
/// one way where that is what they are for, and with samples drawn in secret.
#[test]
fn private_methods_of_the_board_keep_their_budgets() {
    let one_way = [
        "dyn-d2p",
        "dp-csgp",
        "push-sum batch = 0.2",
        "dp-csgp batch = 0.2",
        "privsgp-vr",
        "privsgp-vr batch = 0.2",
    ];
    let ring = "[graph]\nkind = \"ring\"\n";
    let both_ways = [
        "accelerated",
        "accelerated batch = 0.2",
        "dyn-d2p budget_growth = 1.0, clip_decay = 8.0",
        "gt-svrg",
        "gt-svrg batch = 0.2",
    ];
    for (graph, kinds) in [(ONE_WAY, &one_way[..]), (ring, &both_ways[..])] {
        let private = ran(&file(&format!("{graph}{BUDGET}"), kinds));
        let zero = private.record.baselines.zero_model.objective;
        for a in &private.record.algorithms {
            let claim = a.epsilon.as_ref().unwrap().claim;
            assert!(claim <= 4.0 && claim > 3.9, "{}: {claim}", a.label);
            assert!(!a.diverged && a.agents_stopped == 0.0, "{}", a.label);
            assert!(a.objective < zero, "{}: {} of {zero}", a.label, a.objective);
        }
    }
    // Messages of one of four numbers with its place (66 bits), and the weight.
    let sent =
        ran(&file(&format!("{ONE_WAY}[conditions]\nlatency_ms = 1.0\n"), &["dp-csgp rounds = 5"]));
    let traffic = sent.record.algorithms[0].traffic.unwrap();
    assert_eq!(traffic.bytes, traffic.messages * 17.0);
    let exponential = "[graph]\nkind = \"one-peer-exponential\"\n";
    let refused = checked(&file(exponential, &["dp-csgp"])).unwrap_err();
    assert!(refused.help.unwrap().contains("push-sum"), "{}", refused.message);
}

/// A token that walks learns what gossip learns, with one message a round.
#[test]
fn a_token_walks_among_agents_that_sleep() {
    let tables = "[graph]\nkind = \"ring\"\n[conditions]\nlinks = \"walk\"\nlatency_ms = 1.0\n";
    let text = file(&format!("{CURVED}{tables}"), &["diffusion rounds = 800, step = 0.2"]);
    let walked = ran(&text);
    assert_eq!(walked.models, ran(&text).models, "a function of the seed");
    let a = &walked.record.algorithms[0];
    let all = walked.record.baselines.zero_model.objective - (a.objective - a.optimum_gap);
    assert!(a.optimum_gap < 0.2 * all, "{} of {all}", a.optimum_gap);
    // On a ring of equal degrees the token never stays: one message a round.
    assert_eq!(a.traffic.unwrap().messages, 800.0);
    let refused =
        |tables: &str, kind: &str| checked(&file(tables, &[kind])).unwrap_err().help.unwrap();
    assert!(refused(tables, "dgd").contains("diffusion"));
    assert!(refused(&format!("{tables}asleep = 0.1\n"), "diffusion").contains("one-edge"));
}

/// Eight agents on a ring send sixteen vectors of four numbers in a round.
#[test]
fn messages_bytes_and_seconds_stand_beside_rounds() {
    let ring = "[graph]\nkind = \"ring\"\n[conditions]\nlatency_ms = 20\nbandwidth_mbit = 1\n";
    let counted = ran(&file(ring, &["dgd rounds = 10"]));
    let algorithm = &counted.record.algorithms[0];
    let traffic = algorithm.traffic.expect("it is counted");
    assert_eq!((traffic.messages, traffic.bytes), (160.0, 160.0 * 32.0));
    // Two messages of 32 bytes at 125,000 bytes a second, after 20 ms, ten times.
    let seconds = 10.0 * (0.02 + 64.0 / 125_000.0);
    assert!((traffic.seconds.unwrap() - seconds).abs() < 1e-12, "{traffic:?}");
    let last = algorithm.curve.last().unwrap().sent.expect("the curve has it");
    assert_eq!(last, traffic);
    let mut trace = Vec::new();
    counted.record.write_trace(&mut trace).unwrap();
    let trace = String::from_utf8(trace).unwrap();
    assert!(trace.lines().next().unwrap().ends_with(",messages,bytes,seconds"), "{trace}");
    assert!(trace.lines().nth(1).unwrap().ends_with(",0,0,0"), "{trace}");
    let sign = format!("{ring}compression = {{ kind = \"sign\" }}\n");
    let sign = ran(&file(&sign, &["dgd rounds = 10"]));
    assert_eq!(sign.record.algorithms[0].traffic.unwrap().bytes, 160.0 * 9.0);
    let plain = ran(&file("[graph]\nkind = \"ring\"\n", &["dgd"]));
    assert_eq!(plain.record.algorithms[0].traffic, None, "it is asked for");
}

/// `kind = "dgd"` with `data.encoding = "scouted"` is how files of before write it.
#[test]
fn scouted_training_has_a_name_of_its_own_and_is_the_same_by_the_old_one() {
    let text = consenso_study::experiment::built_in("adult-scouted").unwrap();
    let read = |text: &str| ExperimentSpec::from_toml(text, "adult-scouted");
    let (new, old) = (text, text.replace("kind = \"scouted\"", "kind = \"dgd\""));
    assert_ne!(new, old);
    let (new, mut old) = (read(new).unwrap(), read(&old).unwrap());
    old.algorithm[0].insert("label".into(), "scouted".into());
    assert_eq!(new.to_toml(), old.to_toml());
    let open = text.replace("encoding = \"scouted\"", "");
    assert_eq!(read(&open).unwrap().to_toml(), new.to_toml(), "the kind says so");
    let other = text.replace("encoding = \"scouted\"", "encoding = \"one-hot\"");
    let refused = read(&other).unwrap_err().to_string();
    assert!(refused.contains("leave data.encoding out"), "{refused}");
}
