"""Streams of ads into the columns of a pool, without an ad object for each.

``lines`` cuts a text into names and values, ``values`` makes columns of the texts of values,
``blocks`` puts both together with the ads that only a reader takes, and ``streams`` fills stores.
"""
