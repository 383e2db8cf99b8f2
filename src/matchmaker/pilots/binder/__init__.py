"""The binder: brings clients and pilots together, and gives no job to two pilots at once."""
