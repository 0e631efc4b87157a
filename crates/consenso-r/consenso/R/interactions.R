# Interactions. A product of columns is a column of its own, made record by record from public facts alone: one record changes one record,
# and its range follows from the public ranges, so that the noise of a fit covers it as it covers every other column.
#
#   number x number      one number; its range is that of the product
#   number x category    one number per level: the number where the level is, 0 elsewhere
#   category x category  one category; its levels are the pairs
#
# Numbers count from their public means, or from the middle of their public ranges, where the model has all lower terms: that changes how
# the terms share an effect, not what can be fitted, and the columns are less alike. Levels are coded as glm() codes them, against the first.

# The level of a record in which a factor has its first level.
NO_PAIR <- "(none)"

MISSING_CATEGORY <- "(missing)"

# The most columns or levels that one interaction may have.
MOST_PAIRS <- 500

# Adds the columns of the interactions of a formula to the data and to the schema.
add_interactions <- function(study, found) {
  study$interactions <- lapply(found$interactions, function(one) {
    specs <- lapply(stats::setNames(one$columns, one$columns), function(name) column_spec(name, study$data[[name]], study$given, study$private))
    new_interaction(one$columns, one$full, specs, centred = has_lower_terms(one$columns, specs, found$terms))
  })
  for (one in study$interactions) {
    made <- interaction_columns(one, study$data, study$schema)
    taken <- intersect(names(made), c(names(study$data), names(study$schema$columns)))
    if (length(taken) > 0) wrong("the interaction `", taken[1], "` has the name of a column: give that column another one")
    study$data[names(made)] <- made
    study$schema$columns <- c(study$schema$columns, interaction_specs(one))
    study$public <- union(study$public, public_levels(one$parts, study))
  }
  study
}

# Categories that no schema names: levels of factors, which are taken to be public.
public_levels <- function(names, study) {
  named <- vapply(study$data[names], function(x) is.factor(x) || is.logical(x), NA)
  setdiff(names[named], names(study$given$columns))
}

is_number <- function(spec) spec$kind %in% c("numeric", "date")

# Whether every term that centring a number leaves behind is in the model as well.
has_lower_terms <- function(columns, specs, terms) {
  numbers <- columns[vapply(specs, is_number, NA)]
  present <- function(some) length(some) == 0 || any(vapply(terms, setequal, NA, some))
  subsets <- unlist(lapply(seq_along(numbers), function(k) utils::combn(length(numbers), k, simplify = FALSE)), recursive = FALSE)
  all(vapply(subsets, function(left) present(setdiff(columns, numbers[left])), NA))
}

new_interaction <- function(columns, full, specs, centred) {
  for (name in columns) {
    if (!specs[[name]]$kind %in% c("numeric", "date", "categorical")) {
      wrong("`", name, "` is of kind \"", specs[[name]]$kind, "\" in the schema: an interaction is of numbers, dates and categories")
    }
  }
  number <- vapply(specs, is_number, NA)
  levels <- lapply(specs[!number], function(spec) trimws(c(spec$categories, if (identical(spec$missing, "category")) MISSING_CATEGORY)))
  counted <- Map(function(levels, full) if (full) levels else levels[-1], levels, full[!number])
  size <- prod(lengths(counted))
  if (size > MOST_PAIRS) {
    wrong("the interaction ", paste(columns, collapse = ":"), " has ", size, " combinations of levels, and ", MOST_PAIRS, " are the most: group some levels")
  }
  pairs <- do.call(paste, c(expand.grid(counted, stringsAsFactors = FALSE), sep = ":"))
  if (anyDuplicated(pairs)) wrong("levels of ", paste(columns, collapse = " and "), " contain \":\" and their combinations are not distinct: rename them")
  ranges <- lapply(specs[number], number_range)
  centres <- vapply(names(ranges), function(name) {
    if (!centred) 0 else if (is.null(specs[[name]]$mean)) mean(ranges[[name]]) else as.numeric(specs[[name]]$mean)
  }, 0)
  list(
    name = paste(columns, collapse = ":"), parts = columns, specs = specs, levels = levels, counted = counted, pairs = pairs, ranges = ranges,
    centres = centres, partial = !all(full[!number])
  )
}

number_range <- function(spec) {
  if (spec$kind == "date") as.numeric(as.Date(c(spec$min, spec$max)) - as.Date(spec$origin)) else c(as.numeric(spec$min), as.numeric(spec$max))
}

# The columns that an interaction stands for, with what is public of them.
interaction_specs <- function(one) {
  if (length(one$ranges) == 0) {
    spec <- list(kind = "categorical", categories = c(if (one$partial) NO_PAIR, one$pairs))
    return(stats::setNames(list(spec), one$name))
  }
  ends <- 1
  for (k in seq_along(one$ranges)) ends <- range(outer(ends, one$ranges[[k]] - one$centres[k]))
  if (length(one$levels) > 0) ends <- range(ends, 0)
  names <- interaction_names(one)
  stats::setNames(rep(list(list(kind = "numeric", min = ends[1], max = ends[2])), length(names)), names)
}

