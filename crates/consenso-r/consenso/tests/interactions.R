# Interactions: the same models as glm() fits, with columns whose ranges follow from the public schema alone.
library(consenso)

refuses <- function(expression, words, class = "consenso_input") {
  found <- tryCatch({ expression; NULL }, error = function(e) e)
  stopifnot(!is.null(found), inherits(found, class), grepl(words, conditionMessage(found), fixed = TRUE))
}

set.seed(21)
n <- 2400
records <- data.frame(
  clinic = rep(c("x", "y", "z"), n / 3), dose = round(runif(n, 0, 40), 1), weight = round(runif(n, 45, 120)),
  arm = factor(sample(c("placebo", "drug"), n, TRUE), levels = c("placebo", "drug")), stage = factor(sample(c("I", "II", "III"), n, TRUE)),
  visit = as.Date("2024-01-01") + sample(0:300, n, TRUE)
)
score <- with(records, -0.5 + 0.02 * dose * (arm == "drug") + 0.01 * (weight - 80) + 0.6 * (stage == "III") * (arm == "drug") - 0.0008 * (dose - 20) * (weight - 80))
records$better <- rbinom(n, 1, plogis(score)) == 1
public <- list(dose = c(0, 40), weight = c(40, 140), visit = as.Date(c("2024-01-01", "2024-12-31")))
shown <- seq_len(200)

# Without privacy and regularization predictions are glm()'s, whatever the formula; so are coefficients of interactions.
exact <- function(formula, ...) consenso_glm(formula, records, site = ~clinic, epsilon = NULL, schema = public, regularization = 0, ...)
for (formula in c(
  better ~ dose * arm, better ~ dose * weight, better ~ arm * stage, better ~ stage + dose:stage, better ~ dose:arm, better ~ dose:weight,
  better ~ arm:stage, better ~ stage / arm, better ~ (dose + arm + stage)^2, better ~ dose * weight * arm
)) {
  fit <- exact(formula)
  peer <- suppressWarnings(glm(formula, binomial, records))
  apart <- max(abs(predict(fit, records[shown, ], type = "link") - suppressWarnings(predict(peer, records[shown, ]))))
  if (apart > 1e-6) stop(deparse1(formula), " is ", apart, " apart from glm()")
}
fit <- exact(better ~ dose * arm + dose * weight)
peer <- coef(glm(better ~ dose * arm + dose * weight, binomial, records))
stopifnot(
  abs(coef(fit)[["dose:arm=drug"]] - peer[["dose:armdrug"]]) < 1e-6 * abs(peer[["dose:armdrug"]]),
  abs(coef(fit)[["dose:weight"]] - peer[["dose:weight"]]) < 1e-6 * abs(peer[["dose:weight"]]),
  any(grepl("dose counts from 20", capture.output(print(fit)))), any(grepl("arm is against placebo", capture.output(print(fit))))
)

# Ranges follow from public ranges, never from the records: another sample has the same schema.
one <- fit$schema$columns
stopifnot(
  identical(one[["dose:weight"]][c("min", "max")], list(min = -1000, max = 1000)), identical(one[["dose:arm=drug"]][c("min", "max")], list(min = -20, max = 20)),
  identical(exact(better ~ arm * stage)$schema$columns[["arm:stage"]]$categories, c("(none)", "drug:II", "drug:III")),
  identical(exact(better ~ dose:weight)$schema$columns[["dose:weight"]][c("min", "max")], list(min = 0, max = 5600))
)
known <- consenso_schema(c(public["weight"], list(dose = list(min = 0, max = 40, mean = 15))))
fit <- consenso_glm(better ~ dose * weight, records, site = ~clinic, epsilon = NULL, schema = known, regularization = 0)
stopifnot(
  identical(fit$schema$columns[["dose:weight"]][c("min", "max")], list(min = -1250, max = 1250)),
  any(grepl("dose counts from 15 (its public mean)", capture.output(print(fit)), fixed = TRUE))
)
few <- consenso_glm(better ~ dose * arm + dose * weight, records[1:300, ], epsilon = NULL, schema = public, inference = FALSE)
stopifnot(identical(few$schema$columns[["dose:weight"]], one[["dose:weight"]]))

