# SPDX-License-Identifier: Apache-2.0
"""Limits on requests that server and device agree on."""

from __future__ import annotations

LARGEST_GROUP = 256
"""Most members of one request; a larger group is sent in several requests."""
