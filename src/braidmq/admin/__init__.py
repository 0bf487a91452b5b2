"""The operator's side of a broker: an HTTP API, metrics for Prometheus, and live traces.

It runs in the broker's own event loop and looks at the broker's own objects, so that nothing has to be kept
twice. Work that grows with the number of sessions is done in slices, between which clients have their turn.
"""