interaction_names <- function(one) {
  if (length(one$ranges) == 0 || length(one$levels) == 0) one$name else paste0(one$name, "=", one$pairs)
}

# The values of those columns in these records; NA where one that counts is missing.
interaction_columns <- function(one, data, schema, unknown = "error") {
  product <- rep(1, nrow(data))
  for (name in names(one$ranges)) product <- product * (part_number(name, data[[name]], one, schema) - one$centres[[name]])
  if (length(one$levels) == 0) return(stats::setNames(list(product), one$name))
  held <- lapply(stats::setNames(nm = names(one$levels)), function(name) part_level(name, data[[name]], one, schema, unknown))
  missing <- Reduce(`|`, lapply(held, is.na))
  # A first level is in no pair; one that the schema does not name is in none that is known.
  first <- Reduce(`|`, Map(function(x, levels, counted) x %in% setdiff(levels, counted), held, one$levels, one$counted))
  pair <- ifelse(first, NO_PAIR, do.call(paste, c(held, sep = ":")))
  pair[missing] <- NA
  if (length(one$ranges) == 0) return(stats::setNames(list(pair), one$name))
  columns <- lapply(one$pairs, function(wanted) ifelse(missing, NA_real_, ifelse(pair == wanted, product, 0 * product)))
  stats::setNames(columns, interaction_names(one))
}

# A number as the library reads it: within its public range, and what the schema says where it is missing.
part_number <- function(name, x, one, schema) {
  spec <- one$specs[[name]]
  range <- one$ranges[[name]]
  if (is.character(x) || is.factor(x)) x <- without_missing_words(as.character(x), spec, schema)
  value <- as_number(x, spec)
  if (any(is.na(value) & !is.na(x))) wrong("`", name, "` must be ", if (spec$kind == "date") "dates" else "numbers", ", as the schema says")
  value[!is.finite(value)] <- NA
  if (identical(spec$missing, "category")) value[is.na(value)] <- mean(range)
  if (is.list(spec$missing)) value[is.na(value)] <- as_number(spec$missing$impute, spec)
  pmin(pmax(value, range[1]), range[2])
}

# Numbers, or the days since its origin where a column has dates.
as_number <- function(x, spec) {
  if (spec$kind != "date") return(suppressWarnings(as.numeric(x)))
  form <- strftime_format(if (is.null(spec$format)) "YYYY-MM-DD" else spec$format)
  as.numeric((if (is.character(x)) as.Date(x, form) else as.Date(x)) - as.Date(spec$origin))
}

# A category as the library reads it.
part_level <- function(name, x, one, schema, unknown) {
  spec <- one$specs[[name]]
  levels <- one$levels[[name]]
  text <- without_missing_words(trimws(cells(x, spec)), spec, schema)
  if (identical(spec$missing, "category")) text[is.na(text)] <- MISSING_CATEGORY
  if (is.list(spec$missing)) text[is.na(text)] <- as.character(spec$missing$impute)
  strange <- !is.na(text) & !text %in% levels
  other <- levels[tolower(levels) == "other"]
  if (unknown == "other" && length(other) == 1) text[strange] <- other
  if (unknown == "error" && any(strange)) wrong("`", name, "` has \"", text[strange][1], "\", which is none of ", paste(levels, collapse = ", "))
  text
}

without_missing_words <- function(text, spec, schema) {
  words <- if (is.null(schema$head$missing)) c("?", "") else as.character(schema$head$missing)
  text[text %in% c(words, as.character(spec$missing_words))] <- NA
  text
}

# New records with the columns that a model's interactions stand for.
with_interactions <- function(model, data, unknown = "error") {
  for (one in model$interactions) {
    made <- interaction_columns(one, data, model$schema, unknown)
    data[names(made)] <- made
  }
  data
}

# The columns that a model reads from its user: those it was given in the formula.
needed_columns <- function(model) {
  made <- unlist(lapply(model$interactions, interaction_names))
  unique(c(setdiff(model$features, made), unlist(lapply(model$interactions, function(one) one$parts))))
}

# What a reader of the coefficients must know.
interaction_notes <- function(interactions) {
  from <- list()
  for (one in interactions) {
    for (name in names(one$centres)) {
      middle <- one$centres[[name]]
      if (one$specs[[name]]$kind == "date") middle <- as.Date(one$specs[[name]]$origin) + middle
      if (one$centres[[name]] != 0) {
        what <- if (is.null(one$specs[[name]]$mean)) "(the middle of its public range)" else "(its public mean)"
        from[[name]] <- paste(name, "counts from", format(middle), what)
      }
    }
    for (name in names(one$levels)) if (length(one$counted[[name]]) < length(one$levels[[name]])) from[[name]] <- paste(name, "is against", one$levels[[name]][1])
  }
  if (length(from) > 0) paste0("In interactions ", paste(from, collapse = ", "), ": the coefficient of a column alone is its effect there.")
}
