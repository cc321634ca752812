# SPDX-License-Identifier: Apache-2.0
"""Simulated users: the compiled engine, many seeds and settings side by side, users who overlap."""
