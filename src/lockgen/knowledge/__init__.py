"""Facts about the world as data, and the questions that are asked of them."""
