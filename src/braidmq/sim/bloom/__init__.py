"""The experiments of the paper on wildcard topics in Bloom filters, with the code that the broker runs.

figure4, figure5, figure6: the paper's sweeps. matching: the case it leaves out, a match exists. hierarchy:
topics that share their levels, as real ones do. experiment ties them together; report and plot write what
they found.
"""
