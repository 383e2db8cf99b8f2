"""The matchmaker for both scales: a pair of ads, a pool of them, their ranking and its reasons.

``pair``, ``ranking`` and ``selection`` load without NumPy, which takes longer to load than all
the rest.
"""
