"""Policies side by side: medians over repeats, their intervals, and reductions against fair sharing.

A comparison pairs by repeat: repeat i of a policy with repeat i of fair, which had the same seed, so the same start
offsets and the same compute jitter. A ratio is taken within each pair; the median and its interval are of those ratios.

The 95 % interval is Student's t about the mean for two to five repeats, which takes repeats to scatter normally and,
for so few, always holds the median as well. From six on it is the narrowest symmetric pair of order statistics that
covers the median with 95 %, whatever the distribution (six to eight: smallest and largest). One repeat has none.

Runs in which a job did not finish count in `failed` and in nothing else: what is left of such a run would flatter it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import comb, sqrt
from statistics import fmean, median, stdev

from harmonics_emu.errors import UsageError
from harmonics_emu.results.schema import (
    AgainstFair,
    Comparison,
    Estimate,
    Interval,
    JobComparison,
    JobFigures,
    JobReduction,
    JobResult,
    PolicyFigures,
    Result,
)

FAIR = "fair"
LEAST_CONTENTION = 1.02
"""S under fair below which there is no contention worth speaking of, and so none to remove."""
LEAST_COMMUNICATION = 1e-6
"""Part of an iteration below which communication is rounding: that job has none to reduce."""
T_QUANTILES = {1: 12.7062, 2: 4.3027, 3: 3.1824, 4: 2.7764}
"""97.5 % quantile of Student's t by degrees of freedom."""
VERDICTS = ("faithful", "degraded", "not faithful")


def compare(results: Mapping[str, Sequence[Result]], bounds: Sequence[float] | None = None) -> Comparison:
    """Compare policies over one scenario. `results` maps a policy to its repeats, in the same order for all.

    bounds: per repeat a proven lower bound of S, for `of_achievable`. `against_fair` is empty without fair among the
    policies. UsageError if the runs are not comparable: other scenario, engine, seeds, jobs or number of repeats.
    """
    first = _check_comparable(results)
    repeats = len(next(iter(results.values())))
    if bounds is not None and len(bounds) != repeats:
        raise UsageError(f"{len(bounds)} lower bounds for {repeats} repeats; give one a repeat")
    fair = results.get(FAIR)
    against = {p: _against(runs, fair, bounds) for p, runs in results.items() if p != FAIR} if fair is not None else {}
    return Comparison(
        scenario=first.scenario,
        engine=first.engine,
        repeats=repeats,
        policies={policy: _figures(runs) for policy, runs in results.items()},
        against_fair=against,
        jobs={job.name: _job_comparison(job.name, results) for job in first.jobs},
    )


def interval95(values: Sequence[float]) -> Interval | None:
    """95 % interval of the median over repeats (see the module's text); None below two values."""
    count = len(values)
    if count < 2:
        return None
    if count - 1 in T_QUANTILES:
        centre, reach = fmean(values), T_QUANTILES[count - 1] * stdev(values) / sqrt(count)
        return (centre - reach, centre + reach)
    ordered = sorted(values)
    # P(the median lies outside [x_k, x_(n+1-k)]) = 2 P(Binomial(n, 1/2) < k): the largest k that keeps it to 5 %.
    below, outside = 0, 2 * 0.5**count
    while outside + 2 * comb(count, below + 1) * 0.5**count <= 0.05:
        below += 1
        outside += 2 * comb(count, below) * 0.5**count
    return (ordered[below], ordered[count - 1 - below])


def _check_comparable(results: Mapping[str, Sequence[Result]]) -> Result:
    everything = [(policy, run) for policy, runs in results.items() for run in runs]
    if not everything:
        raise UsageError("nothing to compare: no run was given")
    reference_policy, first = everything[0]
    seeds = [run.seed for run in results[reference_policy]]
    for policy, runs in results.items():
        if [run.seed for run in runs] != seeds:
            raise UsageError(
                f"'{policy}' ran with seeds {[run.seed for run in runs]}, '{reference_policy}' with {seeds}; "
                "a comparison needs the same seeds in the same order"
            )
    names = [job.name for job in first.jobs]
    for policy, run in everything:
        for what, found, wanted in (
            ("scenario", run.scenario, first.scenario),
            ("engine", run.engine, first.engine),
            ("jobs", [job.name for job in run.jobs], names),
        ):
            if found != wanted:
                raise UsageError(
                    f"'{policy}' has {what} {found!r}, '{reference_policy}' has {wanted!r}; not comparable"
                )
    return first


def _finished(run: Result) -> bool:
    return all(job.status == "done" for job in run.jobs)


