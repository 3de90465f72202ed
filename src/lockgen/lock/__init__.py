"""Locks: the value, its formats, and the questions asked of it."""
