use super::*;
use consenso_engine::privacy::{Claim, Event, NeighbourRelation, compose};
use serde_json::json;

fn facts() -> Facts {
    let composition = compose(&[Event::gaussian(0.02, 100)], 1e-6).unwrap();
    let relation = NeighbourRelation::ReplaceOne;
    let claim = Claim::from_composition(composition, relation, "exact Gaussian").unwrap();
    let claim = claim.with_caveat("numbers of records are public");
    Facts {
        name: "Wards & beds".into(),
        site: Some("a".into()),
        others: vec!["b".into(), "c".into()],
        date: Some("2026-01-31".into()),
        software: "consenso 0.1.0".into(),
        task: "a linear model of \"stay\" with the logistic loss".into(),
        size: "3 sites".into(),
        columns: vec!["age (number, 0 to 110)".into()],
        total: Some(Spent { epsilon: claim.epsilon, delta: claim.delta }),
        studies: vec![StudyFacts::claimed("study 1", &claim)],
        evidence: "the ledger".into(),
        ..Facts::default()
    }
}

const FORMATS: [Format; 4] = [Format::Registry, Format::Nist, Format::Card, Format::Text];

/// What a document may hold, by the rules of JSON Schema that `schemas/` uses.
fn violations(schema: &Value, value: &Value, at: &str, out: &mut Vec<String>) {
    if let Some(reference) = schema["$ref"].as_str() {
        panic!("{reference}: these schemas refer to nothing");
    }
    let fits = |kind: &str| match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_u64(),
        "number" => value.is_number(),
        other => panic!("{other}: unknown type"),
    };
    let kinds: Vec<&str> = match &schema["type"] {
        Value::String(kind) => vec![kind],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if !kinds.is_empty() && !kinds.iter().any(|kind| fits(kind)) {
        out.push(format!("{at}: is not {kinds:?}"));
    }
    if let Some(words) = schema["enum"].as_array()
        && !words.contains(value)
    {
        out.push(format!("{at}: {value} is not one of {words:?}"));
    }
    if schema["format"] == "date" && !value.as_str().is_some_and(super::questions::is_date) {
        out.push(format!("{at}: {value} is no date"));
    }
    if let Some(least) = schema["minItems"].as_u64()
        && value.as_array().is_some_and(|all| (all.len() as u64) < least)
    {
        out.push(format!("{at}: has fewer than {least}"));
    }
    for one in value.as_array().into_iter().flatten() {
        violations(&schema["items"], one, &format!("{at}[]"), out);
    }
    for required in schema["required"].as_array().into_iter().flatten() {
        let key = required.as_str().unwrap_or_default();
        if value.get(key).is_none() {
            out.push(format!("{at}: {key} is missing"));
        }
    }
    for (key, inner) in value.as_object().into_iter().flatten() {
        match schema["properties"].get(key) {
            Some(schema) => violations(schema, inner, &format!("{at}/{key}"), out),
            None if schema["additionalProperties"] == false => {
                out.push(format!("{at}: {key} is not known"));
            }
            None => {}
        }
    }
}

fn schema(format: Format) -> Value {
    let text = match format {
        Format::Registry => include_str!("../../schemas/registry.json"),
        _ => include_str!("../../schemas/statement.json"),
    };
    serde_json::from_str(text).expect("a schema")
}

#[test]
fn a_registry_entry_has_the_registrys_fields_and_words() {
    let statement = Format::Registry.statement(&facts(), &Answers::default());
    let document = statement.document();
    let mut found = Vec::new();
    violations(&schema(Format::Registry), &document, "", &mut found);
    assert_eq!(found, Vec::<String>::new(), "{document:#}");
    let tiers: Vec<u8> =
        statement.sections.iter().flat_map(|s| &s.fields).filter_map(|f| f.tier).collect();
    assert!([1, 2, 3].iter().all(|tier| tiers.contains(tier)));
    // The check would notice: a word that the registry does not know, a key too many.
    let mut wrong = document;
    wrong["deployment"]["basic"]["data_product_type"] = json!("Model");
    wrong["deployment"]["basic"]["mood"] = json!("good");
    let mut found = Vec::new();
    violations(&schema(Format::Registry), &wrong, "", &mut found);
    assert_eq!(found.len(), 2, "{found:?}");
}

#[test]
fn every_statement_fits_its_schema_and_reads_back() {
    for format in FORMATS {
        let statement = format.statement(&facts(), &Answers::default());
        let value = serde_json::to_value(&statement).unwrap();
        let mut found = Vec::new();
        violations(&schema(Format::Text), &value, "", &mut found);
        assert_eq!(found, Vec::<String>::new());
        assert_eq!(serde_json::from_value::<Statement>(value).unwrap(), statement);
    }
}

