# What R's own functions say about a model.

INTERCEPT <- "(Intercept)"

# One row per coefficient, in units of the columns.
coefficient_frame <- function(model) {
  if (!is.null(model$inference)) {
    all <- model$inference$coefficients
    at <- function(key) vapply(all, function(one) if (is.null(one[[key]])) NA_real_ else as.numeric(one[[key]]), 0)
    refused <- vapply(all, function(one) if (is.null(one$refused)) NA_character_ else one$refused, "")
    term <- vapply(all, function(one) one$feature, "")
    frame <- data.frame(
      term = term, estimate = at("estimate"), std.error = at("std_error"), statistic = at("estimate") / at("std_error"), p.value = at("p"),
      conf.low = at("low"), conf.high = at("high"), refused = refused, stringsAsFactors = FALSE
    )
  } else {
    at <- function(key) vapply(model$terms, function(one) if (is.null(one[[key]])) NA_real_ else as.numeric(one[[key]]), 0)
    name <- function(one) if (identical(one$feature, model$intercept)) INTERCEPT else one$feature
    term <- vapply(model$terms, function(one) if (is.null(one$class)) name(one) else paste0(one$class, ":", name(one)), "")
    per_unit <- at("per_unit")
    estimate <- ifelse(is.na(per_unit), at("weight"), per_unit)
    bias <- vapply(model$terms, function(one) identical(one$feature, model$intercept), NA)
    estimate[bias] <- intercepts(model)
    noise <- at("per_unit_noise")
    # That of a weight is not that of the intercept in units of the columns.
    noise[bias] <- NA
    frame <- data.frame(term = term, estimate = estimate, noise = noise, stringsAsFactors = FALSE)
  }
  if (!is.null(model$intercept)) frame$term[frame$term == model$intercept] <- INTERCEPT
  frame
}

# The scores of a record of zeros and first levels' absence, one per output, where columns are encoded linearly; NA elsewhere.
intercepts <- function(model) {
  file <- from_json(model$file)
  parts <- file$encoder$columns
  bias <- match(file$intercept, file$features)
  if (length(bias) == 0 || is.na(bias)) return(NULL)
  rows <- matrix(as.numeric(unlist(file$weights)), ncol = length(file$features), byrow = TRUE)
  if (!all(vapply(parts, function(part) part$kind %in% c("standardised", "levels"), NA))) return(rep(NA_real_, nrow(rows)))
  offsets <- unlist(lapply(parts, function(part) {
    if (part$kind == "standardised") return(-(part$min + part$width * part$centre) / (part$width * part$scale))
    shares <- as.numeric(unlist(part$shares))
    if (length(shares) == 2) return(-2 * shares[2] / sqrt(4 * shares[2] * (1 - shares[2]) + part$floor))
    if (length(shares) > 2) -shares / sqrt(shares * (1 - shares) + part$floor)
  }))
  if (length(offsets) != ncol(rows) - 1) return(rep(NA_real_, nrow(rows)))
  as.vector(rows[, bias] + rows[, -bias, drop = FALSE] %*% offsets)
}

consenso_tidy <- function(x, conf.level = NULL, exponentiate = FALSE, ...) {
  frame <- coefficient_frame(x)
  if (!is.null(x$inference) && !is.null(conf.level)) {
    reach <- qnorm(0.5 + 0.5 * conf.level) * frame$std.error
    frame$conf.low <- frame$estimate - reach
    frame$conf.high <- frame$estimate + reach
  }
  if (isTRUE(exponentiate)) {
    for (name in intersect(c("estimate", "conf.low", "conf.high"), names(frame))) frame[[name]] <- exp(frame[[name]])
  }
  frame
}

consenso_glance <- function(x, ...) {
  claim <- x$claim
  data.frame(
    family = x$family, nobs = x$nobs, sites = length(x$sites), rounds = if (is.null(x$rounds)) NA_integer_ else as.integer(x$rounds),
    epsilon = if (is.null(claim)) NA_real_ else claim$epsilon, delta = if (is.null(claim)) NA_real_ else claim$delta,
    neighbours = if (is.null(claim)) NA_character_ else claim$neighbours, stringsAsFactors = FALSE
  )
}

tidy.consenso_model <- function(x, conf.level = NULL, exponentiate = FALSE, ...) consenso_tidy(x, conf.level, exponentiate, ...)

glance.consenso_model <- function(x, ...) consenso_glance(x, ...)

as.data.frame.consenso_model <- function(x, row.names = NULL, optional = FALSE, ...) consenso_tidy(x, ...)

coef.consenso_model <- function(object, ...) {
  frame <- coefficient_frame(object)
  stats::setNames(frame$estimate, frame$term)
}

