# SPDX-License-Identifier: Apache-2.0
"""The HTTP interface, version 1: one module per resource."""
