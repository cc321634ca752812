"""What a deployment writes down: tables, and the short transactions over them."""
