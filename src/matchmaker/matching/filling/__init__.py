"""Streams of ads into the columns of a pool, without an ad object for each.

``lines`` cuts a text of the old format into names and values, ``brackets`` one of the new format
or of JSON, ``values`` makes columns of the texts of values, ``blocks`` puts both together with the
ads that only a reader takes, and ``streams`` fills stores.
"""
