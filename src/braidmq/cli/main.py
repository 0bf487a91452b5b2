"""The `braidmq` program: finds the command, runs it, and turns every way it can end into an exit code.

0 is done, 1 is a failure or a check that failed, 2 is wrong usage; 128 + n when signal n ended it. A user's
mistake is told in one line on standard error, never as a traceback. -h is not help: pub and sub have it for
the host, as people know it from mosquitto_pub and mosquitto_sub.
"""

import os
import sys
from collections.abc import Sequence
from typing import Final, NoReturn

from cyclopts import App, CycloptsError

import braidmq
from braidmq.errors import BraidError, ConfigError

EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_INTERRUPTED: Final = 130
EXIT_PIPE_CLOSED: Final = 141

app = App(
    name="braidmq",
    help="BraidMQ: an MQTT 3.1.1 and 5 broker, its clients and its tools.",
    version=f"braidmq {braidmq.__version__}",
    help_flags=["--help"],
    version_flags=["--version"],
    help_epilogue="braidmq COMMAND --help tells more about a command.",
)
# Named, not imported: a command's module is loaded when the command is run, so that each starts fast.
COMMANDS: Final = (
    "serve", "pub", "sub", "cluster", "pipeline", "demo", "passwd", "check-config", "trace", "info", "sim",
    "load",
)  # fmt: skip
for _command in COMMANDS:
    _module = _command.replace("-", "_")
    app.command(f"braidmq.cli.{_module}:{_module}", name=_command)


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run one command line and leave with its exit code."""
    sys.exit(run(sys.argv[1:] if argv is None else argv))


def run(argv: Sequence[str]) -> int:
    """Run one command line; the exit code."""
    try:
        if not argv or argv[0] == "--help":
            _load_commands()
        result = app(argv, exit_on_error=False, print_error=False, result_action="return_value")
        sys.stdout.flush()
    except (CycloptsError, ConfigError) as error:
        return _complain(error, EXIT_USAGE)
    except BrokenPipeError:
        # The reader of our output has gone, as `| head` does; the interpreter must not flush into it again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_PIPE_CLOSED
    except (BraidError, OSError) as error:
        return _complain(error, EXIT_FAILED)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    return result if isinstance(result, int) else 0


def _load_commands() -> None:
    """The list of commands shows the first line of each, which is in its module."""
    for command in COMMANDS:
        app[command]


def _complain(error: Exception, code: int) -> int:
    message = " ".join(str(error).split())
    if isinstance(error, CycloptsError):
        message += f" See {' '.join(('braidmq', *(error.command_chain or ()), '--help'))}."
    print(f"braidmq: {message}", file=sys.stderr)
    return code
