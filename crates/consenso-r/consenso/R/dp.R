# Accounting and exact noise alone.

dp_compose <- function(events, delta) {
  if (is.data.frame(events)) events <- lapply(seq_len(nrow(events)), function(row) as.list(events[row, , drop = FALSE]))
  if (is.list(events) && !is.null(events$mechanism)) events <- list(events)
  one <- function(event) {
    event <- event[!vapply(event, function(value) is.null(value) || is.na(value), NA)]
    values <- vapply(event, function(value) if (is.numeric(value)) number_text(value) else toml_text(value), "")
    paste0("{", paste0(vapply(names(event), toml_text, ""), ":", values, collapse = ","), "}")
  }
  text <- paste0("[", paste(vapply(events, one, ""), collapse = ","), "]")
  found <- call_library("compose", events = text, delta = number_text(delta))
  best <- found$best
  methods <- found[names(found) != "best"]
  known <- vapply(methods, function(value) is.numeric(value) && length(value) == 1, NA)
  structure(
    list(epsilon = best$epsilon, method = best$method, theorem = best$theorem, all = unlist(methods[known])),
    names = c("epsilon", "method", "theorem", "all")
  )
}

dp_calibrate <- function(epsilon, delta, rounds, dim = 1, l1 = NULL, l2 = NULL, linf = NULL, mechanism = NULL) {
  text <- function(x) if (!is.null(x)) number_text(x)
  call_library(
    "calibrate", epsilon = text(epsilon), delta = text(delta), rounds = text(rounds), dim = text(dim), l1 = text(l1), l2 = text(l2),
    linf = text(linf), mechanism = mechanism
  )
}

dp_laplace <- function(x, scale, seed = NULL) noised("laplace", x, scale, seed)

dp_gaussian <- function(x, sigma, seed = NULL) noised("gaussian", x, sigma, seed)

noised <- function(kind, x, scale, seed) {
  if (!is.numeric(x) || !all(is.finite(x))) wrong("x must be finite numbers")
  scale <- positive(scale, if (kind == "laplace") "scale" else "sigma")
  found <- call_library("noise", kind = kind, scale = number_text(scale), seed = seed_text(seed), values = paste(number_text(x), collapse = " "))
  x[] <- found$values
  attr(x, "step") <- found$step
  x
}
