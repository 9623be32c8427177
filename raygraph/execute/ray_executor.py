"""The `ray` executor: nodes run as Ray tasks, on this machine or a cluster.

It uses the Ray this process is connected to. If there is none, it joins the cluster that RAY_ADDRESS or a running
`ray start` points to, and otherwise starts a local Ray with as many CPUs as this process may use; that one it also
stops. Importing this module does not import Ray.
"""

from __future__ import annotations

import contextlib
import functools
import os
import random
import signal
import socket
import threading
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, Final

from raygraph.errors import ExecutorError
from raygraph.execute.cpus import available_cpus
from raygraph.execute.protocol import Post
from raygraph.execute.ray_errors import check_feasible, requests, translate
from raygraph.execute.ray_remote import RelayAddress, pack_packet, remote_function, start_relay, wrap_parts
from raygraph.execute.shipping import Blob, Shipper, decode_custom, decode_outcome
from raygraph.state.records import Call, Custom, NodeOptions, Outcome, RunContext, Task

#: Blobs up to this travel inside each call. `ray.put` always goes through shared memory (0.75 ms here), and a few
#: KiB more in a message cost nothing measurable (1.92 against 1.94 ms).
_SMALL_BLOB: Final = 4 * 1024
#: Calls in flight per run: enough to keep hundreds of CPUs busy with one more waiting for each. Ray itself holds
#: far more, but each is a spec in memory and one more to cancel.
_WINDOW: Final = 1000
#: Seconds a cancelled node may take to end by itself. Python code notices within 10 ms, `time.sleep` and C code not
#: at all.
_GRACE: Final = 1.0
#: Seconds to wait for workers that were killed; it takes Ray about 10 ms.
_KILL_SECONDS: Final = 10.0
#: Seconds a cluster's head may take to accept a connection: what Ray waits at its first attempt.
_REACH_SECONDS: Final = 5.0
#: References to shipped code kept per executor. A guess: more than the nodes of a program's graphs.
_KEPT_CODE: Final = 512


class RayExecutor:
    """Runs nodes as Ray tasks.

    Args:
        address: A cluster to connect to, as for `ray.init`. Default: see the module.
        **init: Further arguments for `ray.init`, used only if this executor has to call it.
    """

    name = "ray"
    in_driver = False

    def __init__(self, address: str | None = None, **init: Any) -> None:
        self._address = address
        self._init = init
        self._lock = threading.Lock()
        self._connected = False
        self._cluster: tuple[str, str] | None = None
        self._refs: OrderedDict[str, Any] = OrderedDict()
        self._functions: dict[tuple[str, str], tuple[NodeOptions, Any]] = {}
        self._relay: Any = None

    def check(self, node: str, options: NodeOptions) -> None:
        """Raise if no machine of the cluster has, in total, what the node asks for."""
        plain = requests(options) in ({}, {"CPU": 1.0}) and not options.label_selector
        if plain or os.environ.get("RAYGRAPH_ALLOW_PENDING") == "1":
            return
        import ray

        self._connect()
        check_feasible(node, options, ray.nodes())  # type: ignore[no-untyped-call]

    def open(self, run: RunContext, post: Post) -> RaySession:
        """Begin a session, connecting to or starting Ray first where that is needed."""
        self._connect()
        return RaySession(self, run, post)

    def shutdown(self) -> None:
        """Disconnect from Ray if this executor connected, which also stops a Ray it started."""
        import ray

        with self._lock:
            self._forget()
            if self._connected and ray.is_initialized():
                ray.shutdown()
            self._connected = False

    def function(self, graph: str, node: str, options: NodeOptions) -> Any:
        """The remote function with a node's options; made once per node."""
        known = self._functions.get((graph, node))
        if known is None or known[0] is not options:
            asked = {
                "num_gpus": options.num_gpus or None,
                "memory": options.memory,
                "resources": options.resources and dict(options.resources),
                "label_selector": options.label_selector and dict(options.label_selector),
                "runtime_env": options.runtime_env and dict(options.runtime_env),
            }
            given = {name: value for name, value in asked.items() if value is not None}
            made = remote_function().options(num_cpus=options.num_cpus, name=f"{graph}:{node}", **given)
            known = self._functions[graph, node] = (options, made)
        return known[1]

    def ref(self, blob: Blob) -> Any:
        """Ray's reference to a blob, which is stored once."""
        import ray

        with self._lock:
            ref = self._refs.get(blob.key)
            if ref is None:
                ref = self._refs[blob.key] = ray.put(wrap_parts(blob.parts))
                while len(self._refs) > _KEPT_CODE:
                    self._refs.popitem(last=False)
            else:
                self._refs.move_to_end(blob.key)
            return ref

    def drop(self, keys: list[str]) -> None:
        """Let go of blobs that no call will name again."""
        with self._lock:
            for key in keys:
                self._refs.pop(key, None)

    def relay(self) -> Any:
        """The actor that custom events pass through."""
        with self._lock:
            if self._relay is None:
                self._relay = start_relay()
            return self._relay

    def _connect(self) -> None:
        import ray

        with self._lock:
            if not ray.is_initialized():
                _init(self._address, self._init)
                self._connected = True
            context = ray.get_runtime_context()
            cluster = (context.gcs_address, context.get_job_id())
            if cluster != self._cluster:  # what was stored in another cluster is gone
                self._forget()
                self._cluster = cluster

    def _forget(self) -> None:
        self._refs.clear()
        self._functions.clear()
        self._relay = None


