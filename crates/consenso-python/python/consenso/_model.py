"""Model files of the command line."""

from __future__ import annotations

import csv
import os
import tempfile
from pathlib import Path
from typing import Any, Union

from ._cli import cli
from ._core import InputError

__all__ = ["Model", "load_model"]


class Model:
    """A model that ``consenso run``, a site or :meth:`save_model` wrote: it brings its schema and encoding along.

    Attributes
    ----------
    file : dict
        What the file holds: ``schema``, ``encoder``, ``features``, ``weights``, ``coefficients``, ``classes``, ``claim``, …
    """

    def __init__(self, path: Union[str, "os.PathLike[str]"]) -> None:
        self.path = Path(path)
        self.file: dict[str, Any] = cli("model", "show", self.path)

    def predict(self, frame: Any) -> list[Any]:
        """The answer for every record of a data frame, whose columns are those of the schema; a label column may be missing."""
        return [row["prediction"] for row in self._apply(frame)[1]]

    def predict_proba(self, frame: Any) -> list[dict[str, float]]:
        """The probability of every class, by name."""
        said, rows = self._apply(frame, "--proba")
        if rows and "probability" in rows[0]:
            negative, positive = said["classes"]
            return [{negative: 1 - float(row["probability"]), positive: float(row["probability"])} for row in rows]
        return [{k: float(v) for k, v in row.items() if k not in ("row", "prediction")} for row in rows]

    def predict_interval(self, frame: Any, level: float = 0.9) -> list[tuple[float, float]]:
        """The interval in which the label of every record lies with this probability, of a model of counts, amounts or numbers."""
        rows = self._apply(frame, "--interval", str(level))[1]
        return [(float(row["low"]), float(row["high"])) if row["low"] else (float("nan"), float("nan")) for row in rows]

    def metrics(self, frame: Any) -> dict[str, Any]:
        """How the model does on records with labels."""
        found = self._apply(frame)[0].get("metrics")
        if not found:
            raise InputError("the records have no label column: there is nothing to compare with")
        return dict(found)

    def _apply(self, frame: Any, *options: str) -> tuple[dict[str, Any], list[dict[str, str]]]:
        with tempfile.TemporaryDirectory() as room:
            data, out = Path(room) / "data.csv", Path(room) / "out.csv"
            write_csv(frame, data)
            said = cli("predict", self.path, data, "--out", out, *options)
            with open(out, newline="", encoding="utf-8") as rows:
                return said, list(csv.DictReader(rows))

    def __repr__(self) -> str:
        return f"Model({os.fspath(self.path)!r})"


def load_model(path: Union[str, "os.PathLike[str]"]) -> Model:
    """Read a model file, the model of a run's folder or of a site's folder."""
    return Model(path)


def write_csv(frame: Any, path: Path) -> None:
    """A pandas, polars or pyarrow frame as CSV."""
    if hasattr(frame, "write_csv"):
        frame.write_csv(path)
    elif hasattr(frame, "to_csv"):
        frame.to_csv(path, index=False)
    elif hasattr(frame, "to_pandas"):
        frame.to_pandas().to_csv(path, index=False)
    else:
        raise InputError("records come from a data frame: pandas, polars or pyarrow")

