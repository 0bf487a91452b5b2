"""Where log events go: standard error, as lines for people or as JSON for programs."""

import logging
import sys

import structlog

from braidmq.config import LogConfig


def configure_logs(config: LogConfig, worker: str | None = None) -> None:
    """Set structlog up for this process; a worker's lines name it."""
    for_people = config.format == "text" or (config.format == "auto" and sys.stderr.isatty())
    renderer: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
        if for_people
        else structlog.processors.JSONRenderer()
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            *([_naming(worker)] if worker is not None else []),
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.format_exc_info,
            renderer,
        ],
        # Events below the level cost one call of an empty method.
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, config.level.upper())),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


def _naming(worker: str) -> structlog.typing.Processor:
    return lambda logger, method, event: {**event, "process": worker}
