//! From questions to parts: which sums answer them, what share of the budget each has, and how far
//! one record can move all of them together.

use crate::answers::{self, Expected};
use crate::columns::{ColumnInfo, ColumnKind, Columns};
use crate::error::QuestionError;
use crate::part::{Axis, Content, Part};
use crate::question::{Question, QuestionKind};
use crate::released::KnownPart;
use crate::strategy::{self, Measured, Strategy};
use consenso_tables::{Records, nearest};

/// How many bins a number may be counted in whose distribution is asked for: as many as noise
/// leaves something to see in.
const FINE: [usize; 6] = [64, 128, 256, 512, 1024, 2048];
/// Bins where nothing is known of the noise, and the most where groups would make a long vector.
const USUAL: usize = 256;
/// The longest part that finer bins may make.
const ROOM: usize = 1 << 14;
/// Bins of time in a survival question, and of a score.
const CURVE: usize = 128;
/// Bins of a histogram that are shown where the question does not say.
const SHOWN: usize = 16;
/// The most cells of one part: a longer vector is a mistake.
const MOST: usize = 1 << 18;

/// What is public of a questionnaire beside its questions.
#[derive(Clone, Debug, Default)]
pub struct QuestionnaireFacts {
    /// Names of the sites.
    pub sites: Vec<String>,
    /// How many records each has, which is public.
    pub counts: Vec<usize>,
    /// Whether only the sum over all sites will be known, so that answers by site need room of
    /// their own in it.
    pub blocks: bool,
    /// Whether a record is hidden by setting what it adds to zero, instead of replacing it.
    pub zero_out: bool,
    /// How sure intervals are, 0.95 for instance.
    pub level: f64,
    /// Whether intervals are also about what the records were drawn from.
    pub sampling: bool,
    /// Standard deviation of the noise of the sum, and of a site's sum, where one record moves the
    /// whole vector by 1; `None` where precision decides the budget.
    pub sigma: Option<[f64; 2]>,
    /// About what the first of `sigma` will be, where that is not known yet: it decides how fine
    /// bins are, and nothing else.
    pub about: Option<f64>,
    /// Parts that were released before.
    pub known: Vec<KnownPart>,
}

/// How a question is answered.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Route {
    /// From a table of counts.
    Cells(usize),
    /// From bins of a number.
    Bins(usize),
    /// From sums of a number and its square.
    Moments(usize),
    /// From sums of products.
    Products(usize),
    /// Column by column.
    Columns(Vec<(usize, Route)>),
}

/// A questionnaire that can be asked.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(crate) columns: Columns,
    pub(crate) questions: Vec<Question>,
    pub(crate) routes: Vec<Route>,
    pub(crate) parts: Vec<Part>,
    pub(crate) known: Vec<Option<KnownPart>>,
    pub(crate) sites: Vec<String>,
    pub(crate) counts: Vec<usize>,
    /// Sites that are in no sum.
    pub(crate) gone: Vec<usize>,
    pub(crate) blocks: bool,
    pub(crate) level: f64,
    pub(crate) sampling: bool,
    width: usize,
    zero_out: bool,
    /// What 1/σ² of the whole vector wanted precision takes.
    needed: f64,
}

/// How long what one record adds can be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Norms {
    /// In l1.
    pub l1: f64,
    /// In l2.
    pub l2: f64,
    /// In l∞.
    pub linf: f64,
    /// The largest l2 distance between what two records add.
    pub apart: f64,
}

/// Rounding of a part's sums, generously: of at most 2^11 products of a record's count, each with an
/// error of 2^−53, for fewer than 2^9 records; recursive sums of more records are covered by what a
/// mean's sensitivity adds for them.
const ROUNDING: f64 = 1e-6;

