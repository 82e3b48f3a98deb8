"""Tries a Ray address, and prints as JSON what came of it. A program of its own: python ray_probe.py ADDRESS.

Where the address is wrong, Ray tries for minutes, prints what it thinks of it, and may end its process: all this may
happen to this process, and never to a run.
"""

from __future__ import annotations

import json
import logging
import os
import sys


def main() -> None:
    """Connect, and say what happened: {} or {"error": class, "text": ...}."""
    import ray

    found: dict[str, str] = {}
    try:
        ray.init(sys.argv[1], log_to_driver=False, logging_level=logging.CRITICAL)
    except Exception as error:
        found = {"error": type(error).__name__, "text": str(error)}
    print(json.dumps(found), flush=True)
    os._exit(0)  # the cluster tidies up after a driver that is gone; to say goodbye takes a second


if __name__ == "__main__":
    main()
