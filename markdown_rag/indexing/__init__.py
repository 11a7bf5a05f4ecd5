"""A folder on disk becomes records in the store: scan, delta, pipeline, reconcile."""
