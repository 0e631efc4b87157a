"""Statistics of all records with intervals, as a data frame."""

from __future__ import annotations

import json
import os
from contextlib import nullcontext
from typing import Any, Optional, Union

import numpy as np

from . import _core
from ._budget import BudgetAccountant, accountants, charger
from ._claim import Claim
from ._cli import cli
from ._core import InputError
from ._experiments import _dumps
from ._frames import Column, Frame, finite_range, is_frame, text_of
from ._progress import progress_of
from ._schema import Schema
from ._sites import by_site


def ask(
    study: Any,
    *questions: str,
    epsilon: Optional[float] = None,
    delta: Optional[float] = None,
    schema: Any = None,
    sites: Any = None,
    accountant: Optional[BudgetAccountant] = None,
    exchange: Optional[str] = None,
    colluders: Optional[int] = None,
    drop_outs: Optional[int] = None,
    sampling: bool = False,
    entropy: str = "seed",
    seed: Optional[int] = None,
    out: Union[str, "os.PathLike[str]", None] = None,
    set: Optional[dict[str, Any]] = None,  # noqa: A002 - as the command line has it
    frame: bool = True,
) -> Any:
    """Ask for statistics of all records of a study, in one exchange under one budget.

    Parameters
    ----------
    study : str, path or frame
        An experiment file, or the name of a built-in experiment: its records, graph and budget. Or the records themselves: a pandas, polars
        or Arrow frame, with ``epsilon``, ``schema`` and ``sites``.
    *questions : str
        Questions such as ``"mean age by sex"`` or ``"quantiles age q=0.1,0.9"``; the ``[[query]]`` tables of the file if
        there are none here.
    epsilon : float, optional
        The budget of all questions together; that of the file by default. A frame without one is answered exactly.
    delta : float, optional
        The δ of a frame's budget, 1e-6 by default.
    schema : path, dict or Schema, optional
        What is publicly known of a frame's columns, as for the estimators; category dtypes and booleans carry their levels. Under a budget
        other columns are left out.
    sites : sequence, optional
        The site of every row of a frame.
    accountant : BudgetAccountant, optional
        Charged with what the questions about a frame cost, before they are asked.
    exchange : {"plain", "secret-shared", "masked"}, optional
        How sites exchange their sums.
    colluders : int, optional
        How many sites may pool what they know, where noise is shared.
    drop_outs : int, optional
        How many sites may die without ending it, with ``exchange="masked"``: the budget pays for as many further tries.
    sampling : bool
        Whether intervals are also about what the records were drawn from.
    entropy : {"seed", "os"}
        Where the noise comes from. A claim holds for ``"os"`` alone, which also books the cost in the records' ledger. A frame's noise is
        the operating system's unless ``seed`` is given.
    seed : int, optional
        Seed of everything random, instead of the file's.
    out : str or path, optional
        Folder to write: answers.json, answers.csv, answers.tex and answers.html.
    set : dict, optional
        Keys of the experiment to change, as ``--set`` does.
    frame : bool
        Whether to return a data frame of pandas; the JSON of the command otherwise.

    Returns
    -------
    pandas.DataFrame or dict
        One row per answer: question, kind, group, what, column, level, q, at, estimate, low, high, noise, below_noise. An estimate that
        noise alone could have made is missing; its interval says what is known. What the questions cost is in ``frame.attrs["epsilon"]``.

    Raises
    ------
    InputError
        A question that cannot be answered, or a budget that does not pay for it.
    """
    if is_frame(study):
        options = {"exchange": exchange, "colluders": colluders, "drop_outs": drop_outs, "sampling": bool(sampling)}
        found = _ask_frame(study, questions, epsilon, 1e-6 if delta is None else delta, schema, sites, options, seed, accountant)
        return _framed(found) if frame else found
    if any(given is not None for given in (delta, schema, sites, accountant)):
        raise InputError("delta, schema, sites and accountant belong to a frame: a file has its own")
    words: list[Union[str, "os.PathLike[str]"]] = ["ask", study, *questions, "--entropy", entropy]
    given = {"epsilon": epsilon, "exchange": exchange, "colluders": colluders, "drop-outs": drop_outs, "seed": seed, "out": out}
    for name, value in given.items():
        if value is not None:
            words += [f"--{name}", str(value)]
    words += ["--sampling"] if sampling else []
    for key, value in (set or {}).items():
        words += ["--set", f"{key}={value}"]
    found = cli(*words)
    return _framed(found) if frame else found


_ORDER = ("question", "kind", "group", "what", "column", "level", "q", "at", "estimate", "low", "high", "noise", "below_noise")


