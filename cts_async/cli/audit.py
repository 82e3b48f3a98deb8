"""`cts audit`: prove the closed book from the files of finished runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from cts_async.cli import options
from cts_async.tables.output import print_json, print_plainly, visible

if TYPE_CHECKING:
    from rich.console import Console

    from cts_async.protocol.audit import Audit, Finding

SHOWN: Final = 10
"""Findings printed for each run; the JSON has all."""
_MOST_CHARS: Final = 120


def audit(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN", help="Run directories, or folders of runs.", **options.RUNS),
    ],
    data: Annotated[
        str | None,
        typer.Option(
            metavar="DATASET", help="The dataset, as for cts run, if it has been moved since the run."
        ),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Prove from a run's journal that no role saw what it must not see (the closed book).

    Every request to the Clarifier, User Answerer, Rewriter and agent must equal what the protocol builds from the data
    and the recorded replies, and must contain no text that occurs only in the hidden intent. Rewritten queries are
    checked for constraints that no answer gave, and the user's answers for what they give away unasked: one that
    recites the intent, or holds a model's thoughts about it, is a leak. Where the agent asks the user during its search,
    each question has to be one that it wrote, and each reply that it read the recorded one. Search results are not a
    leak: they follow from the rewritten query. For a custom role, the audit proves what the role was sent, not whom its
    code asks. Of a folder every version of every run is audited. Writes nothing. Exit code 1 if there is a violation.

    Example: cts audit runs/hard518-orig runs/hard518-gpt-k3
    """
    from rich.console import Console

    from cts_async.errors import EXIT_OK, EXIT_SOME_FAILED
    from cts_async.protocol.audit import audit_run
    from cts_async.runs.selection import run_folders

    audits = [audit_run(run, data) for run in run_folders(runs, all_versions=True)]
    if as_json:
        print_json([audit_json(audit) for audit in audits])
    else:
        print_audits(Console(emoji=False), audits)
    if all(audit.held for audit in audits):
        raise typer.Exit(EXIT_OK)
    raise typer.Exit(EXIT_SOME_FAILED)


def audit_json(audit: Audit) -> dict[str, Any]:
    """Return one run's audit with all findings."""
    row = {
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
        "n_known_answers": audit.n_known,
        "n_over_informing": audit.n_over_informing,
        "notes": list(audit.notes),
    }
    if audit.not_proven:  # only with roles of the user's own
        row["not_proven"] = [str(player) for player in audit.not_proven]
    row["findings"] = [asdict(finding) for finding in audit.findings]
    return row


def print_audits(console: Console, audits: Sequence[Audit]) -> None:
    """Print a verdict for each run, its basis, and the first findings, violations first."""

    # Findings quote models: what is invisible in a text may be why it was found.
    def write(text: str, style: str = "") -> None:
        print_plainly(console, visible(text), style)

    for audit in audits:
        style = "red"
        if audit.held:
            style = "green"
        write(f"{audit.directory.name}: {audit.verdict()}", style)
        write(f"  {audit.n_requests} requests checked")
        # Code of the user's may ask whom it likes: one line for each such player.
        for player in audit.not_proven:
            write(f"  {player}", "yellow")
        for note in audit.notes:
            write(f"  note: {note}", "yellow")
        findings = sorted(audit.findings, key=lambda finding: not finding.violates)
        for finding in findings[:SHOWN]:
            style = ""
            if finding.violates:
                style = "red"
            write(f"  {_line(finding)}", style)
        if len(findings) > SHOWN:
            write(f"  ... and {len(findings) - SHOWN} more (--json lists them all)")


def _line(finding: Finding) -> str:
    place = " ".join(filter(None, (finding.instance, finding.step)))
    line = f"{finding.level}: {place}: {finding.problem}"
    text = finding.text
    if len(text) > _MOST_CHARS:
        text = f"{text[: _MOST_CHARS - 3]}..."
    if text:
        line += f": “{text}”"
    return line
