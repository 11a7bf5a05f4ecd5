"""Records at rest: ids, filters, schema, Milvus, the embedded engine, memory."""
