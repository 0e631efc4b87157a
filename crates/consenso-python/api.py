"""The guide's page of the Python API, made of the docstrings, so that it cannot lag: python api.py writes it, a test compares."""

import inspect
import re
import sys
from pathlib import Path

import consenso
from consenso import accounting, benchmark, clinical, datasets, dp, dp_accounting, noise, preprocessing

PAGE = Path(__file__).parents[2] / "docs" / "python-api.md"
HEAD = """# The Python API

Every public name of the package `consenso`, made from its docstrings by `cargo xtask python --docs`. [From Python](python.md) shows how they go together.
"""
GROUPS = [
    ("Estimators", consenso, ["LogisticRegression", "LinearSVC", "ProbitRegression", "Ridge", "HuberRegressor", "PoissonRegressor",
                              "GammaRegressor", "NegativeBinomialRegressor", "QuantileRegressor", "CoxPHSurvivalAnalysis"]),
    ("Frames and claims", consenso, ["Schema", "Claim", "BudgetAccountant"]),
    ("Private preprocessing", preprocessing, preprocessing.__all__),
    ("Experiments", consenso, ["run", "ask", "reproduce", "built_in", "Record", "Plots"]),
    ("The board: consenso.benchmark", benchmark, ["method", "Method", "tasks", "Task"]),
    ("Accounting", accounting, accounting.__all__),
    ("Noise", noise, noise.__all__),
    ("Privacy alone: consenso.dp", dp, ["laplace", "gaussian", "delta", "explain", "roc"]),
    ("Names of dp-accounting: consenso.dp_accounting", dp_accounting, ["PLDAccountant", "calibrate_dp_mechanism", "UnsupportedEventError"]),
    ("Any differentiable model", consenso, ["CustomProblem", "CustomFit", "UpdateGate"]),
    ("Sites", consenso, ["network", "Site"]),
    ("Models, records, the command line", consenso, ["load_model", "Model", "cli"]),
    ("Bundled records", datasets, datasets.__all__),
    ("Clinical records: consenso.clinical", clinical, ["from_omop", "from_fhir", "Made", "example_omop", "example_fhir"]),
    ("Errors", consenso, ["InputError", "BudgetSpent", "ConsensoError"]),
]


def find(module, name):
    if name == "Plots":
        from consenso._experiments import Plots

        return Plots
    return getattr(module, name)


def signature(thing):
    try:
        found = inspect.signature(thing)
    except ValueError:
        return "()"
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in found.parameters.values() if p.name != "self"]
    return str(found.replace(parameters=bare, return_annotation=inspect.Signature.empty))


def prose(text):
    """A paragraph of a docstring as Markdown."""
    text = re.sub(r":(?:func|class|meth|mod):`([^`]*)`", r"`\1`", text)
    return text.replace("``", "`").replace("|", "\\|") if "`" not in text else text.replace("``", "`")


def body(doc):
    """A numpydoc docstring as Markdown: sections in bold, arguments as a list."""
    lines, out, i = inspect.cleandoc(doc).split("\n"), [], 0
    listed = False
    while i < len(lines):
        line = lines[i]
        if i + 1 < len(lines) and lines[i + 1] and set(lines[i + 1]) == {"-"}:
            out += ["", f"**{line}**", ""]
            listed = line in ("Parameters", "Attributes", "Returns", "Raises")
            i += 2
        elif line.startswith(">>>"):
            code = []
            while i < len(lines) and lines[i].strip():
                code.append(re.sub(r"\s+# doctest: .*", "", lines[i]))
                i += 1
            out += ["```python", *code, "```"]
        elif listed and line and not line.startswith(" "):
            name, _, kind = (part.strip() for part in line.partition(" : "))
            about = []
            i += 1
            while i < len(lines) and (lines[i].startswith("    ") or (not lines[i] and i + 1 < len(lines) and lines[i + 1].startswith("    "))):
                about.append(lines[i].strip())
                i += 1
            shown = f"- `{name}`" + (f" ({prose(kind)})" if kind else "")
            out.append(shown + (": " + prose(" ".join(filter(None, about))) if about else ""))
        else:
            out.append(prose(line))
            i += 1
    return "\n".join(out).strip()


def entry(name, thing, prefix):
    doc = inspect.getdoc(thing)
    assert doc, f"{name} has no docstring"
    kind = inspect.isclass(thing)
    call = "" if kind and issubclass(thing, BaseException) else signature(thing)
    parts = [f"### {name}", "", f"```python\n{prefix}{name}{call}\n```", "", body(doc), ""]
    if kind and not issubclass(thing, BaseException):
        for method, what in sorted(inspect.getmembers(thing)):
            own = any(method in c.__dict__ and c.__module__.startswith("consenso") for c in thing.__mro__)
            if method.startswith("_") or not own:
                continue
            said = inspect.getdoc(what)
            if said and isinstance(what, property):
                parts += [f"- `.{method}`: {prose(said.splitlines()[0])}"]
            elif said and callable(what) and not method.startswith("set_"):
                short = body(said)
                if "\n" in short:
                    parts += ["", f"#### {name}.{method}", "", f"```python\n.{method}{signature(what)}\n```", "", short, ""]
                else:
                    parts += [f"- `.{method}{signature(what)}`: {short}"]
    return "\n".join(parts).rstrip() + "\n"


def page():
    parts = [HEAD]
    for title, module, names in GROUPS:
        prefix = "" if module is consenso else module.__name__ + "."
        prefix = "consenso." if module is consenso else prefix
        parts.append(f"## {title}\n")
        parts += [entry(name, find(module, name), prefix) for name in names]
    shown = {name for _, _, names in GROUPS for name in names} | {"accounting", "benchmark", "noise", "datasets", "dp", "preprocessing", "__version__"}
    missing = set(consenso.__all__) - shown
    assert not missing, f"not on the page: {missing}"
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"{PAGE}: written", file=sys.stderr)
