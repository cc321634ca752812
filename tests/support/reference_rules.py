# SPDX-License-Identifier: Apache-2.0
"""The papers' estimates and bonuses of one pair (s, a), by hand: one function per paper, on plain numbers."""

from __future__ import annotations

from math import sqrt


def private_ucb(n, row, reward, e1, e2, e_r, iota, horizon, whole_rows):
    m = max(n + e1, 1.0)
    root = sqrt(4 * len(row) * iota) if whole_rows else sqrt(2 * iota)
    bonus = sqrt(2 * iota) / sqrt(m) + 3 * e_r / m + horizon * (root / sqrt(m) + (len(row) * e2 + 2 * e1) / m)
    return reward / m, [x / m for x in row], bonus


def pucb(n, row, reward, e1, e2, e_r, iota, horizon):
    e, m = max(e1, e2, e_r), max(n, 1.0)
    bonus = (horizon + 1) * (
        sqrt(2 * iota / max(m - e, 1.0)) + (1 + len(row) * horizon) * (3 * e / m + 2 * e**2 / m**2)
    )
    return reward / m, [x / m for x in row], bonus if n > 2 * e else None


def dp_ucbvi(n, row, reward, e1, e2, e_r, iota, horizon, following):
    e = 2 * max(e1, e2)
    m = max(n + e / 2, 1.0)
    lifted = [(x + (m - n) / len(row)) / m for x in row]
    mean = sum(p * v for p, v in zip(lifted, following, strict=True))
    variance = sum(p * (v - mean) ** 2 for p, v in zip(lifted, following, strict=True))
    bonus = max(sqrt(8 * variance * iota / m), 8 * horizon * iota / m)
    bonus += sqrt(2 * iota / m) + (20 * horizon * len(row) * e * iota + e_r) / m
    return reward / m, lifted, bonus


def ldp_obi(n, row, reward, e1, e2, e_r, iota, horizon):
    m = max(n + 2 * e1, 1.0)
    bonus = sqrt(2 * iota / m) + (3 * e1 + e_r) / m
    bonus += horizon * (sqrt(14 * len(row) * iota / m) + (len(row) * e2 + 3 * e1) / m)
    return reward / m, [x / m for x in row], bonus
