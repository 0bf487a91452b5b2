"""The experiments of the paper on adaptive overlays: path lengths of one topic's deliveries, by method.

network, closed_form, trees: converged routing tables and the trees they make, without a message, for any
size. pastry, can: the methods it is compared with. messages, churn: the same nodes as brokers run, message
by message. experiment ties them together; verdicts holds them against the paper; picture draws a tree that
grows.
"""
