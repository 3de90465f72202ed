"""The checks, one module each; a module whose name starts with `_` holds what several of them share."""