#[test]
fn what_is_open_is_marked_in_every_form_and_an_answer_closes_it() {
    let answers = Answers::parse(
        "intended_use = \"Planning\"\nsector = \"Healthcare\"\ncurators = [\"A\", \"B\"]",
        "answers.toml",
    )
    .unwrap();
    for format in FORMATS {
        let (before, after) =
            (format.statement(&facts(), &Answers::default()), format.statement(&facts(), &answers));
        assert!(after.open().len() < before.open().len() || format == Format::Nist);
        assert!(text(&before).contains("▢ OPEN (") && html(&before, "").contains("class=\"open\""));
        assert!(
            !before.open().is_empty() && text(&before).lines().all(|l| l.chars().count() < 120)
        );
    }
    let entry = Format::Registry.statement(&facts(), &answers);
    let basic = &entry.document()["deployment"]["basic"];
    assert_eq!(basic["intended_use"], "Planning");
    assert!(basic["data_product_region"].as_str().unwrap().starts_with(OPEN));
    assert!(
        html(&entry, "").contains("class=\"stated\"") && html(&entry, "").contains("&amp; beds")
    );
}

#[test]
fn answers_that_nobody_asked_for_are_refused_with_the_keys_there_are() {
    let refused = |text: &str| Answers::parse(text, "answers.toml").unwrap_err().to_string();
    assert!(refused("epsilon = 0.1").contains("no question has this key"));
    assert!(refused("sector = \"Farming\"").contains("one of Technology, Healthcare"));
    assert!(refused("published = \"31.1.2026\"").contains("2026-01-31"));
    assert!(refused("curators = \"A\"").contains("a list of texts"));
    assert!(refused("intended_use = \"\"").contains("answers.toml: intended_use: must be a text"));
    // The file that is to be filled in is one that can be read.
    assert_eq!(Answers::parse(&questions(), "answers.toml").unwrap(), Answers::default());
}

#[test]
fn numbers_in_yaml_are_numbers_to_old_readers_and_never_below_the_claim() {
    let facts = facts();
    let statement = Format::Registry.statement(&facts, &Answers::default());
    let yaml = yaml(&statement);
    assert!(yaml.contains("delta: 1.0e-6\n"), "{yaml}");
    let epsilon: f64 =
        yaml.split("epsilon: ").nth(1).unwrap().lines().next().unwrap().parse().unwrap();
    assert!(epsilon >= facts.studies[0].epsilon && epsilon < facts.studies[0].epsilon * 1.001);
}

#[test]
fn nothing_is_stated_of_records_that_may_not_be_shared() {
    for kind in ["seeded", "private", "unprotected"] {
        assert!(Facts::of_record(&json!({ "kind": kind }), None).is_err(), "{kind}");
    }
    let unclaimed = json!({ "kind": "simulation", "algorithms": [{ "label": "gd" }] });
    assert!(Facts::of_record(&unclaimed, None).is_err());
}

/// The exact figures of Gaussian noise, from the likelihood-ratio test of two normal distributions
/// that are μ = 0.2 apart: Φ(μ/2) = 0.5398, and Φ(Φ⁻¹(0.01) + μ) = 0.0167.
#[test]
fn gaussian_noise_is_told_by_its_own_curve_and_other_noise_is_not() {
    let facts = facts();
    let told = |facts: &Facts| text(&Format::Text.statement(facts, &Answers::default()));
    let words = told(&facts).split_whitespace().collect::<Vec<_>>().join(" ");
    let exact = words.split("which this is, allows less: right ").nth(1).expect("Gaussian");
    let figures: Vec<f64> = exact.split(' ').filter_map(|word| word.parse().ok()).take(2).collect();
    assert!(figures[0] >= 53.98 && figures[0] < 54.1, "{figures:?}");
    assert!(figures[1] >= 1.67 && figures[1] < 1.75, "{figures:?}");
    // Several studies that were not added up by Σ μ², and noise that is not Gaussian, say less.
    let mut two = facts.clone();
    two.studies.push(two.studies[0].clone());
    two.total = Some(Spent { epsilon: 9.0, delta: 1e-6 });
    assert!(!told(&two).contains("which this is"));
    let mut laplace = facts;
    laplace.studies[0].method = "pld — privacy loss distribution".into();
    assert!(!told(&laplace).contains("which this is"));
}

#[test]
fn a_site_is_called_one_and_a_limit_that_is_reached_is_said() {
    let mut facts = facts();
    facts.studies[0].adversary = "every other agent colludes".into();
    facts.limit = facts.total;
    facts.remaining = Some(Spent { epsilon: 0.0, delta: 0.0 });
    for format in FORMATS {
        let words = text(&format.statement(&facts, &Answers::default()));
        let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(!words.contains("agent"), "{words}");
        assert!(!words.contains("an site"), "{words}");
        assert!(words.contains("nothing is left"), "{words}");
        let page = html(&format.statement(&facts, &Answers::default()), "");
        let said = page.split("<pre>").next().unwrap_or_default();
        assert!(said.contains("<code>consenso privacy explain") && !said.contains('`'), "{said}");
    }
    facts.remaining = Some(Spent { epsilon: 0.5, delta: 1e-7 });
    assert!(facts.costs().contains("left: ε = 0.5000, δ = 1e-7"), "{}", facts.costs());
}
