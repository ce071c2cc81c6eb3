"""Conducts the jobs of one run over a standing fabric: ready, released together, watched, and ended."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from harmonics_emu.emulate.capacity import require_capacity
from harmonics_emu.emulate.capture import Captures
from harmonics_emu.emulate.decisions import Active, Decider
from harmonics_emu.emulate.enforcement import Enforcer
from harmonics_emu.emulate.faults import apply_link_event, apply_rank_event, kill_daemon
from harmonics_emu.emulate.gates import GateKeeper, gates_opened
from harmonics_emu.emulate.guard import Guard, is_guarded
from harmonics_emu.emulate.job_queues import JobQueues
from harmonics_emu.emulate.observer import Observer
from harmonics_emu.emulate.outcome import Outcome, rules_with_counts
from harmonics_emu.emulate.protocol import Event, JobProgress, Notice, Phase, Progress
from harmonics_emu.emulate.ranks import Launcher, RankSettings, background_name
from harmonics_emu.emulate.sampling import Sampler
from harmonics_emu.emulate.solving import Planner
from harmonics_emu.emulate.testbed import Testbed
from harmonics_emu.emulate.worker import process_cpu_s
from harmonics_emu.errors import RunFailed
from harmonics_emu.records import JobOutcome
from harmonics_emu.scenario import Scenario
from harmonics_emu.schedulers.options import epoch_option
from workloads.collectives import job_transfers
from workloads.job import Job, LinkEvent, RankEvent, RestartEvent
from workloads.job_page import JobPage, State
from workloads.launch_messages import JobFinished, JobStarted, RankExited, Rejected

TICK_S = 0.02
PROGRESS_S = 0.5
MOST_LINKS_TOLD = 32
LEAD_S = 0.1
"""Between the decision to start and time zero: every rank has seen its release time by then."""
COUNTERS_S = 3.0
"""Open vSwitch brings rule counters up to date twice a second."""


@dataclass
class _Running:
    """A job whose ranks have been forked. pids: process ids of those that live, by rank."""

    job: Job
    page: JobPage
    pids: dict[int, int] = field(default_factory=dict)
    submitted: bool = False
    outcome: JobOutcome | None = None
    last_done: int = 0
    last_progress_s: float = 0.0


class Conductor:
    """One run from the first fork to the last exit. Everything happens in the thread that calls `conduct`."""

    def __init__(
        self,
        *,
        scenario: Scenario,
        policy: str,
        seed: int,
        testbed: Testbed,
        launcher: Launcher,
        solver: Planner,
        settings: RankSettings,
        captures: Captures,
        say: Callable[[Event], None],
        stop: threading.Event,
    ) -> None:
        self._testbed, self._launcher, self._settings = testbed, launcher, settings
        self._say, self._stop = say, stop
        events: list[LinkEvent | RankEvent | RestartEvent] = [*scenario.events(), *scenario.rank_events()]
        self._events = sorted([*events, *scenario.restarts()], key=lambda event: event.at_s)
        self._background = scenario.background()
        self._captures = captures
        epoch_s = epoch_option(scenario.policy_options)
        queues = JobQueues(testbed.fabric)
        enforcer = Enforcer(testbed.fabric, testbed.jobs, self._background, seed, testbed.controller, queues)
        self._gates = GateKeeper(epoch_s)
        observer = Observer(testbed.fabric, testbed.jobs, settings.output_dir)
        guarded = is_guarded(policy, scenario.policy_options)
        self._decider = Decider(
            fabric=testbed.fabric,
            background=self._background,
            policy=policy,
            options=scenario.policy_options,
            seed=seed,
            epoch_s=epoch_s,
            solver=solver,
            observer=observer,
            enforcer=enforcer,
            gates=self._gates,
            guard=Guard(epoch_s, observer.histories) if guarded else None,
        )
        self._running: list[_Running] = []
        self._violations: list[str] = []
        self._zero_s = 0.0
        self._cpu_at_zero_s: dict[str, float] = {}

    def conduct(self) -> Outcome:
        """Run every job to its end. A job that fails does not stop the others; a stop request ends them all."""
        earliest = min(job.start_s for job in self._testbed.jobs)
        self._decider.ask_first([job for job in self._testbed.jobs if job.start_s == earliest])
        self._say(Phase(f"waiting for the first plan of {self._decider.policy}"))
        self._decider.await_first(self._wait_on)
        require_capacity(self._testbed.fabric)
        self._launch()
        self._check_rules_by_counters()
        self._captures.start()
        sampler = self._release()
        try:
            self._watch(sampler)
        finally:
            sampler.stop()
        self._stop_background()
        return self._outcome(sampler)

    def _wait_on(self) -> bool:
        """Let the supervisor outside know that the run lives; False once it is to stop."""
        jobs = tuple(JobProgress(job.name, 0, job.iterations, "waiting") for job in self._testbed.jobs)
        self._say(Progress(0.0, jobs, ()))
        return not self._stop.is_set()

    def _launch(self) -> None:
        jobs = self._testbed.jobs
        self._say(Phase(f"starting {sum(job.ranks for job in jobs)} ranks of {len(jobs)} jobs"))
        for job in jobs:
            self._running.append(_Running(job, self._launcher.launch(self._testbed.fabric, job, self._settings)))
        self._flows = [
            self._launcher.launch_background(self._testbed.fabric, flow, number, self._settings)
            for number, flow in enumerate(self._background)
        ]
        deadline = time.monotonic() + max(job.timeout_s for job in jobs)
        while time.monotonic() < deadline and not self._stop.is_set():
            self._hear(0.01)
            self._mend(0.0)
            if not self._still_starting():
                return
        for name in self._still_starting():
            self._launcher.stop_job(name)
            self._fail(name, "its ranks were not ready in time; see logs/ for what each of them said last")

    def _still_starting(self) -> list[str]:
        """Jobs whose ranks say when they are ready, and have not all done so. A command's ranks say nothing."""
        return [
            run.job.name
            for run in self._running
            if run.outcome is None and not run.job.command and not run.page.all_at_least(State.READY)
        ]

    def _check_rules_by_counters(self) -> None:
        """Before time zero every ring neighbour has been spoken to: the rules that serve them must have counted."""
        wanted = {
            (run.job.name, src, dst)
            for run in self._running
            if run.outcome is None and not run.job.command
            for src, dst in job_transfers(run.job, self._testbed.fabric.rack_of)
        }
        deadline = time.monotonic() + COUNTERS_S
        while wanted and time.monotonic() < deadline:
            counted = self._testbed.controller.counters(5.0)
            wanted -= {(rule.job, rule.src, rule.dst) for rule in counted if rule.purpose == "pair" and rule.packets}
            if wanted:
                time.sleep(0.1)
        if wanted:
            job, src, dst = sorted(wanted)[0]
            raise RunFailed(
                f"{len(wanted)} rules count nothing although their traffic flows; the first is job {job!r}, "
                f"{src} to {dst}: the switches don't do what they were told"
            )

    def _release(self) -> Sampler:
        zero_ns = time.monotonic_ns() + int(LEAD_S * 1e9)
        self._zero_s = zero_ns / 1e9
        self._captures.zero_unix_s = (zero_ns + time.time_ns() - time.monotonic_ns()) / 1e9
        sampler = Sampler(self._testbed.fabric, self._testbed.vswitch.cpu_seconds, zero_ns)
        sampler.start()
        for page in self._flows:
            page.release(zero_ns)
        for run in self._running:
            run.page.release(zero_ns + int(run.job.start_s * 1e9), zero_ns)
            run.submitted = run.job.start_s == 0
            run.last_progress_s = run.job.start_s
        self._decider.release(zero_ns, self._active())
        self._cpu_at_zero_s = self._control_cpu_s()
        self._say(Phase("running"))
        return sampler

    def _watch(self, sampler: Sampler) -> None:
        """Until every job has ended: hear the launcher, apply link events, decide again, mend, and end what hangs."""
        next_progress = 0.0
        while any(run.outcome is None for run in self._running):
            ended = self._hear(TICK_S)
            now = self._now()
            if ended:
                self._decider.want("a job has ended")
            if self._submit(now):
                self._decider.want("a job has come")
            self._apply_due_events(now)
            self._mend(now)
            self._decider.tick(now, self._active())
            if self._stop.is_set():
                self._end_all("stopped on request")
                return
            if now >= next_progress:
                self._end_what_hangs(now)
                self._captures.watch(now)
                self._report(now, sampler)
                next_progress = now + PROGRESS_S

    def _mend(self, now: float) -> None:
        """Have what died started again, and its rules installed anew."""
        if self._testbed.mend(now):
            self._decider.enforcer.controller = self._testbed.controller
            self._decider.reinstall()
            self._say(Notice(self._testbed.faults[-1]))
        elif self._decider.controller_lost:
            raise RunFailed("the controller lives but does not answer; see logs/controller.log")

    def _active(self) -> list[Active]:
        return [Active(run.job, run.page) for run in self._running if run.submitted and run.outcome is None]

    def _hear(self, timeout_s: float) -> bool:
        """Take what the launcher says; True if a job has ended."""
        ended = False
        while (reply := self._launcher.next_reply(timeout_s)) is not None:
            timeout_s = 0.0
            if isinstance(reply, JobFinished):
                ended |= self._finish(reply.job, reply.status, reply.error, reply.tail)
            elif isinstance(reply, JobStarted):
                self._pids_of(reply.job).update(enumerate(reply.pids))
            elif isinstance(reply, RankExited):
                self._pids_of(reply.job).pop(reply.rank, None)
            elif isinstance(reply, Rejected):
                if reply.job is None:
                    raise RunFailed(f"the rank launcher did not understand: {reply.error}")
                ended |= self._finish(reply.job, "failed", reply.error, ())
        return ended

    def _pids_of(self, name: str) -> dict[int, int]:
        """Of a job's living ranks; background flows, which are no jobs, have none on record."""
        return next((run.pids for run in self._running if run.job.name == name), {})

    def _finish(self, name: str, status: str, error: str | None, tail: Sequence[str]) -> bool:
        for run in self._running:
            if run.job.name == name and run.outcome is None:
                now = self._now() if self._zero_s else 0.0
                run.outcome = JobOutcome(name, status, run.job.start_s, now, error)
                if error is not None:
                    said = "".join(f"\n    {line}" for line in tail)
                    self._say(Notice(f"job {name!r}: {error}{said}"))
                return True
        if name.startswith("background flow") and status != "done" and not self._stop.is_set():
            self._violations.append(f"{name} ended during the run: {error}")
        return False

    def _fail(self, name: str, why: str) -> None:
        self._finish(name, "failed", why, ())

    def _control_cpu_s(self) -> dict[str, float]:
        """CPU time so far of the processes that are there now: one that was replaced counts from its start."""
        used = {
            "supervisor": time.thread_time(),
            "sampling": time.process_time() - time.thread_time(),
            **self._decider.solver.cpu_seconds(),
        }
        with contextlib.suppress(FileNotFoundError):
            used["controller"] = process_cpu_s(self._testbed.controller_process.pid)
        return used

    def _submit(self, now: float) -> bool:
        """Note the arrival of jobs whose start has come; their ranks release themselves."""
        arrived = [run for run in self._running if not run.submitted and now >= run.job.start_s]
        for run in arrived:
            run.submitted = True
        return bool(arrived)

    def _apply_due_events(self, now: float) -> None:
        while self._events and self._events[0].at_s <= now:
            event = self._events.pop(0)
            if isinstance(event, RankEvent):
                what = self._befall(event)
            elif isinstance(event, RestartEvent):
                kill_daemon(self._testbed, event)
                what = f"{event.daemon} killed"
            else:
                what = self._change_link(event)
            self._say(Notice(f"{what} at {now:.1f} s"))

    def _change_link(self, event: LinkEvent) -> str:
        change = apply_link_event(self._testbed.fabric, event)
        down = (self._decider.enforcer.links_down - change.restored) | change.lost
        what = f"{event.link} {event.action}"
        self._decider.links_changed(down, what)
        return what

    def _befall(self, event: RankEvent) -> str:
        """The control plane is not told: it finds out, as it would of a machine's fault."""
        run = next(run for run in self._running if run.job.name == event.job)
        happened = apply_rank_event(run.page, run.pids, event)
        ranks = ", ".join(map(str, event.ranks))
        action = f"{event.action} x{event.factor:g}" if event.action == "slow" else event.action
        return f"{action} of job {event.job!r}, rank {ranks}" + ("" if happened else " (it had ended before)")

    def _end_what_hangs(self, now: float) -> None:
        for run in self._running:
            if run.outcome is not None or not run.submitted or run.job.command:
                continue
            done = max(run.page.progress(rank).iterations for rank in range(run.job.ranks))
            # Whom the plan holds back does not hang.
            held = self._gates.held_until_ns(run.job.name) > time.monotonic_ns()
            if done > run.last_done or held:
                run.last_done, run.last_progress_s = done, now
            elif now - run.last_progress_s > run.job.timeout_s:
                why = f"no iteration ended for {run.job.timeout_s:g} s (iteration {done} never did)"
                self._launcher.stop_job(run.job.name)
                self._fail(run.job.name, why)

    def _end_all(self, why: str) -> None:
        for run in self._running:
            if run.outcome is None:
                self._launcher.stop_job(run.job.name)
                self._finish(run.job.name, "killed", why, ())

    def _stop_background(self) -> None:
        for number in range(len(self._flows)):
            self._launcher.stop_job(background_name(number))

    def _report(self, now: float, sampler: Sampler) -> None:
        busiest = sorted(sampler.use.items(), key=lambda item: -item[1])[:MOST_LINKS_TOLD]
        plans = self._decider.enforcer.in_force
        jobs = tuple(
            JobProgress(
                run.job.name,
                min(run.page.progress(rank).iterations for rank in range(run.job.ranks)),
                run.job.iterations,
                run.outcome.status if run.outcome else "running" if run.submitted else "waiting",
                plans[run.job.name].level if run.job.name in plans else None,
            )
            for run in self._running
        )
        self._say(Progress(now, jobs, tuple(busiest)))

    def _outcome(self, sampler: Sampler) -> Outcome:
        decisions = self._decider.finish(self._now())
        control_cpu_s = {
            name: max(0.0, used_s - self._cpu_at_zero_s.get(name, 0.0))
            for name, used_s in self._control_cpu_s().items()
        }
        captures = self._captures.stop()
        time.sleep(0.6)  # Rule counters lag by half a second.
        violations = list(self._violations)
        if sampler.error is not None:
            violations.append(sampler.error)
        return Outcome(
            zero_s=self._zero_s,
            outcomes={run.job.name: run.outcome for run in self._running if run.outcome is not None},
            decisions=decisions,
            rules=rules_with_counts(self._decider.enforcer.rules, self._testbed.controller, violations),
            links=sampler.link_rows(),
            link_bytes=sampler.counts.table(),
            meter=sampler.meter,
            cpu_busy=sampler.cpu_busy,
            datapath_busy=sampler.datapath_busy if self._testbed.vswitch.datapath == "netdev" else None,
            hosts=self._testbed.host_counters(),
            in_force=self._decider.enforcer.in_force,
            gates_failed_open=gates_opened(run.page for run in self._running),
            fallbacks=self._decider.fallbacks,
            control_cpu_s={**control_cpu_s, "run_s": self._now()},
            faults=[*self._testbed.faults, *self._decider.faults],
            violations=violations,
            captures=captures,
        )

    def _now(self) -> float:
        return time.monotonic() - self._zero_s
