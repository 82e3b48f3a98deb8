"""One small script per peer, each run by an environment of its own; `bench` runs them all.

A script is called as `SCRIPT URL BODIES N IN_FLIGHT`, sends the first N conversations of the file to the
endpoint with IN_FLIGHT at once, in the way its documentation recommends for many calls, and prints how
many verdicts it read.
"""

from benchmarks.peers.beside import bench

__all__ = ["bench"]
