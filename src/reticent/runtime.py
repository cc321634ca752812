# SPDX-License-Identifier: Apache-2.0
"""How this library uses JAX without changing the process it is imported into.

Importing sets nothing: no precision, no environment variable, no cache. Every public entry runs in its own *scope* of
double precision (:func:`double_precision`), whatever the caller's setting is, and gives it back. Commands, whose
process is theirs, may switch on more.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import jax
import numpy as np
from jax import Array

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=type)

LEAST_THREADS = 8
"""Threads that XLA is asked for where this library is the first to use a device; see :func:`wake_devices`."""

UNROLLED = 8
"""Loops of so many steps at most are written out in programs for accelerators."""

XLA_ALIGNMENT = 64
"""Bytes; arrays of XLA's CPU client begin at a multiple of them."""


def double_precision(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator: the function runs with 64-bit numbers, and the caller's setting is as before afterwards.

    Arrays keep the precision they were made with; a model that was made in single precision stays so. The first such
    function to be called wakes the devices, with threads enough (:func:`wake_devices`).
    """

    @functools.wraps(function)
    def scoped(*arguments: P.args, **named: P.kwargs) -> R:
        wake_devices()
        if jax.config.jax_enable_x64:  # type: ignore[attr-defined]
            return function(*arguments, **named)
        with jax.enable_x64(True):
            return function(*arguments, **named)

    return scoped


def double_precision_methods(kind: C) -> C:
    """Class decorator: :func:`double_precision` for every public method and property that the class itself defines."""
    scope_methods(kind, (name for name in vars(kind) if not name.startswith("_")))
    return kind


def scope_methods(kind: type, names: Iterable[str]) -> None:
    """Put the named methods and properties of ``kind``, where it defines them itself, into scopes of double precision."""
    for name in list(names):
        member = vars(kind).get(name)
        if inspect.isfunction(member):
            changed: Any = double_precision(member)
        elif isinstance(member, functools.cached_property):
            changed = functools.cached_property(double_precision(member.func))
            changed.__set_name__(kind, name)
        elif isinstance(member, classmethod):
            changed = classmethod(double_precision(member.__func__))
        elif isinstance(member, property) and member.fget is not None:
            changed = property(double_precision(member.fget), doc=member.__doc__)
        else:
            continue
        # Abstract methods must stay abstract.
        if getattr(member, "__isabstractmethod__", False):
            continue
        setattr(kind, name, changed)


def on_device(array: np.ndarray) -> Array:
    """An array of the host's as one of the device's, which later changes of the former do not reach.

    ``jnp.asarray`` means the same, but jaxlib 0.10 compiles a program for every shape, 15 ms each, and copies twice, which
    for a large model is gigabytes. ``device_put`` on a CPU adopts the very memory of an array that begins where XLA would
    have put it, whatever ``may_alias`` says; so it is given a copy that begins there and that nothing else refers to.
    """
    room = np.empty(array.nbytes + XLA_ALIGNMENT, np.uint8)
    begin = -room.ctypes.data % XLA_ALIGNMENT
    copy = room[begin : begin + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    moved: Array = jax.device_put(copy)
    return moved


@functools.cache
def wake_devices() -> int:
    """How many threads XLA's CPU client has, after it has been started if it was not.

    jaxlib 0.10 cuts a batched LAPACK call (Cholesky, triangular solve) into tasks for XLA's own pool of threads, and waits
    for them on a thread of that pool. As many such calls at once as there are threads wait for ever: two calls on two
    cores, which is RiverSwim-6 with 16 seeds. XLA reads its pool's size from NPROC when the client is made; eight threads
    are more than any program here has such calls at once, and cost nothing while they sleep. The variable is set for that
    moment only. Where another part of the process has woken the devices before, their number is taken as it is.
    """
    from jax.extend import backend

    chosen = int(os.environ.get("NPROC", max(LEAST_THREADS, os.cpu_count() or 1)))
    if _devices_are_awake():
        return int(os.environ.get("NPROC", os.cpu_count() or 1))
    with _environment("NPROC", str(chosen)):
        backend.get_backend()
    return chosen


def _devices_are_awake() -> bool:
    from jax._src import xla_bridge  # there is no public way to ask without waking them

    return bool(xla_bridge.backends_are_initialized())


@contextlib.contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def unrolling(steps: int) -> int:
    """How many turns of a loop over steps to write out.

    On an accelerator a turn costs more than a step of a small world. On a CPU it costs nothing, and a written-out loop
    takes longer to compile.
    """
    return steps if 1 <= steps <= UNROLLED and jax.default_backend() != "cpu" else 1


def enable_compilation_cache(directory: Path | None = None) -> None:
    """Keep compiled programs on disk, so that a second run of the same shapes starts at once.

    Only commands call this; a library user's JAX configuration is left alone. ``RETICENT_CACHE=off`` disables it.
    """
    chosen = os.environ.get("RETICENT_CACHE")
    if chosen == "off":
        return
    default = Path.home() / ".cache" / "reticent" / "jax"
    path = directory or (Path(chosen) if chosen else default)
    jax.config.update("jax_compilation_cache_dir", str(path))
    if "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" not in os.environ:  # JAX has read it
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
