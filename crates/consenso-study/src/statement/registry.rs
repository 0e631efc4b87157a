//! An entry of the registry of deployments (registry.opendp.org), with the fields of its three
//! tiers. The names of the fields and the words of its lists are the registry's.

use super::{Answer, Answers, Facts, Field, Section};
use consenso_engine::privacy::printed_up;
use serde_json::{Value, json};

pub(super) fn sections(facts: &Facts, answers: &Answers) -> Vec<Section> {
    vec![
        entry(facts),
        basic(facts, answers),
        variant(facts),
        loss(facts),
        model(facts, answers),
        accounting(facts),
        implementation(facts, answers),
        administrative(facts, answers),
    ]
}

fn known(key: &str, question: &str, tier: u8, answer: impl Into<Value>) -> Field {
    Field::known(&format!("deployment.{key}"), question, answer).tier(tier)
}

fn asked(key: &str, question: &str, tier: u8, answer: Answer) -> Field {
    Field::new(&format!("deployment.{key}"), question, answer).tier(tier)
}

fn entry(facts: &Facts) -> Section {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let whose = facts.site.as_ref().map_or(String::new(), |site| format!("-{site}"));
    let slug: String = format!("{}{whose}", facts.name).chars().map(plain).collect();
    Section::new(
        "Entry",
        [
            Field::known("url_slug", "Name in the registry's address", slug),
            Field::known("status", "Status", "Draft"),
            Field::known("tier", "Tier", 3),
        ],
    )
}

fn basic(facts: &Facts, answers: &Answers) -> Section {
    let date = match (answers.to("published"), &facts.date) {
        (Answer::Open { .. }, Some(date)) => Answer::Known(json!(date)),
        (answer, _) => answer,
    };
    let description = format!("{}, trained by {}.", capital(&facts.task), facts.size);
    Section::new(
        "Basic",
        [
            known("basic.name", "Name of the data product", 1, facts.name.clone()),
            asked("basic.data_curators", "Who publishes it", 1, answers.to("curators")),
            asked("basic.intended_use", "Intended use", 1, answers.to("intended_use")),
            known("basic.data_product_type", "Kind of product", 1, "Machine learning model"),
            asked("basic.data_product_region", "Region and law", 1, answers.to("region")),
            known("basic.description", "Description", 1, description),
            asked("basic.publication_date", "Date of publication", 1, date),
            asked("basic.data_product_sector", "Sector", 1, answers.to("sector")),
        ],
    )
}

fn variant(facts: &Facts) -> Section {
    let name = if facts.is_pure() { "Pure DP" } else { "Approximate DP" };
    let columns = match facts.columns.is_empty() {
        true => "the columns of the public schema".to_owned(),
        false => facts.columns.join("; "),
    };
    Section::new(
        "Variant of differential privacy",
        [
            known("dp_variant.variant_name", "Variant", 2, name),
            known(
                "dp_variant.data_domain",
                "Data sets that are protected",
                3,
                format!(
                    "Every table with the announced number of records whose cells the public \
                     schema allows; numbers outside their range are moved to its edge. Columns: \
                     {columns}."
                ),
            ),
            known(
                "dp_variant.unprotected_quantities",
                "What is not protected",
                3,
                facts.named(UNPROTECTED),
            ),
        ],
    )
}

/// What everybody may know, in every study.
pub(super) const UNPROTECTED: &str = "The number of records of every agent, who takes part, the \
    graph of who talks to whom, the schema with its ranges and levels, all parameters, and when \
    messages are sent.";

fn loss(facts: &Facts) -> Section {
    let first = facts.first();
    let total = facts.total.unwrap_or_else(|| first.spent());
    let up = |value: f64| printed_up(value, 6).parse::<f64>().unwrap_or(value);
    let mut fields = vec![
        known("privacy_loss.privacy_unit", "Unit of privacy", 2, super::nist::unit(facts)),
        known(
            "privacy_loss.privacy_unit_details",
            "Neighbouring data sets",
            3,
            facts.named(&format!(
                "{}; at one agent, and all else stays as it is.",
                first.neighbours
            )),
        ),
        known("privacy_loss.privacy_parameters.epsilon", "ε", 2, up(total.epsilon)),
    ];
    if !facts.is_pure() {
        fields.push(known("privacy_loss.privacy_parameters.delta", "δ", 2, total.delta));
    }
    fields.push(known(
        "privacy_loss.privacy_parameters_details",
        "ε and δ in detail",
        3,
        facts.costs(),
    ));
    Section::new("Privacy loss", fields)
}

fn model(facts: &Facts, answers: &Answers) -> Section {
    let first = facts.first();
    let who = match &facts.site {
        Some(site) => format!("Site {site} and its neighbours: {}.", facts.others.join(", ")),
        None => "The agents of the study.".to_owned(),
    };
    let releases = if facts.studies.len() > 1 { "Many releases" } else { "One release" };
    Section::new(
        "Deployment model",
        [
            known("deployment_model.model_name", "Model", 2, "Federated"),
            known(
                "deployment_model.model_name_details",
                "Model in detail",
                3,
                "No server and no trusted collector: each organisation holds its own records, \
                 adds noise to what it computes from them, charges it to its budget, and only \
                 then sends it to its neighbours on a graph.",
            ),
            known(
                "deployment_model.actors",
                "Who sees what",
                3,
                format!(
                    "{who} The claim holds against this adversary: {}.",
                    facts.named(&first.adversary)
                ),
            ),
            known("deployment_model.release_type", "Releases", 2, releases),
            asked("deployment_model.release_type_details", "Further use", 3, answers.to("plans")),
            known("deployment_model.data_source_type", "Records", 2, "Static"),
            known("deployment_model.access_type", "Access", 2, "Non-interactive"),
            known(
                "deployment_model.access_type_details",
                "Access in detail",
                3,
                "Rounds, noise and parameters are fixed before the first message; nobody asks \
                 questions of the records while it runs.",
            ),
        ],
    )
}

fn accounting(facts: &Facts) -> Section {
    let first = facts.first();
    Section::new(
        "Accounting",
        [
            known(
                "accounting.post_processing",
                "After the noise",
                3,
                facts.named(
                    "Mixing of released vectors among neighbours and the mean over agents; both \
                     are functions of what was released and cost nothing.",
                ),
            ),
            known(
                "accounting.composition",
                "Composition",
                3,
                format!("{}. {}", first.method, facts.costs()),
            ),
        ],
    )
}

fn implementation(facts: &Facts, answers: &Answers) -> Section {
    Section::new(
        "Implementation",
        [
            asked(
                "implementation.preprocessing_and_hyperparameter_tuning",
                "Preparation and tuning",
                3,
                answers.to("preparation"),
            ),
            known("implementation.mechanisms", "Mechanisms", 3, super::nist::mechanisms(facts)),
            asked("implementation.justification", "Justification", 3, answers.to("justification")),
        ],
    )
}

fn administrative(facts: &Facts, answers: &Answers) -> Section {
    Section::new(
        "Administration",
        [
            known("administrative.sources", "Sources", 1, facts.evidence.clone()),
            known("administrative.notes", "Notes", 1, notes(facts)),
            asked("administrative.registry_authors", "Authors", 1, answers.to("authors")),
        ],
    )
}

fn notes(facts: &Facts) -> String {
    let mut all = vec![facts.about()];
    all.extend(facts.caveats().iter().map(|caveat| format!("Caveat: {}.", facts.named(caveat))));
    all.join(" ")
}

pub(super) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |c| c.to_uppercase().chain(letters).collect())
}
