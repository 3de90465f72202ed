"""A conda channel of one's own: packages made from wheels and from the running interpreter, an index, a server."""
