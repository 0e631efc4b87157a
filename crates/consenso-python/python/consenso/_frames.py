"""Data frames as text that is read as a file's would be: pandas, polars and whatever gives an Arrow stream."""

from __future__ import annotations

import datetime
import math
import numbers
from dataclasses import dataclass, field
from typing import Any, Callable, Iterable, Mapping, Optional, Sequence

import numpy as np

from ._core import InputError

__all__ = ["Column", "Frame", "is_frame", "text_of"]

#: How yes and no are written in files; the first pair is what a frame's own become.
_BOOLEANS = (("False", "True"), ("false", "true"), ("FALSE", "TRUE"), ("no", "yes"), ("0", "1"))


@dataclass
class Column:
    """One column: its name, what it holds, its values (``None`` where one is missing) and, of a category dtype, its levels."""

    name: str
    kind: str  # "number", "boolean", "date", "category" or "text"
    values: list[Any]
    levels: list[str] = field(default_factory=list)


def is_frame(X: Any) -> bool:
    """Whether X has named columns: a pandas or polars frame, an Arrow table or stream."""
    return hasattr(X, "__arrow_c_stream__") or (hasattr(X, "columns") and hasattr(X, "dtypes"))


def text_of(value: Any) -> str:
    """A value as a category is written: 1 for 1.0, ISO for a date."""
    if isinstance(value, (bool, np.bool_)):
        return "True" if value else "False"
    if isinstance(value, (datetime.date, datetime.datetime)):
        return value.isoformat()[:10]
    if isinstance(value, numbers.Real) and not isinstance(value, numbers.Rational):
        number = float(value)
        return str(int(number)) if number.is_integer() and abs(number) < 2**53 else repr(number)
    return str(value).strip()


def _is_missing(value: Any) -> bool:
    if value is None:
        return True
    try:
        return bool(value != value)  # NaN, NaT
    except (TypeError, ValueError):  # pandas.NA answers neither yes nor no
        return True


def _guess(values: Iterable[Any]) -> str:
    """What Python objects are."""
    known = [v for v in values if v is not None]
    if known and all(isinstance(v, (bool, np.bool_)) for v in known):
        return "boolean"
    if known and all(isinstance(v, (datetime.date, datetime.datetime)) for v in known):
        return "date"
    if all(isinstance(v, (numbers.Real, np.number)) or type(v).__name__ == "Decimal" for v in known):
        return "number"
    return "text"


def _cleaned(values: Iterable[Any]) -> list[Any]:
    return [None if _is_missing(v) else v for v in values]


def _of_series(name: str, series: Any) -> Column:
    """A column of any library, or a sequence."""
    module = type(series).__module__.partition(".")[0]
    if module == "pandas":
        values, dtype = _cleaned(series.tolist()), series.dtype
        categories = getattr(dtype, "categories", None)
        if categories is not None and type(dtype).__name__ == "CategoricalDtype":
            return Column(name, "category", values, [text_of(c) for c in categories])
        if type(dtype).__name__ == "PeriodDtype":
            values = [None if v is None else v.start_time for v in values]
        return Column(name, _guess(values), values)
    if module == "polars":
        # An Enum declares its categories; a Categorical has those that happened to occur.
        values = _cleaned(series.to_list())
        if str(series.dtype).startswith("Enum"):
            return Column(name, "category", values, [text_of(c) for c in series.dtype.categories])
        return Column(name, _guess(values), values)
    if module == "pyarrow":
        kind = str(series.type)
        if kind.startswith("dictionary"):
            whole = series.combine_chunks() if hasattr(series, "combine_chunks") else series
            chunks = getattr(whole, "chunks", [whole])
            levels = dict.fromkeys(text_of(v) for chunk in chunks for v in chunk.dictionary.to_pylist())
            return Column(name, "category", _cleaned(series.to_pylist()), list(levels))
        values = _cleaned(series.to_pylist())
        return Column(name, _guess(values), values)
    array = np.asarray(series)
    if array.ndim != 1:
        raise InputError(f'"{name}" must have one value a row; its shape is {array.shape}')
    values = _cleaned(array.tolist())
    return Column(name, _guess(values), values)


