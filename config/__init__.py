"""What may be set: one JSON5 file, checked as a whole, with every problem at its place."""
