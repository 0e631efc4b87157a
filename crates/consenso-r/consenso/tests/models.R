# Formula in, numbers out: fits, methods, refusals. `cargo xtask r` runs it; no package is needed for it.
library(consenso)

refuses <- function(expression, words, class = "consenso_input") {
  found <- tryCatch({ expression; NULL }, error = function(e) e)
  stopifnot(!is.null(found), inherits(found, class), grepl(words, conditionMessage(found), fixed = TRUE))
}

set.seed(11)
n <- 3000
records <- data.frame(
  hospital = sample(c("north", "south", "west"), n, TRUE),
  age = round(runif(n, 20, 90)),
  smokes = factor(sample(c("no", "yes"), n, TRUE, c(0.7, 0.3))),
  ward = sample(c("a", "b", "c"), n, TRUE),
  admitted = as.Date("2020-01-01") + sample(0:700, n, TRUE)
)
score <- -3 + 0.05 * (records$age - 20) + 1.2 * (records$smokes == "yes") + 0.5 * (records$ward == "b")
records$ill <- rbinom(n, 1, plogis(score)) == 1
records$cost <- round(pmin(pmax(100 + 10 * score + rnorm(n, 0, 5), 0), 300), 2)
records$visits <- pmin(rpois(n, exp(0.2 + 0.5 * (records$smokes == "yes"))), 20)
public <- list(age = c(0, 110), ward = c("a", "b", "c"))

# Without privacy a fit is glm()'s.
exact <- consenso_glm(ill ~ age + smokes + ward, records, site = ~hospital, epsilon = NULL, schema = public, regularization = 0)
peer <- glm(ill ~ age + smokes + relevel(factor(ward), "a"), binomial, records)
tidy <- consenso_tidy(exact)
at <- function(term) tidy[tidy$term == term, ]
stopifnot(
  abs(at("age")$estimate - coef(peer)[["age"]]) < 1e-3 * abs(coef(peer)[["age"]]),
  abs(abs(at(grep("^smokes", tidy$term, value = TRUE))$estimate) - coef(peer)[["smokesyes"]]) < 5e-3,
  is.null(exact$claim)
)

# Under a budget: the effect is found, the interval is around it, the claim is printed whole.
fit <- consenso_glm(ill ~ age + smokes + ward, records, site = ~hospital, epsilon = 8, schema = public, seed = 3)
tidy <- consenso_tidy(fit)
stopifnot(
  inherits(fit, c("consenso_glm", "consenso_model")),
  fit$claim$epsilon <= 8, fit$claim$delta == 1e-6,
  at("age")$conf.low < 0.05, at("age")$conf.high > 0.05, at("age")$p.value < 0.01,
  identical(names(coef(fit)), tidy$term), "(Intercept)" %in% tidy$term,
  isTRUE(all.equal(sqrt(diag(vcov(fit)))[["age"]], at("age")$std.error)),
  isTRUE(all.equal(unname(confint(fit)["age", ]), c(at("age")$conf.low, at("age")$conf.high))),
  diff(confint(fit, "age", level = 0.5)[1, ]) < diff(confint(fit, "age")[1, ]),
  nobs(fit) == n, consenso_glance(fit)$sites == 3,
  any(grepl("replace", capture.output(print(fit$claim)))),
  any(grepl("smokes", capture.output(summary(fit)))),
  grepl("age", consenso_table(fit, "latex"))
)
# The levels that a factor brought along are named beside the claim.
stopifnot(any(grepl("levels of smokes, ill were taken to be public", capture.output(print(fit)))))

chance <- predict(fit, records[1:50, ])
class <- predict(fit, records[1:50, ], type = "class")
stopifnot(
  length(chance) == 50, all(chance > 0 & chance < 1), identical(levels(class), c("FALSE", "TRUE")),
  isTRUE(all.equal(plogis(predict(fit, records[1:50, ], type = "link")), chance))
)
# A seed repeats, noise of the operating system does not.
again <- consenso_glm(ill ~ age + smokes + ward, records, site = "hospital", epsilon = 8, schema = public, seed = 3)
fresh <- consenso_glm(ill ~ age + smokes + ward, records, site = ~hospital, epsilon = 8, schema = public)
stopifnot(identical(again$file, fit$file), !identical(coef(fresh), coef(fit)), grepl("seeded", fit$claim$sampler), !grepl("seeded", fresh$claim$sampler))

# A model does not hold the records.
inside <- (function() {
  mine <- records
  consenso_glm(ill ~ age, mine, epsilon = 8, schema = public, seed = 3, inference = FALSE)
})()
stopifnot(length(serialize(inside, NULL)) < 100000, "noise" %in% names(consenso_tidy(inside)))
refuses(vcov(inside), "inference = TRUE")
# Coefficients are in units of the columns: they give the score.
stopifnot(isTRUE(all.equal(coef(inside)[["(Intercept)"]] + 50 * coef(inside)[["age"]], predict(inside, data.frame(age = 50), type = "link"))))

