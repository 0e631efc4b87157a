"""Columns of numbers from anything that gives an Arrow stream (``__arrow_c_stream__``), whatever library made it."""

from __future__ import annotations

import ctypes as c
from typing import Any

import numpy as np
import numpy.typing as npt

from ._core import InputError

__all__ = ["columns"]


class _Schema(c.Structure):
    pass


class _Array(c.Structure):
    pass


class _Stream(c.Structure):
    pass


# The structs of the Arrow C data and stream interfaces, which are a stable ABI.
_Schema._fields_ = [
    ("format", c.c_char_p),
    ("name", c.c_char_p),
    ("metadata", c.c_void_p),
    ("flags", c.c_int64),
    ("n_children", c.c_int64),
    ("children", c.POINTER(c.POINTER(_Schema))),
    ("dictionary", c.POINTER(_Schema)),
    ("release", c.CFUNCTYPE(None, c.POINTER(_Schema))),
    ("private_data", c.c_void_p),
]
_Array._fields_ = [
    ("length", c.c_int64),
    ("null_count", c.c_int64),
    ("offset", c.c_int64),
    ("n_buffers", c.c_int64),
    ("n_children", c.c_int64),
    ("buffers", c.POINTER(c.c_void_p)),
    ("children", c.POINTER(c.POINTER(_Array))),
    ("dictionary", c.POINTER(_Array)),
    ("release", c.CFUNCTYPE(None, c.POINTER(_Array))),
    ("private_data", c.c_void_p),
]
_Stream._fields_ = [
    ("get_schema", c.CFUNCTYPE(c.c_int, c.POINTER(_Stream), c.POINTER(_Schema))),
    ("get_next", c.CFUNCTYPE(c.c_int, c.POINTER(_Stream), c.POINTER(_Array))),
    ("get_last_error", c.CFUNCTYPE(c.c_char_p, c.POINTER(_Stream))),
    ("release", c.CFUNCTYPE(None, c.POINTER(_Stream))),
    ("private_data", c.c_void_p),
]

#: Formats of numbers, and what numpy calls them; booleans are bits.
_NUMBERS = {
    "c": "i1", "C": "u1", "s": "i2", "S": "u2", "i": "i4", "I": "u4", "l": "i8", "L": "u8", "e": "f2", "f": "f4", "g": "f8",
}


def columns(frame: Any) -> tuple[list[str], npt.NDArray[np.float64]]:
    """Names of the columns, and their numbers row after row; a null is NaN.

    Raises
    ------
    InputError
        A column is not of numbers.
    """
    capsule = frame.__arrow_c_stream__()
    pointer = c.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = c.c_void_p, [c.py_object, c.c_char_p]
    # The capsule owns the stream and releases it when it goes.
    stream = c.cast(pointer(capsule, b"arrow_array_stream"), c.POINTER(_Stream))
    schema = _Schema()
    _ask(stream, stream.contents.get_schema(stream, c.byref(schema)))
    try:
        if schema.format != b"+s":
            raise InputError("the Arrow stream is not a table: give a frame of columns")
        kinds = []
        for i in range(schema.n_children):
            child = schema.children[i].contents
            kind, name = (child.format or b"").decode(), (child.name or b"").decode()
            if child.dictionary or (kind not in _NUMBERS and kind not in ("b", "n")):
                raise InputError(f'column "{name}" is not of numbers (Arrow format "{kind}"): encode it first')
            kinds.append((name, kind))
    finally:
        schema.release(c.byref(schema))
    parts = []
    while True:
        batch = _Array()
        _ask(stream, stream.contents.get_next(stream, c.byref(batch)))
        if not batch.release:
            break
        try:
            rows = np.empty((batch.length, len(kinds)))
            for i, (_, kind) in enumerate(kinds):
                rows[:, i] = _numbers(batch.children[i].contents, kind, batch.offset, batch.length)
            parts.append(rows)
        finally:
            batch.release(c.byref(batch))
    whole = parts[0] if len(parts) == 1 else np.concatenate([np.empty((0, len(kinds))), *parts])
    return [name for name, _ in kinds], whole


def _ask(stream: Any, code: int) -> None:
    if code:
        text = stream.contents.get_last_error(stream)
        raise InputError(f"the Arrow stream failed: {text.decode(errors='replace') if text else f'error {code}'}")


def _numbers(array: _Array, kind: str, offset: int, length: int) -> npt.NDArray[np.float64]:
    start = offset + array.offset
    if kind == "n" or length == 0:
        return np.full(length, np.nan)
    if kind == "b":
        found = _bits(array.buffers[1], start, length).astype(np.float64)
    else:
        dtype = np.dtype(_NUMBERS[kind])
        size = dtype.itemsize
        found = np.frombuffer(_memory(array.buffers[1] + start * size, length * size), dtype=dtype).astype(np.float64)
    if array.null_count and array.buffers[0]:
        found[~_bits(array.buffers[0], start, length)] = np.nan
    return found


def _bits(address: int, start: int, length: int) -> npt.NDArray[np.bool_]:
    first = start // 8
    bytes_ = np.frombuffer(_memory(address + first, (start + length + 7) // 8 - first), dtype=np.uint8)
    bits = np.unpackbits(bytes_, bitorder="little")
    return bits[start - 8 * first :][:length].astype(np.bool_)


def _memory(address: int, size: int) -> "memoryview[int]":
    return memoryview((c.c_uint8 * size).from_address(address)).cast("B")
