"""A site of a real network, run and looked at from Python."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from pathlib import Path
from typing import Any, Callable, Optional, Sequence, Union

from ._cli import AGAIN, answer, cli
from ._core import InputError
from ._experiments import _loads
from ._model import write_csv

__all__ = ["Site", "network"]


class Site:
    """The folder of one site, as ``consenso network new`` makes it.

    Parameters
    ----------
    folder : path
        The site's folder, with ``site.toml`` inside.

    Examples
    --------
    >>> site = consenso.Site("ours/hospital-a")                            # doctest: +SKIP
    >>> site.run(on_round=lambda state: print(state["round"]))             # doctest: +SKIP
    >>> site.audit()["remaining"]                                          # doctest: +SKIP
    """

    def __init__(self, folder: Union[str, "os.PathLike[str]"]) -> None:
        self.folder = Path(folder)
        if not (self.folder / "site.toml").exists():
            raise InputError(
                f"{self.folder}: holds no site.toml; `consenso network new` makes the folders of sites, and consenso.network(...) does so from here"
            )

    def run(self, on_round: Optional[Callable[[dict[str, Any]], object]] = None, *options: str) -> dict[str, Any]:
        """Take part in the study until it ends; other sites must run too.

        The site runs in a process of its own: what is charged is on disk before its message leaves, and a run that is interrupted
        (Ctrl-C, or an exception of ``on_round``) goes on where it was when it is started again.

        Parameters
        ----------
        on_round : callable, optional
            Called with the state of the site, a dict, whenever it has changed.
        *options : str
            Further options of ``consenso node run``.

        Returns
        -------
        dict
            What ``consenso node run --json`` prints at the end.
        """
        called = [*AGAIN, "node", "run", "--lines", os.fspath(self.folder), *options]
        child = subprocess.Popen(called, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert child.stdout is not None and child.stderr is not None
        errors: list[str] = []
        reader = threading.Thread(target=lambda: errors.append(child.stderr.read() if child.stderr else ""), daemon=True)
        reader.start()
        last, before = "", None
        try:
            for line in child.stdout:
                last = line if line.strip() else last
                state = json.loads(line).get("progress") if line.strip() else None
                if on_round is not None and state is not None and state != before:
                    on_round(state)
                before = state
        except BaseException:
            child.send_signal(signal.SIGTERM)
            child.wait()
            raise
        code = child.wait()
        reader.join()
        result: dict[str, Any] = answer(code, last, "".join(errors))
        return result

    def status(self) -> dict[str, Any]:
        """Where the site stands: ``consenso node status``."""
        result: dict[str, Any] = cli("node", "status", self.folder)
        return result

    def audit(self) -> dict[str, Any]:
        """What was released and charged, recomputed from the ledger: ``consenso node audit``."""
        result: dict[str, Any] = cli("node", "audit", self.folder)
        return result

    def model(self) -> dict[str, Any]:
        """The model that the site ended with, as the model file: ``consenso node model``."""
        result: dict[str, Any] = cli("node", "model", self.folder)
        return result

    def records(self, frame: Any) -> Path:
        """Write the records of a data frame where the site looks for them, as CSV.

        The study's schema decides what the columns mean and clamps what lies outside it. pandas, polars and pyarrow frames work.

        Returns
        -------
        Path of the file.
        """
        site = _loads((self.folder / "site.toml").read_text(encoding="utf-8"), os.fspath(self.folder / "site.toml"))
        path = self.folder / str(site.get("records", "records.csv"))
        write_csv(frame, path)
        return path

    def __repr__(self) -> str:
        return f"Site({os.fspath(self.folder)!r})"


def network(
    folder: Union[str, "os.PathLike[str]"],
    sites: Union[list[str], tuple[str, ...]],
    experiment: Union[str, "os.PathLike[str]"],
    *options: str,
    records: Optional[Sequence[int]] = None,
) -> list[Site]:
    """Make keys, peer files and one folder a site: ``consenso network new``.

    Parameters
    ----------
    folder : path
        Where the folders of the sites go.
    sites : list of str
        The name of every site.
    experiment : path
        The study, as an experiment file; with records of your own it names a schema.
    *options : str
        Further options of ``consenso network new``.
    records : list of int, optional
        How many records every site has, which is public. Without it they are counted in the files of ``data.path``, one a site; with it
        every site brings its own later, with :meth:`Site.records`.

    Returns
    -------
    list of Site
    """
    counted = [] if records is None else ["--records", ",".join(str(int(count)) for count in records)]
    cli("network", "new", folder, "--sites", ",".join(sites), "--experiment", experiment, *counted, *options)
    return [Site(Path(folder) / name) for name in sites]
