"""Drafts by looking a hidden row of the target up: in the sequence so far, then in a table that was learned from text.

A row becomes a code of a few bits, the signs of its products with fixed random directions, so that rows that are alike
have the same code most of the time. It is a small example of a drafter with a file of its own, and no strong one.
"""
