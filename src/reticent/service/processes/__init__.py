# SPDX-License-Identifier: Apache-2.0
"""The processes of a service: planner, workers, their scheduler, and what passes between them."""
