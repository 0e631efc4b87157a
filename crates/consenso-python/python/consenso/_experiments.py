"""Experiments: run what an experiment file says, and look at the record."""

from __future__ import annotations

import decimal
import glob
import html
import json
import os
import sys
import tempfile
import threading
from concurrent.futures import Executor, Future
from pathlib import Path
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Mapping, Optional, Union

from . import _core
from ._cli import cli
from ._core import InputError
from ._format import plain, round_up
from ._progress import progress_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    import pandas

__all__ = ["Record", "built_in", "reproduce", "run"]

Experiment = Union[str, "os.PathLike[str]", Mapping[str, Any]]


def built_in() -> dict[str, str]:
    """Names of the experiments that come with the software, each with a line about it."""
    return dict(_core.built_ins())


def run(
    experiment: Experiment = "adult",
    *,
    entropy: str = "seed",
    progress: Optional[bool] = None,
    executor: Optional[Executor] = None,
    out: Union[str, "os.PathLike[str]", None] = None,
    **overrides: Any,
) -> Any:
    """Simulate an experiment.

    Parameters
    ----------
    experiment : str, path or mapping
        The name of a built-in experiment (see :func:`built_in`), an experiment file, or its keys as a mapping.
    entropy : {"seed", "os"}
        ``"seed"`` repeats bit for bit, for science; ``"os"`` draws the noise that a privacy claim holds for.
    progress : bool, optional
        Whether to show how far it is; by default in a terminal and in a notebook, once it takes half a second.
    executor : concurrent.futures.Executor, optional
        Where to run: a process pool, Dask, mpi4py.futures, submitit. A ``Future`` of the record comes back then. Every run of every
        point of a sweep is a task of its own, and the record is that of one process, bit for bit.
    out : path, optional
        The folder of a run with ``entropy="os"`` on records from files, which is the command line's: it holds what may be shared, and
        ``private/`` the rest; the cost is booked in the ledger beside the records. ``runs/NAME-os`` by default.
    **overrides
        Keys to change, with ``__`` for the dot: ``privacy__epsilon=0.5``, ``data__agents=20``, ``runs=3``,
        ``algorithm__0__rounds=50``; ``None`` removes a key.

    Returns
    -------
    Record, or a Future of one with ``executor``.
    """
    if entropy not in ("seed", "os"):
        raise InputError(f'entropy={entropy!r} must be "seed" or "os"')
    task = _prepare(experiment, overrides)
    if entropy == "os" and task["files"]:
        # Real noise on one's own records: the command line keeps the ledger and tells what may be shared from what may not.
        return executor.submit(_booked, task, out) if executor is not None else _booked(task, out)
    if executor is not None:
        return _submit(executor, task, entropy == "os")
    return _run(task, entropy == "os", progress)


def _submit(executor: Any, task: dict[str, Any], os_entropy: bool) -> "Future[Record]":
    """One task for each share; a thread waits for all of them and puts them together."""
    count = min(_core.shares(task), 256)
    shares = [executor.submit(_core.share, task, index, count, os_entropy) for index in range(1, count + 1)]
    whole: Future[Record] = Future()
    whole.set_running_or_notify_cancel()

    def wait() -> None:
        try:
            whole.set_result(_record(_core.merge(task, [share.result() for share in shares], os_entropy)))
        except BaseException as error:  # it is the caller's, wherever it was raised
            whole.set_exception(error)

    threading.Thread(target=wait, name="consenso.run", daemon=True).start()
    return whole


def reproduce(figure: str = "all", out: Union[str, "os.PathLike[str]", None] = None) -> Any:
    """The paper's figures with their verdicts: what ``consenso reproduce FIGURE --json`` prints; files go to ``out``."""
    return cli("reproduce", figure, *(["--out", out] if out is not None else []))


