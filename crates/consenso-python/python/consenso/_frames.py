"""Data frames as text that is read as a file's would be: pandas, polars and whatever gives an Arrow stream."""

from __future__ import annotations

import datetime
import math
import numbers
from collections import Counter
from typing import Any, Callable, Iterable, Mapping, Optional, Sequence

import numpy as np
import numpy.typing as npt

from . import _core
from ._core import InputError

__all__ = ["Column", "Frame", "is_frame", "text_of"]

#: How yes and no are written in files; the first pair is what a frame's own become.
_BOOLEANS = (("False", "True"), ("false", "true"), ("FALSE", "TRUE"), ("no", "yes"), ("0", "1"))


#: The code of a missing word.
_MISSING = 2**32 - 1


class Column:
    """One column: its name, what it holds, its values (``None`` where one is missing) and, of a category dtype, its levels.

    Numbers that lie in an array stay there: their values become Python's only where somebody asks for them.
    """

    def __init__(
        self,
        name: str,
        kind: str,  # "number", "boolean", "date", "category" or "text"
        values: Optional[list[Any]] = None,
        levels: Sequence[str] = (),
        numbers: Optional[npt.NDArray[Any]] = None,
    ) -> None:
        self.name, self.kind, self.levels, self.numbers = name, kind, list(levels), numbers
        self._values = values

    @property
    def values(self) -> list[Any]:
        if self._values is None:
            self._values = _cleaned(self.numbers.tolist()) if self.numbers is not None else []
        return self._values

    @values.setter
    def values(self, values: list[Any]) -> None:
        self._values, self.numbers = values, None

    def as_numbers(self) -> Optional[tuple[npt.NDArray[np.float64], bool]]:
        """The numbers, NaN where one is missing, and whether they are integers; ``None`` where they are written in words."""
        if self.numbers is not None:
            return np.ascontiguousarray(self.numbers, np.float64), self.numbers.dtype.kind != "f"
        types = {type(value) for value in self.values if value is not None}
        whole = types <= {int, bool, np.bool_}
        if not (whole or types <= {float, np.float64}):
            return None
        return np.array([math.nan if value is None else value for value in self.values], np.float64), whole

    def __len__(self) -> int:
        return len(self.values if self.numbers is None else self.numbers)


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


def _array_of(series: Any, module: str) -> Optional[npt.NDArray[Any]]:
    """The array that a column of integers or of floats is, where it is one."""
    dtype: Any = getattr(series, "dtype", None)
    if module == "polars":
        if not (dtype.is_float() or (dtype.is_integer() and not series.null_count())):
            return None
        series = series.to_numpy()
    elif module == "pandas":
        if not isinstance(dtype, np.dtype):
            return None
        series = series.to_numpy()
    elif module == "pyarrow":
        if not str(series.type).startswith(("int", "uint", "float", "double")) or series.null_count:
            return None
        series = series.to_numpy()
    found = np.asarray(series)
    return found if found.ndim == 1 and found.dtype.kind in "iuf" and found.dtype.itemsize <= 8 else None


