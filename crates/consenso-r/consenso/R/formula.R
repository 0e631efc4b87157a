# Formulas: columns that are added up, and their interactions. Functions are refused, in words.

# Reads `y ~ a + b`; `without` are columns that a dot does not stand for.
read_formula <- function(formula, data, without = character()) {
  if (!inherits(formula, "formula") || length(formula) != 3) {
    wrong("formula says what is predicted from what, as in ill ~ age + smokes")
  }
  response <- all.vars(formula[[2]])
  found <- terms(formula, data = data[setdiff(names(data), c(without, response))])
  if (attr(found, "intercept") == 0) wrong("a model without an intercept is not fitted: leave out \"- 1\" and \"+ 0\"")
  exposure <- NULL
  variables <- as.list(attr(found, "variables"))[-1]
  for (place in attr(found, "offset")) {
    call <- variables[[place]][[2]]
    if (!is.null(exposure) || !is.call(call) || !identical(call[[1]], as.name("log")) || !is.name(call[[2]])) {
      wrong("an offset is the logarithm of one column, as in offset(log(person_years))")
    }
    exposure <- as.character(call[[2]])
  }
  for (variable in variables[-c(attr(found, "response"), attr(found, "offset"))]) if (!is.name(variable)) refuse_function(variable)
  names <- vapply(variables, function(variable) if (is.name(variable)) as.character(variable) else deparse1(variable), "")
  # One column per term: 0 where a variable is not in it, 1 where it counts against its first level, 2 where all its levels count.
  coding <- attr(found, "factors")
  terms <- lapply(seq_along(attr(found, "order")), function(term) names[coding[, term] > 0])
  order <- attr(found, "order")
  features <- unlist(terms[order == 1])
  interactions <- lapply(which(order > 1), function(term) {
    inside <- coding[, term] > 0
    list(columns = names[inside], full = unname(coding[inside, term]) == 2)
  })
  lost <- setdiff(c(response, unlist(terms), exposure), names(data))
  if (length(lost) > 0) wrong("there is no column `", lost[1], "`; there are ", paste(names(data), collapse = ", "))
  if (length(terms) == 0) wrong("there is no column to predict from: ", deparse1(formula))
  list(response = formula[[2]], features = features, exposure = exposure, interactions = interactions, terms = terms)
}

# Functions whose values in one record depend on all others.
LEARN <- c("poly", "bs", "ns", "scale", "cut", "rank", "rcs", "s", "te", "pspline", "strata", "cluster", "frailty", "tt")

refuse_function <- function(call) {
  text <- deparse1(call)
  name <- if (is.call(call)) utils::tail(as.character(call[[1]]), 1) else ""
  columns <- all.vars(call)
  if (name %in% c("factor", "as.factor", "ordered", "as.ordered", "relevel") && length(columns) > 0) {
    wrong("`", text, "`: write ", columns[1], " alone, and say what its levels are: schema = list(", columns[1], " = c(\"one\", \"another\"))")
  }
  if (name %in% LEARN) {
    wrong(
      "`", text, "`: ", name, "() looks at all records together, which no privacy claim covers. Make a column of a function with public constants, ",
      "and give it a public range"
    )
  }
  made <- gsub("^_+|_+$", "", gsub("[^A-Za-z0-9]+", "_", sub("^I\\(", "", text)))
  inside <- if (identical(name, "I")) call[[2]] else call
  wrong(
    "`", text, "` is a function of a column: make it a column of the data with a public range of its own, data$", made, " <- with(data, ",
    deparse1(inside), ") and schema = list(", made, " = c(lowest, highest))",
    if (is.call(inside) && identical(inside[[1]], as.name("*")) && length(columns) == 2) paste0("; a product of two columns is ", paste(columns, collapse = ":"))
  )
}

# What is publicly known of a column: what the schema says, or what its type does.
column_spec <- function(name, x, schema, private) {
  said <- schema$columns[[name]]
  if (!is.null(said)) return(said)
  if (is.factor(x)) return(list(kind = "categorical", categories = levels(x)))
  if (is.logical(x)) return(list(kind = "categorical", categories = BOOLEANS[[1]]))
  if (private) {
    what <- if (is.numeric(x)) paste0(name, " = c(lowest, highest)") else paste0(name, " = c(\"one\", \"another\")")
    wrong(
      "what is publicly known of `", name, "` is missing, and it is never learnt from the records: schema = list(", what,
      "), or a schema file (consenso_schema_draft(data) drafts one to review)"
    )
  }
  if (inherits(x, c("Date", "POSIXt"))) {
    days <- format(range(as.Date(x), na.rm = TRUE))
    return(list(kind = "date", origin = days[1], min = days[1], max = days[2]))
  }
  if (is.numeric(x)) return(c(list(kind = "numeric"), own_range(x)))
  list(kind = "categorical", categories = sort(unique(trimws(x[!is.na(x)]))))
}

own_range <- function(x) {
  ends <- range(x[is.finite(x)])
  if (ends[1] == ends[2]) ends <- ends + c(-0.5, 0.5)
  list(min = ends[1], max = ends[2])
}

# The label of classes: what the schema says, or the levels there are.
class_spec <- function(name, x, schema) {
  said <- schema$columns[[name]]
  if (!is.null(said)) {
    words <- if (is.null(said$classes)) said$categories else said$classes
    if (is.null(words)) wrong("schema of `", name, "`: a label of classes names them, as in ", name, " = c(\"no\", \"yes\")")
    said$categories <- NULL
    said$kind <- "label"
    said$classes <- words
    return(said)
  }
  words <- if (is.factor(x)) levels(x) else if (is.logical(x)) BOOLEANS[[1]] else if (is.numeric(x)) category_text(sort(unique(x))) else sort(unique(trimws(x[!is.na(x)])))
  list(kind = "label", classes = words)
}

# The label of numbers: a public range.
number_spec <- function(name, x, schema, private) {
  said <- schema$columns[[name]]
  if (is.null(said)) {
    if (!is.numeric(x)) wrong("`", name, "` must be numbers for this family")
    if (private) {
      wrong(
        "the public range of `", name, "` is missing, and it is never learnt from the records: schema = list(", name, " = c(lowest, highest))"
      )
    }
    said <- own_range(x)
  }
  said$kind <- "label"
  said
}