impl Plan {
    /// Plans a questionnaire from public numbers.
    ///
    /// # Errors
    /// [`QuestionError`]: which question cannot be answered, and why.
    pub fn new(
        questions: &[Question],
        columns: &Columns,
        request: &QuestionnaireFacts,
    ) -> Result<Self, QuestionError> {
        let mut plan = Self {
            columns: columns.clone(),
            questions: questions.to_vec(),
            routes: Vec::new(),
            parts: Vec::new(),
            known: Vec::new(),
            sites: request.sites.clone(),
            counts: request.counts.clone(),
            gone: Vec::new(),
            blocks: request.blocks,
            level: request.level,
            sampling: request.sampling,
            width: 0,
            zero_out: request.zero_out,
            needed: 0.0,
        };
        for (number, question) in questions.iter().enumerate() {
            let mut asked = Asked { plan: &mut plan, question, number, request };
            let route = asked.route()?;
            plan.routes.push(route);
        }
        plan.weigh();
        plan.choose_strategies(&request.known);
        plan.divide(request)?;
        Ok(plan)
    }

    /// Gives every part the weight of the questions that use it.
    fn weigh(&mut self) {
        for (question, route) in self.questions.iter().zip(&self.routes) {
            let weight = question.weight.unwrap_or(1.0);
            for part in route.parts() {
                self.parts[part].weight += weight;
            }
        }
    }

    fn choose_strategies(&mut self, known: &[KnownPart]) {
        for part in &mut self.parts {
            let key = part.key();
            let known = known.iter().find(|k| k.key == key).cloned();
            if let Content::Bins { measured, functionals, axis } = &mut part.content {
                **measured = match known.as_ref().and_then(|k| k.strategy) {
                    Some(strategy) => Measured::new(strategy, axis.cells()),
                    None => Strategy::best(axis.cells(), functionals),
                };
            }
            self.known.push(known);
        }
    }

    /// Divides the budget: what a wanted precision takes first, the rest by weight.
    fn divide(&mut self, request: &QuestionnaireFacts) -> Result<(), QuestionError> {
        let open: Vec<bool> = self
            .known
            .iter()
            .zip(&self.parts)
            .map(|(k, p)| k.is_none() && !p.is_public())
            .collect();
        let needs = self.needs()?;
        self.needed = needs.iter().zip(&open).filter(|(_, open)| **open).map(|(n, _)| n.0).sum();
        // σ² of the whole vector times 1/σ² that a part needs is the part's share.
        let fixed = |p: usize| match request.sigma {
            Some([sigma, _]) => needs[p].0 * sigma * sigma,
            None => needs[p].0 / self.needed,
        };
        let shares: Vec<f64> = (0..self.parts.len())
            .map(|p| if open[p] && needs[p].0 > 0.0 { fixed(p) } else { 0.0 })
            .collect();
        let taken: f64 = shares.iter().sum();
        let loose: f64 = (0..self.parts.len())
            .filter(|&p| open[p] && shares[p] == 0.0)
            .map(|p| self.parts[p].weight)
            .sum();
        let first = |p: &usize| needs[*p].0 > 0.0;
        let precise = (0..self.parts.len()).find(first).map_or(0, |p| needs[p].1);
        if loose > 0.0 && request.sigma.is_none() && self.needed > 0.0 {
            let message = "without an epsilon every question must say its precision; set [questions] epsilon, or precision for all";
            return Err(QuestionError::new(precise, "precision", message));
        }
        let most = if loose > 0.0 { 0.999 } else { 1.0 + 1e-9 };
        if taken > most {
            let precision = self.questions[precise].precision.unwrap_or(0.0);
            let message = format!(
                "the wanted precision takes {taken:.2} times the noise budget μ² there is: allow ± {:.2} or more, or raise epsilon about {:.1} times",
                precision * taken.sqrt(),
                taken.sqrt()
            );
            return Err(QuestionError::new(precise, "precision", message));
        }
        // What precision leaves over goes to all, so that the whole budget is used.
        let left = (1.0 - taken).max(0.0);
        let mut offset = 0;
        for (p, part) in self.parts.iter_mut().enumerate() {
            part.offset = offset;
            if !open[p] {
                continue;
            }
            part.share = match (shares[p] > 0.0, loose > 0.0) {
                (true, true) => shares[p],
                (true, false) => shares[p] / taken,
                (false, _) => left * part.weight / loose,
            };
            let [_, square, _, apart] = part.norms();
            let moves = if request.zero_out { square } else { apart.max(1e-12) };
            part.scale = (part.share / moves).sqrt();
            let blocks = if self.blocks && part.by_site { self.sites.len() } else { 1 };
            offset += blocks * part.width();
        }
        self.width = offset;
        if offset > MOST {
            let message = format!(
                "the questionnaire has {offset} cells; at most {MOST}: ask by fewer groups, or with fewer bins"
            );
            return Err(QuestionError::new(0, "by", message));
        }
        Ok(())
    }

