"""Helpers shared by the tests: broker processes, a raw MQTT client, hand-made frames."""
