//! Answers along NIST SP 800-226, Guidelines for Evaluating Differential Privacy Guarantees (2025):
//! its pyramid from the guarantee at the top to the collection of data at its base. The questions
//! are ours, one for each subject of the publication.

use super::{Answers, Facts, Field, Section};

pub(super) fn sections(facts: &Facts, answers: &Answers) -> Vec<Section> {
    vec![
        guarantee(facts, answers),
        algorithms(facts, answers),
        deployment(facts),
        base(facts, answers),
    ]
}

/// Who is protected.
pub(super) fn unit(facts: &Facts) -> String {
    let person = facts.caveats().iter().any(|c| c.contains("the claim is about a person"));
    facts.named(match person {
        true => {
            "A person: all records that they have at one agent, up to the number that the schema \
             states."
        }
        false => {
            "One record of one agent. A person with several records at one agent has less \
             protection: with k records at least k times ε, and more where δ is above 0 \
             (`consenso privacy explain` has the figures)."
        }
    })
}

/// How noise is made and kept from attacks on its implementation.
pub(super) fn mechanisms(facts: &Facts) -> String {
    let mut kinds: Vec<&str> = Vec::new();
    for study in &facts.studies {
        if !study.sampler.is_empty() && !kinds.contains(&study.sampler.as_str()) {
            kinds.push(&study.sampler);
        }
    }
    format!(
        "Noise: {}. Library: {}, open source. Floating point: noise and values lie on a public \
         grid and are decided as if in real arithmetic, so that the low digits tell nothing. \
         Every message is charged to a budget before it is drawn.",
        kinds.join("; "),
        facts.software
    )
}

fn guarantee(facts: &Facts, answers: &Answers) -> Section {
    let first = facts.first();
    let variant = match facts.is_pure() {
        true => "Pure ε-differential privacy.",
        false => "(ε, δ)-differential privacy.",
    };
    Section::new(
        "The guarantee",
        [
            Field::known("epsilon", "What is ε, by release and in all?", facts.costs()),
            Field::known("variant", "Which variant of differential privacy?", variant),
            Field::known("unit", "What is the unit of privacy?", unit(facts)),
            Field::new(
                "records_per_person",
                "How many records can one person have?",
                answers.to("person"),
            ),
            Field::known(
                "neighbours",
                "Which data sets are neighbours: bounded or unbounded?",
                format!("{}.{}", first.neighbours, bounded(&first.neighbours)),
            ),
            Field::known("meaning", "What do the figures mean?", meaning(facts)),
            Field::known("proof", "Which theorem proves it?", proof(facts)),
            Field::new("choice", "Why these figures?", answers.to("justification")),
        ],
    )
}

/// What the publication calls a relation of neighbours that a claim names.
fn bounded(neighbours: &str) -> &'static str {
    match neighbours.split_whitespace().next() {
        Some("replace-one") => " Bounded: the number of records is the same in both.",
        Some("add-remove") => " Unbounded, but for the announced number of records.",
        _ => " Neither: the number of records is the same in both.",
    }
}

/// The theorem behind ε, and in which norm the influence of a record was bounded for it.
pub(super) fn proof(facts: &Facts) -> String {
    let norms: Vec<String> = facts.caveats().into_iter().filter(|c| is_proof(c)).collect();
    let all: Vec<String> = std::iter::once(facts.first().method.clone()).chain(norms).collect();
    format!("{}.", all.join("; "))
}

/// Whether a caveat says how ε was derived, and nothing that is left open.
fn is_proof(caveat: &str) -> bool {
    caveat.starts_with("sensitivity in the ")
}

/// What an ε means for the best attacker there can be.
pub(super) fn meaning(facts: &Facts) -> String {
    let total = facts.total.unwrap_or_else(|| facts.first().spent());
    let Some(meaning) = consenso_engine::privacy::Meaning::of(total.epsilon, total.delta) else {
        return "These figures protect from nothing.".into();
    };
    let percent = |share: f64| consenso_engine::privacy::printed_up(100.0 * share, 2);
    let exact = meaning.gaussian().filter(|_| facts.is_gaussian()).map_or(String::new(), |g| {
        format!(
            " Any mechanism with these figures keeps to that; Gaussian noise, which this is, \
             allows less: right {} % of the time, and {} % found.",
            percent(g.right_guess),
            percent(g.detection(0.01))
        )
    });
    format!(
        "For {}: somebody who knows everything but one record, and holds two possibilities for \
         it to be equally likely, is right at most {} % of the time (a coin: 50 %). Somebody who \
         says of people whether they are in the data, and is wrong about 1 % of those who are \
         not, finds at most {} % of those who are.{exact} \
         `consenso privacy explain --epsilon {} --delta {:e}` says more.",
        total.words(),
        percent(meaning.right_guess),
        percent(meaning.detection(0.01)),
        consenso_engine::privacy::printed_up(total.epsilon, 5),
        total.delta
    )
}

/// Whether the result may be given away, and what may not.
pub(super) fn publication(facts: &Facts) -> String {
    let files = match &facts.site {
        Some(_) => {
            "`consenso node model` shows it. The site's folder, with its key and `private/`, may \
             not be given away."
        }
        None => {
            "It is in `models/` of the run's folder. `private/`, and what the command printed, \
             may not be given away."
        }
    };
    format!(
        "Yes, as far as this claim goes: the model is computed from what was noised, charged and \
         sent, so that whoever sees it learns nothing beyond the figures above. {files} A model \
         that was fitted to a site's own records afterwards is not covered."
    )
}

