# SPDX-License-Identifier: Apache-2.0
"""Arrays of the host reach the device as they are, without a program, and later changes of theirs do not."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from reticent.runtime import double_precision, on_device
from reticent.worlds import make_model


def host_array(kind: type, begin: int) -> np.ndarray:
    """An array that begins so many bytes after an address at which JAX would adopt it."""
    room = np.empty(40_128, np.uint8)
    begin += -room.ctypes.data % 64
    array = room[begin : begin + 5000 * np.dtype(kind).itemsize].view(kind).reshape(50, 100)
    array[...] = np.arange(5000).reshape(50, 100)
    return array


@pytest.mark.parametrize("begin", [0, 16])
@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int64, np.int32, np.bool_])
def test_they_are_what_they_were_whatever_becomes_of_the_hosts(kind: type, begin: int) -> None:
    mine = host_array(kind, begin)
    for seen in (mine, mine.T, mine[::2, 3:], mine[:0]):
        before = seen.copy()
        moved = on_device(seen)
        mine[:] = ~mine if kind is np.bool_ else mine + 1
        assert moved.dtype == kind
        assert not moved.weak_type
        np.testing.assert_array_equal(moved, before)


def test_a_model_keeps_its_features_whatever_becomes_of_the_users_array() -> None:
    """Bounds were checked of these very numbers, and noise is calibrated to the bounds."""
    room = np.empty(2 * 4 * 3 * 4 * 8 + 64, np.uint8)
    begin = -room.ctypes.data % 64
    mine = room[begin : begin + 2 * 4 * 3 * 4 * 8].view(np.float64).reshape(2, 4, 3, 4)
    mine[...] = 0.25
    model = make_model(mine, np.full((1, 4, 3), 0.5), 2)
    mine[...] = 1e6
    np.testing.assert_array_equal(model.transition_features, np.full(mine.shape, 0.25))


def test_a_number_of_the_hosts_has_its_type() -> None:
    moved = on_device(np.array(0.1))
    assert (moved.shape, moved.dtype, moved.weak_type) == ((), np.float64, False)


def test_precision_is_that_of_the_scope() -> None:
    with jax.enable_x64(False):
        assert on_device(np.ones(3)).dtype == np.float32
        assert double_precision(on_device)(np.ones(3)).dtype == np.float64


def test_no_program_is_compiled(caplog: pytest.LogCaptureFixture) -> None:
    shape = (7, 11, 13)  # of no other array in this process
    with jax.log_compiles():
        on_device(np.ones(shape))
        assert not [record for record in caplog.records if "ompil" in record.getMessage()]
        jax.jit(lambda array: array + 1)(np.ones(shape))
        assert [record for record in caplog.records if "ompil" in record.getMessage()]  # or the check would see nothing
