"""BraidMQ: a distributed MQTT 5 broker for IoT data."""

__version__ = "0.1.0"
