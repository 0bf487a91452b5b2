"""The main job as a demonstration: devices, brokers, the pipeline, and a check of every message."""
