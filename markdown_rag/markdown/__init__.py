"""Text in, values out: files become documents, sections, chunks and lexical tokens. Pure."""