def _framed(found: dict[str, Any]) -> Any:
    """One row per answer."""
    import pandas

    rows = [
        {"question": query["question"], "kind": query["kind"], **answer}
        for query in found["queries"]
        for answer in query["answers"]
    ]
    result = pandas.DataFrame(rows)
    # As they are read, whatever order a file has them in.
    # What noise alone could have made is no number.
    result.loc[result["below_noise"].astype(bool), "estimate"] = np.nan
    result = result[sorted(result.columns, key=lambda name: _ORDER.index(name) if name in _ORDER else len(_ORDER))]
    result.attrs["epsilon"] = found.get("epsilon")
    if found.get("claim"):
        result.attrs["claim"] = Claim.of(found["claim"])
    result.attrs["tests"] = {query["question"]: query.get("tests", []) for query in found["queries"]}
    return result


def _ask_frame(
    given: Any,
    questions: tuple[str, ...],
    epsilon: Optional[float],
    delta: float,
    schema: Any,
    sites: Any,
    options: dict[str, Any],
    seed: Optional[int],
    accountant: Optional[BudgetAccountant],
) -> dict[str, Any]:
    if not questions:
        raise InputError('there is no question: ask one as in consenso.ask(frame, "mean age by sex", epsilon=0.5)')
    frame = Frame.of(given)
    if frame.rows == 0:
        raise InputError("the frame has no records")
    public = _public(frame, schema, epsilon is not None)
    columns = [c for c in frame.columns if c.name in public]
    unsaid = [name for name in frame.names if name not in public]
    spare = None
    if public.find("label") is None:
        # A schema has one label: where nobody names one, a column that nobody asks about is it.
        name = "label"
        while name in frame.names:
            name += "_"
        spare = name
        columns.append(Column(name, "text", ["a"] * frame.rows))
        public.columns.append({"name": name, "kind": "label", "classes": ["a", "b"]})
    data: dict[str, Any] = {"path": "*.csv", "schema": "schema.toml", "agents": 1}
    declared = public.find("site")
    if declared is not None or sites is not None:
        name = str(declared["name"]) if declared is not None else "site"
        if sites is not None:
            while declared is None and name in frame.names:
                name += "_"
            by_site(sites, frame.rows)  # says what is wrong with them
            columns = [c for c in columns if c.name != name] + [Column(name, "text", [str(site) for site in np.asarray(sites).tolist()])]
            if declared is None:
                public.columns.append({"name": name, "kind": "site"})
        del data["agents"]
        data["partition"] = {"by": name}
    specs = {str(c["name"]): c for c in public.columns}
    asked = Frame(columns)
    table_of_frame = asked.table(specs, [("records.csv", np.arange(frame.rows))])
    files = [] if table_of_frame is not None else [("records.csv", asked.csv(specs, public.missing()))]
    table: dict[str, Any] = {"name": "questions", "runs": 1, "data": data, "graph": {"kind": "complete"}}
    table["questions"] = {key: value for key, value in options.items() if value is not None}
    if epsilon is not None:
        table["privacy"] = {"epsilon": float(epsilon), "delta": float(delta)}
    task: dict[str, Any] = {"file": "ask", "text": _dumps(table), "files": files, "columns": table_of_frame}
    task.update({"schema": public.to_toml(), "test": None, "edges": None, "spare": spare})
    charge = None
    if epsilon is not None:
        charge = charger(accountants(accountant), "ask", lambda: asked.most_equal(specs, public.missing()))
    with progress_of(None, "ask") or nullcontext() as progress:
        try:
            found: dict[str, Any] = json.loads(_core.ask(task, list(questions), seed, progress, charge))
        except InputError as error:
            named = [name for name in unsaid if f'is called "{name}"' in str(error)]
            if not named:
                raise
            raise InputError(
                f'column "{named[0]}" is in the frame, and nothing public is said of it: schema={{"{named[0]}": (lowest, highest)}} of a number, '
                f'{{"{named[0]}": ["one", "another", …]}} of categories, or a category dtype'
            ) from None
    claim = found.get("claim")
    found["epsilon"] = None if claim is None else {"claim": claim["epsilon"], "delta": claim["delta"], "seeded": seed is not None}
    return found


def _public(frame: Frame, schema: Any, private: bool) -> Schema:
    """What is publicly known of the columns that questions may be about."""
    found = Schema({"reviewed": True, "column": []}) if schema is None else Schema(schema).as_frames_are()
    if private and not found.reviewed:
        raise InputError(
            "the schema is a draft: its ranges and categories come from the records, and no privacy claim can rest on them. Replace them by what is "
            "public without the records, then set schema.reviewed = True"
        )
    found.columns[:] = [column for column in found.columns if column["name"] in frame.names]
    for column in frame.columns:
        if column.name in found:
            continue
        if column.kind in ("category", "boolean"):
            levels = column.levels if column.kind == "category" else ["False", "True"]
            found.columns.append({"name": column.name, "kind": "categorical", "categories": levels})
        elif not private and column.kind == "number":
            low, high = finite_range(column)
            found.columns.append({"name": column.name, "kind": "numeric", "min": low, "max": high})
        elif not private and column.kind == "text":
            words = sorted({text_of(v) for v in column.values if v is not None})
            found.columns.append({"name": column.name, "kind": "categorical", "categories": words})
    return found
