"""Images derived from locks."""
