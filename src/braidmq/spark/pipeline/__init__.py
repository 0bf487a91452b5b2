"""From MQTT messages to tables: raw, clean, dead letters, aggregates and alerts, as one TOML file says.

`config` says what to do; `patterns`, `fields`, `payloads` and `sorting` decide about messages and know
neither Spark nor files; `writing` and `commits` put rows into tables exactly once; `ingest`, `aggregates`,
`alerts` and `run` are the streaming queries; `status`, `query`, `propose` and `compact` are what operators
call.
"""
