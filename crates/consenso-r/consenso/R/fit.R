# Models: what all of them share.

# Families by the names that glm() and the library know: the loss, and what the label is.
FAMILIES <- list(
  binomial = c("logistic", "classes"), probit = c("probit", "classes"), multinomial = c("softmax", "classes"),
  ordinal = c("ordinal", "classes"), gaussian = c("ridge", "numbers"), huber = c("huber", "numbers"),
  poisson = c("poisson", "numbers"), negbin = c("negative-binomial", "numbers"), gamma = c("gamma", "numbers"),
  quantile = c("quantile", "numbers")
)

LINKS <- c(binomial = "logit", gaussian = "identity", poisson = "log", Gamma = "log")

family_name <- function(family) {
  if (is.function(family)) family <- family()
  if (inherits(family, "family")) {
    name <- family$family
    if (identical(name, "binomial") && identical(family$link, "probit")) return("probit")
    if (!name %in% names(LINKS)) wrong("family ", name, " is not fitted; there are ", paste(names(FAMILIES), collapse = ", "))
    if (!identical(family$link, LINKS[[name]])) {
      wrong("family ", name, " is fitted with the link \"", LINKS[[name]], "\" only: ", name, "(link = \"", LINKS[[name]], "\")")
    }
    return(if (name == "Gamma") "gamma" else name)
  }
  if (identical(family, "Gamma")) family <- "gamma"
  if (!is.character(family) || length(family) != 1 || !family %in% names(FAMILIES)) {
    wrong("family must be one of ", paste0("\"", names(FAMILIES), "\"", collapse = ", "))
  }
  family
}

consenso_glm <- function(formula, data, site = NULL, epsilon = 1, delta = 1e-6, family = "binomial", schema = NULL, seed = NULL,
                         inference = TRUE, level = 0.95, quantile = 0.5, exposure = NULL, person = NULL, records_per_person = NULL,
                         neighbours = "replace-one", trust = "local", colluders = NULL, drop_outs = NULL, graph = "complete",
                         algorithm = "dgd", models = "shared", regularization = 1e-3, budget = NULL) {
  family <- family_name(family)
  data <- as_data(data)
  study <- new_study(data, schema, site, person, records_per_person, epsilon, delta)
  exposure <- column_name(exposure, data, "exposure")
  found <- read_formula(formula, data, c(study$site, study$person, exposure))
  if (!is.name(found$response)) wrong("`", deparse1(found$response), "` is no column: what is predicted must be one")
  label <- as.character(found$response)
  loss <- FAMILIES[[family]]
  spec <- if (loss[2] == "classes") class_spec(label, data[[label]], study$schema) else number_spec(label, data[[label]], study$schema, study$private)
  count <- length(spec$classes)
  if (loss[2] == "classes" && count < 2) wrong("`", label, "` has one class only: two are needed")
  if (family %in% c("binomial", "probit") && count > 2) wrong("`", label, "` has ", count, " classes: family = \"multinomial\" or \"ordinal\"")
  study <- add_interactions(add_columns(study, found$features, stats::setNames(list(spec), label)), found)
  exposure <- c(exposure, found$exposure)
  if (length(exposure) > 1) wrong("there are two exposures: ", paste(exposure, collapse = " and "))
  if (length(exposure) == 1) study <- add_special(study, exposure, "exposure")
  objective <- list(loss = loss[1], regularization = regularization)
  if (family == "quantile") objective$quantile <- quantile
  always <- family == "ordinal"
  if (!identical(models, "shared") && !identical(models, "personal")) wrong("models must be \"shared\" or \"personal\"")
  # A quantile and several classes have no standard errors.
  inference <- if (missing(inference)) !family %in% c("quantile", "multinomial") && trust %in% c("local", "correlated") else inference
  options <- list(
    objective = objective, inference = if (isTRUE(inference) || always) level, neighbours = neighbours, trust = trust, colluders = colluders,
    drop_outs = drop_outs, graph = graph, algorithm = algorithm, models = models
  )
  model <- train(study, options, seed, budget, "consenso_glm")
  model$family <- family
  model$label <- label
  finish(model, formula, match.call(), c("consenso_glm", "consenso_model"))
}

