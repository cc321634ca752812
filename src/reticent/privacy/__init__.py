# SPDX-License-Identifier: Apache-2.0
"""What may be known: sensitivities, counters, accounting, noise sources and the privatizer."""
