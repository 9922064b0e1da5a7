"""Broken plugins, broken parts of the core, and broken wrappers of the backend, each with one fault."""
