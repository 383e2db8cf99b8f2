"""Streams of ads into the columns of a pool, without an ad object for each.

``lines`` cuts a text of the old format into names and values, ``brackets`` one of the new format,
``values`` makes columns of the texts of values, ``alike`` knows expressions by others like them,
``objects`` makes columns of decoded JSON, ``blocks`` puts these together with the ads that only a
reader takes, and ``streams`` fills stores.
"""
