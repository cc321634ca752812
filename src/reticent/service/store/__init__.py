# SPDX-License-Identifier: Apache-2.0
"""What a deployment writes down: tables, and the short transactions over them."""
