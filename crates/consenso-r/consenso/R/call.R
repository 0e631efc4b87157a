# Calls of the library: texts by name in, JSON out.

# Calls a function of the library; NULL is left out, and a vector stands as often as it is long.
call_library <- function(name, ...) {
  given <- list(...)
  given <- given[!vapply(given, is.null, NA)]
  keys <- rep(names(given), lengths(given))
  values <- as.character(unlist(given, use.names = FALSE))
  answer <- .Call(C_consenso_r_call, name, as.character(keys), values)
  found <- from_json(answer)
  # The command line's way out, in the words of this one.
  if (!is.null(found$error)) signal(gsub("--unknown (\\w+)", "unknown = \"\\1\"", found$error), found$kind)
  found$ok
}

from_json <- function(text) {
  jsonlite::fromJSON(text, simplifyVector = TRUE, simplifyDataFrame = FALSE, simplifyMatrix = FALSE)
}

# Signals what the library said: "consenso_input" where something given is wrong, "consenso_spent" where a budget is in the way,
# "consenso_failure" where a run failed.
signal <- function(message, kind) {
  if (identical(kind, "interrupt")) {
    stop(structure(class = c("interrupt", "condition"), list(message = "interrupted", call = NULL)))
  }
  stop(structure(class = c(kind, "consenso_error", "error", "condition"), list(message = message, call = NULL)))
}

wrong <- function(...) signal(paste0(...), "consenso_input")

# A number with all its digits: 17 tell every double from every other.
number_text <- function(x) {
  whole <- !is.na(x) & is.finite(x) & x == round(x) & abs(x) < 2^53
  text <- sprintf("%.17g", x)
  text[whole] <- sprintf("%.0f", x[whole])
  text
}

# A number as a category is written: 1 for 1.0.
category_text <- function(x) {
  text <- sprintf("%.15g", x)
  text[is.na(x)] <- NA_character_
  text
}

positive <- function(x, name) {
  if (!is.numeric(x) || length(x) != 1 || !is.finite(x) || x <= 0) wrong(name, " must be a positive number")
  as.numeric(x)
}

seed_text <- function(seed) {
  if (is.null(seed)) return(NULL)
  if (!is.numeric(seed) || length(seed) != 1 || !is.finite(seed) || seed < 0 || seed != round(seed) || seed > 2^53) {
    wrong("seed must be NULL, for noise of the operating system, or a whole number from 0")
  }
  sprintf("%.0f", seed)
}

# TOML ----------------------------------------------------------------------------------------------------------------------------

# Keys whose value is a list however many there are.
LISTS <- c("categories", "classes", "missing_words", "shares", "cuts", "q")

toml_text <- function(x) {
  x <- enc2utf8(as.character(x))
  x <- gsub("\\", "\\\\", x, fixed = TRUE)
  x <- gsub("\"", "\\\"", x, fixed = TRUE)
  x <- gsub("\n", "\\n", x, fixed = TRUE)
  x <- gsub("\r", "\\r", x, fixed = TRUE)
  x <- gsub("\t", "\\t", x, fixed = TRUE)
  paste0("\"", x, "\"")
}

toml_value <- function(x, many = FALSE) {
  if (is.list(x)) {
    if (!is.null(names(x)) && all(nzchar(names(x)))) {
      x <- x[!vapply(x, is.null, NA)]
      values <- vapply(names(x), function(name) toml_value(x[[name]], name %in% LISTS), "")
      return(paste0("{ ", paste0(vapply(names(x), toml_key, ""), " = ", values, collapse = ", "), " }"))
    }
    return(paste0("[", paste(vapply(x, toml_value, ""), collapse = ", "), "]"))
  }
  one <- if (is.logical(x)) ifelse(x, "true", "false") else if (is.numeric(x)) number_text(x) else toml_text(x)
  if (many || length(x) != 1 || inherits(x, "AsIs")) paste0("[", paste(one, collapse = ", "), "]") else one
}

toml_key <- function(name) if (grepl("^[A-Za-z0-9_-]+$", name)) name else toml_text(name)

# A table, one key a line.
toml_table <- function(x) {
  x <- x[!vapply(x, is.null, NA)]
  values <- vapply(names(x), function(name) toml_value(x[[name]], name %in% LISTS), "")
  paste0(vapply(names(x), toml_key, ""), " = ", values, collapse = "\n")
}
