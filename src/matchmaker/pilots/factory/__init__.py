"""The service that submits pilots: settings, sources, a cycle, its effects and its tables."""

import logging

# A library logs nothing unless the program asks for it (``classad factory run --log-level``).
logging.getLogger(__name__).addHandler(logging.NullHandler())
