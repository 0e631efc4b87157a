//! What goes with what: one table of everything that is refused because two things do not go
//! together, with the reason and what to do instead.
//!
//! An algorithm says what it needs and offers ([`Capabilities`]), an experiment what it asks for; a
//! rule looks at both. Values of single keys are checked where the key is read. `docs/combinations.md`
//! shows these rules, and the verdicts of the real check on every combination.

use super::check::Experiment;
use super::shared::ExchangeKind;
use super::source::Source;
use super::spec::{AlgorithmSpec, ClassWeight, ExperimentSpec, Threshold};
use crate::account::{Accounting, CalibratedSpec, NoiseKind, NoiseSpec, PrivacySpec};
use crate::config_error::ConfigError;
use crate::data::{Encoding, Kind, RecordKeys};
use crate::graph::GraphSpec;
use crate::privacy::NeighbourRelation;
use crate::problem::{Constraint, Loss, SiteWeights, WeightRule};
use crate::protocol::{Capabilities, MixRule, Needs, Scouting};
use crate::simulate::LinkPattern;

/// One thing that does not go with another.
#[derive(Clone, Copy)]
pub(super) struct Rule<F> {
    /// The key at fault; dots lead into tables.
    key: &'static str,
    /// What does not go together.
    what: &'static str,
    /// Whether it is asked for.
    applies: F,
    /// Why it is refused. `{kind}`, `{exchange}` and `{agents}` stand for what was asked.
    because: &'static str,
    /// What to do instead.
    instead: &'static str,
    /// Whether all is well-formed, and only the privacy that is asked for cannot be promised.
    claim: bool,
}

type OfStudy = fn(&StudyCombination<'_>) -> bool;
type OfAlgorithm = fn(&Combination<'_>) -> bool;
type OfRun = fn(&Experiment) -> bool;

/// A rule about the study as a whole.
const fn study(
    key: &'static str,
    what: &'static str,
    applies: OfStudy,
    because: &'static str,
    instead: &'static str,
) -> Rule<OfStudy> {
    Rule { key, what, applies, because, instead, claim: false }
}

/// A rule about one algorithm of a study.
const fn algorithm(
    key: &'static str,
    what: &'static str,
    applies: OfAlgorithm,
    because: &'static str,
    instead: &'static str,
) -> Rule<OfAlgorithm> {
    Rule { key, what, applies, because, instead, claim: false }
}

/// A rule about one way to run a study that is sound.
const fn run(
    key: &'static str,
    what: &'static str,
    applies: OfRun,
    because: &'static str,
    instead: &'static str,
) -> Rule<OfRun> {
    Rule { key, what, applies, because, instead, claim: false }
}

impl<F> Rule<F> {
    const fn refusing_claim(mut self) -> Self {
        self.claim = true;
        self
    }

    fn refusal(&self, fill: impl Fn(&str) -> String) -> ConfigError {
        let refused = match self.key {
            "" => ConfigError::of(fill(self.because)),
            key => ConfigError::at(key, fill(self.because)),
        };
        let refused = refused.with_help(fill(self.instead));
        if self.claim { refused.refusing_claim() } else { refused }
    }
}

/// What a study asks for, before its algorithms are looked at.
pub(super) struct StudyCombination<'a> {
    pub(super) spec: &'a ExperimentSpec,
    pub(super) source: &'a dyn Source,
    pub(super) loss: &'a Loss,
    /// Whether the shares of both classes are public and positive.
    pub(super) shares: bool,
    /// Whether the records of one site alone are here.
    pub(super) site: bool,
}

impl StudyCombination<'_> {
    fn scouted(&self) -> bool {
        self.spec.data.encoding == Encoding::Scouted
    }

    fn of_files(&self) -> bool {
        self.source.dataset().is_some()
    }

    fn has_column(&self, of: fn(&Kind) -> bool) -> bool {
        let data = self.source.dataset();
        data.is_some_and(|data| data.schema.columns().iter().any(|c| of(&c.kind)))
    }

    fn has_exposure(&self) -> bool {
        self.has_column(|k| matches!(k, Kind::Exposure { .. }))
    }

    /// Whether lines stand for several records: one that is replaced moves the places of those
    /// behind it.
    fn has_frequencies(&self) -> bool {
        self.has_column(|k| matches!(k, Kind::Frequency { .. }))
    }

    /// Whether such records are protected by neighbours that keep their places.
    fn has_frequencies_in_places(&self) -> bool {
        self.has_frequencies() && self.spec.record_keys() == Some(RecordKeys::Position)
    }

    /// Whether this is the release of a questionnaire, which is about columns as they are.
    fn asks_questions(&self) -> bool {
        matches!(self.loss, Loss::Linear(_))
    }

    fn has_log_label(&self) -> bool {
        self.source.dataset().is_some_and(|data| data.schema.has_log_label())
    }

    fn has_times(&self) -> bool {
        self.source.dataset().is_some_and(|data| data.schema.longest_time().is_some())
    }

    fn coupled(&self) -> bool {
        self.spec.problem.is_some()
    }

    fn has_costs(&self) -> bool {
        self.spec.problem.as_ref().is_some_and(|p| !p.agent.is_empty())
    }

    fn constrained(&self) -> bool {
        self.spec.objective.constraint != Constraint::None
    }

    fn balances(&self) -> bool {
        matches!(self.spec.objective.class_weight, Some(ClassWeight::Rule(_)))
    }

    fn sweeps(&self) -> Option<&super::spec::SweepSpec> {
        self.spec.sweep.as_ref()
    }

    fn residuals_unbounded(&self) -> bool {
        matches!(self.loss, Loss::Ridge { clip } if clip.is_infinite())
    }
}

/// What a study asks of one of its algorithms.
pub(super) struct Combination<'a> {
    pub(super) spec: &'a ExperimentSpec,
    pub(super) algorithm: &'a AlgorithmSpec,
    pub(super) can: Capabilities,
    pub(super) agents: usize,
    /// Whether all agents are neighbours of each other.
    pub(super) complete: bool,
    /// Whether some links lead one way, or are there in some rounds only.
    pub(super) directed: bool,
    /// Whether mixing over such links is an average all the same.
    pub(super) averages: bool,
    /// Whether the bounds of rows are public.
    pub(super) public_bounds: bool,
    /// Whether classes are balanced by shares that the run estimates.
    pub(super) balanced: bool,
}

