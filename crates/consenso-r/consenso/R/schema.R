# The public schema: what everybody may know about the records before seeing one.

# How a file is written, which a data frame is not.
FORMAT <- c("header", "delimiter", "quote", "decimal", "thousands", "encoding", "comment")

consenso_schema <- function(..., reviewed = TRUE) {
  given <- list(...)
  if (length(given) == 1 && is.null(names(given))) {
    one <- given[[1]]
    if (inherits(one, "consenso_schema")) return(one)
    if (is.character(one) && length(one) == 1) return(read_schema(one))
    if (!is.list(one)) wrong("a schema is a file, or names with what is public: age = c(0, 120), sex = c(\"f\", \"m\")")
    given <- one
  }
  if (length(given) > 0 && (is.null(names(given)) || !all(nzchar(names(given))))) {
    wrong("every column of a schema has a name: consenso_schema(age = c(0, 120), sex = c(\"f\", \"m\"))")
  }
  columns <- lapply(names(given), function(name) said_column(name, given[[name]]))
  names(columns) <- names(given)
  new_schema(columns, reviewed)
}

new_schema <- function(columns, reviewed, head = list(), warnings = character()) {
  structure(list(reviewed = reviewed, columns = columns, head = head, warnings = warnings), class = "consenso_schema")
}

said_column <- function(name, said) {
  if (is.factor(said)) said <- levels(said)
  if (is.list(said)) {
    if (is.null(said$kind)) said$kind <- if (is.null(said$categories)) "numeric" else "categorical"
    return(said)
  }
  if (is.numeric(said) && length(said) == 2 && all(is.finite(said)) && said[1] < said[2]) {
    return(list(kind = "numeric", min = said[[1]], max = said[[2]]))
  }
  if (inherits(said, "Date") && length(said) == 2) {
    return(list(kind = "date", origin = format(said[1]), min = format(said[1]), max = format(said[2])))
  }
  if (is.character(said) && length(said) > 0) return(list(kind = "categorical", categories = said))
  wrong(
    "schema of `", name, "`: c(lowest, highest) for a number, the categories of a text, two dates, or a list such as ",
    "list(kind = \"numeric\", min = 0, max = 120, missing = \"drop\")"
  )
}

read_schema <- function(path) {
  if (!file.exists(path)) wrong(path, ": there is no such schema file")
  schema_of_toml(paste(readLines(path, encoding = "UTF-8", warn = FALSE), collapse = "\n"))
}

schema_of_toml <- function(text, warnings = character()) {
  table <- call_library("toml", text = text)
  columns <- table$column
  if (length(columns) == 0) wrong("the schema has no columns: a file has a [[column]] for each")
  names(columns) <- vapply(columns, function(column) as.character(column$name), "")
  columns <- lapply(columns, function(column) column[names(column) != "name"])
  head <- table[!names(table) %in% c("reviewed", "column", FORMAT)]
  new_schema(columns, isTRUE(table$reviewed), head, warnings)
}

schema_toml <- function(schema) {
  head <- c(list(reviewed = isTRUE(schema$reviewed)), lapply(schema$head, I))
  tables <- vapply(names(schema$columns), function(name) {
    paste0("\n[[column]]\n", toml_table(c(list(name = name), schema$columns[[name]])), "\n")
  }, "")
  paste0(toml_table(head), "\n", paste(tables, collapse = ""))
}

# A word that means "unknown".
missing_word <- function(schema) {
  words <- schema$head$missing
  if (is.null(words) || "" %in% words) return("")
  if (length(words) == 0) wrong("the schema says that nothing is missing (missing = []): add \"\" to it for data frames")
  words[[1]]
}

column_names <- function(schema, kind) {
  names(schema$columns)[vapply(schema$columns, function(column) column$kind %in% kind, NA)]
}

consenso_schema_draft <- function(data, label = NULL, site = NULL, positive = NULL) {
  data <- as_data(data)
  label <- column_name(label, data, "label")
  site <- column_name(site, data, "site")
  drafted <- data
  spare <- NULL
  if (is.null(label)) {
    spare <- free_name("label", names(data))
    drafted[[spare]] <- rep(c("a", "b"), length.out = nrow(data))
  }
  kinds <- lapply(drafted, function(x) {
    if (is.logical(x)) return(list(kind = "categorical", categories = BOOLEANS[[1]]))
    list(kind = if (inherits(x, "Date")) "date" else if (is.numeric(x)) "numeric" else "categorical")
  })
  text <- csv_text(drafted, kinds, "")
  found <- call_library("draft", text = text, label = c(label, spare), site = site, positive = positive)
  warnings <- as.character(unlist(found$warnings))
  if (!is.null(spare)) warnings <- warnings[!grepl(paste0("\"", spare, "\""), warnings, fixed = TRUE)]
  schema <- schema_of_toml(found$text, warnings)
  if (!is.null(spare)) schema$columns[[spare]] <- NULL
  for (name in setdiff(names(data)[vapply(data, is.factor, NA)], c(label, site))) {
    kept <- schema$columns[[name]][c("missing", "indicator")]
    schema$columns[[name]] <- c(list(kind = "categorical", categories = levels(data[[name]])), kept[!vapply(kept, is.null, NA)])
  }
  schema
}

described <- function(column) {
  words <- if (is.null(column$categories)) column$classes else column$categories
  if (!is.null(words)) {
    some <- paste(c(head(words, 8), if (length(words) > 8) "\u2026"), collapse = ", ")
    return(paste0(column$kind, ", ", length(words), if (column$kind == "label") " classes: " else " categories: ", some))
  }
  if (!is.null(column$min)) return(paste0(column$kind, " from ", column$min, " to ", column$max))
  column$kind
}

print.consenso_schema <- function(x, ...) {
  if (isTRUE(x$reviewed)) {
    cat("# Reviewed: ranges and categories are public knowledge.\n")
  } else {
    cat("# Review before use: replace what comes from the records by what is public without them,\n# then set schema$reviewed <- TRUE.\n")
  }
  for (name in names(x$columns)) cat(name, ": ", described(x$columns[[name]]), "\n", sep = "")
  for (warning in x$warnings) cat("look at: ", warning, "\n", sep = "")
  invisible(x)
}
