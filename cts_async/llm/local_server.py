"""The embedded model's process: `python -m cts_async.llm.local_server MODEL.gguf`.

Serves the OpenAI-style API on a free loopback port, prints the address as its only line, and ends
when its standard input does, so it never outlives the program that started it.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path


def main() -> None:
    """Serve until standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--slots", type=int, default=4, help="conversations kept in memory at once")
    parser.add_argument("--context", type=int, default=4096, help="tokens per conversation")
    args = parser.parse_args()

    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = args.model
    params.n_parallel = args.slots
    params.n_ctx = args.context * args.slots
    params.cpuparams.n_threads = threads()
    params.cpuparams.poll = params.cpuparams_batch.poll = 0
    params.verbosity = 0
    params.model_alias = {Path(args.model).stem}  # what it says it serves; by default the whole path
    params.fit_params = False
    params.ui = False
    params.warmup = False
    # Slots are chosen by common prefix, so that each role's constant head stays cached.
    params.slot_prompt_similarity = 0.3
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.buffer.read()
    os._exit(0)


def threads(sample_s: float = 0.3) -> int:
    """All cores of an idle machine, one less on a busy one.

    A thread that has to wait for its core holds up all the others: with two other busy processes on two
    cores, two threads took four to ten times as long as on the idle machine, one thread half as long again.
    """
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    before = _busy_ticks()
    time.sleep(sample_s)
    busy_cores = (_busy_ticks() - before) / (sample_s * os.sysconf("SC_CLK_TCK"))
    return max(1, cores - (busy_cores > 0.5))


def _busy_ticks() -> int:
    """Clock ticks that the machine's cores have worked, all together; 0 where Linux does not say."""
    try:
        with open("/proc/stat", encoding="ascii") as file:
            user, nice, system, *_ = map(int, file.readline().split()[1:])
    except OSError:
        return 0
    return user + nice + system


if __name__ == "__main__":
    main()
