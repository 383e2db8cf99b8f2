"""A simulated grid on which policies are compared."""

from typing import Final

# The help of the command lists them without an import of the rules, which need NumPy.
PEERS: Final = ("dirac", "glideinwms", "hyperqueue", "taskvine", "parsl", "cobald")
"""The names of the rules of other systems."""
