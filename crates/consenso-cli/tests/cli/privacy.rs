//! `consenso privacy`.

use crate::Place;

fn close(value: &serde_json::Value, expected: f64, relative: f64) {
    let value = value.as_f64().unwrap_or(f64::NAN);
    assert!((value - expected).abs() <= relative * expected.abs(), "{value} is not {expected}");
}

const MIXTURE: [&str; 7] = ["privacy", "gamma", "--omega", "0.1", "--beta", "10", "--json"];

#[test]
fn gamma_three_ways() {
    let place = Place::new("gamma");
    let value = place.consenso(&[&MIXTURE[..], &["--shift", "0.01"]].concat()).json();
    close(&value["exact"], 0.821_708_34, 1e-7);
    let (exact, bound) = (value["exact"].as_f64().unwrap(), value["bound"].as_f64().unwrap());
    assert!(value["printed"].is_number() && bound >= exact && bound <= 1.0);
    // The closed form of the paper needs a shift below the width.
    let value = place.consenso(&[&MIXTURE[..], &["--shift", "0.2"]].concat()).json();
    assert!(value["printed"].is_null() && value["exact"].is_number());
}

#[test]
fn loss_and_renyi() {
    let place = Place::new("loss");
    let mixture = ["--omega", "0.1", "--beta", "10", "--shift", "0.01"];
    let middle = place
        .consenso(&[&["privacy", "loss"], &mixture[..], &["--x", "0.05", "--json"]].concat())
        .json();
    let outside = place
        .consenso(&[&["privacy", "loss"], &mixture[..], &["--x", "-1.5", "--json"]].concat())
        .json();
    close(&middle["worst"], 0.1, 1e-9);
    close(&outside["loss"], 0.1, 1e-9);
    assert!(middle["loss"].as_f64() < outside["loss"].as_f64());
    let cost = place
        .consenso(&[&["privacy", "renyi"], &mixture[..], &["--order", "2", "--json"]].concat())
        .json();
    let cost = cost["cost"].as_f64().unwrap();
    assert!(cost > 0.0 && cost < 0.01, "below the Laplace mechanism's, {cost}");
}

