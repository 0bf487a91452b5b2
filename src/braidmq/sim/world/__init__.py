"""What simulated brokers live in: one virtual clock and one network with its faults. Checkers belong to
experiments.
"""
