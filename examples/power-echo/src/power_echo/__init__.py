"""Proposes what followed the last token when it occurred before."""
