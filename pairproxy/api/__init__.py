"""The one JSON that all faces read (schema) and how to fetch it from a running daemon (client)."""
