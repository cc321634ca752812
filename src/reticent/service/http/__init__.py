# SPDX-License-Identifier: Apache-2.0
"""The HTTP interface, version 1: the application, one module per resource, and the guard in front of them."""
