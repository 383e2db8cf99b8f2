"""GLUE 2.0: from entries to the same records as those of GLUE 1.3."""
