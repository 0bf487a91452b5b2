# The module has nothing for Python; FilterTrie uses it from Cython.