def _booked(task: dict[str, Any], out: Union[str, "os.PathLike[str]", None]) -> "Record":
    table = _loads(task["text"], task["file"])
    data = table["data"]
    for key in ("path", "schema", "test"):
        if key in data:
            data[key] = os.path.abspath(os.path.join(task["folder"], str(data[key])))
    if task["edges"] is not None:
        table["graph"]["path"] = os.path.abspath(task["edges"][0])
    folder = os.path.abspath(out if out is not None else os.path.join("runs", f"{table.get('name', 'experiment')}-os"))
    with tempfile.TemporaryDirectory() as room:
        file = Path(room) / "experiment.toml"
        file.write_text(_dumps(table), encoding="utf-8")
        cli("run", file, "--entropy", "os", "--out", folder)
    record = json.loads((Path(folder) / "record.json").read_text(encoding="utf-8"))
    models = []
    for path in sorted((Path(folder) / "models").glob("*.json")):
        model = json.loads(path.read_text(encoding="utf-8"))
        agents = [a["weights"] for a in model.get("agents", [])]
        models.append({"label": path.stem, "agents": agents, "mean": model.get("weights", [])})
    return Record(record, models)


def _run(task: dict[str, Any], os_entropy: bool, progress: Optional[bool]) -> "Record":
    with progress_of(progress, task["file"]) or nullcontext() as show:
        return _record(_core.run(task, os_entropy, show))


def _record(text: str) -> "Record":
    answer = json.loads(text)
    return Record(answer["record"], answer["models"])


def _prepare(experiment: Experiment, overrides: Mapping[str, Any]) -> dict[str, Any]:
    folder = Path()
    if isinstance(experiment, Mapping):
        name, table = str(experiment.get("name", "experiment")), _copy(experiment)
        table.setdefault("name", name)
    else:
        name = os.fspath(experiment)
        text = _core.built_in(name)
        if text is None:
            path = Path(name)
            try:
                text = path.read_text(encoding="utf-8")
            except OSError as error:
                known = ", ".join(built_in())
                raise InputError(
                    f"{name}: cannot be read ({error.strerror}); give an experiment file or a built-in one ({known})"
                ) from None
            folder = path.parent
        table = _loads(text, name)
    for key, value in overrides.items():
        _override(table, key.split("__"), value, key)
    data = table.get("data", {})
    task: dict[str, Any] = {"file": name, "folder": str(folder), "files": [], "schema": None, "test": None, "edges": None}
    task["text"] = _dumps(table)
    if not isinstance(data, Mapping):
        raise InputError(f"{name}: data must be a table")
    if "path" in data:
        pattern = str(folder / str(data["path"]))
        paths = sorted(glob.glob(pattern)) or [pattern]
        task["files"] = [(p, _read(p)) for p in paths]
    if "schema" in data:
        task["schema"] = _read(str(folder / str(data["schema"]))).decode("utf-8")
    if "test" in data:
        test = str(folder / str(data["test"]))
        task["test"] = (test, _read(test))
    graph = table.get("graph", {})
    if isinstance(graph, Mapping) and graph.get("kind") == "file":
        edges = str(folder / str(graph.get("path", "")))
        task["edges"] = (edges, _read(edges).decode("utf-8"))
    return task


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None


def _copy(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): _copy(v) for k, v in value.items()}
    return [_copy(v) for v in value] if isinstance(value, (list, tuple)) else value


def _override(table: Any, keys: list[str], value: Any, whole: str) -> None:
    for key in keys[:-1]:
        if isinstance(table, list):
            if not key.isdigit() or int(key) >= len(table):
                raise InputError(f"{whole}: there is no entry {key}")
            table = table[int(key)]
        else:
            table = table.setdefault(key, {})
        if not isinstance(table, (dict, list)):
            raise InputError(f"{whole}: {key} is a value, not a table")
    last = keys[-1]
    if not isinstance(table, dict):
        raise InputError(f"{whole}: name a key of one entry, such as algorithm__0__rounds")
    if value is None:
        table.pop(last, None)
    else:
        table[last] = _copy(value)


def _loads(text: str, name: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{name}: {error}") from None


def _dumps(table: Mapping[str, Any]) -> str:
    """TOML of one line a key, tables inline: what the library reads."""
    return "".join(f"{_key(key)} = {_value(value)}\n" for key, value in table.items())


def _key(key: str) -> str:
    return key if key.replace("_", "").replace("-", "").isalnum() and key.isascii() else json.dumps(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(str(k))} = {_value(v)}" for k, v in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_value, value)) + "]"
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise InputError(f"{value!r} cannot stand in an experiment") from None
    return repr(number)


