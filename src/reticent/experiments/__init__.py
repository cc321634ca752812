"""Run, sweep, store, compare, plot and report."""
