"""Seeded simulators and experiments: every one a pure function of (parameters, seed), one file a figure."""
