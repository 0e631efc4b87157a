# What is claimed about privacy.

as_claim <- function(said) {
  if (is.null(said)) return(NULL)
  said$caveats <- as.character(unlist(said$caveats))
  structure(said, class = "consenso_claim")
}

format.consenso_claim <- function(x, ...) x$statement

print.consenso_claim <- function(x, ...) {
  cat(format(x), "\n", sep = "")
  invisible(x)
}