#[test]
fn compose_by_every_method() {
    let place = Place::new("compose");
    place.write("laplace.json", r#"[{"mechanism":"laplace","epsilon":0.01,"count":1400}]"#);
    let value = place
        .consenso(&["privacy", "compose", "--events", "laplace.json", "--delta", "1e-6", "--json"])
        .json();
    close(&value["pure"], 14.0, 1e-9);
    close(&value["pld"], 1.6369, 1e-3);
    for key in ["advanced", "kov", "zcdp", "rdp"] {
        assert!(value[key].as_f64() >= value["pld"].as_f64(), "{key}");
    }
    assert_eq!(value["best"]["method"], "pld");
    place.write("mixed.json", r#"[{"mechanism":"gaussian","mu":0.02,"count":1000}]"#);
    let value = place
        .consenso(&["privacy", "compose", "--events", "mixed.json", "--delta", "1e-6", "--json"])
        .json();
    assert!(["pure", "advanced", "kov"].iter().all(|key| value[key].is_null()));
    assert!(value["reasons"]["pure"].is_string());
    let text =
        place.consenso(&["privacy", "compose", "--events", "mixed.json", "--delta", "1e-6"]).stdout;
    assert!(text.contains("pure      –") && text.contains("best      ε ="), "{text}");
}

#[test]
fn calibrated_noise_spends_the_budget_and_not_more() {
    let place = Place::new("calibrate");
    let budget = [
        "privacy",
        "calibrate",
        "--epsilon",
        "1",
        "--delta",
        "1e-6",
        "--rounds",
        "50",
        "--dim",
        "20",
    ];
    let value =
        place.consenso(&[&budget[..], &["--sensitivity-l2", "0.001", "--json"]].concat()).json();
    let spent = value["spent"]["epsilon"].as_f64().unwrap();
    assert!(spent > 0.99 && spent <= 1.0, "{spent}");
    assert_eq!(
        (value["schedule"].as_array().unwrap().len(), &value["mechanism"]),
        (50, &"gaussian".into())
    );
    // The noise, composed from scratch, costs what was said.
    let sigma = value["schedule"][0].as_f64().unwrap();
    place.write(
        "events.json",
        &format!(r#"[{{"mechanism":"gaussian","mu":{},"count":50}}]"#, 0.001 / sigma),
    );
    let again = place
        .consenso(&["privacy", "compose", "--events", "events.json", "--delta", "1e-6", "--json"])
        .json();
    close(&again["best"]["epsilon"], spent, 1e-6);
    let laplace =
        [&budget[..], &["--sensitivity-l1", "0.001", "--mechanism", "laplace", "--json"]].concat();
    assert_eq!(place.consenso(&laplace).json()["mechanism"], "laplace");
}

#[test]
fn an_epsilon_is_explained_as_odds_and_for_a_membership_attacker() {
    let place = Place::new("explain");
    let value = place
        .consenso(&["privacy", "explain", "--epsilon", "1", "--delta", "1e-6", "--json"])
        .json();
    close(&value["odds"], 1f64.exp(), 1e-9);
    close(&value["right_guess"], (1f64.exp() + 1e-6) / (1.0 + 1f64.exp()), 1e-9);
    close(&value["membership"][2]["detected_at_most"], 0.01 * 1f64.exp() + 1e-6, 1e-9);
    close(&value["beliefs"][2]["after_at_most"], 0.731_058_58, 1e-7);
    close(&value["groups"][0]["epsilon"], 2.0, 1e-9);
    assert!(value["groups"][2]["epsilon"].is_number());
    // δ is not the chance that odds pass e^ε: 2.0e-5 at ε = 1, δ = 1e-6.
    close(&value["gaussian"]["beyond_odds"], 2.0e-5, 0.02);
    assert!(value["gaussian"]["right_guess"].as_f64() < value["right_guess"].as_f64());
    let text = place.consenso(&["privacy", "explain", "--epsilon", "1"]).stdout;
    assert!(
        text.contains("2.719")
            && text.contains("73.11 %")
            && text.contains("1 % accused wrongly: at most 2.719 % found"),
        "{text}"
    );
    let curve = value["gaussian"]["curve"].as_array().expect("a curve");
    let detected = |k: usize| curve[k]["detected_at_most"].as_f64().expect("a number");
    assert!(curve.len() > 60 && (1..curve.len()).all(|k| detected(k) >= detected(k - 1)));
    let asked = ["privacy", "explain", "--epsilon", "1", "--delta", "1e-6", "--html", "e.html"];
    assert_eq!(place.consenso(&asked).code, 0);
    let page = place.read("e.html");
    for part in [
        "73.11 %",
        "2.02e-5, which is 20.2 times δ",
        "<svg",
        "Gaussian noise with this claim",
        "a coin",
    ] {
        assert!(page.contains(part), "{part} is not on the page");
    }
    place.consenso(&["privacy", "explain", "--epsilon=-1"]).refused(&["--epsilon -1"]);
    place
        .consenso(&["privacy", "explain", "--epsilon", "1", "--delta", "1"])
        .refused(&["--delta 1"]);
}

#[test]
fn questions_without_an_answer_are_refused() {
    let place = Place::new("privacy_bad");
    let bad = |arguments: &[&str], parts: &[&str]| place.consenso(arguments).refused(parts);
    bad(&["privacy", "gamma", "--omega", "-1", "--beta", "1", "--shift", "1"], &["width", "-1"]);
    bad(&["privacy", "gamma", "--omega", "1", "--beta", "0", "--shift", "1"], &["positive", "0"]);
    bad(&["privacy", "gamma", "--omega", "1", "--beta", "NaN", "--shift", "1"], &["NaN"]);
    bad(
        &["privacy", "renyi", "--omega", "1", "--beta", "1", "--shift", "1", "--order", "1"],
        &["above 1"],
    );
    bad(
        &["privacy", "compose", "--events", "gone.json", "--delta", "1e-6"],
        &["gone.json: cannot be read"],
    );
    place.write("events.json", r#"[{"mechanism":"laplace","epsilon":0.1},{"mechanism":"magic"}]"#);
    bad(
        &["privacy", "compose", "--events", "events.json", "--delta", "1e-6"],
        &["events.json", "event 1", "magic"],
    );
    place.write("events.json", "[]x");
    bad(
        &["privacy", "compose", "--events", "events.json", "--delta", "1e-6"],
        &["events.json", "not valid JSON"],
    );
    place.write("events.json", r#"[{"mechanism":"laplace","epsilon":0.1}]"#);
    bad(&["privacy", "compose", "--events", "events.json", "--delta", "0"], &["delta", "0"]);
    let budget = ["privacy", "calibrate", "--delta", "1e-6", "--dim", "20", "--epsilon"];
    let with = |rest: &[&str], parts: &[&str]| bad(&[&budget[..], rest].concat(), parts);
    with(&["1", "--rounds", "5"], &["--sensitivity-l1"]);
    with(&["-1", "--rounds", "5", "--sensitivity-l2", "1"], &["epsilon", "-1"]);
    with(&["1", "--rounds", "0", "--sensitivity-l2", "1"], &["--rounds"]);
    with(&["1", "--rounds", "5", "--sensitivity-l2", "0"], &["sensitivity l2"]);
}

#[test]
fn a_statement_of_a_run_is_filled_in_and_says_what_is_open() {
    let place = Place::new("statement");
    place.write("small.toml", crate::SMALL);
    let set = ["--set", "privacy.epsilon=1", "--set", "privacy.delta=1e-6"];
    let ran =
        place.consenso(&[&["run", "small.toml", "--out", "out", "--json"], &set[..]].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let statement = ["privacy", "statement", "out", "--format"];
    let value = place.consenso(&[&statement[..], &["registry", "--json"]].concat()).json();
    let entry = &value["document"]["deployment"];
    assert_eq!(entry["basic"]["name"], "small");
    assert!(entry["privacy_loss"]["privacy_parameters"]["epsilon"].as_f64() >= Some(1.0 - 1e-9));
    assert!(value["open"].as_array().unwrap().contains(&"intended_use".into()));
    assert!(value["statement"]["about"].as_str().unwrap().contains("protects nobody"));
    // One file of answers serves every paper.
    let asked = place.consenso(&["privacy", "statement", "--questions"]);
    assert!(asked.stdout.contains("# legal_basis = \"\""), "{}", asked.stdout);
    place.write("answers.toml", "intended_use = \"Planning of beds\"\n");
    for paper in ["registry", "nist", "card", "text"] {
        let shown = place.consenso(
            &[&statement[..], &[paper, "--answers", "answers.toml", "--html", "page.html"]]
                .concat(),
        );
        assert_eq!(shown.code, 0, "{}", shown.stderr);
        assert!(place.read("page.html").contains("class=\"open\""), "{paper}");
        let text = place
            .consenso(&[&statement[..], &[paper, "--answers", "answers.toml"]].concat())
            .stdout;
        assert!(text.contains("Planning of beds") || paper == "nist", "{paper}: {text}");
    }
    place.write("answers.toml", "epsilon = 0.1\n");
    place.consenso(&[&statement[..], &["text", "--answers", "answers.toml"]].concat()).refused(&[
        "answers.toml",
        "epsilon",
        "intended_use",
    ]);
    place.consenso(&["privacy", "statement", "nowhere"]).refused(&["nowhere", "help:"]);
}