class FitRecord(dict[str, Any]):
    """The record of a fit: the dict that a record's JSON is, and a frame of it."""

    def to_pandas(self) -> "pandas.DataFrame":
        """Rounds, budget and metrics as a pandas frame."""
        return Record(self).to_pandas()

    def to_polars(self) -> Any:
        """Rounds, budget and metrics as a polars frame."""
        return Record(self).to_polars()

    def _repr_html_(self) -> str:
        return str(self.to_pandas().dropna(axis=1, how="all").to_html(index=False))


class Record:
    """Everything that happened in an experiment.

    Attributes
    ----------
    data : dict
        The record, as ``record.json`` has it.
    models : list of dict
        For every algorithm its ``label``, the model of every agent (``agents``) and their ``mean``.
    """

    def __init__(self, data: dict[str, Any], models: Optional[list[dict[str, Any]]] = None) -> None:
        self.data = data
        self.models = models or []

    @property
    def algorithms(self) -> list[dict[str, Any]]:
        """One entry an algorithm."""
        found: list[dict[str, Any]] = self.data["algorithms"]
        return found

    @property
    def plot(self) -> "Plots":
        """Figures, with matplotlib."""
        return Plots(self)

    def rows(self) -> list[dict[str, Any]]:
        """One row an algorithm, and one for every point of a sweep."""
        points = self.data.get("sweep") or []
        own = {"agents": self.data["problem"]["agents"], "algorithms": self.algorithms}
        rows = []
        for point in points or [own]:
            for a in point["algorithms"]:
                epsilon = a.get("epsilon") or {}
                metrics = {k: v for k, v in (a.get("metrics") or {}).items() if v is None or isinstance(v, (int, float))}
                rows.append({
                    "agents": point["agents"], "algorithm": a["label"], "kind": a["kind"], "rounds": a["rounds"],
                    "budget": point.get("epsilon"), "epsilon": epsilon.get("claim"), "delta": epsilon.get("delta"),
                    "test_accuracy": a.get("test_accuracy"), "test_auc": a.get("test_auc"),
                    "objective": a.get("objective"), "optimum_gap": a.get("optimum_gap"), "seconds": a.get("seconds"),
                    **metrics,
                })
        return rows

    def to_pandas(self) -> "pandas.DataFrame":
        """The rows as a pandas frame."""
        import pandas

        return pandas.DataFrame(self.rows())

    def to_polars(self) -> Any:
        """The rows as a polars frame."""
        import polars

        return polars.DataFrame(self.rows())

    def table(self, style: str = "markdown") -> str:
        """A table of the results, in ``"markdown"`` or ``"latex"``."""
        rows = self.rows()
        heads = ["algorithm", "agents", "rounds", "epsilon", *self._measures(rows)]
        cells = [[_cell(row.get(head), head == "epsilon") for head in heads] for row in rows]
        if style == "markdown":
            lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
            return "\n".join(lines + ["| " + " | ".join(c) + " |" for c in cells])
        if style == "latex":
            escape = [[cell.replace("_", r"\_").replace("%", r"\%").replace("&", r"\&") for cell in c] for c in cells]
            body = " \\\\\n".join(" & ".join(c) for c in escape)
            head = " & ".join(h.replace("_", " ") for h in heads)
            columns = "l" + "r" * (len(heads) - 1)
            return (
                f"\\begin{{tabular}}{{{columns}}}\n\\hline\n{head} \\\\\n\\hline\n{body} \\\\\n\\hline\n\\end{{tabular}}"
            )
        raise InputError(f'style={style!r} must be "markdown" or "latex"')

    @staticmethod
    def _measures(rows: list[dict[str, Any]]) -> list[str]:
        """What judges these models: accuracy and AUC of classes, R² and errors of numbers, the objective where no records are for tests."""
        for known, measures in (("test_accuracy", ["test_accuracy", "test_auc"]), ("r2", ["r2", "rmse", "mae"]), ("objective", ["objective"])):
            if any(row.get(known) is not None for row in rows):
                return measures
        return ["test_accuracy", "test_auc"]

    def __repr__(self) -> str:
        return f"Record({self.data['name']!r}, {_counted(len(self.algorithms), 'algorithm')}, {_counted(self.data['runs'], 'run')})"

    def _repr_html_(self) -> str:
        heads = ["algorithm", "rounds", "epsilon", *self._measures(self.rows())]
        head = "".join(f"<th>{h}</th>" for h in heads)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(_cell(row.get(h), h == 'epsilon'))}</td>" for h in heads) + "</tr>" for row in self.rows()
        )
        claims = "".join(
            f"<pre>{html.escape(a['epsilon']['statement'])}</pre>" for a in self.algorithms if a.get("epsilon")
        )
        title = html.escape(str(self.data["name"]))
        return f"<h4>{title}</h4><table><tr>{head}</tr>{body}</table>{_chart(self.algorithms)}{claims}"


