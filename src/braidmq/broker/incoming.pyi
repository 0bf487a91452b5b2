# What this module offers is C only; nothing of it is visible from Python.