# Intervals of predictions: without privacy those of lm; under a budget they hold new labels and are wider.
line <- consenso_glm(cost ~ age + smokes, records, site = ~hospital, epsilon = NULL, family = "gaussian", schema = c(public, list(cost = c(0, 300))), regularization = 0)
new <- data.frame(age = c(30, 60, 85), smokes = c("no", "yes", "no"))
ends <- predict(line, new, interval = "prediction", level = 0.9)
peer <- predict(lm(cost ~ age + smokes, records), new, interval = "prediction", level = 0.9)
stopifnot(identical(colnames(ends), c("fit", "lwr", "upr")), max(abs(ends - peer)) < 0.01 * diff(range(peer)))
counts <- consenso_glm(visits ~ smokes, records, site = ~hospital, epsilon = 8, family = "poisson", schema = c(public, list(visits = c(0, 20))), seed = 3)
held <- predict(counts, records, interval = "prediction", level = 0.9)
stopifnot(mean(records$visits >= held[, "lwr"] & records$visits <= held[, "upr"]) > 0.9, is.na(predict(counts, data.frame(smokes = NA), interval = "prediction")))
refuses(predict(fit, records, interval = "prediction"), "are for poisson")
refuses(predict(counts, records, type = "link", interval = "prediction"), "leave type out")

# Personal models answer for their sites, and stay in this session.
moved <- records
moved$ill <- rbinom(n, 1, plogis(score + ifelse(moved$hospital == "north", 2, -2))) == 1
own <- consenso_glm(ill ~ age + ward, moved, site = ~hospital, epsilon = 8, schema = public, seed = 3, models = "personal", inference = FALSE)
some <- moved[1:20, ]
stopifnot(all(predict(own, some, site = "north") > predict(own, some)), all(predict(own, some) > predict(own, some, site = "south")))
refuses(predict(own, some, site = "east"), "none of")
handed <- own
handed$personal <- "from another session"
refuses(predict(handed, some, site = "north"), "do not leave the session")
stopifnot(!grepl("personal", own$file), isTRUE(all.equal(predict(handed, some), predict(own, some))))

# Missing values and unknown categories go by the schema.
new <- data.frame(age = c(50, NA, 60), smokes = c("yes", "no", "no"), ward = c("a", "b", "z"))
refuses(predict(fit, new), "z")
stopifnot(identical(is.na(predict(fit, new, unknown = "ignore")), c(FALSE, TRUE, FALSE)))

# Other families.
linear <- consenso_glm(cost ~ age + smokes, records, site = ~hospital, epsilon = 8, family = gaussian(), schema = c(public, list(cost = c(0, 300))), seed = 1)
stopifnot(abs(coef(linear)[["age"]] - 0.5) < 0.2)
counts <- consenso_glm(visits ~ smokes, records, epsilon = 8, family = "poisson", schema = list(visits = c(0, 20)), seed = 1)
stopifnot(all(predict(counts, records[1:5, ]) > 0))
dated <- consenso_glm(ill ~ admitted + age, records, epsilon = 8, seed = 1, schema = c(public, list(admitted = as.Date(c("2020-01-01", "2021-12-31")))))
stopifnot("admitted" %in% names(coef(dated)))

# What cannot be fitted is refused in words.
refuses(consenso_glm(ill ~ log(age), records, schema = public), "function of a column")
refuses(consenso_glm(ill ~ age - 1, records, schema = public), "intercept")
refuses(consenso_glm(ill ~ age, records), "never learnt from the records")
refuses(consenso_glm(ill ~ ward, records), "ward = c(\"one\", \"another\")")
refuses(consenso_glm(cost ~ age, records, family = "gaussian", schema = public), "public range of `cost`")
refuses(consenso_glm(ill ~ height, records, schema = public), "no column `height`")
refuses(consenso_glm(ill ~ age, records, family = Gamma(), schema = public), "link \"log\" only")
refuses(consenso_glm(ill ~ age, records, schema = public, epsilon = -1), "positive")
refuses(consenso_glm(ill ~ age, records, schema = consenso_schema_draft(records, label = "ill")), "draft")
refuses(predict(fit), "newdata")

# Drafts and files of schemas.
draft <- consenso_schema_draft(records, label = ~ill, site = ~hospital)
stopifnot(!draft$reviewed, identical(draft$columns$ill$classes, c("FALSE", "TRUE")), identical(draft$columns$smokes$categories, c("no", "yes")), any(grepl("Review", capture.output(print(draft)))))
draft$reviewed <- TRUE
file <- tempfile(fileext = ".toml")
writeLines(consenso:::schema_toml(draft), file)
read <- consenso_schema(file)
stopifnot(isTRUE(all.equal(read$columns[["age"]], draft$columns[["age"]])), identical(names(read$columns), names(draft$columns)))

# Budgets.
budget <- consenso_budget(epsilon = 4, delta = 1e-5, equal_records = "people")
first <- consenso_glm(ill ~ age, records, epsilon = 2, schema = public, seed = 1, budget = budget, inference = FALSE)
second <- consenso_glm(ill ~ age, records, epsilon = 2, schema = public, seed = 2, budget = budget, inference = FALSE)
refuses(consenso_glm(ill ~ age, records, epsilon = 4, schema = public, seed = 2, budget = budget, inference = FALSE), "limit", "consenso_spent")
said <- capture.output(print(budget))
stopifnot(grepl("^spent: epsilon = (2\\.|3\\.)", said[1]))
twice <- consenso_budget(epsilon = 4, delta = 1e-5)
refuses(consenso_glm(ill ~ age, records[c(1:500, 1:500), ], epsilon = 1, schema = public, seed = 1, budget = twice), "records are equal")
