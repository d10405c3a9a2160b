"""A pool of daemon threads, which never keep a process alive.

The threads of `ThreadPoolExecutor` are joined when Python exits. A pass of ten seconds, or a name server that does
not answer, would then delay the end by as long. The work of a daemon thread is dropped with the process.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class DaemonThreads(ThreadPoolExecutor):
    """A pool of daemon threads, started on demand.

    It derives from the standard pool because the event loop takes no other for its own; the pool's machinery of threads
    is never set in motion.
    """

    def __init__(self, name: str, most: int = 1) -> None:
        super().__init__(max_workers=most, thread_name_prefix=name)
        self._name = name
        self._most = most
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._waiting: set[Future[Any]] = set()
        self._crew: list[threading.Thread] = []
        self._guard = threading.Lock()
        self._closed = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run a function in one of the threads, in the order of submission."""
        future: Future[T] = Future()

        def job() -> None:
            if future.set_running_or_notify_cancel():
                with _Delivery(future):
                    future.set_result(fn(*args, **kwargs))
            self._waiting.discard(future)

        with self._guard:
            if self._closed:
                raise RuntimeError(f"the threads called {self._name} are closed")
            self._waiting.add(future)
            self._jobs.put(job)
            if len(self._crew) < min(self._most, len(self._waiting)):
                thread = threading.Thread(target=self._run_jobs, name=f"{self._name}-{len(self._crew)}", daemon=True)
                self._crew.append(thread)
                thread.start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accept no more work. Submitted work is still done unless `cancel_futures` is set."""
        with self._guard:
            self._closed = True
            if cancel_futures:
                for future in list(self._waiting):
                    future.cancel()
            for _ in self._crew:
                self._jobs.put(None)
        if wait:
            for thread in self._crew:
                thread.join()

    def _run_jobs(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
            del job  # A waiting thread must not keep the last snapshot alive.


class _Delivery:
    """Sets exceptions raised inside on the future."""

    def __init__(self, future: Future[Any]) -> None:
        self._future = future

    def __enter__(self) -> None:
        return

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> bool:
        if error is not None:
            self._future.set_exception(error)
        return True
