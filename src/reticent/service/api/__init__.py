"""The HTTP interface, version 1: one module per resource."""
