# SPDX-License-Identifier: Apache-2.0
"""Four workers and thirty-two users at once on a real PostgreSQL: no error, no lost update. (Short: many threads.)"""

from __future__ import annotations

import pytest


@pytest.mark.verify
def test_four_workers_and_many_clients_lose_nothing(postgres: str) -> None:
    from service_load import load

    found = load(postgres, workers=4, clients=32, seconds=30.0, world="mobile-health")
    assert found["wrong"] == []
    assert found["episodes_per_s"] > 1
    assert found["releases"] > 0
