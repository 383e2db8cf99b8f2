"""How many pilots, where, and which end: the snapshot, the terms, the decision."""
