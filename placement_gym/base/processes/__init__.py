"""Child processes over pipes: requests, signs of life, deadlines, and an end with the parent."""
