# SPDX-License-Identifier: Apache-2.0
"""One world or model made from another: availability, budget, changing rewards, phases, misspecification, unknown start."""