vcov.consenso_model <- function(object, ...) {
  if (is.null(object$inference)) wrong("this model has no standard errors: fit it with inference = TRUE")
  names <- coefficient_frame(object)$term
  matrix(unlist(object$inference$covariance), nrow = length(names), byrow = TRUE, dimnames = list(names, names))
}

confint.consenso_model <- function(object, parm, level = NULL, ...) {
  if (is.null(object$inference)) wrong("this model has no intervals: fit it with inference = TRUE")
  if (is.null(level)) level <- object$inference$level
  frame <- consenso_tidy(object, conf.level = level)
  found <- cbind(frame$conf.low, frame$conf.high)
  dimnames(found) <- list(frame$term, paste(format(100 * c(0.5 - level / 2, 0.5 + level / 2), trim = TRUE, digits = 3), "%"))
  if (missing(parm)) found else found[parm, , drop = FALSE]
}

nobs.consenso_model <- function(object, ...) object$nobs

print.consenso_model <- function(x, digits = max(3L, getOption("digits") - 3L), ...) {
  cat("\nCall:\n", paste(deparse(x$call), collapse = "\n"), "\n\nCoefficients:\n", sep = "")
  print(format(coef(x), digits = digits), quote = FALSE)
  for (note in interaction_notes(x$interactions)) cat(strwrap(note), sep = "\n")
  print_claim(x)
  invisible(x)
}

print_claim <- function(x) {
  cat("\n")
  if (is.null(x$claim)) {
    cat("Without epsilon nothing is protected: these are figures of the records.\n")
  } else {
    print(x$claim)
    if (length(x$public) > 0) cat(strwrap(paste0("The levels of ", paste(x$public, collapse = ", "), " were taken to be public.")), sep = "\n")
  }
}

summary.consenso_model <- function(object, ...) {
  structure(list(model = object, coefficients = coefficient_frame(object), tests = object$inference$tests), class = "summary.consenso_model")
}

print.summary.consenso_model <- function(x, digits = max(3L, getOption("digits") - 3L), ...) {
  model <- x$model
  cat("\nCall:\n", paste(deparse(model$call), collapse = "\n"), "\n\n", sep = "")
  cat("Family: ", model$family, "; ", model$nobs, " records at ", length(model$sites), if (length(model$sites) == 1) " site" else " sites", "\n\n", sep = "")
  frame <- x$coefficients
  if (is.null(model$inference)) {
    print(data.frame(Estimate = frame$estimate, Noise = frame$noise, row.names = make.unique(frame$term)), digits = digits)
    cat("\nNoise is the standard deviation that the privacy noise alone gives a coefficient; sampling error comes on top:\nno confidence interval (inference = TRUE).\n")
  } else {
    level <- paste0(format(100 * model$inference$level), " %")
    table <- data.frame(
      Estimate = frame$estimate, "Std. Error" = frame$std.error, "z value" = frame$statistic, "Pr(>|z|)" = format.pval(frame$p.value, digits = 3),
      low = frame$conf.low, high = frame$conf.high, row.names = frame$term, check.names = FALSE
    )
    names(table)[5:6] <- c("low", "high")
    print(table, digits = digits)
    cat("low and high are the ends of intervals at ", level, ", which contain sampling error and noise.\n", sep = "")
    # Why each is refused, and once what helps.
    refused <- which(!is.na(frame$refused))
    for (row in refused) cat(strwrap(paste0(frame$term[row], ": ", sub(", and .*", "", frame$refused[row]))), sep = "\n")
    advice <- unique(sub(".*?, and ", "", grep(", and ", frame$refused[refused], fixed = TRUE, value = TRUE), perl = TRUE))
    if (length(advice) > 0) cat(strwrap(paste("of those refused:", advice)), sep = "\n")
    for (test in x$tests) {
      cat(sprintf("Wald test of %s: chi-squared = %.4g on %d degrees of freedom, p = %s\n", test$column, test$statistic, as.integer(test$df), format.pval(test$p, digits = 3)))
    }
    for (note in model$inference$notes) cat(strwrap(note), sep = "\n")
  }
  for (note in c(interaction_notes(model$interactions), model$notes)) cat(strwrap(note), sep = "\n")
  print_claim(model)
  invisible(x)
}

consenso_table <- function(model, format = c("markdown", "latex", "html")) {
  if (is.null(model$inference)) wrong("this model has no standard errors: fit it with inference = TRUE")
  call_library("table", model = model$file, format = match.arg(format))
}