    /// What 1/σ² of the whole vector every part needs for the precision that is wanted of it, and
    /// whose question it is.
    fn needs(&mut self) -> Result<Vec<(f64, usize)>, QuestionError> {
        let mut needs = vec![(0.0, 0); self.parts.len()];
        for number in 0..self.questions.len() {
            let Some(precision) = self.questions[number].precision else { continue };
            if !(precision > 0.0 && precision.is_finite()) {
                let message = format!("{precision} must be a positive number");
                return Err(QuestionError::new(number, "precision", message));
            }
            let parts = self.routes[number].parts();
            // Half the width is in proportion to σ of the part, but for that of bins; see what it
            // is at 1.
            let unit: Vec<[f64; 2]> = vec![[1.0, 1.0]; self.parts.len()];
            let expected = answers::expected(self, number, &unit);
            let bins = expected.iter().map(|e| e.resolution).fold(0.0, f64::max);
            if precision <= bins {
                let message = format!(
                    "± {precision} is less than bins of this range can show, ± {}; allow more, or narrow the public range",
                    crate::part::round(bins)
                );
                return Err(QuestionError::new(number, "precision", message));
            }
            let noise = |e: &Expected| (e.half_width - e.resolution) / (precision - e.resolution);
            let widest = expected.iter().map(noise).fold(0.0, f64::max);
            for part in parts {
                let [_, square, _, apart] = self.parts[part].norms();
                let moves = if self.zero_out { square } else { apart.max(1e-12) };
                let need = moves * widest.powi(2);
                if need > needs[part].0 {
                    needs[part] = (need, number);
                }
            }
        }
        Ok(needs)
    }

    /// What 1/σ² the wanted precision of all questions takes, where one record moves the vector by
    /// 1 and σ is the deviation of the noise of the sum; 0 where no question wants any.
    #[must_use]
    pub fn needed(&self) -> f64 {
        self.needed
    }

    /// The plan as it reads sums that these sites are not in.
    #[must_use]
    pub fn without(&self, gone: &[usize]) -> Self {
        let mut plan = self.clone();
        for &site in gone.iter().filter(|site| **site < self.counts.len()) {
            plan.counts[site] = 0;
        }
        plan.gone = gone.to_vec();
        plan
    }

    /// The names of the sites.
    #[must_use]
    pub fn sites(&self) -> &[String] {
        &self.sites
    }

    /// How many records each site has.
    #[must_use]
    pub fn counts(&self) -> &[usize] {
        &self.counts
    }

    /// How many numbers an agent releases; 0 where everything is known already.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// The questions.
    #[must_use]
    pub fn questions(&self) -> &[Question] {
        &self.questions
    }

    /// How many groups every question divides the records into.
    #[must_use]
    pub fn groups(&self) -> Vec<usize> {
        let of = |route: &Route| {
            route.parts().iter().map(|&p| self.parts[p].groups()).max().unwrap_or(1)
        };
        self.routes.iter().map(of).collect()
    }

