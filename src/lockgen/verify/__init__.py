"""Proof of an installed environment: a plan from the lock, a payload that runs inside it, and the evidence."""