consenso_survival <- function(formula, data, site = NULL, epsilon = 1, delta = 1e-6, schema = NULL, seed = NULL, intervals = 6,
                              cuts = NULL, level = 0.95, person = NULL, records_per_person = NULL, neighbours = "replace-one",
                              trust = "local", colluders = NULL, graph = "complete", regularization = 1e-3, budget = NULL) {
  data <- as_data(data)
  study <- new_study(data, schema, site, person, records_per_person, epsilon, delta)
  found <- read_formula(formula, data, c(study$site, study$person))
  response <- found$response
  named <- is.call(response) && as.character(response[[1]])[length(as.character(response[[1]]))] == "Surv"
  if (!named || length(response) != 3 || !is.name(response[[2]]) || !is.name(response[[3]])) {
    wrong("what is predicted is Surv(time, event) with two columns, as in Surv(months, died) ~ age + ward")
  }
  if (!is.null(found$exposure)) wrong("a survival model has no offset")
  time <- as.character(response[[2]])
  event <- as.character(response[[3]])
  spec <- class_spec(event, data[[event]], study$schema)
  if (length(spec$classes) != 2) wrong("`", event, "` must say of every record whether the event happened: it has ", length(spec$classes), " values")
  study <- add_interactions(add_columns(study, found$features, stats::setNames(list(spec), event)), found)
  study <- add_special(study, time, "time")
  objective <- list(loss = "hazards", regularization = regularization)
  if (is.null(cuts)) objective$intervals <- intervals else objective$cuts <- cuts
  options <- list(objective = objective, inference = level, neighbours = neighbours, trust = trust, colluders = colluders, graph = graph, algorithm = "dgd")
  model <- train(study, options, seed, budget, "consenso_survival")
  model$family <- "hazards"
  model$label <- event
  finish(model, formula, match.call(), c("consenso_survival", "consenso_model"))
}

# Records with what is publicly known of them, before a formula says which columns count.
new_study <- function(data, schema, site, person, records, epsilon, delta) {
  private <- !is.null(epsilon)
  if (private) epsilon <- positive(epsilon, "epsilon")
  schema <- if (is.null(schema)) new_schema(list(), TRUE) else consenso_schema(schema)
  if (private && !isTRUE(schema$reviewed)) {
    wrong(
      "the schema is a draft: its ranges and categories come from the records, and no privacy claim can rest on them. Replace them by what is ",
      "public without the records (print it to see them), then set schema$reviewed <- TRUE"
    )
  }
  if (!is.null(site) && !inherits(site, "formula") && length(site) == nrow(data) && nrow(data) > 1) {
    name <- free_name("site", names(data))
    data[[name]] <- as.character(site)
    site <- name
  }
  site <- column_name(if (is.null(site)) in_data(schema, "site", data) else site, data, "site")
  person <- column_name(if (is.null(person)) in_data(schema, "person", data) else person, data, "person")
  if (!is.null(site) && anyNA(data[[site]])) wrong("site: some records have none")
  list(data = data, schema = schema, site = site, person = person, records = records, private = private, epsilon = epsilon, delta = delta, given = schema, public = character())
}

in_data <- function(schema, kind, data) {
  found <- intersect(column_names(schema, kind), names(data))
  if (length(found) > 0) found[1]
}

# The schema of the columns that count, in the order of the schema that was given.
add_columns <- function(study, features, label) {
  specs <- lapply(stats::setNames(features, features), function(name) column_spec(name, study$data[[name]], study$schema, study$private))
  declared <- names(study$schema$columns)
  study$public <- c(
    public_levels(features, study),
    if (!is.null(label[[1]]$classes)) setdiff(names(label), declared)
  )
  specs <- c(specs, label)
  if (!is.null(study$site)) {
    own <- study$schema$columns[[study$site]]
    specs[[study$site]] <- if (identical(own$kind, "site")) own else list(kind = "site")
  }
  if (!is.null(study$person)) {
    own <- study$schema$columns[[study$person]]
    if (!identical(own$kind, "person")) {
      if (is.null(study$records)) wrong("person needs records_per_person = \u2026, how many records of one person count; a claim is then about all of them")
      own <- list(kind = "person", records = study$records)
    }
    specs[[study$person]] <- own
  }
  order <- c(intersect(declared, names(specs)), setdiff(names(specs), declared))
  study$schema$columns <- specs[order]
  study
}

# A column that is no feature: a time or an exposure, with a public range.
add_special <- function(study, name, kind) {
  if (!name %in% names(study$data)) wrong("there is no column `", name, "`")
  said <- column_spec(name, study$data[[name]], study$given, study$private)
  if (is.null(said$max)) wrong("`", name, "` must be numbers with a public range: schema = list(", name, " = c(lowest, highest))")
  said$kind <- kind
  # Times begin at 0.
  if (kind == "time") said$min <- NULL
  study$schema$columns[[name]] <- said
  study
}

GRAPHS <- list(regular = "degree", random = "edges", "small-world" = c("degree", "rewire"), grid = "rows")