def _of_series(name: str, series: Any) -> Column:
    """A column of any library, or a sequence."""
    module = type(series).__module__.partition(".")[0]
    if module in ("pandas", "polars", "pyarrow", "numpy"):
        numbers = _array_of(series, module)
        if numbers is not None:
            return Column(name, "number", numbers=numbers)
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
        self.rows = len(columns[0]) if columns else 0

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

    def table(self, specs: Mapping[str, Mapping[str, Any]], files: Sequence[tuple[str, npt.NDArray[Any]]]) -> Optional[_core.Columns]:
        """The columns as the library reads them, without a text in between, and the rows of what would be files.

        ``None`` where a column has to be read as text: one of numbers that are written in words.
        """
        found = _core.Columns()
        for column in self.columns:
            spec = specs.get(column.name, {})
            kind = spec.get("kind", "ignored")
            words = spec.get("categories") or spec.get("classes")
            if kind == "ignored":
                found.words(column.name, [], np.full(self.rows, _MISSING, np.uint32))
            elif not words and (kind in ("numeric", "label") or (kind in _NUMERIC and column.numbers is not None)):
                numbers = column.as_numbers()
                if numbers is None:
                    return None
                # Of other kinds a whole number is written without a point, whatever its type.
                found.numbers(column.name, numbers[0], numbers[1] or kind not in ("numeric", "label"))
            else:
                coded = _coded(column, spec)
                if coded is None:
                    return None
                found.words(column.name, *coded)
        for name, rows in files:
            found.file(name, np.ascontiguousarray(rows, np.uint32))
        return found

    def csv(self, specs: Mapping[str, Mapping[str, Any]], missing: str) -> bytes:
        """The table as CSV under a schema's columns."""
        return self.csvs(specs, missing, [("", None)])[0][1]

    def most_equal(self, specs: Mapping[str, Mapping[str, Any]], missing: str) -> int:
        """How many records are equal, at most."""
        return max(Counter(self.csv(specs, missing).split(b"\n")[1:-1]).values())

    def csvs(
        self, specs: Mapping[str, Mapping[str, Any]], missing: str, files: Sequence[tuple[str, Optional[npt.NDArray[Any]]]]
    ) -> list[tuple[str, bytes]]:
        """The table as the CSV of several files, each of some rows or of all."""
        lines = list(map(",".join, zip(*(_cells(column, specs.get(column.name, {}), missing) for column in self.columns))))
        header = ",".join(map(_quoted, self.names))
        return [
            (name, ("\n".join([header, *(lines if rows is None else (lines[row] for row in rows.tolist()))]) + "\n").encode("utf-8"))
            for name, rows in files
        ]


#: Kinds of columns of a schema that are numbers.
_NUMERIC = ("numeric", "label", "time", "exposure", "frequency")


def _coded(column: Column, spec: Mapping[str, Any]) -> Optional[tuple[list[str], npt.NDArray[np.uint32]]]:
    """The words of a column as a file would have them, each once, and which of them every row has."""
    if column.numbers is not None:
        known, places = np.unique(column.numbers, return_inverse=True)
        one = _writer(column, spec)
        words = [one(value) for value in known.tolist()]
        codes = places.astype(np.uint32).reshape(-1)
        if column.numbers.dtype.kind == "f":
            codes[np.isnan(column.numbers)] = _MISSING
        return words, codes
    write = _writer(column, spec)
    seen: dict[Any, int] = {}
    texts: dict[str, int] = {}
    found = np.empty(len(column.values), np.uint32)
    try:
        for row, value in enumerate(column.values):
            # 1, 1.0 and True are equal, and are not written alike.
            key = value if type(value) is str else (type(value), value)
            code = _MISSING if value is None else seen.get(key)
            if code is None:
                code = seen[key] = texts.setdefault(write(value), len(texts))
            found[row] = code
    except TypeError:  # a value that cannot be looked up
        return None
    return list(texts), found


def _cells(column: Column, spec: Mapping[str, Any], missing: str) -> list[str]:
    one, number = _writer(column, spec), _is_number(spec)
    return [missing if value is None else one(value) if number else _quoted(one(value)) for value in column.values]


def _is_number(spec: Mapping[str, Any]) -> bool:
    kind = spec.get("kind", "ignored")
    return kind == "numeric" or (kind == "label" and not (spec.get("categories") or spec.get("classes")))


def _writer(column: Column, spec: Mapping[str, Any]) -> Callable[[Any], str]:
    """How a value of a column is written under its place in the schema, before it is quoted."""
    words = spec.get("categories") or spec.get("classes")
    if spec.get("kind") == "date":
        form = _strftime(str(spec.get("format", "YYYY-MM-DD")))
        return lambda v: str(v.strftime(form)) if hasattr(v, "strftime") else str(v)
    if _is_number(spec):
        return _number
    if words and column.kind == "boolean":
        pair = next((pair for pair in _BOOLEANS if set(pair) <= set(words)), _BOOLEANS[0])
        return lambda v: pair[bool(v)]
    known: set[str] = set(words or ())
    return lambda v: _word(v, known)


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
