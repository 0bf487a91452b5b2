"""What the commands that use Spark have in common."""

from typing import TYPE_CHECKING

from braidmq.errors import ConfigError
from braidmq.sim.runner import LocalRunner, Runner, SparkRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def spark_session(
    name: str, master: str | None, settings: dict[str, str | int | bool] | None = None
) -> "SparkSession":
    """A session, or a word on what to install."""
    try:
        from braidmq.spark.session import open_session
    except ImportError as error:
        raise ConfigError(f"Spark needs {error.name}: pip install 'braidmq[spark]'") from error
    return open_session(name, master, settings or {})


def trial_runner(processes: int | None, master: str | None) -> Runner:
    """What runs the trials of an experiment: processes of this machine, or a Spark master."""
    return LocalRunner(processes) if master is None else SparkRunner(spark_session("braidmq sim", master))
