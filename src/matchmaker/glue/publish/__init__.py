"""Descriptions of queues and nodes, and the entries that publish them."""
