# SPDX-License-Identifier: Apache-2.0
"""Replay of recorded users before launch: which logs allow it, with a simulated agent, with the deployed one."""
