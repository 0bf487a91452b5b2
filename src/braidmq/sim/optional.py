"""Packages that only the experiments need."""

import importlib
from typing import Any

from braidmq.errors import ConfigError


def load(module: str, purpose: str, install: str) -> Any:
    """The module, or a ConfigError that says what it is for and how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(f"{purpose} need {module.partition('.')[0]}: pip install {install}") from error
