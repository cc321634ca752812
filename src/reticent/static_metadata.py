# SPDX-License-Identifier: Apache-2.0
"""What is said about a thing, and no part of what it computes: promises, names, origins."""

from __future__ import annotations


class StaticMetadata:
    """Something said about an agent or a model.

    All statements compare equal, on purpose: agents and models are pytrees, what is said about them belongs to their
    structure, and two that differ in statements alone are one compiled program. Nothing inside such a program reads them.
    """

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StaticMetadata)

    def __hash__(self) -> int:
        return 0
