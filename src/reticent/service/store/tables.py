# SPDX-License-Identifier: Apache-2.0
"""The tables of a deployment. Raw trajectories are in none of them; see docs/service.md for what each column reveals."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Float, Integer, LargeBinary, MetaData, String, Table, Text

FORMAT = 6
"""Version of the layout; a store of an earlier one is brought up to it by `reticent migrate`."""

METADATA = MetaData()

DEPLOYMENT = Table(
    "deployment",
    METADATA,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("format", Integer, nullable=False),
    Column("identity", String(32), nullable=False),
    Column("facts", Text, nullable=False),
    Column("key_check", LargeBinary, nullable=False),
    Column("admitted", BigInteger, nullable=False),
    Column("open_round", BigInteger, nullable=False),
    Column("served_version", BigInteger, nullable=False),
    Column("waited", Float, nullable=False),
    Column("ticked_at", Float, nullable=False),
    Column("finished", Boolean, nullable=False),
    Column("halted", Text, nullable=True),
    Column("fallback", BigInteger, nullable=True),
)
"""One row: the public clock. The process that admits a user holds its lock, so admissions are one after another.

``identity`` is drawn when a deployment begins; seals and tokens are bound to it. ``facts`` are its settings. ``waited`` are
seconds since the K-th admission, as counted up to the time ``ticked_at``. ``halted`` says why nothing is learned or
released any more, if that is so. ``fallback`` is the published version that users are served instead of the newest one,
if an operator has chosen one.
"""

USERS = Table(
    "users",
    METADATA,
    Column("name", String(64), primary_key=True),
    Column("admissions", Integer, nullable=False),
)
"""Keyed hashes of admitted users, and how often each was admitted."""

EPISODES = Table(
    "episodes",
    METADATA,
    Column("id", String(32), primary_key=True),
    Column("user", String(64), nullable=False),
    Column("admission", BigInteger, nullable=False, unique=True),
    Column("version", BigInteger, nullable=False),
    Column("expires_at", Float, nullable=False, index=True),
    Column("state", String(8), nullable=False),
)
"""Admitted episodes: ``open``, ``counted``, ``expired``, or ``erased`` and then no user's
(:mod:`reticent.service.durability.erasure`).

``admission`` is the 0-based number of the user: round, place and the plan that is served follow from it.
"""

ROUNDS = Table(
    "rounds",
    METADATA,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("state", String(8), nullable=False),
    Column("reference", BigInteger, nullable=True),
    Column("total", LargeBinary, nullable=True),
    Column("release", LargeBinary, nullable=True),
    Column("digest", String(64), nullable=True),
)
"""``open`` (taking reports), ``sealed`` (its sum is final) or ``released`` (its sum is gone, its noisy release is here).

``reference`` is the version that was served to its first user, or published before that user came: what contributions
are formed under where they must not be mixed. None until then.
"""

LEARNER = Table(
    "learner",
    METADATA,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("version", BigInteger, nullable=False),
    Column("state", LargeBinary, nullable=False),
)
"""One row: the agent's state after ``version`` releases."""

BATCHES = Table(
    "batches",
    METADATA,
    Column("round", BigInteger, primary_key=True, autoincrement=False),
    Column("id", String(32), nullable=False, unique=True),
    Column("users", BigInteger, nullable=False),
)
"""Shuffle model: the batch of each round that has had one. Its noisy sum is the round's."""

CHAIN = Table(
    "chain",
    METADATA,
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    Column("entry", Text, nullable=False),
    Column("hash", String(64), nullable=False),
    Column("signature", String(128), nullable=False),
)
"""The public ledger of publications (:mod:`reticent.service.durability.ledger_chain`): one signed entry per billboard."""

BILLBOARDS = Table(
    "billboards",
    METADATA,
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    Column("content", LargeBinary, nullable=False),
)
"""Published plans, each a function of the releases before it."""

CANARIES = Table(
    "canaries",
    METADATA,
    Column("round", BigInteger, primary_key=True, autoincrement=False),
    Column("noise", LargeBinary, nullable=False),
    Column("monitor", Text, nullable=False),
)
"""With the release of each round: the noise of its canaries, ``<f8`` in units of the promised scale, and the monitor after
it. All of it is public."""

VISITS = Table(
    "visits",
    METADATA,
    Column("user", String(64), primary_key=True),
    Column("episode", String(32), primary_key=True),
    Column("admitted_in", BigInteger, nullable=False),
    Column("counted_in", BigInteger, nullable=True),
)
"""The stored name of a user, an episode, the round of its place, and the round that counted its report, if any."""

ERASURES = Table("erasures", METADATA, Column("name", String(64), primary_key=True))
"""Tombstones of those who asked to be erased: the stored name, and nothing else. Kept by every copy of the store, so that
no user is learned from again because a disk failed."""
