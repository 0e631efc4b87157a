"""Coefficients as a table that prints and that is a frame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping, Optional, Sequence

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pandas

__all__ = ["Summary"]


class Summary(str):
    """The text of a table of coefficients; ``rows`` has the numbers, and :meth:`to_pandas` and :meth:`to_polars` a frame of them."""

    rows: list[dict[str, Any]]

    @classmethod
    def _made(cls, lines: Sequence[str], rows: list[dict[str, Any]]) -> "Summary":
        found = cls("\n".join(lines))
        found.rows = rows
        return found

    @classmethod
    def inferred(cls, found: Mapping[str, Any]) -> "Summary":
        """Estimates with standard errors, intervals and p-values."""
        level = f"{100 * found['level']:g} %"
        lines, rows = [f"{'feature':<24}{'estimate':>12}{'std. error':>12}{'p':>10}   {level} interval"], []
        advice = dict.fromkeys(said[1] for one in found["coefficients"] if len(said := str(one.get("refused") or "").split(", and ", 1)) > 1)
        for one in found["coefficients"]:
            rows.append({key: one.get(key) for key in ("feature", "estimate", "std_error", "low", "high", "p", "refused")})
            if one.get("refused"):
                lines.append(f"{one['feature']:<24}{one['refused'].split(', and ', 1)[0]}")
                continue
            ends = f"{one['low']:+.4g} to {one['high']:+.4g}"
            lines.append(f"{one['feature']:<24}{one['estimate']:>+12.4g}{one['std_error']:>12.4g}{one['p']:>10.3g}   {ends}")
        return cls._made([*lines, *(f"of those refused: {text}" for text in advice), *found.get("notes", [])], rows)

    @classmethod
    def of_weights(
        cls, names: Sequence[str], coefficients: npt.NDArray[np.float64], noise: Optional[npt.NDArray[np.float64]], private: bool
    ) -> "Summary":
        """Weights, with what the privacy noise alone does to them where that is known."""
        lines, rows = [], []
        for row, values in enumerate(coefficients):
            for index, (name, value) in enumerate(zip(names, values)):
                beside = "" if noise is None else f" ± {noise[row, index]:.4g}"
                lines.append(f"{name:<24}{value:>+12.4g}{beside}")
                rows.append({"feature": name, "output": row, "estimate": float(value), "noise": None if noise is None else float(noise[row, index])})
        if noise is not None:
            lines.append("± is what the privacy noise alone does to a weight; sampling error comes on top: no confidence interval (inference=True)")
        elif private:
            lines.append("how much of these weights is noise is not known for this algorithm: do not publish them")
        return cls._made(lines, rows)

    def to_pandas(self) -> "pandas.DataFrame":
        """One row a coefficient, as a pandas frame."""
        import pandas

        return pandas.DataFrame(self.rows).set_index("feature")

    def to_polars(self) -> Any:
        """One row a coefficient, as a polars frame."""
        import polars

        return polars.DataFrame(self.rows)

    def _repr_html_(self) -> str:
        return str(self.to_pandas().to_html(float_format=lambda value: f"{value:.4g}"))
