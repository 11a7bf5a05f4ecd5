"""The MCP edge: signatures, words and error mapping. No logic."""
