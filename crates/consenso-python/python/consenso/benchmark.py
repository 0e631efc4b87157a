"""A method of one's own on a board: the same records, seeds and measures as everybody's.

>>> import consenso.benchmark
>>> @consenso.benchmark.method(name="Always the first site")
... def first(task):
...     x, y = task.sites[0]
...     return task.test_x @ numpy.linalg.lstsq(x, y, rcond=None)[0]
>>> first.run("quick", "first.json", problems=["heart"])    # doctest: +SKIP

``consenso benchmark add first.json boards/quick`` puts the file on the board, marked as claimed and not certified: the ε of a task is what
the function promises to keep, and nobody can check it from outside.
"""

from __future__ import annotations

import json
import os
import pathlib
import tempfile
from dataclasses import dataclass, field
from typing import Any, Callable, Iterator, Optional, Sequence, Union

import numpy as np

from ._cli import cli
from ._core import InputError

FORMAT = "consenso-board-result-1"


@dataclass(frozen=True)
class Task:
    """One setting of a board with one seed: what a method may use, and what it is judged by.

    Attributes
    ----------
    board, problem, graph, condition : str
        The board, and names on it.
    epsilon, delta : float or None
        The budget of every site's records; ``None`` without privacy.
    seed : int
        The seed of the records, and for the method's own noise.
    measure : str
        What counts: ``"auc"``, ``"accuracy"``, ``"log_loss"``, ``"r2"``, ``"mse"``, ``"rmse"`` or ``"mae"``.
    sites : list of (x, y)
        Rows and labels of every site. Labels are -1 and 1 for two classes, 0, 1, 2, … for several.
    edges : list of (int, int)
        Which sites talk to each other; where links lead one way, every link of any round, sender first.
    test_x : array
        Rows of the test records; their labels are not handed out.
    regularization : float
        The ridge of the board's own methods.
    conditions : dict
        What the network does to messages; empty for a perfect one.
    """

    board: str
    problem: str
    graph: str
    condition: str
    epsilon: Optional[float]
    delta: Optional[float]
    seed: int
    measure: str
    sites: list[tuple[np.ndarray, np.ndarray]]
    edges: list[tuple[int, int]]
    test_x: np.ndarray
    regularization: float
    conditions: dict[str, Any] = field(default_factory=dict)
    _test_y: np.ndarray = field(default_factory=lambda: np.empty(0), repr=False)

    @property
    def records(self) -> int:
        """Records of all sites together."""
        return sum(len(y) for _, y in self.sites)

    def judge(self, answers: Any) -> float:
        """Judge answers for the test records by the task's measure.

        Parameters
        ----------
        answers : array
            Scores of the positive class (two classes; log-odds, where the log loss counts), a score per class or the class itself (several), or predicted numbers.
        """
        answers, y = np.asarray(answers, float), self._test_y
        if len(answers) != len(y):
            raise InputError(f"{self.problem}: {len(y)} answers are wanted, one per test record, and there are {len(answers)}")
        if not np.isfinite(answers).all():
            raise InputError(f"{self.problem}: an answer is not a finite number")
        if self.measure == "accuracy" and answers.ndim == 2:
            return float(np.mean(answers.argmax(axis=1) == y))
        if self.measure == "accuracy" and set(np.unique(y)) <= {-1.0, 1.0}:
            return float(np.mean(np.where(answers > 0, 1.0, -1.0) == y))
        if self.measure == "accuracy":
            return float(np.mean(answers == y))
        if self.measure == "auc":
            return _auc(answers, y > 0)
        if self.measure == "log_loss":
            return float(np.mean(np.logaddexp(0.0, -y * answers)))
        squared = float(np.mean((answers - y) ** 2))
        known: dict[str, Callable[[], float]] = {
            "r2": lambda: 1.0 - squared / float(np.var(y)),
            "mse": lambda: squared,
            "rmse": lambda: squared**0.5,
            "mae": lambda: float(np.mean(np.abs(answers - y))),
        }
        if self.measure not in known:
            raise InputError(f"{self.problem} is judged by {self.measure}, which answers for test records do not give")
        return known[self.measure]()


def _auc(scores: np.ndarray, positive: np.ndarray) -> float:
    """The area under the ROC curve, ties counted half."""
    order = np.argsort(scores, kind="mergesort")
    ranks = np.empty(len(scores))
    ranks[order] = np.arange(1, len(scores) + 1)
    values, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    sums = np.zeros(len(values))
    np.add.at(sums, inverse, ranks)
    ranks = (sums / counts)[inverse]
    n, m = int(positive.sum()), int((~positive).sum())
    return float((ranks[positive].sum() - n * (n + 1) / 2) / (n * m))


