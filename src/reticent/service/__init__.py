# SPDX-License-Identifier: Apache-2.0
"""The deployed agent as a durable web service; see docs/service.md. Needs ``pip install 'reticent[service]'``."""
