"""From a lock to an environment on disk."""
