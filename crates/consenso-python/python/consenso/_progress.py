"""How far long work is: a line in a terminal, a bar in a notebook."""

from __future__ import annotations

import html
import importlib
import sys
import time
from typing import Any, Callable, Optional, TextIO

__all__ = ["Progress", "progress_of"]

#: Seconds before anything is drawn: short work is over by then.
PATIENCE = 0.5


def _notebook() -> Optional[Callable[[], Any]]:
    """What makes a place on a notebook's page, where this is one."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None and hasattr(ipython, "get_ipython") else None
    if shell is None or getattr(shell, "kernel", None) is None:
        return None
    page: Any = importlib.import_module("IPython.display")
    return lambda: page.display(_html(""), display_id=True)


def _html(text: str) -> Any:
    page: Any = importlib.import_module("IPython.display")
    return page.HTML(text)


def progress_of(asked: Optional[bool], title: str, stream: Optional[TextIO] = None) -> Optional["Progress"]:
    """A progress display, or ``None`` where nobody would see it: ``asked`` decides, else whether this is a terminal or a notebook."""
    notebook = _notebook()
    stream = sys.stderr if stream is None else stream
    if asked is None:
        asked = notebook is not None or bool(getattr(stream, "isatty", lambda: False)())
    return Progress(title, stream, notebook) if asked else None


class Progress:
    """Shows how far long work is, and takes itself away at the end; ``with`` closes it.

    It is called as ``progress(done, total, stage)``; a total of 0 is one that is not known yet.
    """

    def __init__(self, title: str, stream: Optional[TextIO] = None, notebook: Optional[Callable[[], Any]] = None) -> None:
        self._title = title
        self._stream = sys.stderr if stream is None else stream
        self._notebook = notebook
        self._handle: Any = None
        self._began = time.monotonic()
        self._width = 0

    def __call__(self, done: int, total: int, stage: str) -> None:
        """Draw, once the work has taken half a second."""
        seconds = time.monotonic() - self._began
        if seconds < PATIENCE:
            return
        text = self._text(done, total, stage, seconds)
        if self._notebook is None:
            self._stream.write("\r" + text.ljust(self._width))
            self._stream.flush()
            self._width = len(text)
            return
        if self._handle is None:
            self._handle = self._notebook()
        share = f' value="{done}" max="{total}"' if total else ""
        self._handle.update(_html(f"<progress{share}></progress> <code>{html.escape(text)}</code>"))

    def _text(self, done: int, total: int, stage: str, seconds: float) -> str:
        name = f"{self._title}: {stage}" if stage else self._title
        if not total:
            return f"{name} [{_clock(seconds)}]"
        part = min(done / total, 1.0)
        bar = "" if self._notebook is not None else "█" * int(20 * part) + "░" * (20 - int(20 * part)) + " "
        left = f"<{_clock(seconds * (1 - part) / part)}, {done / seconds:.0f}/s" if done else ""
        return f"{name} {100 * part:3.0f} % {bar}{done}/{total} rounds [{_clock(seconds)}{left}]"

    def close(self) -> None:
        """Take the display away."""
        if self._width:
            self._stream.write("\r" + " " * self._width + "\r")
            self._stream.flush()
            self._width = 0
        if self._handle is not None:
            self._handle.update(_html(""))
            self._handle = None

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes:02}:{rest:02}"
