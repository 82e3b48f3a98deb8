"""A cluster of 1 to 1,024 workers, simulated: what it judges in a second, and which part of it is full first.

Unit costs are measured on this machine before (`measured`), the head, its dealer and the limiter are the real ones in
virtual time (`flow`, `limits`). `python -m benchmarks.scale --help` takes other costs; `docs/scale.md` is made of it.
"""

from __future__ import annotations

from benchmarks.shared.result import Result, Row

WORKERS, LATENCIES, SHARING = (1, 4, 16, 64, 256, 1024), (0.01, 2.0), (1, 64, 256)


def bench() -> Result:
    from benchmarks.scale import limits, tables
    from benchmarks.scale.costs import COSTS
    from benchmarks.scale.flow import flow_of
    from benchmarks.scale.measured import measured
    from benchmarks.scale.sizes import TYPICAL, sizes

    costs, typical = measured(), sizes(TYPICAL)
    rows = [
        Row(f"{one.of}: {one.what}, {one.unit}", getattr(costs, one.name), digits=2, note=one.how)
        for one in COSTS
    ]
    for latency_s in LATENCIES:
        for workers in WORKERS:
            flow = flow_of(tables.work(workers, latency_s, typical), costs)
            note = f"{flow.first} first; {flow.in_flight:,.0f} in flight; head {flow.busy['head']:.0%}"
            rows.append(Row(f"{workers:,} workers, {latency_s:g} s a call: calls/s", flow.calls_s, note=note))
    for workers in SHARING:
        use = limits.use_of(tables.shared(workers), costs)
        note = f"{use.asks_s:,.0f} asks/s, limiter {use.busy:.0%}"
        name = f"{workers:,} workers at {tables.PER_MIN:,} requests a minute: calls/s"
        rows.append(Row(name, use.calls_s, note=note))
    return Result("scale: costs measured here, clusters simulated with them", rows)
