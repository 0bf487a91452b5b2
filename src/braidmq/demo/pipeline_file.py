"""The pipeline of the demo as the TOML file that `braidmq pipeline run` is given. Pure."""

from collections.abc import Sequence
from typing import Final

from braidmq.demo.plan import METRICS, TOPIC_PATTERN

FILE_NAME: Final = "pipeline.toml"
TABLES: Final = "tables"
READINGS: Final = "readings"
SILENT: Final = "silent"
OVERHEATED: Final = "overheated"
OVERHEATED_ABOVE: Final = 70.0
ALERT_FILTER: Final = "alerts/#"
RECEIVERS_PER_BROKER: Final = 2
WINDOW_S: Final = 5
WATERMARK_S: Final = 10

_TEMPLATE: Final = """\
# Written by `braidmq demo`. The tables can be asked again at any time:
#   braidmq pipeline query {file} "SELECT device, count(*) FROM {readings} GROUP BY device"

[pipeline]
location = "{tables}"
trigger_s = 1.0

[[source]]
brokers = [{brokers}]
group = "demo"
subscribers_per_broker = {receivers}
qos = 1
options = {{ metricsPort = {metrics_port} }}

[[schema]]
name = "{readings}"
topic = "{topic}"
event_time = "measured_at"
metrics = [{metrics}]

[schema.fields]
n = "long"
measured_at = {{ type = "timestamp_ms", path = "at_ms" }}
temperature = "double"
pressure = "double"

[aggregates]
window_s = {window_s}
watermark_s = {watermark_s}
percentiles = [0.5, 0.99]
trigger_s = 2.0

[alerts]
topic = "alerts/{{rule}}/{{device}}"
trigger_s = 1.0

[[rule]]
name = "{silent}"
silent_s = {silent_s}

[[rule]]
name = "{overheated}"
metric = "temperature"
above = {overheated_above}
"""


def pipeline_toml(brokers: Sequence[str], silent_s: float, metrics_port: int) -> str:
    return _TEMPLATE.format(
        file=FILE_NAME,
        tables=TABLES,
        brokers=_strings(brokers),
        receivers=RECEIVERS_PER_BROKER,
        metrics_port=metrics_port,
        readings=READINGS,
        topic=TOPIC_PATTERN,
        metrics=_strings(METRICS),
        window_s=WINDOW_S,
        watermark_s=WATERMARK_S,
        silent=SILENT,
        silent_s=silent_s,
        overheated=OVERHEATED,
        overheated_above=OVERHEATED_ABOVE,
    )


def _strings(values: Sequence[str]) -> str:
    return ", ".join(f'"{value}"' for value in values)
