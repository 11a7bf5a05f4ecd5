"""Index runs as jobs that every process can see: admission, ledger, queue."""
