"""A question becomes ranked, bounded, cited hits."""
