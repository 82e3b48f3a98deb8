"""`python -m benchmarks.scale`: one cluster simulated with your own costs, or the tables of docs/scale.md made anew."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

from benchmarks.scale import tables
from benchmarks.scale.costs import COSTS, Costs
from benchmarks.scale.flow import PARTS, flow_of
from benchmarks.scale.limits import use_of
from benchmarks.scale.measured import measured
from benchmarks.scale.sizes import KINDS, TYPICAL, sizes


def main() -> None:
    asked = _parser().parse_args()
    costs = (measured() if asked.measure else Costs()).named(
        **{one.name: getattr(asked, one.name) for one in COSTS}
    )
    if asked.doc:
        asked.doc.write_text(_made(asked.doc.read_text(encoding="utf-8"), costs), encoding="utf-8")
    else:
        _simulate(asked, costs)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--doc", type=Path, metavar="FILE", help="make the tables of this document anew")
    parser.add_argument("--measure", action="store_true", help="with costs measured here, not those recorded")
    parser.add_argument("--workers", type=int, default=64, metavar="N")
    parser.add_argument("--latency", type=float, default=2.0, metavar="S", help="of a call, in the mean")
    parser.add_argument(
        "--per-min", type=float, default=tables.PER_MIN, metavar="N", help="a provider's limit"
    )
    parser.add_argument("--in-flight", type=int, metavar="N", help="calls of one worker at once")
    parser.add_argument("--streamed", action="store_true", help="workers do not share the head's storage")
    for one in COSTS:
        option = f"--{one.name.replace('_', '-')}"
        parser.add_argument(option, type=float, metavar=one.unit.upper(), help=f"{one.of}: {one.what}")
    return parser


def _simulate(asked: argparse.Namespace, costs: Costs) -> None:
    work = tables.work(asked.workers, asked.latency, sizes(TYPICAL), streamed=asked.streamed)
    if asked.in_flight:
        work = dataclasses.replace(work, in_flight=asked.in_flight)
    flow = flow_of(work, costs)
    print(f"{work.workers:,} workers, {work.in_flight:,} calls of {work.latency_s:g} s in flight each")
    print(f"  calls/s      {flow.calls_s:>12,.0f}")
    print(f"  in flight    {flow.in_flight:>12,.0f}")
    for part in PARTS:
        print(f"  {part:<12} {flow.busy[part]:>12.0%}{'  first' if part == flow.first else ''}")
    use = use_of(tables.shared(asked.workers, asked.per_min, asked.latency), costs)
    print(f"at {asked.per_min:,.0f} requests a minute: {use.calls_s:,.0f} calls/s, limiter {use.busy:.0%}")


def _made(text: str, costs: Costs) -> str:
    """The document with its tables made anew."""
    weighed = tables.bytes_table([sizes(kind) for kind in KINDS])
    typical = tables.sizes_in({"bytes": weighed}, TYPICAL.name)  # as they stand there, to be reckoned from
    flows = tables.flow_table(typical, costs)
    made = {
        "costs": tables.costs_table(costs),
        "bytes": weighed,
        "totals": tables.totals_table(typical, costs, tables.pace_in(flows)),
        "flow": flows,
        "streamed": tables.streamed_table(typical, costs),
        "limits": tables.limits_table(costs),
        "saturation": tables.saturation_table(typical, costs),
    }
    return tables.with_tables(text, made)


if __name__ == "__main__":
    main()
