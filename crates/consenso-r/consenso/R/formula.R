# Formulas: columns that are added up. Interactions and functions are refused, in words.

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
  if (any(attr(found, "order") > 1)) {
    wrong(
      "interactions (", paste(attr(found, "term.labels")[attr(found, "order") > 1], collapse = ", "),
      ") are not fitted: make a column of the product, with a public range of its own"
    )
  }
  features <- vapply(attr(found, "term.labels"), function(label) {
    term <- str2lang(label)
    if (!is.name(term)) {
      wrong("`", label, "` is a function of a column: make it a column of the data, with a public range of its own")
    }
    as.character(term)
  }, "", USE.NAMES = FALSE)
  lost <- setdiff(c(response, features, exposure), names(data))
  if (length(lost) > 0) wrong("there is no column `", lost[1], "`; there are ", paste(names(data), collapse = ", "))
  if (length(features) == 0) wrong("there is no column to predict from: ", deparse1(formula))
  list(response = formula[[2]], features = features, exposure = exposure)
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