def _counted(count: int, word: str) -> str:
    return f"{count} {word}" + ("" if count == 1 else "s")


def _cell(value: Any, up: bool = False) -> str:
    """A number in four digits; ``up`` rounds it up, as every ε is."""
    if not isinstance(value, float):
        return "" if value is None else str(value)
    return round_up(value, 4) if up else plain(decimal.Decimal(f"{value:.4g}"))


def _chart(algorithms: list[dict[str, Any]]) -> str:
    """The objective by round as a small SVG."""
    lines = [[(p["round"], p["objective"]["mean"]) for p in a["curve"]] for a in algorithms if a.get("curve")]
    values = [v for line in lines for _, v in line if v is not None]
    if not values or max(values) == min(values):
        return ""
    last = max((r for line in lines for r, _ in line), default=1) or 1
    low, high = min(values), max(values)
    colours = ["#1b6ca8", "#c8553d", "#588b8b", "#8f5db7", "#b08900"]
    paths = ""
    for index, line in enumerate(lines):
        points = " ".join(
            f"{10 + 380 * r / last:.1f},{130 - 120 * (v - low) / (high - low):.1f}" for r, v in line if v is not None
        )
        paths += f'<polyline fill="none" stroke="{colours[index % len(colours)]}" points="{points}"/>'
    return f'<svg width="400" height="140" role="img" aria-label="objective by round">{paths}</svg>'


class Plots:
    """Figures of a record; each returns a matplotlib ``Axes``."""

    def __init__(self, record: Record) -> None:
        self._record = record

    def _axes(self, ax: Any) -> Any:
        if ax is not None:
            return ax
        import matplotlib.pyplot as plt

        return plt.subplots()[1]

    def convergence(self, ax: Any = None) -> Any:
        """The objective by round, a line an algorithm."""
        ax = self._axes(ax)
        for a in self._record.algorithms:
            ax.plot([p["round"] for p in a.get("curve", [])], [p["objective"]["mean"] for p in a.get("curve", [])], label=a["label"])
        ax.set(xlabel="round", ylabel="objective at the mean model")
        ax.legend()
        return ax

    def privacy(self, ax: Any = None) -> Any:
        """What is certified, beside test accuracy: a bar an algorithm."""
        ax = self._axes(ax)
        rows = [r for r in self._record.rows() if r["epsilon"] is not None]
        ax.bar([str(r["algorithm"]) for r in rows], [r["epsilon"] for r in rows])
        ax.set(ylabel="certified ε")
        return ax

    def frontier(self, ax: Any = None) -> Any:
        """Test accuracy against ε, R² where a number is predicted, the objective where no records are for tests; a line an algorithm. Needs a
        ``[sweep]`` of budgets to have more than a point each."""
        ax = self._axes(ax)
        every = self._record.rows()
        measure = self._record._measures(every)[0]
        rows = [r for r in every if r["epsilon"] is not None and r.get(measure) is not None]
        for label in dict.fromkeys(r["algorithm"] for r in rows):
            points = sorted((r["epsilon"], r[measure]) for r in rows if r["algorithm"] == label)
            ax.plot(*zip(*points), marker="o", label=label)
        ax.set(xlabel="ε", ylabel={"r2": "test R²", "objective": "objective of the training records"}.get(measure, "test accuracy"), xscale="log")
        if rows:
            ax.legend()
        else:
            ax.text(0.5, 0.5, "no algorithm has both a claim and test records", ha="center", transform=ax.transAxes)
        return ax
