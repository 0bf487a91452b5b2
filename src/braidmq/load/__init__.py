"""Driving a broker with load and measuring what comes back. The generator is Linux only."""
