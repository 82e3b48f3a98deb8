"""`python -m benchmarks`: run every benchmark and print its table."""

from __future__ import annotations

from benchmarks import journal, journal_size, judge_memory

if __name__ == "__main__":
    journal.main()
    journal_size.main()
    judge_memory.main()
