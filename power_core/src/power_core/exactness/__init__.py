"""Exactness: what is measured about a backend's arithmetic, what follows from it, and the guard where it is not exact.

``probe`` measures, ``zones`` says for which depths a measurement stands, ``cache`` and ``key`` keep it, ``stance`` is
the rule, ``guarantor`` applies it to a session, ``margin_guard`` decides near-ties again, ``survey`` makes the table of
``power doctor``.
"""
