"""Clarify-then-search: does asking a clarifying question make a deep-search agent answer better?"""

__version__ = "0.9.0"