impl Combination<'_> {
    fn said(&self, key: &str) -> bool {
        self.algorithm.said.contains(&key)
    }

    /// Whether sums are revealed instead of vectors.
    fn sums(&self) -> bool {
        self.algorithm.sharing.is_some()
    }

    fn exchange(&self) -> ExchangeKind {
        match self.algorithm.sharing {
            None => ExchangeKind::Plain,
            Some(spec) if spec.masked => ExchangeKind::Masked,
            Some(_) => ExchangeKind::SecretShared,
        }
    }

    /// Noise that the file fixes.
    fn fixed(&self) -> Option<&NoiseSpec> {
        self.algorithm.noise.as_ref().filter(|n| n.calibrated().is_none())
    }

    fn how(&self) -> Option<CalibratedSpec> {
        self.algorithm.noise.as_ref().and_then(NoiseSpec::calibrated)
    }

    /// The budget of this algorithm, unless it has no noise at all.
    fn privacy(&self) -> Option<PrivacySpec> {
        self.spec.privacy.filter(|_| self.fixed() != Some(&NoiseSpec::None))
    }

    fn private(&self) -> bool {
        self.privacy().is_some()
    }

    fn filtered(&self) -> bool {
        self.privacy().is_some_and(|p| p.accounting == Accounting::Filter)
    }

    /// Whether noise that is left open is asked to be Laplace.
    fn calibrates_laplace(&self) -> bool {
        let how = self.how().and_then(|how| how.mechanism);
        self.fixed().is_none()
            && how.or(self.privacy().and_then(|p| p.mechanism)) == Some(NoiseKind::Laplace)
    }

    /// Whether the file fixes noise that is not Gaussian.
    fn fixes_other_noise(&self) -> bool {
        !matches!(self.fixed(), None | Some(NoiseSpec::None | NoiseSpec::Gaussian(_)))
    }

    fn scouted(&self) -> bool {
        self.spec.data.encoding == Encoding::Scouted
    }

    /// Whether scouted training takes this algorithm's place.
    fn replaced(&self) -> bool {
        self.scouted() && self.can.scouting == Scouting::Replaces
    }

    /// Whether this algorithm runs behind a stage that scouts.
    fn staged(&self) -> bool {
        self.scouted() && self.can.scouting == Scouting::Precedes
    }

    /// Whether its noise stands inside a problem that it solves.
    fn inside(&self) -> bool {
        self.algorithm.protocol.perturbs_objective()
    }

    /// Whether its rounds share a budget otherwise than by their sensitivities.
    fn uneven(&self) -> bool {
        self.scouted() || self.algorithm.protocol.shares().is_some()
    }

    fn robust(&self) -> bool {
        self.algorithm.mixing != MixRule::Average
    }

    fn gossips(&self) -> bool {
        self.algorithm.gossip.is_some_and(|g| g > 0)
    }

    fn loses(&self) -> bool {
        self.spec.conditions.lose()
    }

    /// Whether a constraint set confines models.
    fn constrained(&self) -> bool {
        self.spec.objective.constraint != Constraint::None
    }

    fn fill(&self, text: &str) -> String {
        let exchange = match self.exchange() {
            ExchangeKind::Plain => "exchange = \"plain\"",
            ExchangeKind::SecretShared => "exchange = \"secret-shared\"",
            ExchangeKind::Masked => "exchange = \"masked\"",
        };
        text.replace("{kind}", self.algorithm.protocol.kind())
            .replace("{exchange}", exchange)
            .replace("{agents}", &self.agents.to_string())
            .replace("{others}", &self.agents.saturating_sub(2).to_string())
    }
}

/// Refuses a study whose parts do not go together.
pub(super) fn check_study(asks: &StudyCombination<'_>) -> Result<(), ConfigError> {
    let refused = STUDY.iter().find(|rule| (rule.applies)(asks));
    refused.map_or(Ok(()), |rule| Err(rule.refusal(str::to_owned)))
}

/// Refuses an algorithm that does not go with the study or with its own options.
pub(super) fn check_algorithm(asks: &Combination<'_>) -> Result<(), ConfigError> {
    let refused = ALGORITHM.iter().find(|rule| (rule.applies)(asks));
    refused.map_or(Ok(()), |rule| Err(rule.refusal(|text| asks.fill(text))))
}

/// Refuses fewer agents than an algorithm needs.
pub(super) fn check_agents(asks: &Combination<'_>) -> Result<(), ConfigError> {
    match (ALONE.applies)(asks) {
        true => Err(ALONE.refusal(|text| asks.fill(text))),
        false => Ok(()),
    }
}

/// Refuses a way to run an experiment that it does not go with.
pub(super) fn check_run(rules: &[Rule<OfRun>], experiment: &Experiment) -> Result<(), ConfigError> {
    let refused = rules.iter().find(|rule| (rule.applies)(experiment));
    refused.map_or(Ok(()), |rule| Err(rule.refusal(str::to_owned)))
}

