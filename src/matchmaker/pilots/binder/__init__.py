"""The binder: a server that pairs clients with pilots, and gives no job to two pilots at once."""
