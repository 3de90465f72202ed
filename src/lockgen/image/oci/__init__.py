"""Images as bytes on disk, without a daemon: layers, layouts, bases."""
