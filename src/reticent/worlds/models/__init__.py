# SPDX-License-Identifier: Apache-2.0
"""What is known of a world: the model class, its constructors (blends, tables, simulators), its prior and its file."""
