# Questions, times until an event, accounting and noise.
library(consenso)

refuses <- function(expression, words, class = "consenso_input") {
  found <- tryCatch({ expression; NULL }, error = function(e) e)
  stopifnot(!is.null(found), inherits(found, class), grepl(words, conditionMessage(found), fixed = TRUE))
}

set.seed(5)
n <- 2400
records <- data.frame(site = rep(c("a", "b", "c"), n / 3), age = round(runif(n, 20, 90)), sex = factor(sample(c("f", "m"), n, TRUE)))
public <- list(age = c(0, 110))

answers <- consenso_ask(records, "count by sex", "mean age by sex", "quantiles age q=0.5", site = ~site, epsilon = 4, schema = public, seed = 1)
means <- answers[answers$kind == "mean" & !is.na(answers$group), ]
stopifnot(
  inherits(answers, "data.frame"), all(c("estimate", "low", "high") %in% names(answers)), nrow(means) >= 2,
  attr(answers, "claim")$epsilon <= 4, any(grepl("epsilon|\u03b5", capture.output(print(answers))))
)
real <- tapply(records$age, records$sex, mean)
women <- means[grepl("f", means$group), ][1, ]
stopifnot(abs(women$estimate - real[["f"]]) < 5)
refuses(consenso_ask(records, "mean height", site = ~site, schema = public), "height")
refuses(consenso_ask(records, schema = public), "no question")
# Without privacy answers are exact.
exact <- consenso_ask(records, "mean age by sex", site = ~site, epsilon = NULL)
stopifnot(is.null(attr(exact, "claim")), abs(exact$estimate[grepl("f", exact$group)][1] - real[["f"]]) < 1e-6)
# A schema has a label, which nobody asks for here; what noise could have made is no number.
few <- consenso_ask(records[1:40, c("age", "sex")], "summary", epsilon = 0.5, schema = public, seed = 1)
stopifnot(setequal(few$column, c("age", "sex")), any(few$below_noise), identical(is.na(few$estimate), few$below_noise))
# Sites that may die are paid for: each further try takes its part of the budget.
four <- transform(records, site = rep(c("a", "b", "c", "d"), n / 4))
noise <- function(...) consenso_ask(four, "mean age", site = ~site, epsilon = 2, schema = public, seed = 1, exchange = "masked", ...)$noise[1]
stopifnot(noise(drop_outs = 1) > 1.4 * noise())
refuses(consenso_ask(records, "mean age", site = ~site, schema = public, drop_outs = 1), "masked")
# A budget is charged for questions, too.
budget <- consenso_budget(epsilon = 1, delta = 1e-5, equal_records = "people")
once <- consenso_ask(records, "mean age", site = ~site, epsilon = 0.9, schema = public, seed = 1, budget = budget)
refuses(consenso_ask(records, "mean age", site = ~site, epsilon = 0.9, schema = public, seed = 1, budget = budget), "limit", "consenso_spent")

# Hazards.
time <- rexp(n, 0.02 * exp(0.03 * (records$age - 55)))
records$died <- time < 60
records$months <- pmin(round(time, 1), 60)
times <- c(public, list(months = c(0, 60)))
fit <- consenso_survival(Surv(months, died) ~ age, records, site = ~site, epsilon = 8, schema = times, cuts = c(12, 24, 60), seed = 1)
tidy <- consenso_tidy(fit)
stopifnot(
  tidy$term[1] == "age", tidy$conf.low[1] < 0.03, tidy$conf.high[1] > 0.03, nrow(tidy) == 4,
  isTRUE(all.equal(consenso_tidy(fit, exponentiate = TRUE)$estimate[1], exp(tidy$estimate[1])))
)
survive <- predict(fit, data.frame(age = c(40, 80)))
stopifnot(identical(dim(survive), c(2L, 3L)), all(survive[1, ] > survive[2, ]), all(diff(survive[1, ]) < 0))
curve <- consenso_curve(fit, age = 80)
stopifnot(
  identical(curve$time, c(12, 24, 60)), all(curve$conf.low < curve$estimate), all(curve$conf.high > curve$estimate),
  isTRUE(all.equal(curve$estimate, unname(survive[2, ]), tolerance = 0.05))
)
refuses(consenso_survival(months ~ age, records, schema = times), "Surv(time, event)")

# Accounting, against formulas of its own: one Gaussian release of mu has delta(eps) in closed form.
epsilon <- dp_compose(list(list(mechanism = "gaussian", mu = 0.5, count = 4)), delta = 1e-6)$epsilon
delta <- function(epsilon, mu) pnorm(-epsilon / mu + mu / 2) - exp(epsilon) * pnorm(-epsilon / mu - mu / 2)
stopifnot(delta(epsilon, 1) <= 1e-6, delta(epsilon - 0.01, 1) > 1e-6)
laplace <- dp_compose(data.frame(mechanism = "laplace", epsilon = 0.1, count = 3), delta = 1e-9)
stopifnot(abs(laplace$all[["pure"]] - 0.3) < 1e-9, laplace$all[["pure"]] >= 0.3, laplace$epsilon <= laplace$all[["pure"]])
found <- dp_calibrate(epsilon = 1, delta = 1e-6, rounds = 10, l2 = 2, mechanism = "gaussian")
stopifnot(length(found$schedule) == 10, delta(1, 2 * sqrt(10) / found$schedule[1]) <= 1e-6, found$spent$epsilon <= 1)

# Noise on a grid, with the law that it says; the bounds hold but for one chance in a million.
drawn <- dp_gaussian(rep(3, 20000), sigma = 2, seed = 9)
stopifnot(
  abs(mean(drawn) - 3) < 5 * 2 / sqrt(20000), abs(sd(drawn) - 2) < 5 * 2 / sqrt(40000),
  all(abs(drawn / attr(drawn, "step") - round(drawn / attr(drawn, "step"))) < 1e-6),
  identical(dp_gaussian(1:3, 1, seed = 4), dp_gaussian(1:3, 1, seed = 4)), !identical(dp_laplace(1:3, 1), dp_laplace(1:3, 1))
)
drawn <- dp_laplace(rep(0, 20000), scale = 1.5, seed = 9)
stopifnot(abs(mean(abs(drawn)) - 1.5) < 5 * 1.5 / sqrt(20000))
refuses(dp_laplace(c(1, NA), 1), "finite")

# A process that was forked has threads of its own.
if (.Platform$OS.type == "unix") {
  both <- parallel::mclapply(1:2, function(seed) coef(consenso_survival(Surv(months, died) ~ age, records, site = ~site, epsilon = 8, schema = times, cuts = c(12, 24, 60), seed = seed)), mc.cores = 2)
  stopifnot(identical(both[[1]], coef(fit)), !identical(both[[2]], coef(fit)))
}
