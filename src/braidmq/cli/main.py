"""The `braidmq` program: parse, call, print."""


def main() -> None:
    raise SystemExit("not yet")
