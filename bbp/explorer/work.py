"""Long work beside the pages: a process for each kind, one call at a time, given up when nobody waits for it any more."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import BrokenExecutor
from typing import TypeVar

from bbp.console.messages import RunError
from bbp.engine.executors import Processes
from bbp.explorer.curves import PhaseMap, phase_map

T = TypeVar("T")
TEACHERS = range(1, 65)  # whose diagrams are prepared
KEPT = 160  # diagrams


class Helper:
    """A process that starts with the first call, and does the calls of all pages in their order.

    patience   seconds that a call may go on when nobody waits for it any more: then the process is killed (it may be inside
               LAPACK), and the next call starts another
    nice       of the process
    """

    def __init__(self, patience: float, nice: int = 5):
        self._patience, self._nice, self._turn = patience, nice, asyncio.Lock()
        self._process: Processes | None = None

    async def do(self, function: Callable[..., T], *arguments: object) -> T:
        """function(*arguments), or what it raises; RunError where the process has ended."""
        async with self._turn:
            if self._process is None:
                self._process = await asyncio.to_thread(Processes, 1, one_core=False)
            answer = asyncio.wrap_future(self._process.submit(_nicely, self._nice, function, arguments))
            try:
                return await asyncio.shield(answer)
            except asyncio.CancelledError:
                await asyncio.wait([answer], timeout=self._patience)
                raise
            except BrokenExecutor:
                self.close()
                raise RunError("the process that did this work has ended; try once more") from None
            finally:
                if not answer.done():
                    answer.cancel()
                    self.close()

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            process.shutdown()


def _nicely(nice: int, function: Callable[..., T], arguments: tuple[object, ...]) -> T:
    os.nice(max(0, nice - os.nice(0)))  # the page itself goes first
    return function(*arguments)


class Work:
    """The helpers of all pages of a server, and the diagrams of phases that they have had computed, by p* and noise."""

    def __init__(self) -> None:
        self.samples, self.curves, self.files = map(Helper, (0.3, 3.0, 5.0))
        self.diagrams = Helper(5.0, nice=10)
        self.seen: dict[tuple[int, float], PhaseMap] = {}

    async def diagram(self, p_star: int, noise: float) -> PhaseMap:
        """The diagram of phases, kept."""
        if (p_star, noise) not in self.seen:
            found = await self.diagrams.do(phase_map, p_star, noise)
            if len(self.seen) >= KEPT:
                self.seen = {key: kept for key, kept in self.seen.items() if not key[1]}
            self.seen[p_star, noise] = found
        return self.seen[p_star, noise]

    async def prepare(self) -> None:
        """Have the diagrams of every p* without noise computed, so that a first visit finds them."""
        for p_star in TEACHERS:
            await self.diagram(p_star, 0.0)

    def close(self) -> None:
        """End all processes."""
        for helper in (self.samples, self.curves, self.files, self.diagrams):
            helper.close()
