"""Handing jobs over to a batch system: under a contract, once, and without losing one."""
