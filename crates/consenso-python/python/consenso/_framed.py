"""Frames as they are: the study that the command line would run on the same records, schema and seed."""

from __future__ import annotations

import json
import numbers
import re
import warnings
from contextlib import nullcontext
from typing import Any, Callable, Mapping, Optional, Sequence

import numpy as np
import numpy.typing as npt

from . import _arrow, _core
from ._budget import accountants, charger, refuse_elsewhere
from ._core import ConsensoError, InputError
from ._experiments import _dumps
from ._frames import Column, Frame, finite_range, is_frame, text_of
from ._frames import _of_series as column_of
from ._pipelines import warn_of_what_is_around
from ._progress import progress_of
from ._schema import Schema
from ._sites import by_site

__all__ = ["Framed", "has_categories"]

Floats = npt.NDArray[np.float64]

_UNKNOWN = ("error", "ignore", "other")


def has_categories(X: Any) -> bool:
    """Whether X is a frame with a column that is neither of numbers nor of booleans."""
    if not is_frame(X):
        return False
    if hasattr(X, "iloc"):
        kinds = [getattr(dtype, "kind", "O") for dtype in X.dtypes]
        return any(k not in "biufc" and (k != "O" or not _numeric(X.iloc[:, i])) for i, k in enumerate(kinds))
    if type(X).__module__.partition(".")[0] == "polars":
        return any(not (dtype.is_numeric() or str(dtype) in ("Boolean", "Null")) for dtype in X.dtypes)
    try:
        _arrow.columns(X)
    except InputError as error:
        return "is not of numbers" in str(error)
    return False


def _numeric(series: Any) -> bool:
    return column_of("", series).kind in ("number", "boolean")


