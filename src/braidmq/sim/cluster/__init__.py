"""Whole nodes in one process, under a virtual clock: crashes, cuts and partitions by seed, and checkers
that know nothing of how a node does it.

One seed is one trace. `hunt` runs many seeds, `trial` one of them, `plan` says what happens in it; `world`
has the nodes (`machine`, `store`), the network between them (`network`) and clients (`clients`). What was
seen from outside is the `trace`; read as a `story` it is judged by `checkers`, and the nodes' state by
`ending`.
"""
