"""Simulated users: the compiled engine, many seeds and settings side by side, users who overlap."""
