"""A model card: what a model is, what it cost and what it says, in Markdown and as HTML."""

from __future__ import annotations

import html
from typing import Any

from ._format import round_up

__all__ = ["Card"]


class Card(str):
    """The text of a model card, in Markdown; a notebook shows it as HTML. It holds releases and public facts alone."""

    parts: list[tuple[str, list[tuple[str, str]]]]
    _tail: str

    @classmethod
    def of(cls, model: Any) -> "Card":
        """The card of a fitted estimator."""
        claim = model.claim_
        columns = getattr(model, "schema_", None)
        about = [("model", type(model).__name__), ("sites", ", ".join(map(str, model.sites_))), ("rounds", str(model.n_iter_))]
        if hasattr(model, "classes_"):
            about.append(("classes", ", ".join(map(str, model.classes_))))
        public = [] if columns is None else [line.split(": ", 1) for line in columns.review().splitlines() if ": " in line and not line.startswith("#")]
        known = [(name, said) for name, said in public]
        if claim is None:
            cost = [("\u03b5", "none: nothing is protected, and the model is as private as the records")]
        else:
            cost = [
                ("\u03b5", round_up(claim.epsilon, 4)), ("\u03b4", f"{claim.delta:g}"), ("neighbours", claim.relation), ("protects from", claim.adversary),
                ("noise", claim.sampler), *(("takes for granted", caveat) for caveat in claim.caveats),
            ]
        parts = [("What it is", about), ("What it cost", cost)] + ([("What is public of the columns", known)] if known else [])
        summary = model.summary()
        lines = [f"# Model card: {type(model).__name__}"]
        for title, rows in parts:
            lines += ["", f"## {title}", "", *(f"- {name}: {said}" for name, said in rows)]
        lines += ["", "## What it says", "", "```", str(summary), "```"]
        card = cls("\n".join(lines))
        card.parts = parts
        card._tail = summary._repr_html_()
        return card

    def _repr_html_(self) -> str:
        found = []
        for title, rows in self.parts:
            cells = "".join(
                f"<tr><th style='text-align:left'>{html.escape(name)}</th><td style='text-align:left'>{html.escape(said)}</td></tr>" for name, said in rows
            )
            found.append(f"<h4>{html.escape(title)}</h4><table>{cells}</table>")
        return "".join(found) + f"<h4>What it says</h4>{self._tail}"
