"""MQTT conformance: each test names the normative statements it shows (docs/conformance.md lists them)."""
