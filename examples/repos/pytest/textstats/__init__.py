"""Small statistics of texts."""
