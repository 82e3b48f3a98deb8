"""An audit on a terminal, and as JSON."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from rich.console import Console

from cts_async.protocol.audit import Audit, Finding

SHOWN: Final = 10
"""Findings printed for each run; the JSON has all."""
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
_MOST_CHARS: Final = 120


def print_audits(console: Console, audits: Sequence[Audit]) -> None:
    """Print a verdict for each run, its basis, and the first findings, violations first."""
    for audit in audits:
        _say(console, f"{audit.directory.name}: {audit.verdict()}", "green" if audit.held else "red")
        _say(console, f"  {audit.n_requests} requests checked{_exempt(audit)}")
        for note in audit.notes:
            _say(console, f"  note: {note}", "yellow")
        findings = sorted(audit.findings, key=lambda finding: not finding.violates)
        for finding in findings[:SHOWN]:
            _say(console, f"  {_line(finding)}", "red" if finding.violates else None)
        if len(findings) > SHOWN:
            _say(console, f"  ... and {len(findings) - SHOWN} more (--json lists them all)")


def audit_json(audit: Audit) -> dict[str, Any]:
    """Return one run's audit with all findings."""
    return {
        "run": str(audit.directory),
        "system": audit.label,
        "held": audit.held,
        "verdict": audit.verdict(),
        "n_instances": audit.n_instances,
        "n_held": audit.n_held,
        "n_requests": audit.n_requests,
        "n_leaks": audit.n_leaks,
        "n_rewrites": audit.n_rewrites,
        "n_unsupported": audit.n_unsupported,
        "notes": list(audit.notes),
        "findings": [asdict(finding) for finding in audit.findings],
    }


def _exempt(audit: Audit) -> str:
    return (
        "; its agent is given q* by design, which is checked for being just that"
        if audit.label == "gold"
        else ""
    )


def _line(finding: Finding) -> str:
    where = " ".join(filter(None, (finding.instance, finding.step)))
    text = finding.text if len(finding.text) <= _MOST_CHARS else f"{finding.text[: _MOST_CHARS - 3]}..."
    return f"{finding.level}: {where}: {finding.problem}" + (f": “{text}”" if text else "")


def _say(console: Console, text: str, style: str | None = None) -> None:
    # Parts of it were written by models and data: no markup, no control characters.
    visible = _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    console.print(visible, style=style, markup=False, highlight=False, soft_wrap=True)
