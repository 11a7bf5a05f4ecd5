"""Answers questions from folders of markdown over MCP. Nothing heavy is imported here."""

__version__ = "2.0.0"
