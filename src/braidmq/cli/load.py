"""`braidmq load`: load tests."""

from cyclopts import App

from braidmq.cli.load_balance import balance

load = App(name="load", help="Put load on brokers and measure what happens.", help_flags=["--help"])
load.command(balance)
