# SPDX-License-Identifier: Apache-2.0
"""The life of a round: users are admitted, their reports counted, the round closed, its release published."""
