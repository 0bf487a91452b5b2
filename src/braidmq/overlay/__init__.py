"""The overlay: one hop to a topic's few brokers, trees to its many, and the change between them by itself.

Brokers are virtual nodes of a Skip Graph, one a topic and kind; each keeps a bounded, flexible routing
table (FRT) in which subscribers of its own topic come first. Nothing here knows a socket or a clock: an
`Overlay` takes messages and the time, and answers with messages. The simulator and a live broker run the
same object.

keys: what virtual nodes are called. table: what one knows. ranges: who delivers where. messages: what they
say. node: a broker's virtual nodes, with linking, exploring, delivering and rendezvous as parts of its own.
skipgraph: the whole graph in one place, by which the others are checked.
"""