def _figures(runs: Sequence[Result]) -> PolicyFigures:
    clusters = [run.cluster for run in runs if _finished(run)]
    worst = max((run.fidelity for run in runs), key=lambda fidelity: VERDICTS.index(fidelity.verdict))
    return PolicyFigures(
        training_s=_estimate(cluster.training_s for cluster in clusters),
        communication_s=_estimate(cluster.communication_s for cluster in clusters),
        makespan_s=_estimate(cluster.makespan_s for cluster in clusters),
        S=_estimate(cluster.S for cluster in clusters),
        gpu_utilization=_estimate(cluster.gpu_utilization for cluster in clusters),
        network_utilization=_estimate(cluster.network_utilization for cluster in clusters),
        failed=len(runs) - len(clusters),
        verdict=worst.verdict,
        reasons=worst.reasons,
    )


def _against(runs: Sequence[Result], fair: Sequence[Result], bounds: Sequence[float] | None) -> AgainstFair:
    whole = [index for index, pair in enumerate(zip(runs, fair, strict=True)) if all(map(_finished, pair))]
    pairs = [(runs[index], fair[index]) for index in whole]
    contended = _is_contended(fair)
    training = [_reductions(run, base, _training) for run, base in pairs]
    communication = [_reductions(run, base, _communication) for run, base in pairs]
    mean_training = [fmean(reductions.values()) for reductions in training if reductions]
    mean_communication = [fmean(reductions.values()) for reductions in communication if reductions]
    return AgainstFair(
        training_reduction=_median(mean_training),
        training_reduction_ci95=interval95(mean_training),
        communication_reduction=_median(mean_communication),
        communication_reduction_ci95=interval95(mean_communication),
        worst_job_training_reduction=_median(min(reductions.values()) for reductions in training if reductions),
        contention_removed=_removed(pairs, [1.0] * len(pairs)) if contended else None,
        of_achievable=_removed(pairs, [bounds[index] for index in whole]) if contended and bounds is not None else None,
        jobs={
            job.name: JobReduction(
                training_reduction=_median(reductions.get(job.name) for reductions in training),
                communication_reduction=_median(reductions.get(job.name) for reductions in communication),
            )
            for job in fair[0].jobs
        },
    )


def _training(job: JobResult) -> float:
    return job.training_s or 0.0


def _communication(job: JobResult) -> float:
    """Mean communication of an iteration, 0 where it is no more than rounding or not known."""
    if job.communication_s is None or job.iteration_s is None:
        return 0.0
    mean = job.communication_s.mean
    return mean if mean > LEAST_COMMUNICATION * job.iteration_s.mean else 0.0


def _reductions(run: Result, fair: Result, of: Callable[[JobResult], float]) -> dict[str, float]:
    """1 - policy/fair of each job that has such a time under fair."""
    return {base.name: 1 - of(run.job(base.name)) / of(base) for base in fair.jobs if of(base) > 0}


def _is_contended(fair: Sequence[Result]) -> bool:
    """Whether there is contention under fair to remove.

    There is none where its median S is below LEAST_CONTENTION, or where its repeats can't tell S from 1 (their interval
    reaches down to it).
    """
    slowdowns = _known(run.cluster.S for run in fair if _finished(run))
    interval = interval95(slowdowns)
    if not slowdowns or median(slowdowns) < LEAST_CONTENTION:
        return False
    return interval is None or interval[0] > 1


def _removed(pairs: Sequence[tuple[Result, Result]], floors: Sequence[float]) -> float | None:
    """Median over repeats of (S_fair - S) / (S_fair - floor); a single repeat without contention is left out."""
    slowdowns = [(run.cluster.S, base.cluster.S) for run, base in pairs]
    return _median(
        (base - mine) / (base - floor)
        for (mine, base), floor in zip(slowdowns, floors, strict=True)
        if mine is not None and base is not None and base >= LEAST_CONTENTION and floor < base
    )


def _job_comparison(name: str, results: Mapping[str, Sequence[Result]]) -> JobComparison:
    alone = [run.job(name) for runs in results.values() for run in runs]
    training_s = _median(job.isolated_training_s for job in alone)
    return JobComparison(
        isolated=JobFigures(
            iteration_s=_median(job.isolated_iteration_s for job in alone),
            communication_s=_median(job.isolated_communication_s for job in alone),
            training_s=training_s,
            slowdown=None if training_s is None else 1.0,
        ),
        isolated_source=next((job.isolated_source for job in alone if job.isolated_source), None),
        policies={
            policy: _job_figures([run.job(name) for run in runs if _finished(run)]) for policy, runs in results.items()
        },
    )


def _job_figures(jobs: Sequence[JobResult]) -> JobFigures:
    return JobFigures(
        iteration_s=_median(job.iteration_s.mean if job.iteration_s else None for job in jobs),
        communication_s=_median(job.communication_s.mean if job.communication_s else None for job in jobs),
        training_s=_median(job.training_s for job in jobs),
        slowdown=_median(job.slowdown for job in jobs),
    )


def _estimate(values: Iterable[float | None]) -> Estimate:
    known = _known(values)
    return Estimate(median=_median(known), ci95=interval95(known))


def _median(values: Iterable[float | None]) -> float | None:
    known = _known(values)
    return median(known) if known else None


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]
