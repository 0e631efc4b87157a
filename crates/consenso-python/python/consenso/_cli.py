"""The command line, from Python: ``python -m consenso``, the script ``consenso``, and calls that return its JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any, Union

from . import _core
from ._core import ConsensoError, InputError

#: What starts Python with this package anew.
AGAIN = [sys.executable, "-m", "consenso"]


def main() -> int:
    """Run the command line with the words of this process."""
    return _core.command(["consenso", *sys.argv[1:]], AGAIN)


def cli(*words: Union[str, "os.PathLike[str]"]) -> Any:
    """Run a command of ``consenso`` in a process of its own and return what it prints as JSON.

    Parameters
    ----------
    *words : str or path
        The words after ``consenso``: ``cli("privacy", "explain", "--epsilon", "1")``. Progress goes to stderr as usual.

    Returns
    -------
    dict

    Raises
    ------
    InputError
        The command found something wrong with its input, before it did anything.
    ConsensoError
        The run failed.
    """
    called = [*AGAIN, *(os.fspath(w) for w in words), "--json"]
    done = subprocess.run(called, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return answer(done.returncode, done.stdout, done.stderr)


def answer(code: int, out: str, err: str) -> Any:
    """The JSON of a command that ended, or its error as an exception."""
    if code == 0:
        return json.loads(out) if out.strip() else {}
    message = err.strip()
    # A warning may come first.
    at = message.find("error: ")
    message = message[at + len("error: ") :] if at >= 0 else message
    raise (InputError if code == 2 else ConsensoError)(message or f"consenso ended with exit code {code}")
