# SPDX-License-Identifier: Apache-2.0
"""Arrays in JSON: type, shape, and the bytes in base64; no number is lost on the way."""

from __future__ import annotations

import base64
import binascii
import io
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from reticent_wire.errors import InvalidInput

DTYPES = ("<f8", "<i4", "<i8")


def to_json(array: Any) -> dict[str, Any]:
    """``{"dtype", "shape", "data"}`` of an array: floats as ``<f8``, 32-bit integers as ``<i4``, others as ``<i8``."""
    numbers = np.asarray(array)
    kind = "i" if np.issubdtype(numbers.dtype, np.integer) else "f"
    dtype = "<i4" if kind == "i" and numbers.dtype.itemsize <= 4 else f"<{kind}8"
    data = np.ascontiguousarray(numbers, dtype=dtype).tobytes()
    return {"dtype": dtype, "shape": list(numbers.shape), "data": base64.b64encode(data).decode("ascii")}


def from_json(field: str, content: Mapping[str, Any], *, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """The array of :func:`to_json`, which must have this type and shape; −1 in a shape stands for any size.

    Raises:
      InvalidInput: it has not, or the bytes are not as many as the shape says.
    """
    stated = tuple(content.get("shape", ()))
    if content.get("dtype") != dtype or not fits(stated, shape):
        kind = f"{content.get('dtype')} {content.get('shape')}"
        raise InvalidInput(field, kind, f"{dtype} {list(shape)}", "see the service's model for the shape")
    try:
        data = base64.b64decode(str(content.get("data", "")), validate=True)
    except (binascii.Error, ValueError):
        raise InvalidInput(f"{field}.data", "not base64", "standard base64", "encode the array's bytes") from None
    if len(data) != math.prod(stated) * np.dtype(dtype).itemsize:
        raise InvalidInput(f"{field}.data", f"{len(data)} bytes", "as many as the shape says", "send the whole array")
    return np.frombuffer(data, dtype=dtype).reshape(stated)


def fits(stated: tuple[Any, ...], shape: tuple[int, ...]) -> bool:
    """Whether a shape is what was asked for, −1 standing for any size.

    >>> fits((3, 2), (3, -1)), fits((3,), (3, -1))
    (True, False)
    """
    whole = all(isinstance(size, int) and size >= 0 for size in stated)
    return (
        whole
        and len(stated) == len(shape)
        and all(want in (-1, size) for size, want in zip(stated, shape, strict=True))
    )


def to_bytes(arrays: Mapping[str, Any]) -> bytes:
    """Named arrays as one byte string (the npz format, no pickle)."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **{key: np.asarray(value) for key, value in arrays.items()})
    return buffer.getvalue()


def from_bytes(data: bytes) -> dict[str, np.ndarray]:
    """The inverse of :func:`to_bytes`."""
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        return {key: arrays[key] for key in arrays.files}