# Under a budget: the effect, its interval, one test of all levels; a claim like any other.
private <- consenso_glm(better ~ dose * stage + arm, records, site = ~clinic, epsilon = 10, schema = public, seed = 4)
tidy <- consenso_tidy(private)
said <- capture.output(summary(private))
stopifnot(
  private$claim$epsilon <= 10, all(c("dose:stage=II", "dose:stage=III") %in% tidy$term), any(grepl("Wald test of dose:stage", said)),
  any(grepl("levels of stage, arm, better were taken to be public", said)), is.finite(tidy$std.error[tidy$term == "dose:stage=II"])
)
stopifnot(isTRUE(all.equal(
  predict(private, records[shown, ], type = "link"),
  predict(private, transform(records[shown, ], stage = as.character(stage)), type = "link")
)))

# Values beyond the range, missing ones and unknown categories go by the schema of the columns they are made of.
imputed <- c(public[c("weight", "visit")], list(
  dose = list(kind = "numeric", min = 0, max = 40, missing = list(impute = 20)),
  stage = list(kind = "categorical", categories = c("I", "II", "III"), missing = "category")
))
gaps <- records
gaps$dose[1:100] <- NA
gaps$stage[50:200] <- NA
fit <- consenso_glm(better ~ dose * stage, gaps, site = ~clinic, epsilon = NULL, schema = imputed, inference = FALSE)
new <- data.frame(dose = c(NA, 20, 90, 40), stage = c("I", "I", NA, "(missing)"))
answers <- predict(fit, new)
stopifnot(answers[1] == answers[2], answers[3] == answers[4], !anyNA(answers))
dropped <- consenso_glm(better ~ dose:stage, gaps, epsilon = NULL, schema = public, inference = FALSE)
stopifnot(is.na(predict(dropped, data.frame(dose = NA, stage = "I"))))
refuses(predict(dropped, data.frame(dose = 1, stage = "IV")), "none of I, II, III")
stopifnot(is.finite(predict(dropped, data.frame(dose = 1, stage = "IV"), unknown = "ignore")))
refuses(predict(dropped, data.frame(dose = 1)), "no column `stage`")
dated <- exact(better ~ visit * arm)
stopifnot("visit:arm=drug" %in% names(coef(dated)), any(grepl("visit counts from 2024-07-01", capture.output(print(dated)))))

# Hazards.
time <- rexp(n, 0.02 * exp(0.03 * (records$dose - 20) * (records$arm == "drug")))
records$died <- time < 60
records$months <- pmin(round(time, 1), 60)
hazards <- consenso_survival(
  Surv(months, died) ~ dose * arm, records, site = ~clinic, epsilon = 20, schema = c(public, list(months = c(0, 60))), cuts = c(12, 24, 60), seed = 1
)
tidy <- consenso_tidy(hazards)
own <- tidy[tidy$term == "dose:arm=drug", ]
curve <- consenso_curve(hazards, dose = 40, arm = "drug")
stopifnot(
  own$conf.low < 0.03, own$conf.high > 0.03,
  isTRUE(all.equal(curve$estimate, unname(predict(hazards, data.frame(dose = 40, arm = "drug"))[1, ]), tolerance = 0.05))
)
refuses(consenso_curve(hazards, dose = 40), "`arm` is in an interaction")

# What is no column is refused with the way out.
refuses(exact(better ~ log(weight)), "data$log_weight <- with(data, log(weight)) and schema = list(log_weight = c(lowest, highest))")
refuses(exact(better ~ I(dose^2)), "data$dose_2 <- with(data, dose^2)")
refuses(exact(better ~ I(dose * weight)), "a product of two columns is dose:weight")
refuses(exact(better ~ factor(stage)), "write stage alone")
refuses(exact(better ~ poly(dose, 2) * arm), "all records together")
refuses(exact(better ~ dose:height), "no column `height`")
refuses(consenso_glm(better ~ dose:weight, records, schema = public["dose"]), "`weight` is missing")
many <- data.frame(a = factor(sample(1:40, 500, TRUE)), b = factor(sample(1:40, 500, TRUE)), y = rep(c(TRUE, FALSE), 250))
refuses(consenso_glm(y ~ a:b, many), "1600 combinations")
