"""What people write: the keys, their places in the file, and every problem found at once."""
