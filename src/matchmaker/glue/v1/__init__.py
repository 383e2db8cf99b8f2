"""GLUE 1.3: from entries to records."""
