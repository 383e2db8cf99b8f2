"""The programs on a worker node: a pilot with its slots, and the tasks that it runs in them.

Only the standard library, attrs and this package's own ads are needed here.
"""
