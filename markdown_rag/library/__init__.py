"""The index as a library: documents to read, a list of what is there, links to follow."""
