"""`harmonics-emu explain`: why iterations took longer than alone."""

from __future__ import annotations

from pathlib import Path

import click

from harmonics_emu.cli.options import json_option
from harmonics_emu.cli.output import print_json, print_rich


@click.command("explain")
@click.argument("run", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--job", "jobs", multiple=True, metavar="J", help="Only this job; may be given several times.")
@click.option("--each", is_flag=True, help="Also a line for each iteration that took longer than alone.")
@json_option("Print all causes of all slow iterations.")
def command(run: Path, jobs: tuple[str, ...], each: bool, as_json: bool) -> None:
    """Explain the directory RUN of a run on either engine: what each job's iterations lost, to whom, on which link.

    What an iteration took beyond the job's isolated iteration is divided into compute, the gate, other jobs by link,
    the job's own path, and what stays unexplained; the parts add up. Which part is whose is the fluid model's word on
    what was seen to be sent at the same time. Link counters, and packets if the run has captures, stand beside it.

    Exit status: 0 done, 2 wrong usage or no whole run.
    """
    from harmonics_emu.evidence.attribution import explain
    from harmonics_emu.evidence.explanations import explanation_table, explanations_to_json
    from harmonics_emu.evidence.recorded_run import load_recorded_run
    from harmonics_emu.evidence.witnesses import captured_traffic, witnesses

    recorded = load_recorded_run(run)
    explanations = explain(recorded, jobs or None)
    seen = witnesses(recorded, captured_traffic(recorded))
    if as_json:
        print_json(explanations_to_json(explanations, seen))
    else:
        print_rich(explanation_table(explanations, seen, recorded.run.result.fidelity.verdict, each=each))
