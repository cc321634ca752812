"""What may be known: sensitivities, counters, accounting, noise sources and the privatizer."""
