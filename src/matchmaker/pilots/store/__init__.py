"""Work claimed on storage, without any server: pilots share a directory or a bucket.

``plan`` says what is to be run, ``standing`` what a listing says of it, ``protocol`` how a pilot
claims, runs and hands in, as a generator of operations; ``directory`` and ``objects`` carry them
out on storage, ``worker`` runs the programs, ``status`` shows how far all is.
"""
