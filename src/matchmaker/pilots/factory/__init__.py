"""The service that submits pilots: settings, sources, a cycle, its effects and its tables."""