fn algorithms(facts: &Facts, answers: &Answers) -> Section {
    let results = match facts.results.is_empty() {
        true => "No public test records were declared, so nothing is said of it here: results on \
                 the records themselves are private."
            .to_owned(),
        false => format!("{}.", facts.results.join(". ")),
    };
    Section::new(
        "Algorithms, correctness and utility",
        [
            Field::known(
                "algorithm",
                "What is computed?",
                format!("{}, by {}.", super::registry::capital(&facts.task), facts.size),
            ),
            Field::known(
                "mechanism",
                "Which mechanisms, and how are they made?",
                mechanisms(facts),
            ),
            Field::known(
                "sensitivity",
                "What bounds the influence of one record?",
                "Ranges and levels of the public schema, by which cells are clamped and encoded, \
                 and a bound on each record's gradient that follows from them or clips it.",
            ),
            Field::known("utility", "How useful is the result?", results),
            Field::new("bias", "Systemic and human bias", answers.to("bias")),
            Field::new("groups", "Is it worse for some groups?", answers.to("groups")),
            Field::new(
                "tuning",
                "Preparation and tuning: was it accounted for?",
                answers.to("preparation"),
            ),
            Field::known(
                "checked",
                "How can the claim be checked?",
                format!("{}.", super::registry::capital(&facts.evidence)),
            ),
        ],
    )
}

fn deployment(facts: &Facts) -> Section {
    let first = facts.first();
    Section::new(
        "Deployment",
        [
            Field::known(
                "query_model",
                "Query model",
                "Not interactive: rounds, noise and parameters are fixed before the first message.",
            ),
            Field::known(
                "trust_model",
                "Trust model: who is trusted with what?",
                format!(
                    "No curator: noise is added by whoever holds the records. Adversary: {}. \
                     The organisation itself, its computer and this program are trusted with its \
                     own records.",
                    facts.named(&first.adversary)
                ),
            ),
            Field::known(
                "side_channels",
                "Side channels",
                facts.named(
                    "Floating point: closed (grid, exact decisions). Randomness: ChaCha12 keyed \
                     by the operating system, unless a caveat says seeded. Timing: how long an \
                     agent computes is not hidden. Silence: whether an agent sends is decided \
                     from public numbers. Errors and results on private records stay with the \
                     operator.",
                ),
            ),
            Field::known(
                "unprotected",
                "What is released without protection?",
                facts.named(super::registry::UNPROTECTED),
            ),
            Field::known("publication", "May the result be given away?", publication(facts)),
            Field::known("not_covered", "What does the claim not cover?", not_covered(facts)),
        ],
    )
}

/// What no claim of this program covers, and what this one says besides.
pub(super) fn not_covered(facts: &Facts) -> String {
    let mut all = vec![
        "What is learned about people in general, whether or not they are in the records"
            .to_owned(),
        "records copied elsewhere without their ledger".into(),
        "parameters that somebody chose by looking at results on the records".into(),
        "an intruder at the organisation itself".into(),
    ];
    if facts.site.is_some() {
        all.push("somebody with records at two sites, who has the costs of both".into());
    }
    all.extend(facts.caveats().iter().filter(|c| !is_proof(c)).map(|c| facts.named(c)));
    format!("{}.", all.join("; "))
}

/// The columns that were read, with what is public about them.
pub(super) fn columns(facts: &Facts) -> String {
    match facts.columns.is_empty() {
        true => "The columns of the public schema.".to_owned(),
        false => format!("{}.", facts.columns.join("; ")),
    }
}

/// How messages are kept from others.
pub(super) fn transport(facts: &Facts) -> &'static str {
    match facts.site {
        Some(_) => {
            "Between sites: mutual TLS with pinned keys, every release signed. Records never \
             leave their site."
        }
        None => "The run was on one machine: nothing was sent over a network.",
    }
}

/// What becomes of somebody who wants their record deleted.
pub(super) fn erasure() -> &'static str {
    "A record that is deleted where it is kept is in no later study. What was sent and the model \
     stay as they are; what all of that tells about the record is bounded by the figures above."
}

fn base(facts: &Facts, answers: &Answers) -> Section {
    Section::new(
        "Security and collection of data",
        [
            Field::known("transport", "How is data in transit protected?", transport(facts)),
            Field::new("access", "Who has access to records and keys?", answers.to("access")),
            Field::new("incidents", "What if a key or a folder is lost?", answers.to("incidents")),
            Field::known("collected", "Which data is used?", columns(facts)),
            Field::new("categories", "Whose data, and of which kind?", answers.to("categories")),
            Field::new("collection", "How was it collected?", answers.to("collection")),
            Field::new("controllers", "Who is responsible?", answers.to("controllers")),
            Field::new("legal_basis", "On which legal basis?", answers.to("legal_basis")),
            Field::new("informed", "Were the people told?", answers.to("informed")),
            Field::new("processors", "Who else processes it?", answers.to("processors")),
            Field::new("transfer", "Where do messages go?", answers.to("transfer")),
            Field::new(
                "anonymity",
                "Are messages and model personal data?",
                answers.to("anonymity"),
            ),
            Field::new("assessment", "Was the risk assessed?", answers.to("assessment")),
            Field::new("retention", "How long is it kept?", answers.to("retention")),
            Field::known("erasure", "Can a record be deleted?", erasure()),
            Field::new("plans", "Will it be used again?", answers.to("plans")),
            Field::new("contact", "Whom to ask", answers.to("contact")),
        ],
    )
}