    /// The questions that need nothing new.
    #[must_use]
    pub fn is_known(&self, question: usize) -> bool {
        let known = |&p: &usize| self.known[p].is_some() || self.parts[p].is_public();
        self.routes[question].parts().iter().all(known)
    }

    /// Bounds on what one record adds to the vector.
    #[must_use]
    pub fn norms(&self) -> Norms {
        let mut all = [0.0f64; 4];
        for part in self.parts.iter().filter(|p| p.share > 0.0) {
            let ([l1, square, linf, apart], s) = (part.norms(), part.scale);
            all[0] += s * l1;
            all[1] += s * s * square;
            all[2] = all[2].max(s * linf);
            all[3] += s * s * apart;
        }
        let up = 1.0 + ROUNDING;
        Norms {
            l1: all[0] * up,
            l2: all[1].sqrt() * up,
            linf: all[2] * up,
            apart: all[3].sqrt().max(1e-12) * up,
        }
    }

    /// The sum of what a site's raw records add.
    ///
    /// # Panics
    /// If the records are not raw ones of the schema that the plan is for.
    #[must_use]
    pub fn totals(&self, records: &Records, site: usize) -> Vec<f64> {
        assert!(self.columns.fits(records), "raw records of the plan's schema");
        let mut vector = vec![0.0; self.width];
        for part in self.parts.iter().filter(|p| p.share > 0.0) {
            let sums = part.totals(&self.columns, records);
            let block = if self.blocks && part.by_site { site * part.width() } else { 0 };
            let at = part.offset + block;
            for (v, s) in vector[at..].iter_mut().zip(sums) {
                *v = part.scale * s;
            }
        }
        vector
    }

    /// What is expected of every answer before it is asked; `sigma` as in [`QuestionnaireFacts`].
    #[must_use]
    pub fn expected(&self, sigma: [f64; 2]) -> Vec<Vec<Expected>> {
        let of_part = |(part, known): (&Part, &Option<KnownPart>)| match known {
            Some(known) => [known.sigma, known.site_sigma],
            None if part.is_public() => [0.0, 0.0],
            None => {
                let site = if self.blocks && part.by_site { sigma[0] } else { sigma[1] };
                [sigma[0] / part.scale, site / part.scale]
            }
        };
        let sigmas: Vec<[f64; 2]> = self.parts.iter().zip(&self.known).map(of_part).collect();
        (0..self.questions.len()).map(|q| answers::expected(self, q, &sigmas)).collect()
    }

    /// Every part that is released, with its strategy, its numbers and its share of the budget.
    #[must_use]
    pub fn parts(&self) -> Vec<(String, usize, f64)> {
        let name = |p: &Part| match p.strategy() {
            Some(strategy) => format!("{} ({})", p.name(&self.columns), strategy.name()),
            None => p.name(&self.columns),
        };
        self.parts.iter().filter(|p| p.share > 0.0).map(|p| (name(p), p.width(), p.share)).collect()
    }

    /// All records.
    pub(crate) fn records(&self) -> f64 {
        self.counts.iter().sum::<usize>() as f64
    }
}

impl Route {
    pub(crate) fn parts(&self) -> Vec<usize> {
        match self {
            Self::Cells(p) | Self::Bins(p) | Self::Moments(p) | Self::Products(p) => vec![*p],
            Self::Columns(all) => all.iter().flat_map(|(_, route)| route.parts()).collect(),
        }
    }
}

/// One question while it is planned.
struct Asked<'a> {
    plan: &'a mut Plan,
    question: &'a Question,
    number: usize,
    request: &'a QuestionnaireFacts,
}

