"""How JAX is set up for this library: double precision, enough threads, and a compilation cache on disk.

Every module that computes imports ``jax`` through the packages of this library, and those import this one first, so the
setting is in force before the first array exists. Nothing here touches a device.
"""

from __future__ import annotations

import os
from pathlib import Path

import jax

jax.config.update("jax_enable_x64", True)

# jaxlib 0.10 cuts a batched LAPACK call (Cholesky, triangular solve) into tasks for XLA's own pool of threads, and waits
# for them on a thread of that pool. As many such calls at once as there are threads wait for ever: two calls on two
# cores, which is RiverSwim-6 with 16 seeds. XLA takes its pool's size from NPROC when the first device is used; eight
# threads are more than any program here has such calls at once, and cost nothing while they sleep.
if "NPROC" not in os.environ:
    os.environ["NPROC"] = str(max(8, os.cpu_count() or 1))


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
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
