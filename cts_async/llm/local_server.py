"""The embedded model's process: `python -m cts_async.llm.local_server MODEL.gguf`.

Serves the OpenAI-style API on a free loopback port, prints the address as its only line, and ends
when its standard input does, so it never outlives the program that started it.
"""

from __future__ import annotations

import argparse
import os
import sys


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
    params.cpuparams.n_threads = max(1, len(os.sched_getaffinity(0)))
    # Threads that spin while they wait are ruinous on a busy machine (measured: ten times slower).
    params.cpuparams.poll = params.cpuparams_batch.poll = 0
    params.verbosity = 0
    params.fit_params = False
    params.ui = False
    params.warmup = False
    # Slots are chosen by common prefix, so that each role's constant head stays cached.
    params.slot_prompt_similarity = 0.3
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    main()