impl Asked<'_> {
    fn fail<T>(&self, key: &'static str, message: impl Into<String>) -> Result<T, QuestionError> {
        Err(QuestionError::new(self.number, key, message))
    }

    fn find(&self, name: &str, key: &'static str) -> Result<(usize, ColumnInfo), QuestionError> {
        if let Some((number, info)) = self.plan.columns.find(name) {
            return Ok((number, info.clone()));
        }
        let names: Vec<&str> = self.plan.columns.all().iter().map(|c| c.name.as_str()).collect();
        let hint = match nearest(name, names.iter().copied()) {
            Some(close) => format!("did you mean \"{close}\"?"),
            None => format!("there are {}", names.join(", ")),
        };
        self.fail(key, format!("no column of the schema is called \"{name}\": {hint}"))
    }

    fn column(&self) -> Result<(usize, ColumnInfo), QuestionError> {
        let kind = self.question.kind.name();
        match &self.question.column {
            Some(name) => self.find(name, "column"),
            None => self.fail("column", format!("{kind} needs a column")),
        }
    }

    fn number(&self) -> Result<usize, QuestionError> {
        let (number, info) = self.column()?;
        match info.kind {
            ColumnKind::Number { min, max } if max > min => Ok(number),
            ColumnKind::Number { .. } => {
                self.fail("column", format!("\"{}\" has a range of one value", info.name))
            }
            ColumnKind::Levels(_) => {
                let message = format!(
                    "\"{}\" has categories, and {} is about a number; ask for kind = \"share\"",
                    info.name,
                    self.question.kind.name()
                );
                self.fail("column", message)
            }
        }
    }

    /// A column of two categories.
    fn two_levels(&self, name: Option<&String>, key: &'static str) -> Result<Axis, QuestionError> {
        let Some(name) = name else {
            return self.fail(
                key,
                format!("{} needs {key}, a column of two categories", self.question.kind.name()),
            );
        };
        let (number, info) = self.find(name, key)?;
        if let Some(axis) = Axis::levels(&self.plan.columns, number).filter(|a| a.cells() == 2) {
            return Ok(axis);
        }
        // A number from 0 to 1, as many files write yes and no.
        if let ColumnKind::Number { min: 0.0, max: 1.0 } = info.kind
            && let Some(mut axis) = Axis::cut(&self.plan.columns, number, &[0.5])
        {
            axis.labels = vec!["0".into(), "1".into()];
            return Ok(axis);
        }
        self.fail(key, format!("\"{name}\" must have two categories"))
    }

    /// The groups of `by`, and whether they are the sites.
    fn groups(&self) -> Result<(Vec<Axis>, bool), QuestionError> {
        match self.question.by.as_deref() {
            None => Ok((Vec::new(), false)),
            Some("site") => Ok((Vec::new(), true)),
            Some(name) => {
                let (number, _) = self.find(name, "by")?;
                match Axis::levels(&self.plan.columns, number) {
                    Some(axis) => Ok((vec![axis], false)),
                    None => self.fail("by", format!("\"{name}\" is a number; group by a column of categories, or ask for a crosstab with cuts")),
                }
            }
        }
    }

    /// The number of a part like this one, which is added if there is none.
    fn part(&mut self, part: Part) -> usize {
        let key = part.key();
        if let Some(same) = self.plan.parts.iter().position(|p| p.key() == key) {
            if let (Content::Bins { functionals, .. }, Content::Bins { functionals: more, .. }) =
                (&mut self.plan.parts[same].content, part.content)
            {
                functionals.extend(more);
            }
            return same;
        }
        self.plan.parts.push(part);
        self.plan.parts.len() - 1
    }

    fn route(&mut self) -> Result<Route, QuestionError> {
        if let Some(weight) = self.question.weight.filter(|w| !(*w > 0.0 && w.is_finite())) {
            return self.fail("weight", format!("{weight} must be a positive number"));
        }
        self.unused()?;
        match self.question.kind {
            QuestionKind::Count => {
                let (outer, by_site) = self.groups()?;
                self.cells(outer, by_site)
            }
            QuestionKind::Share => {
                let (mut outer, by_site) = self.groups()?;
                let (number, info) = self.column()?;
                match Axis::levels(&self.plan.columns, number) {
                    Some(axis) => outer.push(axis),
                    None => return self.fail("column", format!("\"{}\" is a number; a share is of categories: ask for kind = \"histogram\"", info.name)),
                }
                self.cells(outer, by_site)
            }
            QuestionKind::Mean | QuestionKind::Sum => {
                let column = self.number()?;
                let (outer, by_site) = self.groups()?;
                Ok(self.moments(column, outer, by_site))
            }
            QuestionKind::Histogram => self.histogram(),
            QuestionKind::Quantiles => self.quantiles(),
            QuestionKind::Crosstab => self.crosstab(),
            QuestionKind::Summary => self.summary(),
            QuestionKind::Correlation => self.correlation(),
            QuestionKind::Survival => {
                let event = self.two_levels(self.question.event.as_ref(), "event")?;
                self.curve(event)
            }
            QuestionKind::Roc => {
                let label = self.two_levels(self.question.label.as_ref(), "label")?;
                self.curve(label)
            }
        }
    }

    /// Refuses keys that the kind has no use for: they would be forgotten in silence.
    fn unused(&self) -> Result<(), QuestionError> {
        use QuestionKind as K;
        let q = self.question;
        let many = matches!(q.kind, K::Crosstab | K::Summary | K::Correlation);
        for (key, there, used) in [
            ("column", q.column.is_some(), !many && q.kind != K::Count),
            ("columns", !q.columns.is_empty(), many),
            ("by", q.by.is_some(), q.kind != K::Correlation),
            ("q", !q.q.is_empty(), q.kind == K::Quantiles),
            ("bins", q.bins.is_some(), matches!(q.kind, K::Histogram | K::Crosstab)),
            ("cuts", !q.cuts.is_empty(), matches!(q.kind, K::Histogram | K::Crosstab)),
            ("event", q.event.is_some(), q.kind == K::Survival),
            ("label", q.label.is_some(), q.kind == K::Roc),
            ("horizon", q.horizon.is_some(), q.kind == K::Survival),
        ] {
            if there && !used {
                return self
                    .fail("kind", format!("{} has no use for {key}; leave it out", q.kind.name()));
            }
        }
        Ok(())
    }

    fn cells(&mut self, outer: Vec<Axis>, by_site: bool) -> Result<Route, QuestionError> {
        Ok(Route::Cells(self.part(Part::new(outer, Content::Counts, by_site))))
    }

    fn moments(&mut self, column: usize, outer: Vec<Axis>, by_site: bool) -> Route {
        let counted = !outer.is_empty();
        Route::Moments(self.part(Part::new(outer, Content::Moments { column, counted }, by_site)))
    }

    fn bins(
        &mut self,
        axis: Axis,
        outer: Vec<Axis>,
        by_site: bool,
        functionals: Vec<Vec<f64>>,
    ) -> Route {
        let measured = Box::new(Measured::new(Strategy::Flat, 1));
        Route::Bins(self.part(Part::new(
            outer,
            Content::Bins { axis, measured, functionals },
            by_site,
        )))
    }

    fn histogram(&mut self) -> Result<Route, QuestionError> {
        let column = self.number()?;
        let (mut outer, by_site) = self.groups()?;
        let shown = self.question.bins.unwrap_or(SHOWN);
        let same = |other: &Question| {
            other.kind == QuestionKind::Quantiles
                && (&other.column, &other.by) == (&self.question.column, &self.question.by)
        };
        let fine = self.fine(column, &outer, by_site);
        let together = self.question.cuts.is_empty()
            && shown > 0
            && fine.is_multiple_of(shown)
            && self.plan.questions.iter().any(same);
        if together {
            let axis = Axis::equal(&self.plan.columns, column, fine).expect("a number");
            let each = fine / shown;
            let bar = |k: usize| (0..fine).map(|i| f64::from(u8::from(i / each == k))).collect();
            return Ok(self.bins(axis, outer, by_site, (0..shown).map(bar).collect()));
        }
        outer.push(self.cut(column)?);
        self.cells(outer, by_site)
    }

    /// A number in the parts that the question asks for.
    fn cut(&self, column: usize) -> Result<Axis, QuestionError> {
        let ColumnKind::Number { min, max } = self.plan.columns.get(column).kind else {
            return self.fail("column", "categories are not cut");
        };
        let cuts = &self.question.cuts;
        if self.question.bins.is_some_and(|bins| !(2..=1024).contains(&bins)) {
            return self.fail("bins", "between 2 and 1024");
        }
        if !cuts.is_empty() {
            let inside = cuts.iter().all(|c| *c > min && *c < max);
            if !inside || cuts.windows(2).any(|w| w[0] >= w[1]) {
                return self.fail("cuts", format!("they must increase and lie between {min} and {max}, the ends of the public range"));
            }
            return Ok(Axis::cut(&self.plan.columns, column, cuts).expect("a number"));
        }
        let bins = self.question.bins.unwrap_or(if self.question.kind == QuestionKind::Crosstab {
            4
        } else {
            SHOWN
        });
        Ok(Axis::equal(&self.plan.columns, column, bins).expect("a number"))
    }

    fn quantiles(&mut self) -> Result<Route, QuestionError> {
        let column = self.number()?;
        let (outer, by_site) = self.groups()?;
        if let Some(wrong) = self.question.q.iter().find(|q| !(**q > 0.0 && **q < 1.0)) {
            return self.fail("q", format!("{wrong} must lie between 0 and 1"));
        }
        let fine = self.fine(column, &outer, by_site);
        let axis = Axis::equal(&self.plan.columns, column, fine).expect("a number");
        // Where a quantile lies is not known: any of the prefix sums may be asked for.
        let prefix = |k: usize| (0..fine).map(|i| f64::from(u8::from(i < k))).collect();
        let each = fine / 32;
        let functionals = (each..fine).step_by(each).map(prefix).collect();
        Ok(self.bins(axis, outer, by_site, functionals))
    }

    /// In how many bins to count a number: more of them show more, and need a little more noise.
    /// Public numbers decide, or bins that were counted before.
    fn fine(&self, column: usize, outer: &[Axis], by_site: bool) -> usize {
        let known = &self.request.known;
        let before = |bins: &usize| {
            let axis = Axis::equal(&self.plan.columns, column, *bins).expect("a number");
            let measured = Box::new(Measured::new(Strategy::Flat, 1));
            let content = Content::Bins { axis, measured, functionals: Vec::new() };
            let key = Part::new(outer.to_vec(), content, by_site).key();
            known.iter().any(|k| k.key == key)
        };
        let asked_before = FINE.into_iter().rev().find(|bins| !known.is_empty() && before(bins));
        if let Some(bins) = asked_before {
            return bins;
        }
        let info = self.plan.columns.get(column);
        let (Some(sigma), ColumnKind::Number { min, max }) = (self.request.about, &info.kind)
        else {
            return USUAL;
        };
        let weight = |q: &Question| q.weight.unwrap_or(1.0).max(0.0);
        let share = weight(self.question) / self.plan.questions.iter().map(weight).sum::<f64>();
        let sites = self.plan.sites.len().max(1);
        let groups: usize = outer.iter().map(Axis::cells).product();
        let each = self.plan.records() / (groups * if by_site { sites } else { 1 }) as f64;
        let sigma =
            if by_site && !self.plan.blocks { sigma / (sites as f64).sqrt() } else { sigma };
        let moved = if self.plan.zero_out { 1.0 } else { std::f64::consts::SQRT_2 };
        // How many records lie in one unit of the column, where most of them are.
        let density = each * 0.4 / info.sd.unwrap_or((max - min) / 6.0);
        let error = |bins: usize| {
            let noise = sigma * moved * strategy::rank_noise(bins) / share.sqrt() / density;
            noise * noise + ((max - min) / bins as f64).powi(2) / 6.0
        };
        let blocks = groups * if by_site && self.plan.blocks { sites } else { 1 };
        let room = |bins: &usize| *bins <= USUAL || bins * blocks <= ROOM;
        FINE.into_iter()
            .filter(room)
            .min_by(|a, b| error(*a).total_cmp(&error(*b)))
            .unwrap_or(USUAL)
    }

    fn crosstab(&mut self) -> Result<Route, QuestionError> {
        let (mut outer, by_site) = self.groups()?;
        if !(2..=3).contains(&self.question.columns.len()) {
            return self.fail("columns", "a crosstab has two or three columns");
        }
        for name in &self.question.columns {
            let (number, _) = self.find(name, "columns")?;
            let axis = match Axis::levels(&self.plan.columns, number) {
                Some(axis) => axis,
                None => self.cut(number)?,
            };
            if outer.iter().any(|a| a.column == axis.column) {
                return self.fail("columns", format!("\"{name}\" is there twice"));
            }
            outer.push(axis);
        }
        self.cells(outer, by_site)
    }

    fn summary(&mut self) -> Result<Route, QuestionError> {
        let (outer, by_site) = self.groups()?;
        let grouped = outer.first().map(|a| a.column);
        let mut named = Vec::new();
        for name in &self.question.columns {
            named.push(self.find(name, "columns")?.0);
        }
        if named.is_empty() {
            named = (0..self.plan.columns.all().len()).filter(|c| Some(*c) != grouped).collect();
        }
        let mut routes = Vec::new();
        for column in named {
            let route = match Axis::levels(&self.plan.columns, column) {
                Some(axis) => {
                    let outer = outer.iter().cloned().chain([axis]).collect();
                    self.cells(outer, by_site)?
                }
                None => self.moments(column, outer.clone(), by_site),
            };
            routes.push((column, route));
        }
        Ok(Route::Columns(routes))
    }

    fn correlation(&mut self) -> Result<Route, QuestionError> {
        let mut columns = Vec::new();
        for name in &self.question.columns {
            let (number, info) = self.find(name, "columns")?;
            if let ColumnKind::Levels(_) = info.kind {
                return self.fail(
                    "columns",
                    format!("\"{name}\" has categories; correlations are of numbers"),
                );
            }
            columns.push(number);
        }
        if self.question.columns.is_empty() {
            let is_number =
                |c: &usize| matches!(self.plan.columns.get(*c).kind, ColumnKind::Number { .. });
            columns = (0..self.plan.columns.all().len()).filter(is_number).collect();
        }
        if columns.len() < 2 {
            return self.fail("columns", "a correlation is of two numbers at least");
        }
        Ok(Route::Products(self.part(Part::new(Vec::new(), Content::Products { columns }, false))))
    }

    /// Times or scores by group and a column of two categories.
    fn curve(&mut self, two: Axis) -> Result<Route, QuestionError> {
        let column = self.number()?;
        let (mut outer, by_site) = self.groups()?;
        if let (Some(horizon), ColumnKind::Number { min, max }) =
            (self.question.horizon, &self.plan.columns.get(column).kind)
            && !(horizon > *min && horizon <= *max)
        {
            return self.fail(
                "horizon",
                format!("must lie between {min} and {max}, the ends of the public range"),
            );
        }
        outer.push(two);
        let axis = Axis::equal(&self.plan.columns, column, CURVE).expect("a number");
        let prefix = |k: usize| (0..CURVE).map(|i| f64::from(u8::from(i < k))).collect();
        let functionals = (4..CURVE).step_by(4).map(prefix).collect();
        Ok(self.bins(axis, outer, by_site, functionals))
    }
}