/// All rules as a page shows them: of what they are, what does not go together, the key, why, and
/// what to do instead.
#[must_use]
pub fn table() -> Vec<(&'static str, [&'static str; 4])> {
    fn rows<F>(of: &'static str, rules: &[Rule<F>]) -> Vec<(&'static str, [&'static str; 4])> {
        rules.iter().map(|r| (of, [r.what, r.key, r.because, r.instead])).collect()
    }
    let mut all = rows("A study", STUDY);
    all.extend(rows("An algorithm", std::slice::from_ref(&ALONE)));
    all.extend(rows("An algorithm", ALGORITHM));
    all.extend(rows("A network of sites", NETWORK));
    all.extend(rows("Several processes, or --stream", PROCESSES));
    all.extend(rows("privacy map", MAP));
    all.extend(rows("privacy exposure", EXPOSURE));
    all.extend(rows("privacy audit", AUDIT));
    all
}

const SYNTHETIC: &str = "it belongs to synthetic records";

const STUDY: &[Rule<OfStudy>] = &[
    study("dim", "`dim` with records of files", |a| a.of_files() && a.spec.data.dim.is_some(), SYNTHETIC, "leave it out"),
    study("nonzeros", "`nonzeros` with records of files", |a| a.of_files() && a.spec.data.nonzeros.is_some(), SYNTHETIC, "leave it out"),
    study("informative", "`informative` with records of files", |a| a.of_files() && a.spec.data.informative.is_some(), SYNTHETIC, "leave it out"),
    study("classes", "`classes` with records of files", |a| a.of_files() && a.spec.data.classes.is_some(), SYNTHETIC, "leave it out"),
    study("heterogeneity", "`heterogeneity` with records of files", |a| a.of_files() && a.spec.data.heterogeneity.is_some(), SYNTHETIC, "leave it out"),
    study(
        "runs",
        "`runs` above 1 in a network of sites",
        |a| a.site && a.spec.runs != 1,
        "a network of sites runs once",
        "set runs = 1",
    ),
    study(
        "sweep",
        "`sweep.dim` with records that are not synthetic",
        |a| a.sweeps().is_some_and(|s| !s.dim.is_empty()) && a.spec.data.dim.is_none(),
        "dim varies data.dim, which only synthetic records have",
        "leave sweep.dim out, or use a synthetic source with data.dim",
    ),
    study(
        "sweep",
        "`sweep.epsilon` without [privacy]",
        |a| a.sweeps().is_some_and(|s| !s.epsilon.is_empty()) && a.spec.privacy.is_none(),
        "epsilon varies a budget, and there is no [privacy]",
        "add [privacy] with a delta, or leave sweep.epsilon out",
    ),
    study(
        "threshold",
        "`threshold` with another loss than the logistic one",
        |a| a.spec.objective.threshold.is_some() && !a.loss.is_logistic(),
        "it is for two classes and the logistic loss",
        "leave it out",
    ),
    study(
        "class_weight",
        "`class_weight` with a loss that is not of two classes",
        |a| {
            let weighable = a.loss.is_binary() && !a.loss.is_family();
            a.spec.objective.class_weight.is_some() && !weighable
        },
        "it is for two classes, with the logistic or the squared-hinge loss",
        "leave it out",
    ),
    study(
        "class_weight",
        "`class_weight = \"balanced\"` without public shares of the classes, on columns that are not scouted",
        |a| a.balances() && !a.shares && !a.scouted(),
        "\"balanced\" needs the classes’ shares without looking at the records",
        "declare prevalence = <share of the positive class> at the label in the schema, from public knowledge; or set data.encoding = \"scouted\", which estimates them within the budget; or give the weights, class_weight = [negative, positive]",
    ),
    study(
        "threshold",
        "`threshold = \"prevalence\"` without a public share",
        |a| matches!(a.spec.objective.threshold, Some(Threshold::Rule(_))) && !a.shares,
        "\"prevalence\" needs a public share",
        "declare prevalence = <share of the positive class> at the label in the schema, from public knowledge; or give a number",
    ),
    study(
        "conditions.loss",
        "`loss` that is no chance",
        |a| !a.spec.conditions.loss.is_sound(),
        "it is the chance that a message is lost, from 0 to below 1",
        "set conditions.loss to a number such as 0.1, or leave it out",
    ),
    study(
        "conditions.asleep",
        "`asleep` that is no chance",
        |a| !a.spec.conditions.asleep.is_sound(),
        "it is the chance that an agent sleeps through a round, from 0 to below 1, or the chances to fall asleep and to wake up",
        "set conditions.asleep to a number such as 0.1 or to { enter = 0.05, leave = 0.2 }, or leave it out",
    ),
    study(
        "conditions.links",
        "`links` without a round that has any",
        |a| match a.spec.conditions.links {
            Some(LinkPattern::Chance(chance)) => !(chance > 0.0 && chance <= 1.0),
            Some(LinkPattern::Turns(turns)) => turns == 0,
            _ => false,
        },
        "chance is that of an edge to be there, above 0 and up to 1; turns is a number of rounds from 1 on",
        "set conditions.links to { chance = 0.3 } or { turns = 4 }, or leave it out",
    ),
    study(
        "conditions.compression",
        "`compression` that sends nothing",
        |a| a.spec.conditions.compression.is_some_and(|c| !c.is_sound()),
        "keep is the share of numbers that are sent, above 0 and up to 1; levels is 1 or more",
        "set keep = 0.1 or levels = 16, or leave compression out",
    ),
    study(
        "conditions",
        "`latency_ms` or `bandwidth_mbit` that are none",
        |a| {
            let c = &a.spec.conditions;
            c.latency_ms.is_some_and(|ms| !(ms >= 0.0 && ms.is_finite()))
                || c.bandwidth_mbit.is_some_and(|mbit| !(mbit > 0.0 && mbit.is_finite()))
        },
        "latency_ms is 0 or more, and bandwidth_mbit above 0",
        "set latency_ms = 20 and bandwidth_mbit = 100, or leave them out",
    ),
    study(
        "conditions",
        "`asleep`, `links` or `compression` with [delays]",
        |a| {
            let c = &a.spec.conditions;
            (c.vary() || c.compression.is_some()) && a.spec.delays.is_some()
        },
        "a vector that is late is mixed later, and here it is not there at all, or smaller: together they are not simulated",
        "leave one of them out",
    ),
    study(
        "conditions.loss",
        "`loss` with [delays]",
        |a| a.spec.conditions.lose() && a.spec.delays.is_some(),
        "a message that is lost never comes, and one that is late does: together they are not simulated",
        "leave one of them out",
    ),
    study(
        "encoding",
        "scouted columns of records without a schema",
        |a| a.scouted() && !a.of_files(),
        "\"scouted\" is for records with a schema",
        "leave it out",
    ),
    study(
        "constraint",
        "`constraint` on scouted columns",
        |a| a.scouted() && a.constrained(),
        "a constraint set has no meaning on columns that are standardised on the way",
        "leave it out, or set data.encoding = \"one-hot\"",
    ),
    study(
        "start",
        "`start` on scouted columns",
        |a| a.scouted() && a.spec.start.is_some(),
        "scouted columns start from the class shares",
        "leave it out, or set data.encoding = \"one-hot\"",
    ),
    study(
        "problem",
        "[problem] on scouted columns",
        |a| a.scouted() && a.coupled(),
        "a linear constraint ties variables as they are, and scouted columns are standardised on the way",
        "set data.encoding = \"one-hot\"",
    ),
    study(
        "models",
        "`models = \"personal\"` on columns that are not scouted",
        |a| a.spec.models.is_personal() && !a.scouted(),
        "personal models are fitted on scouted columns",
        "set data.encoding = \"scouted\", or leave models out",
    ),
    study(
        "models",
        "`models = \"personal\"` with `loss = \"hazards\"`, `\"stratified-hazards\"` or `\"ordinal\"`",
        |a| a.spec.models.is_personal() && (a.loss.proportional().is_some() || a.loss.is_of_pairs()),
        "personal models have one intercept, and this loss has several or none",
        "leave models out",
    ),
    study(
        "loss",
        "`loss = \"stratified-hazards\"` with persons of several records",
        |a| a.loss.is_of_pairs() && super::scouted::records_per_person(a.source) > 1,
        "every record is in one pair, and a person's would be in several",
        "use loss = \"hazards\", or keep one record per person",
    ),
    study(
        "neighbours",
        "`loss = \"stratified-hazards\"` with other neighbours than \"replace-one\"",
        |a| {
            let other = |p: PrivacySpec| p.neighbours != NeighbourRelation::ReplaceOne;
            a.loss.is_of_pairs() && a.spec.privacy.is_some_and(other)
        },
        "records are in pairs: one that is not there leaves another without its own",
        "set privacy.neighbours = \"replace-one\", or use loss = \"hazards\"",
    )
    .refusing_claim(),
    study(
        "loss",
        "a column of `kind = \"frequency\"` with `loss = \"stratified-hazards\"`",
        |a| a.loss.is_of_pairs() && a.has_frequencies(),
        "records are paired by their places, and one that is replaced in a file of grouped lines moves the places of those behind it: more than one pair would change",
        "write one line per record and leave the column out, or use loss = \"hazards\"",
    )
    .refusing_claim(),
    study(
        "hold_out",
        "a column of `kind = \"frequency\"` with `data.hold_out` and neighbours that keep their places",
        |a| a.has_frequencies_in_places() && a.spec.data.hold_out.is_some(),
        "records are held out by their places, and one that is replaced in a file of grouped lines moves the places of those behind it: more than one record would change sides",
        "set privacy.neighbours = \"add-remove\", which holds records out by what they say, name a file of test records, or write one line per record",
    )
    .refusing_claim(),
    study(
        "agents",
        "a column of `kind = \"frequency\"` with `data.agents` and neighbours that keep their places",
        |a| a.has_frequencies_in_places() && a.spec.divides_by().is_none(),
        "records are divided by their places, and one that is replaced in a file of grouped lines moves the places of those behind it: more than one record would change agents",
        "let every file or site be an agent, set privacy.neighbours = \"add-remove\", which divides records by what they say, or write one line per record",
    )
    .refusing_claim(),
    study(
        "exposure",
        "`data.exposure` with a loss that has no log link",
        |a| a.has_exposure() && !a.loss.has_log_link() && !a.asks_questions(),
        "what counts are counted in multiplies their mean: its logarithm is added to the score of a loss with a log link",
        "use loss = \"poisson\", \"negative-binomial\" or \"gamma\", or let the column be a feature",
    ),
    study(
        "loss",
        "a label with `transform = \"log\"` with a loss that has a log link",
        |a| a.has_log_label() && a.loss.has_log_link(),
        "the score of such a loss is the logarithm of the label's mean already",
        "use loss = \"ridge\", \"huber\" or \"quantile\", or leave transform out",
    ),
    study(
        "time",
        "a time until an event with another loss than hazards",
        |a| a.has_times() && !a.loss.is_of_times() && !a.asks_questions(),
        "labels are times until an event, some of which nobody has seen",
        "set objective.loss = \"hazards\", or leave data.time out",
    ),
    study(
        "weights",
        "`weights` with [problem]",
        |a| a.coupled() && !a.spec.data.weights.is_open(),
        "agents of [problem] have variables of their own, so none counts more in a common model",
        "leave weights out",
    ),
    study(
        "constraint",
        "`constraint` with [problem]",
        |a| a.coupled() && a.constrained(),
        "[problem] has no set common to all agents",
        "limit a variable with low and high of its agent",
    ),
    study(
        "regularization",
        "`regularization = 0` with [problem] of records",
        |a| a.coupled() && !a.has_costs() && a.spec.objective.regularization <= 0.0,
        "[problem] needs every f_i to be strongly convex, so it must be positive",
        "set objective.regularization, for example to 0.1",
    ),
    study(
        "loss",
        "ridge regression without `clip` under [privacy]",
        |a| {
            a.spec.privacy.is_some() && !a.scouted() && !a.has_costs() && a.residuals_unbounded()
        },
        "ridge regression under [privacy] needs objective.clip: without it one record's residual, and so its gradient, is unbounded and no noise hides it",
        "set objective.clip to the largest residual that counts, for example 1.0",
    )
    .refusing_claim(),
];

/// Looked at before there is a graph.
const ALONE: Rule<OfAlgorithm> = algorithm(
    "agents",
    "one agent alone",
    |a| a.agents < 2 && !(a.agents == 1 && a.can.alone),
    "{agents} agent cannot be decentralized",
    "use at least 2, or algorithms of kind \"dgd\" and \"rcd\" only, which one agent can run alone",
);

const SCHEDULE: &str = "set privacy.accounting = \"schedule\"";
const ONE_HOT: &str = "use kind = \"dgd\", or data.encoding = \"one-hot\"";

const ALGORITHM: &[Rule<OfAlgorithm>] = &[
    algorithm(
        "noise",
        "`noise = \"correlated\"` with a kind other than dgd",
        |a| a.algorithm.correlated && a.can.correlated.is_none(),
        "noise = \"correlated\" is not for kind \"{kind}\": its duals or trackers would add shared noise up round by round",
        "use kind = \"dgd\", whose mean model it leaves alone, or leave noise out",
    ),
    algorithm(
        "drop_outs",
        "`drop_outs` with an exchange that is not masked",
        |a| a.said("drop_outs") && a.exchange() != ExchangeKind::Masked,
        "drop_outs belongs to masked sums",
        "add exchange = \"masked\", or leave it out",
    ),
    algorithm(
        "range",
        "`range` with the plain exchange",
        |a| a.said("range") && !a.sums(),
        "range belongs to the secret-shared exchange and to masked sums",
        "add exchange = \"secret-shared\" or \"masked\", or leave it out",
    ),
    algorithm(
        "fraction_bits",
        "`fraction_bits` with the plain exchange",
        |a| a.said("fraction_bits") && !a.sums(),
        "fraction_bits belongs to the secret-shared exchange and to masked sums",
        "add exchange = \"secret-shared\" or \"masked\", or leave it out",
    ),
    algorithm(
        "colluders",
        "`colluders` with the plain exchange and noise of one's own",
        |a| a.said("colluders") && !a.sums() && !a.can.pairwise,
        "colluders belongs to the secret-shared exchange and to masked sums",
        "add exchange = \"secret-shared\" or \"masked\", use kind = \"decor\", or leave it out",
    ),
    algorithm(
        "clip",
        "`clip` of an algorithm without clipped mixing",
        |a| a.said("clip") && !matches!(a.algorithm.mixing, MixRule::Clipped { .. }),
        "clip belongs to clipped mixing",
        "add mixing = \"clipped\", or leave it out",
    ),
    algorithm(
        "liars",
        "`liars` without robust mixing",
        |a| {
            a.said("liars") && matches!(a.algorithm.mixing, MixRule::Average | MixRule::Median)
        },
        "liars belongs to robust mixing",
        "add mixing = \"nearest\", \"clipped\" or \"trimmed\", or leave it out",
    ),
    algorithm(
        "mixing",
        "robust mixing with a kind that does more than mix",
        |a| a.robust() && !a.can.mixes,
        "kind {kind} does more with its neighbours' vectors than to mix them",
        "use kind = \"dgd\", \"rcd\" or \"pdop\", or leave mixing out",
    ),
    algorithm(
        "batch",
        "`batch` with a kind whose steps are not plain gradients",
        |a| a.algorithm.batch.is_some() && !a.can.batches,
        "batch is not for kind \"{kind}\": it solves local problems, takes differences of gradients or moves single coordinates, and no theorem says what a record that is drawn \
         for some rounds costs there",
        "use kind = \"dgd\", \"diffusion\", \"accelerated\", \"push-sum\", \"dp-csgp\", \"privsgp-vr\" or \"gt-svrg\", or leave batch out",
    ),
    algorithm(
        "batch",
        "`batch` on scouted columns",
        |a| a.algorithm.batch.is_some() && a.scouted(),
        "batch: scouted columns are trained on by exact sums over all records",
        "set data.encoding = \"one-hot\", or leave batch out",
    ),
    algorithm(
        "batch",
        "`batch` with sums",
        |a| a.algorithm.batch.is_some() && a.sums(),
        "batch with {exchange}: agents hide each other there, and amplification is proved for noise of one's own",
        "set exchange = \"plain\", or leave batch out",
    ),
    algorithm(
        "batch",
        "`batch` with [problem]",
        |a| a.algorithm.batch.is_some() && a.spec.problem.is_some(),
        "batch draws records, and [problem] ties agents with variables or costs of their own",
        "leave batch out",
    ),
    algorithm(
        "batch",
        "`batch` with a filter",
        |a| a.algorithm.batch.is_some() && a.filtered(),
        "amplification by sampling is composed over a schedule fixed in advance, and a filter adds up costs that depend on the transcript",
        SCHEDULE,
    )
    .refusing_claim(),
    algorithm(
        "batch",
        "`batch` with `neighbours = \"paper\"`",
        |a| {
            a.algorithm.batch.is_some()
                && a.privacy().is_some_and(|p| p.neighbours == NeighbourRelation::Paper)
        },
        "the paper's convention is half of a replacement, and says nothing of a record that is drawn or not",
        "set privacy.neighbours = \"replace-one\" or \"add-remove\", or leave batch out",
    )
    .refusing_claim(),
    algorithm(
        "staleness",
        "`staleness` with sums",
        |a| a.algorithm.staleness > 0 && a.sums(),
        "kind {kind} cannot mix older vectors: a sum of secret shares needs everybody's of one round",
        "use kind = \"dgd\" with exchange = \"plain\", or leave staleness out",
    ),
    algorithm(
        "staleness",
        "`staleness` with a kind other than dgd",
        |a| a.algorithm.staleness > 0 && !a.can.stale,
        "kind {kind} cannot mix older vectors: nothing is proved of it with vectors of different rounds",
        "use kind = \"dgd\" with exchange = \"plain\", or leave staleness out",
    ),
    algorithm(
        "conditions.loss",
        "`loss` with sums in secret",
        |a| a.loses() && a.sums(),
        "{exchange} reveals sums of everybody's vectors: without one message there is no sum",
        "use exchange = \"plain\", or [[drop_out]] with exchange = \"masked\" for agents that are gone",
    ),
    algorithm(
        "conditions.loss",
        "`loss` on scouted columns",
        |a| a.loses() && a.scouted(),
        "scouted columns are summed over all sites: without one message there is no sum",
        "set data.encoding = \"one-hot\", or leave conditions.loss out",
    ),
    algorithm(
        "conditions.loss",
        "`loss` with a kind that needs every vector",
        |a| a.loses() && !a.can.absence,
        "kind {kind} needs every vector of every round: a dual or tracker of an edge that one end missed would be off for good",
        "use kind = \"dgd\", \"gd-star\", \"muffliato\" or \"rcd\", or leave conditions.loss out: a network of sites sends again until a message arrives",
    ),
    algorithm(
        "conditions.loss",
        "`loss` with `staleness`",
        |a| a.loses() && a.algorithm.staleness > 0,
        "staleness waits for vectors that are late, and those that are lost never come",
        "leave one of them out",
    ),
    // Links that lead one way, links that come and go, agents that sleep, compression.
    algorithm(
        "kind",
        "links that lead one way on scouted columns",
        |a| a.directed && a.scouted(),
        "scouted columns are summed over all sites, up and down a tree whose links lead both ways",
        "use a graph whose links lead both ways, or set data.encoding = \"one-hot\"",
    ),
    algorithm(
        "kind",
        "links that lead one way, where mixing is no average, with a kind that is no push method",
        |a| a.directed && !a.averages && !a.can.directed,
        "kind {kind} needs weights that average, and over these links an agent hears more than it sends, or less",
        "use kind = \"push-sum\" or \"push-diging\", or graph.kind = \"exponential\", or a graph whose links lead both ways",
    ),
    algorithm(
        "kind",
        "links that lead one way with a kind that needs them both ways",
        |a| a.directed && !a.can.directed && !(a.can.varying && a.can.mixes),
        "kind {kind} needs links that lead both ways: its duals or trackers balance over every edge, or its steps are chosen for such links",
        "use kind = \"push-sum\", \"push-diging\", \"dgd\" or \"diffusion\", or a graph whose links lead both ways",
    ),
    algorithm(
        "kind",
        "links that are there in some rounds only with dp-csgp",
        |a| {
            let changes = matches!(a.spec.graph, GraphSpec::OnePeerExponential {});
            changes && a.can.directed && !a.can.varying
        },
        "kind {kind} sends changes of a copy that whoever hears it keeps, and over these links a neighbour misses most of them",
        "use kind = \"push-sum\", or graph.kind = \"exponential\"",
    ),
    algorithm(
        "delays",
        "[delays] with links that lead one way",
        |a| a.directed && a.spec.delays.is_some(),
        "delays are those of links that lead both ways",
        "leave [delays] out",
    ),
    algorithm(
        "staleness",
        "`staleness` with links that lead one way or come and go",
        |a| a.algorithm.staleness > 0 && (a.directed || a.spec.conditions.vary()),
        "staleness waits for vectors that are late, and over these links they never come",
        "leave it out",
    ),
    algorithm(
        "kind",
        "a push method on scouted columns",
        |a| a.can.directed && a.scouted(),
        "kind = \"{kind}\" cannot train on scouted columns: its messages carry a weight beside a model",
        ONE_HOT,
    ),
    algorithm(
        "gossip",
        "`gossip` of a push method",
        |a| a.can.directed && a.gossips(),
        "gossip mixes models, and messages of kind {kind} are models only after dividing by their weight",
        "leave gossip out, or use more rounds",
    ),
    algorithm(
        "constraint",
        "`constraint` with a push method",
        |a| a.can.directed && a.constrained(),
        "messages of kind {kind} are models only after dividing by their weight, so that a set of models does not confine them",
        "leave constraint out, or use kind = \"diffusion\"",
    ),
    algorithm(
        "conditions",
        "`asleep`, `links` or `compression` on scouted columns",
        |a| {
            let c = &a.spec.conditions;
            a.scouted() && (c.vary() || c.compression.is_some())
        },
        "scouted columns are summed over all sites: without one message there is no sum",
        "set data.encoding = \"one-hot\", or leave [conditions] out",
    ),
    algorithm(
        "conditions",
        "`asleep` or `links` with a kind that needs the same links in every round",
        |a| a.spec.conditions.vary() && !a.can.varying,
        "kind {kind} needs the same neighbours in every round: its duals or trackers balance over every edge, or nothing is known of it over others",
        "use kind = \"dgd\", \"diffusion\", \"atc-tracking\", \"push-sum\" or \"push-diging\", or leave conditions.asleep and conditions.links out",
    ),
    algorithm(
        "conditions.links",
        "`links` with links that lead one way",
        |a| a.directed && a.spec.conditions.links.is_some(),
        "links chooses among edges, and these links lead one way",
        "leave conditions.links out, or use graph.kind = \"one-peer-exponential\"",
    ),
    algorithm(
        "conditions.links",
        "`links = \"walk\"` with a kind other than diffusion",
        |a| a.spec.conditions.links == Some(LinkPattern::Walk) && a.algorithm.protocol.kind() != "diffusion",
        "a token is handed over and not averaged, and kind {kind} does more with what it hears than to step from it",
        "use kind = \"diffusion\", or links = \"one-edge\"",
    ),
    algorithm(
        "conditions.links",
        "`links = \"walk\"` with `asleep` or `loss`",
        |a| {
            let c = &a.spec.conditions;
            c.links == Some(LinkPattern::Walk) && !(c.asleep.is_never() && c.loss.is_never())
        },
        "all but one agent sleep while a token walks, and a token that is lost is gone",
        "leave conditions.asleep and conditions.loss out, or use links = \"one-edge\"",
    ),
    algorithm(
        "conditions.asleep",
        "`asleep` with links that lead one way and a kind that is no push method",
        |a| a.directed && !a.spec.conditions.asleep.is_never() && !a.can.directed,
        "without those who sleep, what kind {kind} hears over these links is no average",
        "use kind = \"push-sum\" or \"push-diging\", or a graph whose links lead both ways",
    ),
    algorithm(
        "conditions.compression",
        "`compression` with a kind that compression breaks",
        |a| a.spec.conditions.compression.is_some() && !(a.can.varying && a.can.mixes),
        "kind {kind} needs vectors as they were released: what is rounded away would add up in its duals, trackers or weights",
        "use kind = \"dgd\" or \"diffusion\", or leave conditions.compression out",
    ),
    // Scouted columns.
    algorithm(
        "step",
        "`step` of dgd or decor on scouted columns",
        |a| a.replaced() && a.algorithm.protocol.parameters().contains_key("step"),
        "step is chosen from public numbers where columns are scouted",
        "leave it out, or set data.encoding = \"one-hot\"",
    ),
    algorithm(
        "without",
        "`without` of dgd on columns that are not scouted",
        |a| !a.replaced() && a.algorithm.protocol.parameters().contains_key("without"),
        "without leaves out pieces of the method on scouted columns",
        "leave it out, or set data.encoding = \"scouted\"",
    ),
    algorithm(
        "tail",
        "`tail` of dgd or decor on scouted columns",
        |a| a.replaced() && a.said("tail"),
        "tail has no place where columns are scouted",
        "leave it out",
    ),
    algorithm(
        "gossip",
        "`gossip` of dgd or decor on scouted columns",
        |a| a.replaced() && a.said("gossip"),
        "gossip has no place where columns are scouted",
        "leave it out",
    ),
    algorithm(
        "exchange",
        "sums in secret for dgd or decor on scouted columns",
        |a| a.replaced() && a.sums(),
        "exchange has no place where columns are scouted: sums are made anyway",
        "leave it out, or set data.encoding = \"one-hot\"",
    ),
    algorithm(
        "mixing",
        "robust mixing on scouted columns",
        |a| a.replaced() && a.robust(),
        "mixing: where columns are scouted sums are made, not mixes, and what a site can add to one is bounded",
        "leave it out, or set data.encoding = \"one-hot\"",
    ),
    algorithm(
        "staleness",
        "`staleness` on scouted columns",
        |a| a.replaced() && a.algorithm.staleness > 0,
        "staleness: where columns are scouted sums are made, which need everybody's part",
        "leave it out, or set data.encoding = \"one-hot\"",
    ),
    algorithm(
        "noise",
        "noise of one's own for dgd or decor on scouted columns",
        |a| a.replaced() && a.algorithm.noise.as_ref().is_some_and(|n| *n != NoiseSpec::None),
        "noise is calibrated to the budget where columns are scouted",
        "leave it out, or set data.encoding = \"one-hot\"",
    ),
    algorithm(
        "kind",
        "linear-admm on scouted columns",
        |a| a.staged() && a.can.coupled,
        "kind = \"{kind}\" cannot train on scouted columns: its agents have variables of their own",
        ONE_HOT,
    ),
    algorithm(
        "kind",
        "another kind than dgd and decor on scouted columns, without a budget",
        |a| a.staged() && (a.spec.privacy.is_none() || a.algorithm.noise.is_some()),
        "kind = \"{kind}\" cannot train on scouted columns: it scouts within a budget, and without noise nothing is gained by it",
        ONE_HOT,
    ),
    algorithm(
        "kind",
        "noise inside a problem (pp, dvp) on scouted columns",
        |a| a.staged() && a.inside(),
        "kind = \"{kind}\" cannot train on scouted columns: its noise stands inside a problem, whose account is no part of a Gaussian budget that scouting shares",
        ONE_HOT,
    ),
    algorithm(
        "kind",
        "rcd on scouted columns",
        |a| a.staged() && a.can.charges_ahead,
        "kind = \"{kind}\" cannot train on scouted columns: one charge covers an epoch of its coordinates under one noise, and scouting has another",
        ONE_HOT,
    ),
    algorithm(
        "kind",
        "`class_weight = \"balanced\"` by estimated shares with another kind than dgd and decor",
        |a| a.staged() && a.balanced,
        "kind = \"{kind}\" cannot train on scouted columns: class_weight = \"balanced\" waits for shares that it does not look at",
        ONE_HOT,
    ),
    algorithm(
        "kind",
        "sums in secret on scouted columns",
        |a| a.staged() && a.sums(),
        "kind = \"{kind}\" cannot train on scouted columns: {exchange} reveals sums alone, and histograms are passed on",
        ONE_HOT,
    ),
    algorithm(
        "kind",
        "robust mixing behind scouting",
        |a| a.staged() && a.robust(),
        "kind = \"{kind}\" cannot train on scouted columns: mixing other than the average would mix histograms too",
        ONE_HOT,
    ),
    algorithm(
        "kind",
        "`staleness` behind scouting",
        |a| a.staged() && a.algorithm.staleness > 0,
        "kind = \"{kind}\" cannot train on scouted columns: staleness would mix a vector with histograms",
        ONE_HOT,
    ),
    algorithm(
        "privacy.neighbours",
        "`neighbours = \"paper\"` on scouted columns",
        |a| {
            a.scouted() && a.privacy().is_some_and(|p| p.neighbours == NeighbourRelation::Paper)
        },
        "neighbours = \"paper\" is for the paper's own encoding",
        "use neighbours = \"replace-one\", or data.encoding = \"paper\"",
    ),
    algorithm(
        "privacy.epsilon",
        "scouted columns without a budget for their noise",
        |a| a.scouted() && a.privacy().is_some_and(|p| p.epsilon.is_none()),
        "noise needs a budget where columns are scouted",
        "set privacy.epsilon",
    ),
    algorithm(
        "data.weights",
        "`weights` other than by records for decor on scouted columns",
        |a| {
            let weights = &a.spec.data.weights;
            a.replaced()
                && a.can.pairwise
                && !weights.is_open()
                && *weights != SiteWeights::Rule(WeightRule::Records)
        },
        "kind = \"{kind}\" needs sites that weigh by their records, or noise that neighbours share would not cancel",
        "leave data.weights out",
    ),
    // Noise and budgets.
    algorithm(
        "noise",
        "`noise = { calibrated = … }` without a budget",
        |a| a.how().is_some() && a.spec.privacy.and_then(|p| p.epsilon).is_none(),
        "noise: calibrated needs a budget",
        "set epsilon in [privacy], or fix the noise",
    ),
    algorithm(
        "privacy",
        "[privacy] without epsilon, and no noise of one's own",
        |a| a.privacy().is_some_and(|p| p.epsilon.is_none()) && a.fixed().is_none(),
        "there is neither privacy.epsilon to calibrate noise to nor a noise of its own",
        "set one of them",
    ),
    algorithm(
        "privacy.accounting",
        "`accounting = \"filter\"` without a budget",
        |a| a.filtered() && a.privacy().is_some_and(|p| p.epsilon.is_none()),
        "privacy.accounting = \"filter\" needs privacy.epsilon, fixed in advance",
        "set privacy.epsilon, or accounting = \"schedule\"",
    ),
    algorithm(
        "privacy",
        "[privacy] on rows whose bounds were computed from the records",
        |a| a.private() && !a.public_bounds,
        "the bounds of the rows were computed from the records, so no privacy claim can rest on them",
        "review the schema and set reviewed = true in it, or leave [privacy] out",
    )
    .refusing_claim(),
    // Linear constraints and graphs.
    algorithm(
        "kind",
        "[problem] with another kind than linear-admm",
        |a| a.spec.problem.is_some() && !a.can.coupled,
        "kind {kind} brings all agents to one model, and agents of a [problem] have variables of their own",
        "a [problem] with a linear constraint needs kind = \"linear-admm\"; or leave [problem] out",
    ),
    algorithm(
        "gossip",
        "`gossip` with [problem]",
        |a| a.spec.problem.is_some() && a.gossips(),
        "gossip would mix variables that are not the same thing",
        "leave it out",
    ),
    algorithm(
        "kind",
        "linear-admm without [problem]",
        |a| a.can.coupled && a.spec.problem.is_none(),
        "kind {kind} solves problems with a linear constraint, and there is none",
        "add [problem], or use kind = \"admm\"",
    ),
    algorithm(
        "kind",
        "linear-admm on a graph that is not complete",
        |a| {
            a.can.complete
                && a.can.coupled
                && !a.complete
                && a.exchange() != ExchangeKind::Masked
        },
        "kind {kind} needs everybody's releases",
        "set graph.kind = \"complete\" or leave [graph] out",
    ),
    algorithm(
        "kind",
        "gd on a graph that is not complete",
        |a| a.can.complete && !a.complete && a.exchange() != ExchangeKind::Masked,
        "Algorithm 2 ({kind}) needs a complete graph",
        "set graph.kind = \"complete\", or use kind = \"gd-star\"",
    ),
    algorithm(
        "models",
        "`models = \"personal\"` and [inference] on a graph that is not complete, or for decor",
        |a| {
            let sample = a.spec.models.is_personal() && a.spec.inference.is_some();
            sample && (!a.complete || a.algorithm.protocol.kind() == "decor")
        },
        "what varies between sites is seen in every site's own release, which all hear on a complete graph, and which decor hides under shared noise",
        "use kind = \"dgd\" with graph.kind = \"complete\", or leave models or [inference] out",
    ),
    // Secret shares and masked sums.
    algorithm(
        "exchange",
        "sums in secret of two agents",
        |a| a.sums() && a.agents < 3,
        "{exchange} needs at least 3 agents, not {agents}: of two, each learns the other's vector from the sum",
        "add agents, or leave exchange out",
    ),
    algorithm(
        "exchange",
        "secret shares on a graph that is not complete",
        |a| a.exchange() == ExchangeKind::SecretShared && !a.complete,
        "{exchange} needs a complete graph",
        "set graph.kind = \"complete\", or exchange = \"masked\", which sums on any graph",
    ),
    algorithm(
        "noise",
        "noise under sums in secret without [privacy]",
        |a| a.sums() && a.spec.privacy.is_none() && a.fixed().is_some_and(|n| *n != NoiseSpec::None),
        "noise under {exchange} is accounted for as the sum's",
        "add [privacy] with a delta, or set noise = \"none\"",
    ),
    algorithm(
        "drop_outs",
        "`drop_outs` without noise",
        |a| a.algorithm.sharing.is_some_and(|s| s.drop_outs > 0) && !a.private(),
        "drop_outs needs noise: a round that is tried again without somebody would reveal that agent's vector",
        "add [privacy], or leave it out",
    ),
    algorithm(
        "colluders",
        "`colluders` of an exchange without noise",
        |a| a.sums() && a.said("colluders") && !a.private(),
        "colluders divides the noise of {exchange}, and there is none: shares alone hide from any {others}",
        "leave it out",
    ),
    algorithm(
        "exchange",
        "sums in secret for gd with random weights",
        |a| a.sums() && a.can.needs == Needs::Rows && a.can.complete,
        "{exchange} reveals the mean alone, and random weights need the two agents farthest apart",
        "set aggregation = \"fixed\"",
    ),
    algorithm(
        "exchange",
        "sums in secret for a kind that needs each vector",
        |a| a.sums() && a.can.needs == Needs::Rows,
        "{exchange} reveals sums alone, and {kind} needs each vector",
        "use gd, admm or linear-admm",
    ),
    algorithm(
        "exchange",
        "noise under sums in secret for admm, consensus-admm and linear-admm",
        |a| a.sums() && matches!(a.can.needs, Needs::Sum | Needs::Total) && a.private(),
        "{exchange}: {kind} goes on from each agent's own vector, which sharing keeps private, so what a round reveals has no bound of its own",
        "noise needs an algorithm that goes on from the mean alone: gd with aggregation = \"fixed\"; or set noise = \"none\"",
    ),
    algorithm(
        "exchange",
        "`accounting = \"filter\"` under sums in secret",
        |a| a.sums() && a.filtered(),
        "{exchange} has no intervals whose width could count",
        SCHEDULE,
    ),
    algorithm(
        "exchange",
        "`mechanism = \"laplace\"` under sums in secret",
        |a| a.sums() && a.privacy().is_some_and(|p| p.mechanism == Some(NoiseKind::Laplace)),
        "{exchange}: parts of Laplace noise do not add up to Laplace noise",
        "leave privacy.mechanism out",
    ),
    algorithm(
        "noise",
        "noise that is not Gaussian under sums in secret",
        |a| a.sums() && a.private() && a.fixes_other_noise(),
        "noise must be Gaussian under {exchange}: parts of Laplace noise do not add up to Laplace noise",
        "give noise = { gaussian = … }, or leave it out",
    ),
    algorithm(
        "exchange",
        "`start` under sums in secret",
        |a| a.sums() && a.spec.start.is_some(),
        "{exchange} starts everybody from one point",
        "leave start out",
    ),
    algorithm(
        "exchange",
        "sums in secret on rows whose bounds were computed from the records",
        |a| a.sums() && !a.public_bounds,
        "{exchange} takes its range from the bounds of the rows, and these were computed from the records",
        "review the schema and set reviewed = true in it",
    ),
    algorithm(
        "mixing",
        "robust mixing under sums in secret",
        |a| a.sums() && a.robust(),
        "mixing needs each vector, and {exchange} reveals sums alone",
        "leave one of them out",
    ),
    algorithm(
        "gossip",
        "`gossip` under sums in secret",
        |a| a.sums() && a.gossips(),
        "gossip has nothing to mix under {exchange}",
        "leave it out",
    ),
    algorithm(
        "drop_out",
        "[[drop_out]] with an exchange that is not masked",
        |a| !a.spec.drop_out.is_empty() && a.exchange() != ExchangeKind::Masked,
        "{kind} goes on only with everybody",
        "simulated drop-outs need exchange = \"masked\" in every [[algorithm]]; or leave [[drop_out]] out",
    ),
    // Which noise is accounted for.
    algorithm(
        "noise",
        "noise of decor without [privacy]",
        |a| {
            a.can.pairwise
                && a.spec.privacy.is_none()
                && a.fixed().is_some_and(|n| *n != NoiseSpec::None)
        },
        "noise of kind {kind} is accounted for as correlated",
        "add [privacy] with a delta, or set noise = \"none\"",
    ),
    algorithm(
        "privacy.accounting",
        "`accounting = \"filter\"` for decor",
        |a| a.can.pairwise && a.filtered(),
        "kind {kind} has no intervals whose width could count",
        SCHEDULE,
    ),
    algorithm(
        "noise",
        "noise that is not Gaussian for decor",
        |a| {
            let laplace = a.privacy().is_some_and(|p| p.mechanism == Some(NoiseKind::Laplace));
            a.can.pairwise && a.private() && (laplace || a.fixes_other_noise())
        },
        "noise must be Gaussian for kind {kind}: the noises of neighbours add up, and only Gaussian ones stay what they are",
        "leave privacy.mechanism out, and give noise = { gaussian = … } or none",
    ),
    algorithm(
        "noise",
        "`gamma_rate` of a kind that puts no noise inside a problem",
        |a| matches!(a.fixed(), Some(NoiseSpec::GammaRate(_))) && !a.inside(),
        "noise: gamma_rate is noise inside a problem, and kind {kind} solves none with it",
        "only pp and dvp do; give noise = { gaussian = … } or { laplace_scale = … }",
    ),
    algorithm(
        "noise",
        "`noise = { calibrated = … }` with a norm or mechanism, for pp and dvp",
        |a| a.how().is_some_and(|how| how != CalibratedSpec::default()) && a.inside(),
        "noise: calibrated says how noise on a step is chosen; kind {kind} has its noise inside a problem",
        "leave it out, and set privacy.mechanism where it matters",
    ),
    algorithm(
        "privacy.accounting",
        "`accounting = \"filter\"` for pp and dvp",
        |a| a.inside() && a.filtered(),
        "privacy.accounting = \"filter\" charges for the width of intervals, and noise inside a problem has none",
        SCHEDULE,
    ),
    algorithm(
        "noise",
        "Laplace noise for rcd",
        |a| {
            a.can.charges_ahead
                && a.private()
                && (a.calibrates_laplace() || a.fixes_other_noise())
        },
        "noise: coordinates are accounted for in the l2 norm, over rounds: only Gaussian noise will do",
        "leave privacy.mechanism out, or give noise = { gaussian = … }",
    ),
    algorithm(
        "privacy.accounting",
        "`accounting = \"filter\"` for rcd",
        |a| a.can.charges_ahead && a.filtered(),
        "privacy.accounting = \"filter\" charges each round by itself, and a coordinate's rounds are charged together",
        SCHEDULE,
    ),
    algorithm(
        "noise",
        "Laplace noise that is calibrated, for muffliato and on scouted columns",
        |a| a.uneven() && a.private() && a.calibrates_laplace(),
        "noise: rounds that share a budget unevenly (stages of scouted columns, steps of muffliato) have Gaussian noise",
        "leave mechanism out",
    ),
    algorithm(
        "privacy.accounting",
        "`accounting = \"filter\"` for muffliato and on scouted columns",
        |a| a.uneven() && a.filtered(),
        "privacy.accounting = \"filter\" charges by the width of intervals, and neither scouted columns nor muffliato have any",
        SCHEDULE,
    ),
];

/// A network of sites.
pub(super) const NETWORK: &[Rule<OfRun>] = &[
    run(
        "algorithm",
        "several algorithms",
        |e| e.planned.len() != 1,
        "a network runs one algorithm",
        "keep one [[algorithm]]",
    ),
    run(
        "start",
        "`start`",
        |e| e.spec.start.is_some(),
        "start: a network starts from zero",
        "leave it out",
    ),
    run(
        "conditions.loss",
        "`loss`",
        |e| e.spec.conditions.lose(),
        "loss is simulated, and a network of sites sends again until a message arrives",
        "leave [conditions] out",
    ),
    run(
        "graph",
        "links that lead one way",
        |e| e.graphs.iter().any(|g| g.directed().is_some()),
        "sites answer each other, so that links lead both ways",
        "use a graph whose links lead both ways",
    ),
    run(
        "conditions",
        "`asleep`, `links` or `compression`",
        |e| e.spec.conditions.change_runs(),
        "what a network does is simulated, and a network of sites does it itself",
        "leave [conditions] out",
    ),
    run(
        "problem",
        "[problem] with costs",
        |e| !e.source.has_records(),
        "the costs of all agents stand in one file, so this experiment can be simulated only",
        "run it with `consenso run`",
    ),
];

const PROCESSES_INSTEAD: &str = "leave it out, or run it in one process";

/// One run over several processes, or streamed.
pub(super) const PROCESSES: &[Rule<OfRun>] = &[
    run(
        "",
        "`--entropy os`",
        |e| !e.is_seeded(),
        "a run over several processes, or with --stream, has no --entropy os: every process would need the same secret",
        "run it in one process",
    ),
    run(
        "problem",
        "[problem]",
        |e| e.coupled.is_some(),
        "a run over several processes, or with --stream, has no [problem]: variables of each agent's own",
        "run it in one process",
    ),
    run(
        "data.encoding",
        "scouted columns",
        |e| e.layout.is_some(),
        "a run over several processes, or with --stream, has no data.encoding = \"scouted\"",
        "set data.encoding = \"one-hot\", or run it in one process",
    ),
    run(
        "sweep",
        "[sweep]",
        |e| e.spec.sweep.is_some(),
        "a run over several processes, or with --stream, has no [sweep]",
        "use --shard for its points",
    ),
    run(
        "start",
        "`start`",
        |e| e.spec.start.is_some(),
        "a run over several processes, or with --stream, has no start",
        PROCESSES_INSTEAD,
    ),
    run(
        "delays",
        "[delays]",
        |e| e.spec.delays.is_some(),
        "a run over several processes, or with --stream, has no [delays]",
        PROCESSES_INSTEAD,
    ),
    run(
        "conditions.loss",
        "`loss`",
        |e| e.spec.conditions.lose(),
        "a run over several processes, or with --stream, has no conditions.loss",
        PROCESSES_INSTEAD,
    ),
    run(
        "graph",
        "links that lead one way",
        |e| e.graphs.iter().any(|g| g.directed().is_some()),
        "a run over several processes, or with --stream, has no links that lead one way",
        PROCESSES_INSTEAD,
    ),
    run(
        "conditions",
        "[conditions]",
        |e| !e.spec.conditions.are_perfect(),
        "a run over several processes, or with --stream, has no [conditions]",
        PROCESSES_INSTEAD,
    ),
    run(
        "exchange",
        "masked sums",
        |e| e.planned.iter().any(|p| p.masking.is_some()),
        "a run over several processes, or with --stream, has no exchange = \"masked\"",
        PROCESSES_INSTEAD,
    ),
    run(
        "exchange",
        "secret shares",
        |e| e.planned.iter().any(|p| p.sharing.is_some()),
        "a run over several processes, or with --stream, has no exchange = \"secret-shared\"",
        PROCESSES_INSTEAD,
    ),
    run(
        "",
        "noise that neighbours share",
        |e| e.planned.iter().any(|p| p.account.correlated.is_some()),
        "a run over several processes, or with --stream, has no noise that neighbours share",
        "use kind = \"dgd\", or run it in one process",
    ),
];

/// What single agents can tell: the map.
pub(super) const MAP: &[Rule<OfRun>] = &[
    run(
        "privacy",
        "no [privacy]",
        |e| e.spec.privacy.is_none(),
        "a map needs [privacy] with a delta",
        "add it; without noise see `consenso privacy exposure`",
    ),
    run("data.encoding", "scouted columns", |e| e.layout.is_some(), NOT_LINEAR, ONE_HOT_MAP),
    run(
        "conditions.loss",
        "`loss`",
        |e| e.spec.conditions.lose(),
        "a map is of links that lose nothing, where everybody sees most",
        "leave [conditions] out",
    ),
    run(
        "conditions",
        "`asleep`, `links` or `compression`",
        |e| e.spec.conditions.change_runs(),
        "a map is of links that are always there, where everybody sees most",
        "leave [conditions] out",
    ),
    run(
        "graph",
        "links that lead one way",
        |e| e.graphs.iter().any(|g| g.directed().is_some()),
        "what a node can tell is computed for links that lead both ways",
        "use a graph whose links lead both ways",
    ),
    run(
        "",
        "no algorithm with a linear view",
        |e| !e.planned.iter().any(super::planned::Planned::has_linear_view),
        "no algorithm here has a linear view",
        "a map needs kind = \"dgd\" or \"decor\" with Gaussian noise (privacy.mechanism = \"gaussian\"), without robust mixing and staleness",
    ),
];

const NOT_LINEAR: &str = "scouted columns are summed over all sites, not gossiped, so everybody sees the same: every other agent is the adversary of the claim";
const ONE_HOT_MAP: &str = "add --set data.encoding=one-hot to see gossip";

/// What a node reconstructs without noise.
pub(super) const EXPOSURE: &[Rule<OfRun>] = &[
    run(
        "problem",
        "[problem]",
        |e| e.coupled.is_some(),
        "problems with a linear constraint gossip no gradients; there is nothing to reconstruct",
        "see `consenso privacy audit` for what is released",
    ),
    run(
        "graph",
        "links that lead one way",
        |e| e.graphs.iter().any(|g| g.directed().is_some()),
        "what a node can tell is computed for links that lead both ways",
        "use a graph whose links lead both ways",
    ),
    run("data.encoding", "scouted columns", |e| e.layout.is_some(), NOT_LINEAR, ONE_HOT_MAP),
];

/// The black-box auditor.
pub(super) const AUDIT: &[Rule<OfRun>] = &[run(
    "problem",
    "[problem]",
    |e| e.coupled.is_some(),
    "problems with a linear constraint cannot be audited yet",
    "audit the mechanism by hand: `consenso privacy gamma` and `privacy loss` take its numbers",
)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_gives_a_reason_and_a_way_out() {
        let all = table();
        assert!(all.len() > 70, "{}", all.len());
        for (of, [what, _, because, instead]) in all {
            assert!(!what.is_empty() && because.len() > 10 && instead.len() > 7, "{of}: {what}");
        }
    }

    #[test]
    fn no_two_rules_say_the_same() {
        let all = table();
        for (i, one) in all.iter().enumerate() {
            let same = all[..i].iter().find(|other| other.0 == one.0 && other.1[0] == one.1[0]);
            assert!(same.is_none(), "{}: {}", one.0, one.1[0]);
        }
    }
}