def tasks(
    board: Union[str, "os.PathLike[str]"] = "quick",
    *,
    problems: Optional[Sequence[str]] = None,
    graphs: Optional[Sequence[str]] = None,
    conditions: Optional[Sequence[str]] = None,
    epsilons: Optional[Sequence[Optional[float]]] = None,
) -> Iterator[Task]:
    """Yield the tasks of a board, each with its own records.

    Parameters
    ----------
    board : str or path
        A built-in board, a board file, or the folder of a board.
    problems, graphs, conditions, epsilons : list, optional
        Only these. Conditions under which a network is not perfect (messages lost, late or compressed, sites asleep, links that come and go)
        are left out unless they are named: the function would have to do that itself.
    """
    with tempfile.TemporaryDirectory() as folder:
        named = [word for problem in problems or () for word in ("--problem", problem)]
        cli("benchmark", "export", board, folder, *named)
        place = pathlib.Path(folder)
        listed = json.loads((place / "tasks.json").read_text())
        loaded: tuple[str, dict[str, Any]] = ("", {})
        for entry in listed["tasks"]:
            perfect = not entry["conditions"]
            if graphs is not None and entry["graph"] not in graphs:
                continue
            if (entry["condition"] not in conditions) if conditions is not None else not perfect:
                continue
            if epsilons is not None and entry["epsilon"] not in epsilons:
                continue
            if loaded[0] != entry["file"]:
                loaded = (entry["file"], json.loads((place / entry["file"]).read_text()))
            yield _task(listed["board"], entry, loaded[1])


def _task(board: str, entry: dict[str, Any], data: dict[str, Any]) -> Task:
    def part(of: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
        return np.array(of["x"], float), np.array(of["y"], float)

    test_x, test_y = part(data["test"])
    keys = ("problem", "graph", "condition", "epsilon", "delta", "seed", "measure", "conditions")
    return Task(
        board=board,
        **{key: entry[key] for key in keys},
        sites=[part(site) for site in data["sites"]],
        edges=[(a, b) for a, b in data["edges"][entry["graph"]]],
        test_x=test_x,
        regularization=data["regularization"],
        _test_y=test_y,
    )


class Method:
    """A function on the tasks of a board; :func:`method` makes one."""

    def __init__(self, function: Callable[[Task], Any], name: str, about: str, source: str):
        self.function, self.name, self.about, self.source = function, name, about, source
        self.__doc__, self.__name__ = function.__doc__, getattr(function, "__name__", name)

    def __call__(self, task: Task) -> Any:
        """Answer one task."""
        return self.function(task)

    def run(self, board: Union[str, "os.PathLike[str]"] = "quick", out: Union[str, "os.PathLike[str]"] = "result.json", **only: Any) -> dict[str, Any]:
        """Answer the tasks of a board and write the file that ``consenso benchmark add`` takes.

        Parameters
        ----------
        board : str or path
            As for :func:`tasks`.
        out : path
            The file.
        **only
            What :func:`tasks` is limited to.

        Returns
        -------
        dict
            What was written.
        """
        results = []
        of = ""
        for task in tasks(board, **only):
            of = task.board
            answers = self.function(task)
            sent = None
            if isinstance(answers, tuple):
                answers, sent = answers
            result = {key: getattr(task, key) for key in ("problem", "graph", "condition", "epsilon", "delta", "seed", "measure")}
            result["value"] = task.judge(answers)
            if sent is not None:
                result["bytes"] = int(sent)
            results.append(result)
        if not results:
            raise InputError("no task of the board is left: nothing to write")
        written = {"format": FORMAT, "board": of, "method": self.name, "results": results}
        written |= {key: value for key, value in (("about", self.about), ("source", self.source)) if value}
        pathlib.Path(out).write_text(json.dumps(written, indent=1) + "\n")
        return written


def method(*, name: str, about: str = "", source: str = "") -> Callable[[Callable[[Task], Any]], Method]:
    """Make a function a method of a board.

    The function takes a :class:`Task` and returns answers for ``task.test_x``; or a tuple of them and the bytes that all sites sent together.

    Parameters
    ----------
    name : str
        Its name on the board.
    about, source : str
        What it is, in a sentence, and where it is described.
    """
    return lambda function: Method(function, name, about, source)
