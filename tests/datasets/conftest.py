"""Files written by the test that reads them."""

from written_files import write

__all__ = ["write"]
