"""Real conda-forge metadata that comes with lockgen, for `--offline`; built by `snapshot/build.py`, never by hand."""
