"""Work claimed on storage, without any server: pilots share a directory or a bucket.

``plan`` defines the runs, and reads a listing; ``protocol`` is a pilot's claims and runs, as a
generator of operations; ``backends`` and ``remote`` carry them out on storage, ``worker`` runs the
programs, ``status`` shows the progress.
"""