class Framed:
    """Training and predicting under a schema; see :class:`consenso.Schema`."""

    epsilon: Optional[float]
    delta: float
    bounds: Any
    schema: Any
    categorical_features: Any
    unknown: str
    models: str
    regularization: float
    neighbours: str
    records_per_person: Optional[int]
    progress: Optional[bool]
    random_state: Any
    accountant: Any

    def _is_framed(self, X: Any, persons: Any) -> bool:
        asked = self.schema is not None or self.categorical_features is not None or isinstance(self.bounds, Mapping) or self.models != "shared"
        return asked or persons is not None or has_categories(X)

    def _schema_of(self, frame: Frame) -> Schema:
        """What is publicly known of the columns: the schema, or what bounds and category dtypes say."""
        if self.schema is not None:
            if self.bounds is not None or self.categorical_features is not None:
                raise InputError("schema says what bounds and categorical_features would: leave those out")
            schema = Schema(self.schema).as_frames_are()
            if self.epsilon is not None and not schema.reviewed:
                raise InputError(
                    "the schema is a draft: its ranges and categories come from the records, and no privacy claim can rest on them. Replace them "
                    "by what is public without the records (print(schema) lists them), then set schema.reviewed = True"
                )
            return schema
        chosen = self._chosen_categories(frame)
        return Schema({"reviewed": True, "column": [self._column(c, chosen) for c in frame.columns]})

    def _chosen_categories(self, frame: Frame) -> set[str]:
        said = self.categorical_features
        if said is None or (isinstance(said, str) and said == "from_dtype"):
            return set()
        if isinstance(said, str):
            raise InputError(f'categorical_features={said!r} must be "from_dtype", a list of columns, or a mask')
        given = list(said)
        if given and all(isinstance(one, (bool, np.bool_)) for one in given):
            if len(given) != len(frame.names):
                raise InputError(f"categorical_features: a mask of {len(given)} for {len(frame.names)} columns")
            return {name for name, yes in zip(frame.names, given) if yes}
        found = set()
        for one in given:
            name = frame.names[int(one)] if isinstance(one, numbers.Integral) and -len(frame.names) <= int(one) < len(frame.names) else one
            if name not in frame.names:
                raise InputError(f"categorical_features: there is no column {one!r}; there are {', '.join(frame.names)}")
            found.add(str(name))
        return found

    def _column(self, column: Column, chosen: set[str]) -> dict[str, Any]:
        name, private = column.name, self.epsilon is not None
        said = self.bounds.get(name) if isinstance(self.bounds, Mapping) else None
        if said is not None:
            return dict(Schema({name: said if not isinstance(said, list) or len(said) != 2 or isinstance(said[0], str) else tuple(said)}).columns[0])
        if column.kind in ("category", "boolean"):
            levels = column.levels if column.kind == "category" else ["False", "True"]
            return {"name": name, "kind": "categorical", "categories": levels}
        if column.kind == "number" and name not in chosen:
            return {"name": name, "kind": "numeric", **self._range(column)}
        if column.kind == "date":
            if private:
                raise InputError(
                    f'column "{name}" holds dates, and their range must be public: give bounds={{"{name}": ("2015-01-01", "2025-12-31")}}, the first '
                    "and the last day that may occur, or schema=…"
                )
            days = sorted(text_of(v) for v in column.values if v is not None)
            return {"name": name, "kind": "date", "origin": days[0], "min": days[0], "max": days[-1]}
        if private:
            what = "text" if column.kind == "text" else "categories by categorical_features"
            raise InputError(
                f'column "{name}" holds {what}, and its categories must be public: give bounds={{"{name}": ["one", "another", …]}} with all that may '
                f'occur, or a category dtype, X["{name}"].astype(pandas.CategoricalDtype(["one", "another", …])) (of polars: polars.Enum), or schema=… (consenso.Schema.draft(X) '
                "drafts one to review)"
            )
        return {"name": name, "kind": "categorical", "categories": sorted({text_of(v) for v in column.values if v is not None})}

    def _range(self, column: Column) -> dict[str, Any]:
        ends = self.bounds
        if ends is not None and not isinstance(ends, Mapping):
            try:
                low, high = (float(end) for end in ends)
            except (TypeError, ValueError):
                raise InputError('bounds of a frame with categories is a dict by column, {"age": (0, 120)}, or two numbers for all that are numbers') from None
            return {"min": low, "max": high}
        if self.epsilon is not None:
            raise InputError(
                f'bounds of "{column.name}" are missing, and they are never learnt from the data: give bounds={{"{column.name}": (lowest, highest)}}, '
                "what is publicly known of it, or schema=…"
            )
        low, high = finite_range(column)
        return {"min": low, "max": high}

    def _fit_framed(
        self,
        X: Any,
        y: Any,
        sites: Any,
        persons: Any,
        objective: Mapping[str, Any],
        label: Callable[[Any], dict[str, Any]],
        beside: Callable[[Schema, list[str]], Sequence[tuple[Column, dict[str, Any]]]] = lambda schema, names: (),
    ) -> None:
        """Trains; ``label`` makes the label's column of the schema where that has none, ``beside`` further columns that are no features."""
        if self.unknown not in _UNKNOWN:
            raise InputError(f'unknown={self.unknown!r} must be "error", "ignore" or "other"')
        if self.models not in ("shared", "personal"):
            raise InputError(f'models={self.models!r} must be "shared" or "personal"')
        if y is None:
            raise InputError(f"This {type(self).__name__} estimator requires y to be passed, but the target y is None.")
        frame = Frame.of(X)
        if len(y) != frame.rows or frame.rows == 0:
            raise InputError(f"X has {frame.rows} records and y {len(y)}; both need the same number, at least one")
        declared = None if self.schema is None else Schema(self.schema).find("label")
        name = str(declared["name"]) if declared is not None else _free("label", frame.names)
        columns = [c for c in frame.columns if c.name != name]
        schema = self._schema_of(Frame(columns))
        target = column_of(name, y)
        if declared is None:
            schema.columns.append({"name": name, "kind": "label", **label(target)})
        self._known_share(schema[name])
        columns.append(target)
        for column, spec in beside(schema, [c.name for c in columns]):
            columns = [c for c in columns if c.name != column.name] + [column]
            if column.name in schema:
                schema[column.name].update(spec)
            else:
                schema.columns.append({"name": column.name, **spec})
        columns += self._extra(schema, columns, sites, persons)
        task, most_equal = self._task(Frame(columns), schema, sites, objective)
        answer = self._answered(task, most_equal)
        self._remember(frame, schema, answer)

    def _known_share(self, label: dict[str, Any]) -> None:
        share = getattr(self, "prevalence", None)
        if share is not None:
            label["prevalence"] = share

    def _extra(self, schema: Schema, columns: list[Column], sites: Any, persons: Any) -> list[Column]:
        """Columns that are given beside the frame: of sites, where the schema has such a column, and of persons."""
        found, names = [], [c.name for c in columns]
        site = schema.find("site")
        if site is not None and site["name"] not in names:
            if sites is None:
                schema.columns.remove(site)
            else:
                found.append(column_of(str(site["name"]), sites))
        person = schema.find("person")
        if persons is not None:
            if person is None:
                if self.records_per_person is None:
                    raise InputError("persons needs records_per_person=…, how many records of one person count; a claim is then about all of them")
                person = {"name": _free("person", names), "kind": "person", "records": int(self.records_per_person)}
                schema.columns.append(person)
            found.append(column_of(str(person["name"]), persons))
        elif person is not None and person["name"] not in names:
            raise InputError(f'the schema has a person column, "{person["name"]}": give persons=…, whom each record is about')
        for column in found:
            if len(column) != len(columns[0]):
                raise InputError(f"{column.name} has {len(column)} values for {len(columns[0])} records")
        return found

    def _task(self, frame: Frame, schema: Schema, sites: Any, objective: Mapping[str, Any]) -> tuple[dict[str, Any], Callable[[], int]]:
        """The study as the command line would read it, and how many records are equal, at most."""
        specs = {str(c["name"]): c for c in schema.columns}
        missing = schema.missing()
        if self.unknown != "error":
            self._settle_unknown(frame, specs)
        site = schema.find("site")
        data: dict[str, Any] = {"path": "*.csv", "schema": "schema.toml"}
        whole = np.arange(frame.rows)
        if site is not None and site["name"] in frame.names:
            data["partition"] = {"by": str(site["name"])}
            parts = [("records.csv", whole)]
            names = list(dict.fromkeys(text_of(v) for v in frame.column(str(site["name"])).values if v is not None))
        else:
            order, counts, names = by_site(sites, frame.rows)
            places = np.split(whole if order is None else order, np.cumsum(counts)[:-1])
            data.update({"partition": {"by": "file"}} if len(names) > 1 else {"agents": 1})
            parts = [(f"{_safe(name)}.csv", own) for name, own in zip(names, places)]
        columns = frame.table(specs, parts)
        files = [] if columns is not None else frame.csvs(specs, missing, parts)
        table: dict[str, Any] = {"name": "study", "runs": 1, **({} if self.models == "shared" else {"models": self.models}), "data": data}
        table["objective"] = {**objective, "regularization": float(self.regularization)}
        table["graph"], algorithm = self._algorithm()  # type: ignore[attr-defined]
        if self.epsilon is not None:
            table["privacy"] = {"epsilon": float(self.epsilon), "delta": float(self.delta), "neighbours": self.neighbours}
        level = self._level(framed=True)  # type: ignore[attr-defined]
        if level is not None:
            table["inference"] = {"level": level}
        table["algorithm"] = [algorithm]
        self._names = names
        task = {"file": type(self).__name__, "text": _dumps(table), "files": files, "columns": columns, "schema": schema.to_toml()}
        task.update({"test": None, "edges": None})
        return task, lambda: frame.most_equal(specs, missing)

    def _settle_unknown(self, frame: Frame, specs: Mapping[str, Mapping[str, Any]]) -> None:
        """In a fit, an unknown category is the one called "other", or counts as missing."""
        for column in frame.columns:
            known = specs.get(column.name, {}).get("categories")
            if not known:
                continue
            words = set(known)
            other = next((word for word in known if word.lower() == "other"), None)
            if self.unknown == "other" and other is None and any(v is not None and text_of(v) not in words for v in column.values):
                raise InputError(f'unknown="other": column "{column.name}" has values that are not declared, and no category called "other"')
            if column.kind != "boolean":
                put = other if self.unknown == "other" else None
                column.values = [v if v is None or text_of(v) in words or str(v) in words else put for v in column.values]

    def _answered(self, task: dict[str, Any], most_equal: Callable[[], int]) -> dict[str, Any]:
        private, charge = self.epsilon is not None, None
        if private:
            refuse_elsewhere(self)
            warn_of_what_is_around(type(self).__name__)
            charge = charger(accountants(self.accountant, self), type(self).__name__, most_equal)
        seed = self._seeded()  # type: ignore[attr-defined]
        with progress_of(self.progress, type(self).__name__) or nullcontext() as progress:
            answer: dict[str, Any] = json.loads(_core.fit_tables(task, seed, not private, progress, charge))
        if answer["file"] is None:
            raise ConsensoError("the model did not end with finite numbers; a larger regularization or budget may help")
        for said in answer["record"].get("warnings") or []:
            # What a schema asks for needs no word; what was dropped or clamped may be a mistake.
            if "as the schema says" not in said:
                warnings.warn(said, UserWarning, stacklevel=5)
        return answer

    def _remember(self, frame: Frame, schema: Schema, answer: dict[str, Any]) -> None:
        used = set(schema.features())
        self._inputs = [name for name in frame.names if name in used]
        self.n_features_in_ = len(frame.names)
        if all(not name.startswith("x") or not name[1:].isdigit() for name in frame.names):
            self.feature_names_in_ = np.array(frame.names, dtype=object)
        self.schema_ = schema
        self._note(answer, self.__dict__.pop("_names"))  # type: ignore[attr-defined]
        self._file = answer["file"]
        self._model = json.dumps(self._file)
        self.inference_ = self._file.get("inference")
        self.feature_names_out_ = np.array([f for f in self._file["features"] if f != self._file.get("intercept")], dtype=object)
        self._linear = _linear(self._file, self._file["weights"])
        noise = self._file.get("weight_noise")
        self.coef_noise_ = _linear(self._file, noise)[0] if noise and len(noise) == len(self._file["weights"]) else None
        agents = self._file.get("agents") or []
        each = [_linear(self._file, a["weights"]) for a in agents] or [self._linear] * max(1, len(self.sites_))  # type: ignore[attr-defined]
        self.site_coefs_ = np.array([c for c, _ in each])
        self.site_intercepts_ = np.array([i for _, i in each])
        # Exact functions of a site's own records: as private as these.
        files = {f"{_safe(name)}.csv": name for name in map(str, self.sites_)}  # type: ignore[attr-defined]
        self._personal = {files.get(name, name): json.dumps(file) for name, file in answer.get("personal") or []}

    def _model_of(self, site: Optional[str]) -> tuple[str, Optional[str]]:
        """The model file that answers for a site, and the site's name in it."""
        if site is None or self.models != "personal":
            return self._model, site
        own: dict[str, str] = getattr(self, "_personal", {})
        if not own:
            raise InputError("personal models are as private as the records they were fitted on, and do not leave the process: a pickle has the shared model alone")
        if str(site) not in own:
            raise InputError(f"site={site!r} is none of {', '.join(own)}")
        return own[str(site)], None

    def _applied(self, X: Any, site: Optional[str], interval: Optional[float] = None) -> dict[str, Any]:
        """What the model file answers for a frame."""
        frame = Frame.of(X, getattr(self, "_inputs", None) if not is_frame(X) else None)
        lacking = [name for name in self._inputs if name not in frame.names]
        if lacking:
            raise InputError(f'X has no column "{lacking[0]}", which the model reads; there are {", ".join(frame.names)}')
        specs = {str(c["name"]): c for c in self.schema_.columns}
        kept = Frame([c for c in frame.columns if c.name in self._inputs])
        columns = kept.table(specs, [])
        text = b"" if columns is not None else kept.csv(specs, self.schema_.missing())
        model, agent = self._model_of(site)
        try:
            found: dict[str, Any] = json.loads(_core.predict(model, "X", text, agent, self.unknown, interval, columns))
        except InputError as refused:
            # The command line's way out, in the words of this one.
            raise InputError(re.sub(r"--unknown (\w+)", r'unknown="\1"', str(refused))) from None
        if not all(found["kept"]):
            row = found["kept"].index(False)
            named = [f'"{c.name}"' for c in kept.columns if c.values[row] is None]
            raise InputError(
                f"row {row + 1} has no value of {' and '.join(named) or 'a column'}, and the schema says that such a record is dropped: "
                '{"missing": "category"} or {"missing": {"impute": …}} in its schema or bounds lets it be predicted'
            )
        return found


