"""What runs where an image is built, with nothing but the standard library."""