class Frame:
    """Named columns, whatever library they come from."""

    def __init__(self, columns: list[Column]) -> None:
        self.columns = columns
        self.names = [column.name for column in columns]
        if len(set(self.names)) < len(self.names):
            twice = next(name for name in self.names if self.names.count(name) > 1)
            raise InputError(f'two columns are called "{twice}": give every column a name of its own')
        self.rows = len(columns[0].values) if columns else 0

    @classmethod
    def of(cls, X: Any, names: Optional[Sequence[str]] = None) -> "Frame":
        """The columns of a frame, or of an array, whose columns are called x1, x2, … unless names are given."""
        if hasattr(X, "iloc") and hasattr(X, "columns"):
            return cls([_of_series(str(name), X.iloc[:, i]) for i, name in enumerate(X.columns)])
        if type(X).__module__.partition(".")[0] == "polars":
            return cls([_of_series(str(name), X.get_column(name)) for name in X.columns])
        if hasattr(X, "__arrow_c_stream__"):
            table = X
            if not hasattr(X, "column_names"):
                try:
                    import pyarrow
                except ModuleNotFoundError:
                    raise InputError("categories of an Arrow stream are read with pyarrow: pip install pyarrow") from None
                table = pyarrow.table(X)
            return cls([_of_series(str(name), table.column(i)) for i, name in enumerate(table.column_names)])
        array = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
        if array.ndim != 2:
            raise InputError(f"X must have rows and columns; its shape is {array.shape}")
        called = list(names) if names is not None else [f"x{i + 1}" for i in range(array.shape[1])]
        if len(called) != array.shape[1]:
            raise InputError(f"X has {array.shape[1]} columns, and the model was fitted on {len(called)}")
        return cls([_of_series(name, array[:, i]) for i, name in enumerate(called)])

    def column(self, name: str) -> Column:
        """The column of this name."""
        return self.columns[self.names.index(name)]

    def csv(self, specs: Mapping[str, Mapping[str, Any]], missing: str, rows: Optional[Sequence[int]] = None) -> bytes:
        """The table as CSV under a schema's columns, of all rows or of some."""
        written = [_cells(column, specs.get(column.name, {}), missing) for column in self.columns]
        lines = [",".join(map(_quoted, self.names))]
        if rows is None:
            lines.extend(map(",".join, zip(*written)))
        else:
            lines.extend(",".join([cells[row] for cells in written]) for row in rows)
        return ("\n".join(lines) + "\n").encode("utf-8")


def _cells(column: Column, spec: Mapping[str, Any], missing: str) -> list[str]:
    kind = spec.get("kind", "ignored")
    words = spec.get("categories") or spec.get("classes")
    one: Callable[[Any], str]
    if kind == "date":
        form = _strftime(str(spec.get("format", "YYYY-MM-DD")))
        one = lambda v: str(v.strftime(form)) if hasattr(v, "strftime") else _quoted(str(v))  # noqa: E731
    elif kind == "numeric" or (kind == "label" and not words):
        one = _number
    elif words and column.kind == "boolean":
        pair = next((pair for pair in _BOOLEANS if set(pair) <= set(words)), _BOOLEANS[0])
        one = lambda v: pair[bool(v)]  # noqa: E731
    else:
        known: set[str] = set(words or ())
        one = lambda v: _quoted(_word(v, known))  # noqa: E731
    return [missing if value is None else one(value) for value in column.values]


def _number(value: Any) -> str:
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, (bool, np.bool_)):
        return "1" if value else "0"
    if isinstance(value, numbers.Integral):
        return str(int(value))
    if isinstance(value, numbers.Real):
        return repr(float(value))
    return _quoted(str(value))


def _word(value: Any, known: set[str]) -> str:
    text = text_of(value)
    if text not in known and isinstance(value, float) and repr(value) in known:
        return repr(value)
    return text


def _strftime(form: str) -> str:
    for token, code in (("YYYY", "%Y"), ("YY", "%y"), ("MM", "%m"), ("DD", "%d")):
        form = form.replace(token, code)
    return form


def _quoted(text: str) -> str:
    if any(mark in text for mark in ',"\n\r'):
        return '"' + text.replace('"', '""') + '"'
    return text


def finite_range(column: Column) -> tuple[float, float]:
    """The smallest and the largest number of a column: for fits that keep nothing private."""
    known = [float(v) for v in column.values if v is not None and math.isfinite(float(v))]
    low, high = (min(known), max(known)) if known else (0.0, 1.0)
    return (low, high) if low < high else (low - 0.5, low + 0.5)