def _linear(file: Mapping[str, Any], weights: list[float]) -> tuple[Floats, Floats]:
    """Slopes and intercepts in the units of the columns where the encoding is linear in them; else those of the encoded features."""
    features = len(file["features"])
    rows = np.asarray(weights, dtype=np.float64).reshape(-1, features)
    bias = file["features"].index(file["intercept"]) if file.get("intercept") in file["features"] else None
    others = [i for i in range(features) if i != bias]
    start = rows[:, bias] if bias is not None else np.zeros(len(rows))
    parts = file["encoder"]["columns"]
    if any(part["kind"] not in ("standardised", "levels") for part in parts):
        return rows[:, others], start
    slopes, offsets = [], []
    for part in parts:
        if part["kind"] == "standardised":
            wide = part["width"] * part["scale"]
            slopes.append(1 / wide)
            offsets.append(-(part["min"] + part["width"] * part["centre"]) / wide)
            continue
        shares, floor = np.array(part["shares"]), part["floor"]
        if len(shares) == 2:
            spread = np.sqrt(4 * shares[1] * (1 - shares[1]) + floor)
            slopes.append(2 / spread)
            offsets.append(-2 * shares[1] / spread)
        elif len(shares) > 2:
            spread = np.sqrt(shares * (1 - shares) + floor)
            slopes.extend(1 / spread)
            offsets.extend(-shares / spread)
    slope, offset = np.array(slopes), np.array(offsets)
    return rows[:, others] * slope, start + rows[:, others] @ offset


def _free(name: str, taken: list[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _safe(name: str) -> str:
    return name.replace("/", "_").replace("\\", "_")
