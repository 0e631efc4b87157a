"""What is claimed about privacy, as an object."""

from __future__ import annotations

import html
import math
from dataclasses import dataclass, field, fields
from typing import Any, Iterator, Mapping

from ._format import round_up

__all__ = ["Claim"]


@dataclass(frozen=True, eq=True, repr=False)
class Claim(Mapping[str, Any]):
    """What is claimed about privacy; printing shows all of it, and ``claim["epsilon"]`` works as ``claim.epsilon`` does.

    Attributes
    ----------
    epsilon, delta : float
        The whole transcript is (ε, δ)-differentially private; ε is rounded up.
    relation : str
        Which data sets are neighbours: "replace-one", "add-remove", …
    adversary : str
        Who may look, in words.
    transcripts : int
        How many transcripts it covers.
    method, sampler : str
        How releases were added up, and where the noise comes from.
    caveats : tuple of str
        What the claim takes for granted.
    statement : str
        All of it in sentences.
    """

    epsilon: float
    delta: float
    relation: str = "replace-one"
    adversary: str = "every other site"
    transcripts: int = 1
    method: str = ""
    sampler: str = ""
    caveats: tuple[str, ...] = ()
    statement: str = ""
    #: Whatever else was said, by key.
    more: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> "Claim":
        """A claim from its JSON."""
        given = dict(said)
        given["relation"] = given.pop("neighbours", given.get("relation", "replace-one"))
        given["caveats"] = tuple(given.get("caveats") or ())
        known = {f.name for f in fields(cls)} - {"more"}
        more = {k: v for k, v in given.items() if k not in known}
        return cls(**{k: v for k, v in given.items() if k in known}, more=more)

    def explain(self) -> str:
        """The claim for somebody who has not heard of ε before."""
        factor = math.exp(self.epsilon) if self.epsilon < 50 else math.inf
        who = {
            "replace-one": "Replace one record by any other",
            "add-remove": "Add a record or take one away",
        }.get(self.relation, f"Change the records as \"{self.relation}\" allows")
        lines = [
            f"{who}: the chance of whatever is released changes by a factor of at most "
            f"{round_up(factor, 3)} (e to ε = {round_up(self.epsilon, 4)}), but for a chance of δ = {self.delta:g}.",
            f"Whom it holds against: {self.adversary}.",
            f"It covers {self.transcripts} transcript{'s' if self.transcripts != 1 else ''}; further studies of the same records cost more.",
        ]
        lines += [f"It takes for granted: {caveat}" for caveat in self.caveats]
        if self.sampler:
            lines.append(f"Noise: {self.sampler}.")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """The claim as a dict, for JSON."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in self.items()}

    def _keys(self) -> dict[str, Any]:
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "more"}
        return {**own, "neighbours": self.relation, "caveats": list(self.caveats), **self.more}

    def __getitem__(self, key: str) -> Any:
        return self._keys()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys())

    def __len__(self) -> int:
        return len(self._keys())

    def __hash__(self) -> int:
        return hash((self.epsilon, self.delta, self.relation, self.adversary, self.transcripts, self.statement))

    def __str__(self) -> str:
        return self.statement or self.explain()

    def __repr__(self) -> str:
        return (
            f"Claim(epsilon={round_up(self.epsilon, 4)}, delta={self.delta:g}, relation={self.relation!r}, adversary={self.adversary!r}, "
            f"transcripts={self.transcripts}, method={self.method!r}; print it for all that it says)"
        )

    def _repr_html_(self) -> str:
        rows = [
            ("ε", round_up(self.epsilon, 4)), ("δ", f"{self.delta:g}"), ("neighbours", self.relation), ("protects from", self.adversary),
            ("transcripts", str(self.transcripts)), ("added up by", self.method), ("noise", self.sampler),
        ]
        body = "".join(f"<tr><th style='text-align:left'>{html.escape(k)}</th><td style='text-align:left'>{html.escape(v)}</td></tr>" for k, v in rows if v)
        notes = "".join(f"<li>{html.escape(caveat)}</li>" for caveat in self.caveats)
        return f"<table>{body}</table>" + (f"<ul>{notes}</ul>" if notes else "")
