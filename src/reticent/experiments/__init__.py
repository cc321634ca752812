# SPDX-License-Identifier: Apache-2.0
"""Run, sweep, store, compare, plot and report."""
