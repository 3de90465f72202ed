"""The lock formats, one file each; a file whose name starts with `_` is no format."""
