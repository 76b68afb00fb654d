"""A network that can be bad: a proxy in front of each broker, which knows where Kafka's requests begin and end."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import TypeVar

from headrace.kafka.home import HOST

TO_BROKER = "to the broker"
TO_CLIENT = "to the client"
DIRECTIONS = (TO_BROKER, TO_CLIENT)

DELAYED = "delayed"
"""Whatever is sent arrives late, in its order."""
CUT = "cut"
"""What is sent arrives in part, then the receiver's connection is reset. The sender is told when the network heals."""
SILENT = "silent"
"""What is sent does not arrive: it waits until the network heals, or is lost then together with the connection."""
HALF_CLOSED = "half-closed"
"""The receiver is told that nothing more comes; the other direction goes on."""
TROUBLES = (DELAYED, CUT, SILENT, HALF_CLOSED)

END_TXN = 26
"""The request that commits or aborts a transaction."""
_PATIENCE_SECONDS = 120.0
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)

_T = TypeVar("_T")


@dataclass(frozen=True)
class Trouble:
    """What becomes of whatever is sent in one direction."""

    kind: str
    direction: str
    seconds: float = 0.0
    """How late it arrives, where it is delayed."""
    arrives: bool = True
    """Whether what waited in silence arrives in the end."""


class Network:
    """A proxy for each of some ports, all of them good until told otherwise.

    `ports` are where the proxies listen. A broker is named by its place among the ports.
    """

    def __init__(self, targets: Iterable[int]) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="network", daemon=True)
        self._thread.start()
        self._hits: queue.SimpleQueue[float] = queue.SimpleQueue()
        self._proxies = [_Proxy(target, self._hits) for target in targets]
        for proxy in self._proxies:
            asyncio.run_coroutine_threadsafe(proxy.serve(), self._loop).result()

    @property
    def ports(self) -> list[int]:
        """Where the proxies listen."""
        return [proxy.port for proxy in self._proxies]

    def disturb(self, trouble: Trouble, brokers: Iterable[int] | None = None) -> None:
        """Begins a trouble with some of the brokers, with all of them by default."""
        self._forget_hits()
        for number in range(len(self._proxies)) if brokers is None else brokers:
            self._call(self._proxies[number].disturb, trouble)

    def lose_answers(self, most: int | None = None) -> None:
        """Begins to lose the answers to EndTxn, so many or all: the request gets through, then the connection ends."""
        self._forget_hits()
        left = _Count(most)
        for proxy in self._proxies:
            self._call(proxy.lose_answers, left)

    def heal(self) -> None:
        """Ends all troubles."""
        for proxy in self._proxies:
            self._call(proxy.heal)

    def await_hit(self) -> float:
        """Waits until a trouble has met something that was sent; when that was."""
        try:
            return self._hits.get(timeout=_PATIENCE_SECONDS)
        except queue.Empty:
            raise AssertionError("nothing was sent while the network was bad") from None

    def hits(self) -> int:
        """How many times more troubles have met something that was sent."""
        return self._forget_hits()

    def close(self) -> None:
        """Ends all connections."""
        for proxy in self._proxies:
            asyncio.run_coroutine_threadsafe(proxy.close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> Network:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _forget_hits(self) -> int:
        count = 0
        with contextlib.suppress(queue.Empty):
            while True:
                self._hits.get_nowait()
                count += 1
        return count

    def _call(self, function: Callable[..., _T], *arguments: object) -> _T:
        """Calls a function in the thread that all connections belong to."""

        async def call() -> _T:
            return function(*arguments)

        return asyncio.run_coroutine_threadsafe(call(), self._loop).result()


class _Count:
    """How many more times something may happen; None is without end."""

    def __init__(self, left: int | None) -> None:
        self._left = left

    def take(self) -> bool:
        if self._left is None:
            return True
        self._left -= 1
        return self._left >= 0


class _Proxy:
    """Passes on what is sent to one port, and the answers."""

    def __init__(self, target: int, hits: queue.SimpleQueue[float]) -> None:
        self.target = target
        self.port = 0
        self.trouble: Trouble | None = None
        self.lost_answers = _Count(0)
        self.healed = asyncio.Event()
        self.healed.set()
        self._hits = hits
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        self._server = await asyncio.start_server(self._connect, HOST, 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def disturb(self, trouble: Trouble) -> None:
        self.trouble = trouble
        self.healed.clear()

    def lose_answers(self, count: _Count) -> None:
        self.lost_answers = count

    def heal(self) -> None:
        self.trouble = None
        self.lost_answers = _Count(0)
        self.healed.set()

    def hit(self) -> None:
        self._hits.put(time.monotonic())

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            try:
                broker = await asyncio.open_connection(HOST, self.target)
            except OSError:
                _reset(writer)
                return
            connection = _Connection(self, (reader, writer), broker)
            try:
                await connection.run()
            finally:
                connection.reset()
        except asyncio.CancelledError:
            return  # the network is closed
        finally:
            self._tasks.discard(task)


_Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Connection:
    """One connection of a client, and the one to the broker that belongs to it."""

    def __init__(self, proxy: _Proxy, client: _Stream, broker: _Stream) -> None:
        self._proxy = proxy
        self._client = client
        self._broker = broker
        self._unanswered: set[int] = set()
        """The requests whose answers are to be lost, by their correlation ids."""
        self._is_severed = False
        """Whether the broker's side was reset, which the client is not told before the network heals."""

    async def run(self) -> None:
        """Passes on what both sides send until both have ended."""
        await asyncio.gather(
            self._pump(TO_BROKER, self._client[0], self._broker[1]),
            self._pump(TO_CLIENT, self._broker[0], self._client[1]),
        )

    def reset(self) -> None:
        """Ends both sides."""
        _reset(self._client[1])
        _reset(self._broker[1])

    async def _pump(self, direction: str, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            is_open = True
            while (frame := await _next_frame(source)) is not None:
                if self._is_lost(direction, frame):
                    self.reset()
                elif is_open:
                    is_open = await self._pass_on(direction, frame, target)
            if direction == TO_CLIENT and self._is_severed:
                await self._proxy.healed.wait()
                self.reset()
            if is_open and not target.is_closing():
                target.write_eof()
        except (OSError, asyncio.IncompleteReadError):
            self.reset()

    def _is_lost(self, direction: str, frame: bytes) -> bool:
        """Whether a frame is an answer that is not to arrive."""
        if direction == TO_BROKER:
            api_key, correlation_id = int.from_bytes(frame[4:6], "big"), frame[8:12]
            if api_key == END_TXN and self._proxy.lost_answers.take():
                self._unanswered.add(int.from_bytes(correlation_id, "big"))
            return False
        if int.from_bytes(frame[4:8], "big") not in self._unanswered:
            return False
        self._proxy.hit()
        return True

    async def _pass_on(self, direction: str, frame: bytes, target: asyncio.StreamWriter) -> bool:
        """Sends a frame on its way, as well as the network does; whether more may follow."""
        trouble = self._proxy.trouble
        if trouble is not None and trouble.direction == direction:
            self._proxy.hit()
            if trouble.kind == DELAYED:
                await asyncio.sleep(trouble.seconds)
            elif trouble.kind == SILENT:
                await self._proxy.healed.wait()
                if not trouble.arrives:
                    self.reset()
                    return False
            elif trouble.kind == HALF_CLOSED:
                target.write_eof()
                return False
            else:
                self._is_severed = direction == TO_BROKER
                target.write(frame[: len(frame) // 2])
                await target.drain()
                _reset(target)
                return False
        target.write(frame)
        await target.drain()
        return True


async def _next_frame(source: asyncio.StreamReader) -> bytes | None:
    """A request or an answer as it is sent, its length first; None where nothing more comes."""
    try:
        length = await source.readexactly(4)
    except asyncio.IncompleteReadError as end:
        if end.partial:
            raise
        return None
    return length + await source.readexactly(int.from_bytes(length, "big"))


def _reset(writer: asyncio.StreamWriter) -> None:
    """Ends a connection so that the other side is told at once: what is under way is lost."""
    if not writer.is_closing():
        with contextlib.suppress(OSError):
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        writer.transport.abort()
