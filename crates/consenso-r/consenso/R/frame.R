# Data frames as text that is read as a file's would be.

as_data <- function(data) {
  if (!is.data.frame(data)) wrong("data must be a data frame")
  data <- as.data.frame(data)
  if (nrow(data) == 0) wrong("data has no records")
  if (anyDuplicated(names(data))) wrong("two columns are called `", names(data)[duplicated(names(data))][1], "`: give every column a name of its own")
  data
}

free_name <- function(name, taken) {
  while (name %in% taken) name <- paste0(name, "_")
  name
}

# The column that `~ column` or a name means.
column_name <- function(given, data, what) {
  if (is.null(given)) return(NULL)
  if (inherits(given, "formula")) {
    inner <- given[[length(given)]]
    if (length(given) != 2 || !is.name(inner)) wrong(what, " is one column, as in ", what, " = ~hospital")
    given <- as.character(inner)
  }
  if (!is.character(given) || length(given) != 1 || !given %in% names(data)) {
    wrong(what, ": there is no column `", paste(given, collapse = ", "), "`; there are ", paste(names(data), collapse = ", "))
  }
  given
}

BOOLEANS <- list(c("FALSE", "TRUE"), c("False", "True"), c("false", "true"), c("no", "yes"), c("0", "1"))

quoted <- function(text) {
  some <- !is.na(text) & grepl("[,\"\n\r]|^\\s|\\s$", text)
  text[some] <- paste0("\"", gsub("\"", "\"\"", text[some], fixed = TRUE), "\"")
  text
}

strftime_format <- function(form) {
  for (token in list(c("YYYY", "%Y"), c("YY", "%y"), c("MM", "%m"), c("DD", "%d"))) form <- sub(token[1], token[2], form, fixed = TRUE)
  form
}

# The cells of a column as a file under this schema would have them; NA where one is missing.
cells <- function(x, spec) {
  if (inherits(x, c("Date", "POSIXt"))) {
    x <- if (inherits(x, "POSIXt")) as.Date(x) else x
    return(format(x, strftime_format(if (is.null(spec$format)) "YYYY-MM-DD" else spec$format)))
  }
  words <- if (is.null(spec$categories)) spec$classes else spec$categories
  if (is.logical(x)) {
    pair <- BOOLEANS[[1]]
    for (other in BOOLEANS) if (all(other %in% words)) pair <- other
    if (is.null(words)) pair <- c("0", "1")
    return(ifelse(is.na(x), NA, pair[x + 1L]))
  }
  if (is.factor(x)) return(as.character(x))
  if (is.numeric(x)) {
    if (!is.null(words) || spec$kind %in% c("categorical", "site", "person")) return(category_text(x))
    return(ifelse(is.finite(x), number_text(x), NA_character_))
  }
  if (is.character(x)) return(trimws(x))
  wrong("a column of class ", class(x)[1], " has no place in a table: numbers, texts, factors, logical values and dates do")
}

# A table as the text of a file, with the columns that `specs` names.
csv_text <- function(data, specs, missing) {
  names <- intersect(names(specs), names(data))
  columns <- lapply(names, function(name) {
    text <- quoted(cells(data[[name]], specs[[name]]))
    text[is.na(text)] <- missing
    text
  })
  lines <- do.call(paste, c(columns, sep = ","))
  # A line of one empty cell would be no line.
  if (length(names) == 1) lines[lines == ""] <- "\"\""
  paste(enc2utf8(c(paste(quoted(names), collapse = ","), lines, "")), collapse = "\n")
}
