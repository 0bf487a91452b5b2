"""Side-by-side measurements, with their results as data."""