graph_table <- function(graph) {
  if (is.list(graph)) return(graph)
  parts <- strsplit(graph, ":", fixed = TRUE)[[1]]
  values <- as.list(as.numeric(parts[-1]))
  names(values) <- GRAPHS[[parts[1]]][seq_along(values)]
  c(list(kind = parts[1]), values)
}

algorithm_table <- function(algorithm, trust, colluders, drop_outs = NULL) {
  table <- if (is.list(algorithm)) algorithm else list(kind = algorithm)
  if (trust %in% c("shares", "masked")) {
    table$kind <- NULL
    table <- c(list(kind = "gd", aggregation = "fixed", exchange = if (trust == "shares") "secret-shared" else "masked"), table)
  } else if (trust == "correlated") {
    table$kind <- "decor"
  } else if (trust != "local") {
    wrong("trust must be \"local\" (trust nobody), \"correlated\" (neighbours share noise that cancels), \"shares\" or \"masked\" (only sums are revealed)")
  }
  if (!is.null(colluders) && trust == "local") wrong("colluders belongs to trust = \"correlated\", \"shares\" or \"masked\"")
  if (!is.null(drop_outs) && trust != "masked") wrong("drop_outs belongs to trust = \"masked\"")
  table$colluders <- colluders
  table$drop_outs <- drop_outs
  table
}

# The experiment and its records, as the command line would read them.
task <- function(study, rest) {
  data <- list(path = "*.csv", schema = "schema.toml")
  if (is.null(study$site)) data$agents <- 1 else data$partition <- list(by = study$site)
  table <- c(list(name = "study", runs = 1, data = data), rest)
  if (study$private) table$privacy <- list(epsilon = study$epsilon, delta = study$delta, neighbours = rest$privacy$neighbours)
  list(text = toml_table(table), schema = schema_toml(study$schema), table = csv_text(study$data, study$schema$columns, missing_word(study$schema)))
}

train <- function(study, options, seed, budget, name) {
  rest <- list(objective = options$objective, graph = graph_table(options$graph))
  if (identical(options$models, "personal")) rest <- c(list(models = "personal"), rest)
  rest$privacy <- if (study$private) list(neighbours = options$neighbours)
  if (!is.null(options$inference)) rest$inference <- list(level = options$inference)
  rest$algorithm <- list(algorithm_table(options$algorithm, options$trust, options$colluders, options$drop_outs))
  made <- task(study, rest)
  found <- call_task("fit", made, study, seed, budget, name)
  file <- from_json(found$file)
  list(
    personal = keep_personal(found$personal),
    file = found$file, claim = as_claim(found$claim), schema = study$schema, inference = file$inference, terms = found$coefficients,
    classes = file$classes, intercept = file$intercept, notes = unlist(file$notes), rounds = found$rounds,
    warnings = as.character(unlist(found$warnings)), public = study$public, nobs = nrow(study$data),
    sites = if (is.null(study$site)) "site 1" else unique(as.character(study$data[[study$site]])), features = features_of(study),
    interactions = study$interactions
  )
}

# Personal models are exact functions of a site's records. They stay in this session: a model that is saved has the key alone.
PERSONAL <- new.env(parent = emptyenv())

keep_personal <- function(found) {
  if (length(found) == 0) return(NULL)
  key <- basename(tempfile("personal-"))
  files <- lapply(found, function(one) one$file)
  names(files) <- vapply(found, function(one) one$site, "")
  assign(key, files, envir = PERSONAL)
  key
}

model_of <- function(model, site) {
  if (is.null(site) || is.null(model$personal)) return(list(file = model$file, site = site))
  files <- PERSONAL[[model$personal]]
  if (is.null(files)) {
    wrong("personal models are as private as the records they were fitted on, and do not leave the session: a saved model has the shared one alone")
  }
  site <- as.character(site)
  if (!site %in% names(files)) wrong("site \"", site, "\" is none of ", paste(names(files), collapse = ", "))
  list(file = files[[site]], site = NULL)
}

features_of <- function(study) column_names(study$schema, c("numeric", "categorical", "date", "exposure"))

call_task <- function(what, made, study, seed, budget, name, ...) {
  if (study$private) charge <- charge_of(budget, made$table) else charge <- list()
  given <- c(
    list(what, file = name, text = made$text, schema = made$schema, "table:records.csv" = made$table, seed = seed_text(seed), ...), charge
  )
  do.call(call_library, given)
}

finish <- function(model, formula, call, class) {
  # A formula holds the environment it was written in, and with it perhaps the records.
  environment(formula) <- globalenv()
  # Warnings count records exactly: whoever has these is told, and a model that is handed on does not hold them.
  for (warning in model$warnings) warning(warning, call. = FALSE)
  model$warnings <- NULL
  structure(c(list(call = call, formula = formula), model), class = class)
}
