"""Clarify-then-search: does asking a clarifying question make a deep-search agent answer better?"""

from cts_async.custom import role

__version__ = "0.9.0"

__all__ = ["role"]
