"""Many ads by attribute: columns, and the evaluation of expressions on all of their rows at once.

Nothing here knows of keys, jobs' ranks or reasons; a pool made of columns is in ``matching.pool``.
"""