predict.consenso_model <- function(object, newdata, type = NULL, site = NULL, unknown = "error", interval = c("none", "prediction"),
                                   level = 0.95, ...) {
  if (missing(newdata)) wrong("newdata is missing: a model does not keep the records it was fitted on")
  types <- if (object$family == "hazards") c("survival", "link") else c("response", "class", "link")
  type <- if (is.null(type)) types[1] else match.arg(type, types)
  wanted <- match.arg(interval) == "prediction"
  if (wanted && type != "response") wrong("an interval is of the response: leave type out")
  if (wanted && !is.null(site)) wrong("intervals are of the shared model: leave site out")
  newdata <- as_data(newdata)
  lost <- setdiff(needed_columns(object), names(newdata))
  if (length(lost) > 0) wrong("newdata has no column `", lost[1], "`, which the model reads")
  newdata <- with_interactions(object, newdata, unknown)
  specs <- object$schema$columns[object$features]
  text <- csv_text(newdata, specs, missing_word(object$schema))
  own <- model_of(object, site)
  found <- call_library(
    "predict", model = own$file, text = text, site = own$site, unknown = unknown, interval = if (wanted) number_text(level)
  )
  answer <- answer_of(object, found, type)
  if (!wanted) return(answer)
  # The columns of predict.lm.
  ends <- matrix(NA_real_, length(answer), 2)
  ends[as.logical(found$kept), ] <- matrix(as.numeric(unlist(found$intervals)), ncol = 2, byrow = TRUE)
  cbind(fit = as.numeric(answer), lwr = ends[, 1], upr = ends[, 2])
}

answer_of <- function(object, found, type) {
  kept <- as.logical(found$kept)
  # Records that the schema drops have no answer.
  spread <- function(values) {
    if (is.matrix(values)) {
      whole <- matrix(NA_real_, length(kept), ncol(values), dimnames = list(NULL, colnames(values)))
      whole[kept, ] <- values
      return(whole)
    }
    whole <- rep(NA, length(kept))
    whole[kept] <- values
    whole
  }
  rows <- function(x, width) if (any(kept)) matrix(as.numeric(unlist(x)), nrow = sum(kept), byrow = TRUE) else matrix(0, 0, width)
  classes <- as.character(unlist(object$classes))
  if (type == "link") {
    scores <- rows(found$scores, found$outputs)
    return(spread(if (ncol(scores) == 1) scores[, 1] else scores))
  }
  if (type == "survival") {
    times <- object$inference$times
    found <- rows(found$probabilities, length(times))
    colnames(found) <- if (length(times) == ncol(found)) format(times, trim = TRUE) else NULL
    return(spread(found))
  }
  if (length(classes) == 0) return(spread(as.numeric(found$predictions)))
  if (type == "class") return(factor(spread(classes[as.integer(found$predictions) + 1L]), levels = classes))
  chances <- rows(found$probabilities, if (length(classes) > 2) length(classes) else 1)
  if (ncol(chances) == 1) return(spread(chances[, 1]))
  colnames(chances) <- classes
  spread(chances)
}

consenso_curve <- function(model, ...) {
  if (!inherits(model, "consenso_survival")) wrong("a survival curve is of a model that consenso_survival fitted")
  given <- list(...)
  if (length(given) > 0 && (is.null(names(given)) || !all(nzchar(names(given))))) wrong("columns by name: consenso_curve(model, age = 60)")
  parts <- unlist(lapply(model$interactions, function(one) one$parts))
  lost <- setdiff(parts, names(given))
  if (length(lost) > 0) wrong("`", lost[1], "` is in an interaction, whose value depends on it: consenso_curve(model, ", lost[1], " = \u2026)")
  record <- with_interactions(model, as.data.frame(given, optional = TRUE, stringsAsFactors = FALSE))
  at <- lapply(stats::setNames(names(record), paste0("at:", names(record))), function(name) curve_value(name, record[[name]], model$schema))
  found <- do.call(call_library, c(list("survival", model = model$file), at[setdiff(names(at), paste0("at:", setdiff(parts, model$features)))]))
  if (is.null(found)) wrong("a coefficient of this model is refused for its noise: there is no curve")
  at <- function(key) vapply(found, function(point) as.numeric(point[[key]]), 0)
  data.frame(time = at("time"), estimate = at("estimate"), conf.low = at("low"), conf.high = at("high"))
}

# A value as the library asks for it: a number, the days of a date, or a level.
curve_value <- function(name, value, schema) {
  spec <- schema$columns[[name]]
  if (is.null(spec)) return(as.character(value))
  if (identical(spec$kind, "date")) return(number_text(as.numeric(as.Date(value) - as.Date(spec$origin))))
  cells(value, spec)
}
