# A budget that several fits of the same records share.

consenso_budget <- function(epsilon, delta = 0, path = NULL, equal_records = c("refuse", "charge", "people")) {
  epsilon <- positive(epsilon, "epsilon")
  if (!is.numeric(delta) || length(delta) != 1 || !is.finite(delta) || delta < 0 || delta >= 1) wrong("delta must be at least 0 and below 1")
  session <- is.null(path)
  if (session) path <- tempfile("consenso-budget-")
  structure(
    list(epsilon = epsilon, delta = delta, path = normalizePath(path, mustWork = FALSE), session = session, equal_records = match.arg(equal_records)),
    class = "consenso_budget"
  )
}

budget_arguments <- function(budget) {
  list(
    budget.path = budget$path, budget.epsilon = number_text(budget$epsilon), budget.delta = number_text(budget$delta),
    budget.session = if (budget$session) "yes"
  )
}

# What a fit is charged to, once its cost is known and before it begins.
charge_of <- function(budget, table) {
  if (is.null(budget)) return(list())
  if (!inherits(budget, "consenso_budget")) wrong("budget is made by consenso_budget(epsilon = \u2026, delta = \u2026)")
  copies <- 1
  if (budget$equal_records != "people") {
    lines <- strsplit(table, "\n", fixed = TRUE)[[1]][-1]
    copies <- max(table(lines))
    if (copies > 1 && budget$equal_records == "refuse") {
      wrong(
        "up to ", copies, " records are equal: if they are copies of one (a bootstrap), this fit costs whoever it is about more than is charged; ",
        "use consenso_budget(\u2026, equal_records = \"charge\"), or \"people\" if equal records are of different people"
      )
    }
  }
  c(budget_arguments(budget), list(budget.copies = number_text(copies)))
}

print.consenso_budget <- function(x, ...) {
  found <- do.call(call_library, c(list("standing"), budget_arguments(x)))
  cat("spent: epsilon = ", format(found$spent$epsilon, digits = 4), " of ", x$epsilon, ", delta = ", format(found$spent$delta), " of ", x$delta, "\n", sep = "")
  if (!is.null(found$remaining)) cat("one more study may cost: epsilon = ", format(found$remaining$epsilon, digits = 4), "\n", sep = "")
  invisible(x)
}
