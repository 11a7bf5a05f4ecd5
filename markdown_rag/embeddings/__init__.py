"""Texts in, vectors out: providers, batches, retries and the cache."""
