# SPDX-License-Identifier: Apache-2.0
"""The page for people: what a deployment has promised, spent and learned, from public numbers only (docs/dashboard.md)."""
