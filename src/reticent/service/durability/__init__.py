# SPDX-License-Identifier: Apache-2.0
"""What outlives a process or a disk: ledger chain, journal, rollback guard, backup, restore, erasure."""
