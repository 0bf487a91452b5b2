"""The `braidmq` program: parse, call, print. No logic."""
