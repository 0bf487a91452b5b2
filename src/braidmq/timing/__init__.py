"""Things that depend on time, without a clock: timers and token buckets."""