class RaySession:
    """One run's use of Ray."""

    window = _WINDOW

    def __init__(self, executor: RayExecutor, run: RunContext, post: Post) -> None:
        import ray

        self._executor = executor
        self._graph = run.graph
        self._shipper = Shipper(run, surroundings=False)
        self._running: dict[str, tuple[Any, Task]] = {}
        self._cancelled: list[Any] = []
        self._lock = threading.Lock()
        self._events = _Events(executor.relay(), post) if run.custom else None
        self._post: Post = self._events.post_outcome if self._events else post
        # A task that waits in anything but Ray's own calls keeps its CPU from the tasks it waits for.
        self._inside_ray = ray.get_runtime_context().worker.mode == ray.WORKER_MODE

    def submit(self, call: Call) -> None:
        """Hand the call to Ray."""
        data, blobs = self._shipper.encode(call)
        inline = [(blob.key, blob.parts) for blob in blobs if blob.size <= _SMALL_BLOB]
        refs = [(blob.key, self._executor.ref(blob)) for blob in blobs if blob.size > _SMALL_BLOB]
        function = self._executor.function(self._graph, call.task.node, call.options)
        address: RelayAddress = self._events.address if self._events else None
        ref = function.remote(pack_packet(data, inline), refs or None, address)
        with self._lock:
            self._running[call.task.id] = (ref, call.task)
        if not self._inside_ray:
            ref.future().add_done_callback(functools.partial(self._on_done, call.task))

    def park(self, timeout: float) -> bool:
        """Inside a Ray task, wait with Ray's own call, which lends this task's CPU to others meanwhile.

        Ray lends only what a task's main thread waits for, and never the CPUs that an actor was given for life
        (`@ray.remote(num_cpus=1) class ...`; an actor without that holds none).
        """
        if not self._inside_ray:
            return False
        import ray

        with self._lock:
            running = list(self._running.values())
        if not running:
            return False
        # Events come in on a thread of their own, and should not wait for the end of the node that sent them.
        ready, _ = ray.wait([ref for ref, _ in running], timeout=min(timeout, 0.05) if self._events else timeout)
        for ref, task in running:
            if ref in ready:
                self._deliver(task, *_fetch(ref))
        return True

    def cancel(self, task_id: str) -> None:
        """Interrupt the node, and kill its worker if it takes no notice."""
        import ray

        with self._lock:
            ref, _ = self._running.pop(task_id, (None, None))
            if ref is None:
                return
            self._cancelled.append(ref)
        ray.cancel(ref, force=False)
        timer = threading.Timer(_GRACE, _kill_if_running, [ref])
        timer.daemon = True
        timer.start()

    def close(self) -> None:
        """Cancel what still runs and wait until it has ended."""
        import ray

        with self._lock:
            refs = [*self._cancelled, *(ref for ref, _ in self._running.values())]
            self._running.clear()
            self._cancelled = []
        if refs and ray.is_initialized():
            for ref in refs:
                ray.cancel(ref, force=False)
            _, left = ray.wait(refs, num_returns=len(refs), timeout=_GRACE)
            for ref in left:
                ray.cancel(ref, force=True)
            if left:
                ray.wait(left, num_returns=len(left), timeout=_KILL_SECONDS)
            for ref in refs:
                _fetch(ref, timeout=0)  # an error nobody has looked at would be logged as unhandled
        if self._events:
            self._events.close()
        self._executor.drop(self._shipper.keys)

    def _on_done(self, task: Task, future: Any) -> None:
        """In a thread of Ray's."""
        error = future.exception()
        self._deliver(task, None if error else future.result(), error)

    def _deliver(self, task: Task, value: Any, error: BaseException | None) -> None:
        with self._lock:
            if self._running.pop(task.id, None) is None:
                return  # cancelled
        if error is None:
            parts = [value] if isinstance(value, bytes) else value[0]
            try:
                self._post(decode_outcome(parts, task.node))
                return
            except Exception as broken:
                error = broken
        self._post(Outcome(task.id, task.attempt, error=translate(error, task)))


