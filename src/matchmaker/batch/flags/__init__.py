"""Submit flags for a condition on hosts; ``submission`` is the way through this folder."""
