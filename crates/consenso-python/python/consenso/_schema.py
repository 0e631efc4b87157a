"""The public schema: what everybody may know about the records before seeing one."""

from __future__ import annotations

import datetime
import os
import re
from pathlib import Path
from typing import Any, Iterator, Mapping, Optional, Union

import numpy as np

from . import _core
from ._core import InputError
from ._experiments import _copy, _dumps, _loads
from ._frames import Column, Frame

__all__ = ["Schema"]

#: How a file is written, which a frame is not.
_FORMAT = ("header", "delimiter", "quote", "decimal", "thousands", "encoding", "comment")


class Schema:
    """What is publicly known of every column: its kind, range or categories, and what a missing value means.

    Parameters
    ----------
    source : Schema, path or mapping
        A schema file; a mapping as such a file has it (``{"reviewed": True, "column": [...]}``); or a short mapping by column:
        ``{"age": (0, 120), "sex": ["f", "m"], "admitted": ("2015-01-01", "2025-12-31"), "weight": {"min": 2, "max": 300, "missing":
        {"impute": 70}}}``.
        A short mapping is what you declare to be public, and counts as reviewed.

    Examples
    --------
    >>> from consenso import Schema
    >>> schema = Schema({"age": (0, 120), "sex": ["f", "m"]})
    >>> schema["age"]["max"]
    120
    >>> schema.reviewed
    True
    """

    def __init__(self, source: Any) -> None:
        self.warnings: list[str] = []
        self._text: Optional[str] = None
        if isinstance(source, Schema):
            self._table: dict[str, Any] = _copy(source._table)
            self.warnings = list(source.warnings)
        elif isinstance(source, Mapping):
            self._table = _whole(source)
        elif isinstance(source, (str, os.PathLike)):
            path = Path(source)
            try:
                text = path.read_text(encoding="utf-8")
            except OSError as error:
                raise InputError(f"{path}: cannot be read: {error.strerror}; a schema is a file, a dict by column, or Schema.draft(frame)") from None
            self._table = _loads(text, str(path))
        else:
            raise InputError(f"schema={type(source).__name__} must be a schema file, a dict by column, or consenso.Schema.draft(frame)")
        if not isinstance(self._table.get("column"), list):
            raise InputError("the schema has no columns: a file has a [[column]] for each, a dict one key a column")

    @classmethod
    def draft(
        cls,
        frame: Any,
        *,
        label: Optional[str] = None,
        site: Optional[str] = None,
        positive: Optional[str] = None,
        show: bool = True,
    ) -> "Schema":
        """Draft a schema from a data frame and print what must be reviewed before a privacy claim may rest on it.

        Ranges and categories are those of the records: private facts, to be replaced by what is public without them (the range a
        form allows, a code list). Then set ``schema.reviewed = True``. The levels of a category dtype are taken as they are.

        Parameters
        ----------
        frame : pandas, polars or Arrow frame
            The records.
        label, site : str, optional
            The column that is predicted, and the one that says where a record comes from, if they are in the frame.
        positive : str, optional
            The class to find, of a label with two.
        show : bool, default=True
            Whether to print what to review.
        """
        columns = Frame.of(frame)
        drafted = list(columns.columns)
        spare = "label"
        while label is None and spare in columns.names:
            spare += "_"
        if label is None:
            drafted.append(Column(spare, "text", (["a", "b"] * columns.rows)[: columns.rows]))
        # A draft reads dates and numbers as they are, whatever a schema will say of them.
        kinds = {"number": "numeric", "date": "date"}
        specs = {column.name: {"kind": kinds.get(column.kind, "ignored")} for column in drafted}
        text, warnings = _core.draft("frame.csv", Frame(drafted).csv(specs, ""), label or spare, site, positive)
        schema = cls(_loads(text, "the draft"))
        schema._text, schema.warnings = text, [w for w in warnings if label is not None or f'"{spare}"' not in w]
        for key in _FORMAT:
            schema._table.pop(key, None)
        if label is None:
            schema._table["column"] = [c for c in schema.columns if c["name"] != spare]
        for column in columns.columns:
            levels = column.levels if column.kind == "category" else ["False", "True"] if column.kind == "boolean" else None
            if levels is not None and column.name not in (label, site):
                drafted_as = schema[column.name]
                kept = {k: v for k, v in drafted_as.items() if k in ("missing", "indicator")}
                drafted_as.clear()
                drafted_as.update({"name": column.name, "kind": "categorical", "categories": levels}, **kept)
        if show:
            print(schema.review())
        return schema

    @property
    def columns(self) -> list[dict[str, Any]]:
        """One table a column, as a schema file has them."""
        found: list[dict[str, Any]] = self._table["column"]
        return found

    @property
    def reviewed(self) -> bool:
        """Whether ranges and categories are public knowledge and not taken from the records; no claim rests on a schema that is not."""
        return bool(self._table.get("reviewed", False))

    @reviewed.setter
    def reviewed(self, value: bool) -> None:
        self._table["reviewed"] = bool(value)

    def review(self) -> str:
        """What whoever knows the records has to look at, a line a column."""
        lines = ["# Review before use: replace what comes from the records by what is public without them,", "# then set schema.reviewed = True."]
        if self.reviewed:
            lines = ["# Reviewed: ranges and categories are public knowledge."]
        for column in self.columns:
            lines.append(f"{column['name']}: {_described(column)}")
        lines += [f"look at: {warning}" for warning in self.warnings]
        return "\n".join(lines)

    def to_toml(self) -> str:
        """The schema file."""
        head = {k: v for k, v in self._table.items() if k != "column"}
        head.setdefault("reviewed", False)
        tables = ["[[column]]\n" + _dumps(column) for column in self.columns]
        return "\n".join([_dumps(head), *tables])

    def save(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Write the schema file, which the command line and sites read."""
        Path(path).write_text(self.to_toml(), encoding="utf-8")

    def find(self, kind: str) -> Optional[dict[str, Any]]:
        """The first column of a kind: "label", "site", "person"."""
        return next((column for column in self.columns if column.get("kind") == kind), None)

    def features(self) -> list[str]:
        """Names of the columns that a model reads."""
        return [str(c["name"]) for c in self.columns if c.get("kind") in ("numeric", "categorical", "date")]

    def missing(self) -> str:
        """A word that means "unknown", as a cell of a frame is written."""
        words = self._table.get("missing", ["?", ""])
        if "" in words:
            return ""
        if not words:
            raise InputError('the schema says that nothing is missing (missing = []): add missing = [""] for frames')
        return str(words[0])

    def as_frames_are(self) -> "Schema":
        """The schema without what is said of how a file is written."""
        plain = Schema(self)
        for key in _FORMAT:
            plain._table.pop(key, None)
        return plain

    def __getitem__(self, name: str) -> dict[str, Any]:
        for column in self.columns:
            if column.get("name") == name:
                return column
        known = ", ".join(str(c.get("name")) for c in self.columns)
        raise KeyError(f"the schema has no column {name!r}; there are {known}")

    def __contains__(self, name: object) -> bool:
        return any(column.get("name") == name for column in self.columns)

    def __iter__(self) -> Iterator[str]:
        return iter(str(column["name"]) for column in self.columns)

    def __str__(self) -> str:
        return self.review()

    def __repr__(self) -> str:
        return f"Schema({len(self.columns)} columns, {'reviewed' if self.reviewed else 'not reviewed'})"


def _whole(source: Mapping[str, Any]) -> dict[str, Any]:
    """A mapping as a file has it, from that or from the short one."""
    if "column" in source and isinstance(source["column"], (list, tuple)):
        return dict(_copy(source))
    columns = []
    for name, said in source.items():
        if name == "reviewed" and isinstance(said, bool):
            continue
        if isinstance(said, Mapping):
            columns.append({"name": str(name), "kind": _kind(said), **_copy(said)})
        elif isinstance(said, (list, tuple)) and len(said) == 2 and (days := _days(said)):
            columns.append({"name": str(name), "kind": "date", "origin": days[0], "min": days[0], "max": days[1]})
        elif isinstance(said, tuple) and len(said) == 2 and not any(isinstance(end, str) for end in said):
            columns.append({"name": str(name), "kind": "numeric", "min": said[0], "max": said[1]})
        elif isinstance(said, (list, tuple)) and said:
            columns.append({"name": str(name), "kind": "categorical", "categories": [str(word) for word in said]})
        else:
            raise InputError(
                f"schema[{name!r}]={said!r} must be (lowest, highest) for a number, a list of categories, (first, last) day of dates, or a "
                'table such as {"min": 0, "max": 120, "missing": {"impute": 40}}'
            )
    return {"reviewed": bool(source.get("reviewed", True)), "column": columns}


def _kind(said: Mapping[str, Any]) -> str:
    """What a table without a kind describes."""
    if "categories" in said:
        return "categorical"
    return "date" if "origin" in said or isinstance(said.get("min"), str) else "numeric"


def _days(said: Any) -> Optional[tuple[str, str]]:
    """Two days, of date objects or of a tuple of texts as 2015-01-31; a list of texts is categories."""
    days = []
    for day in said:
        if isinstance(day, np.datetime64):
            day = day.astype("datetime64[D]").item()
        if isinstance(day, datetime.date):
            days.append(day.isoformat()[:10])
        elif isinstance(said, tuple) and isinstance(day, str) and re.fullmatch(r"\d{4}-\d\d-\d\d", day):
            days.append(day)
        else:
            return None
    return days[0], days[1]


def _end(value: Any) -> str:
    """The end of a range as people write it: 25 and not 25.0."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() and abs(value) < 1e15 else str(value)


def _described(column: Mapping[str, Any]) -> str:
    kind = str(column.get("kind"))
    words = column.get("categories") or column.get("classes")
    if words:
        some = ", ".join(map(str, words[:8])) + (", …" if len(words) > 8 else "")
        return f"{kind}, {len(words)} {'classes' if kind == 'label' else 'categories'}: {some}"
    if "min" in column:
        return f"{kind} from {_end(column['min'])} to {_end(column['max'])}"
    return kind
