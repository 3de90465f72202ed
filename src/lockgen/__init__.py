"""lockgen: from a ten-line spec to locked, explained and installable conda environments."""
