# Statistics of all records with intervals.

consenso_ask <- function(data, ..., site = NULL, epsilon = 1, delta = 1e-6, schema = NULL, seed = NULL, exchange = NULL, colluders = NULL,
                         drop_outs = NULL, sampling = FALSE, neighbours = "replace-one", graph = "complete", budget = NULL) {
  questions <- as.character(unlist(list(...)))
  if (length(questions) == 0) wrong("there is no question: ask one as in consenso_ask(data, \"mean age by sex\", epsilon = 0.5)")
  data <- as_data(data)
  study <- new_study(data, schema, site, NULL, NULL, epsilon, delta)
  columns <- study$schema$columns
  known <- setdiff(names(data), c(study$site, study$person))
  plain <- known[vapply(data[known], function(x) is.factor(x) || is.logical(x), NA)]
  wanted <- if (study$private) union(intersect(names(columns), known), plain) else known
  specs <- lapply(stats::setNames(wanted, wanted), function(name) column_spec(name, data[[name]], study$schema, study$private))
  study$public <- setdiff(plain, names(columns))
  study$schema$columns <- specs
  if (!is.null(study$site)) study$schema$columns[[study$site]] <- list(kind = "site")
  if (!is.null(study$person)) study$schema$columns[[study$person]] <- columns[[study$person]]
  study <- with_label(study)
  rest <- list(graph = graph_table(graph), questions = list(exchange = exchange, colluders = colluders, drop_outs = drop_outs, sampling = isTRUE(sampling)))
  if (study$private) rest$privacy <- list(neighbours = neighbours)
  found <- call_task("ask", task(study, rest), study, seed, budget, "consenso_ask", question = questions, spare = study$spare)
  answers_of(found, study$public)
}

# A schema has one label: where nobody names one, a column that nobody asks about is it.
with_label <- function(study) {
  if (length(column_names(study$schema, "label")) > 0) return(study)
  name <- free_name("label", names(study$data))
  study$data[[name]] <- "a"
  study$spare <- name
  study$schema$columns[[name]] <- list(kind = "label", classes = c("a", "b"))
  study
}

ANSWER <- c("question", "kind", "group", "what", "column", "level", "q", "at", "estimate", "low", "high", "noise", "below_noise")

answers_of <- function(found, public) {
  rows <- lapply(found$queries, function(query) {
    one <- lapply(query$answers, function(answer) {
      answer <- answer[!vapply(answer, is.null, NA)]
      answer <- lapply(answer, function(value) if (length(value) == 1 && !is.list(value)) value else toml_value(value))
      as.data.frame(c(list(question = query$question, kind = query$kind), answer), stringsAsFactors = FALSE)
    })
    one
  })
  rows <- unlist(rows, recursive = FALSE)
  names <- unique(unlist(lapply(rows, names)))
  # As they are read, whatever order they came in.
  names <- c(intersect(ANSWER, names), setdiff(names, ANSWER))
  rows <- lapply(rows, function(row) {
    row[setdiff(names, names(row))] <- NA
    row[names]
  })
  frame <- do.call(rbind, rows)
  # What noise alone could have made is no number.
  frame$estimate[frame$below_noise] <- NA
  tests <- lapply(found$queries, function(query) query$tests)
  names(tests) <- vapply(found$queries, function(query) query$question, "")
  for (warning in as.character(unlist(found$warnings))) warning(warning, call. = FALSE)
  structure(
    frame, class = c("consenso_answers", "data.frame"), claim = as_claim(found$claim), tests = tests[!vapply(tests, is.null, NA)], public = public
  )
}

print.consenso_answers <- function(x, ...) {
  claim <- attr(x, "claim")
  print.data.frame(x, ...)
  print_claim(list(claim = claim, public = attr(x, "public")))
  invisible(x)
}
