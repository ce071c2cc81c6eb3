"""`python -m harmonics_emu.emulate.solver`: the process in which a run's policy makes its plans."""

from __future__ import annotations

import traceback
from collections.abc import Iterator

from harmonics_emu.emulate.answering import answer_of
from harmonics_emu.emulate.forecast import alone_s, forecast
from harmonics_emu.emulate.solving import Begin, Forecast, Foresee, Ready, Refused, Reply, encode, requests, snapshot_of
from harmonics_emu.emulate.worker import attend
from harmonics_emu.errors import HarmonicsError
from harmonics_emu.schedulers.interface import Plan, Policy, Snapshot
from harmonics_emu.schedulers.registry import find_policy


class Service:
    """Answers a supervisor's requests, one after another."""

    def __init__(self) -> None:
        self._begin: Begin | None = None
        self._policy: Policy | None = None

    def answer(self, body: bytes) -> Iterator[bytes]:
        """The replies to one request, encoded. A policy that breaks is reported, and asked again the next time."""
        try:
            for reply in self._reply(body):
                yield encode(reply)
        except HarmonicsError as error:
            yield encode(Refused(str(error)))
        except Exception as error:
            traceback.print_exc()
            yield encode(Refused(f"{type(error).__name__}: {error} (see logs/solver.log)"))

    def _reply(self, body: bytes) -> Iterator[Reply]:
        request = requests.decode(body)
        if isinstance(request, Begin):
            self._begin, self._policy = request, find_policy(request.policy)
            yield Ready()
            return
        if self._begin is None or self._policy is None:
            raise HarmonicsError("it was asked for a plan before it knew the run")
        if isinstance(request, Foresee):
            yield self._forecast(snapshot_of(self._begin, request.ask), request.plan, self._begin)
            return
        snapshot = snapshot_of(self._begin, request)
        answer = answer_of(self._policy, snapshot)
        yield answer
        yield self._forecast(snapshot, answer.plan, self._begin)

    @staticmethod
    def _forecast(snapshot: Snapshot, plan: Plan, begin: Begin) -> Forecast:
        expected_s = forecast(snapshot, plan, begin.epoch_s)
        if not begin.guarded:
            return Forecast(expected_s)
        fair_s = forecast(snapshot, Plan("fair"), begin.epoch_s) if plan.jobs else expected_s
        return Forecast(expected_s, fair_s, alone_s(snapshot))


if __name__ == "__main__":
    attend(Service().answer)