class _Events:
    """Custom events of one session: a thread pulls them from the relay and puts each task's in order.

    An outcome may overtake its task's events, since they take different ways; it is held back until they are in.
    """

    def __init__(self, relay: Any, post: Post) -> None:
        import ray

        self.address = (relay, os.urandom(8).hex())
        self._relay = relay
        self._post = post
        self._lock = threading.Lock()
        self._seen: dict[str, int] = {}
        self._early: dict[str, dict[int, Any]] = {}
        self._held: dict[str, Outcome] = {}
        self._broken = False
        ray.get(relay.open.remote(self.address[1]))
        threading.Thread(target=self._pull, name="raygraph-events", daemon=True).start()

    def post_outcome(self, what: Outcome | Custom) -> None:
        """Post an outcome once all of its task's events have been posted."""
        assert isinstance(what, Outcome)
        with self._lock:
            if self._seen.get(what.task_id, 0) < what.customs and not self._broken:
                self._held[what.task_id] = what
                return
            self._seen.pop(what.task_id, None)
        self._post(what)

    def close(self) -> None:
        """End the thread."""
        self._relay.close.remote(self.address[1])

    def _pull(self) -> None:
        import ray

        try:
            while True:
                events = ray.get(self._relay.pull.remote(self.address[1]))
                if events is None:
                    return
                for task_id, number, parts in events:
                    self._arrived(task_id, number, parts)
        except Exception:  # the relay died, or Ray was shut down: outcomes matter more than events
            with self._lock:
                self._broken = True
                held, self._held = self._held, {}
            for outcome in held.values():
                self._post(outcome)

    def _arrived(self, task_id: str, number: int, parts: list[bytes]) -> None:
        early = self._early.setdefault(task_id, {})
        early[number] = parts
        while (count := self._seen.get(task_id, 0)) in early:
            self._post(Custom(task_id, decode_custom(early.pop(count))))
            with self._lock:
                self._seen[task_id] = count + 1
                held = self._held.get(task_id)
                if held is None or held.customs > count + 1:
                    continue
                del self._held[task_id], self._seen[task_id], self._early[task_id]
            self._post(held)
            return


def _fetch(ref: Any, timeout: float | None = None) -> tuple[Any, BaseException | None]:
    import ray

    try:
        return ray.get(ref, timeout=timeout), None
    except BaseException as error:
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            raise
        return None, error


def _kill_if_running(ref: Any) -> None:
    import ray

    try:
        if ray.is_initialized() and not ray.wait([ref], timeout=0)[0]:
            ray.cancel(ref, force=True)
    except Exception:  # Ray was shut down in between, and the node with it
        pass


def _init(address: str | None, init: dict[str, Any]) -> None:
    """Connect to Ray, or start it, and leave no trace of that in this process."""
    import ray

    _check_reachable(address or os.environ.get("RAY_ADDRESS"))
    settings: dict[str, Any] = {"include_dashboard": False, "logging_level": "error", **init}
    with _undisturbed():
        try:
            if address is not None:
                ray.init(address=address, **settings)
                return
            try:
                ray.init(**{"num_cpus": available_cpus(), **settings})
            except ValueError:
                # Ray refuses num_cpus when it has found a cluster to join. Anything else fails again here.
                ray.init(**settings)
        except (ConnectionError, RuntimeError, ValueError, OSError, TimeoutError) as error:
            raise ExecutorError(
                f"Ray could not be reached or started: {type(error).__name__}: {error}. executor='processes' needs no "
                "Ray and also uses every CPU of this machine."
            ) from None


def _check_reachable(address: str | None) -> None:
    """Fail early: Ray itself tries for minutes to reach an address where nobody listens."""
    host, colon, port = (address or "").rpartition(":")
    if not colon or not port.isdecimal() or "/" in host:
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_REACH_SECONDS).close()
    except OSError as error:
        raise ExecutorError(
            f"No Ray answers at {address}: {error}. Check the address (argument, or RAY_ADDRESS in the environment) "
            "and that `ray start --head` runs there."
        ) from None


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Put back what `ray.init` changes behind the user's back: the state of `random`, the SIGTERM handler."""
    state = random.getstate()
    main = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGTERM) if main else None
    try:
        yield
    finally:
        random.setstate(state)
        if main and handler is not None:
            signal.signal(signal.SIGTERM, handler)
