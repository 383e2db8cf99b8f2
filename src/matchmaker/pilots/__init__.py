"""How many pilots, and where: a decision, its estimates, a simulator and a factory."""
