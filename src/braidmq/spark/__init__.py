"""The data pipeline on Spark: MQTT as a source and a sink, and the tables between."""
