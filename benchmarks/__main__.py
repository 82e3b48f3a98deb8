"""`python -m benchmarks`: run every benchmark and print its table."""

from __future__ import annotations

from benchmarks import journal

if __name__ == "__main__":
    journal.main()
