"""The network between a target and its server, in our hands: calls can be cut, answers thrown away or held back.

Losses happen in the transport, below the client, where the network does them: a request that is cut never
leaves; an answer that is dropped was read, and the caller sees the same transport error. Nothing that a server sends
can hold or fill this process: answers end within a time and below a size, and are never unpacked.
"""

import asyncio
import time
from collections.abc import Iterable
from typing import Any, Final

import anyio
import httpcore
import httpx

from state_machines.targets.calls import Loss

LIMIT: Final = 8 << 20  # bytes of one answer
LOSS: Final = "stranded_loss"  # keys of a request's extensions
LINE: Final = "stranded_line"


class TooLarge(httpx.TransportError):
    """An answer of more than `LIMIT` bytes."""


class _Stream(httpcore.NetworkStream):
    """A connection whose reads and writes end at the backend's deadline, however slowly bytes arrive."""

    def __init__(self, inner: httpcore.NetworkStream, clock: "_Backend") -> None:
        self._inner, self._clock = inner, clock

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, self._clock.left(httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, self._clock.left(httpcore.WriteTimeout))

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None
    ) -> "_Stream":
        inner = self._inner.start_tls(ssl_context, server_hostname, self._clock.left(httpcore.ConnectTimeout))
        return _Stream(inner, self._clock)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


class _Backend(httpcore.NetworkBackend):
    def __init__(self) -> None:
        self._inner, self.deadline = httpcore.SyncBackend(), 0.0

    def left(self, late: type[Exception]) -> float:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise late("the time for the answer has passed")
        return left

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> _Stream:
        left = self.left(httpcore.ConnectTimeout)
        return _Stream(self._inner.connect_tcp(host, port, left, local_address, socket_options), self)


class Network(httpx.BaseTransport):
    """For the calls that answer at once. `seconds` is the whole time that one may take."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self._backend = seconds, _Backend()
        self._pool = httpcore.ConnectionPool(
            ssl_context=httpx.create_ssl_context(), max_keepalive_connections=2, network_backend=self._backend
        )

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        loss = request.extensions.get(LOSS)
        if loss is Loss.REQUEST:
            raise httpx.ConnectError("the request was cut", request=request)
        self._backend.deadline = time.monotonic() + self._seconds
        url = request.url
        wanted = httpcore.Request(
            request.method,
            httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
            headers=request.headers.raw,
            content=request.read(),
        )
        try:
            response = self._pool.handle_request(wanted)
            try:
                content = _limited(response)
            finally:
                response.close()
        except httpcore.TimeoutException:
            raise httpx.ReadTimeout(f"no whole answer within {self._seconds:g} s", request=request) from None
        except (httpcore.NetworkError, httpcore.ProtocolError) as error:
            raise httpx.NetworkError(str(error) or type(error).__name__, request=request) from None
        if loss is Loss.REPLY:
            raise httpx.ReadError("the answer was thrown away", request=request)
        return httpx.Response(response.status, headers=_plain(response.headers), content=content, request=request)

    def close(self) -> None:
        self._pool.close()


def _limited(response: httpcore.Response) -> bytes:
    content = bytearray()
    for chunk in response.iter_stream():
        content += chunk
        if len(content) > LIMIT:
            raise TooLarge(f"an answer of more than {LIMIT >> 20} MiB")
    return bytes(content)


def _plain(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Without `content-encoding`: none was asked for, and a small archive can unpack to more than memory holds."""
    return [(name, value) for name, value in headers if name.lower() != b"content-encoding"]


class Line:
    """One call that the server keeps open. The answer waits in the network until it is delivered or dropped."""

    def __init__(self) -> None:
        self.sent = asyncio.Event()
        self.arrived = asyncio.Event()
        self.response: httpx.Response | None = None
        self.lost = False
        # httpx shields the closing of a connection from this scope, and from no other kind of cancellation
        self.scope: anyio.CancelScope | None = None
        self.task: asyncio.Task[None] | None = None
        self._gate: asyncio.Future[bool] | None = None

    async def trace(self, name: str, info: Any) -> None:
        """What httpcore tells about the request on its way."""
        if name == "http11.send_request_body.complete":
            self.sent.set()

    async def hold(self, response: httpx.Response) -> bool:
        """The answer has come. Wait until it is decided what becomes of it."""
        self.response = response
        self._gate = asyncio.get_running_loop().create_future()
        self.arrived.set()
        return await self._gate

    def decide(self, *, deliver: bool) -> None:
        """Let an answer that has come through, or throw it away. A second decision has nothing left to decide."""
        if self._gate is not None and not self._gate.done():
            self._gate.set_result(deliver)


class OpenNetwork(httpx.AsyncBaseTransport):
    """For `/run` and `prepare`, which stay open as long as the server likes."""

    def __init__(self) -> None:
        self._inner = httpx.AsyncHTTPTransport(
            trust_env=False, limits=httpx.Limits(max_connections=None, max_keepalive_connections=8)
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.extensions.get(LOSS) is Loss.REQUEST:
            raise httpx.ConnectError("the request was cut", request=request)
        line: Line = request.extensions[LINE]
        inner = await self._inner.handle_async_request(request)
        content = bytearray()
        try:
            assert isinstance(inner.stream, httpx.AsyncByteStream)
            async for chunk in inner.stream:
                content += chunk
                if len(content) > LIMIT:
                    raise TooLarge(f"an answer of more than {LIMIT >> 20} MiB")
        finally:
            await inner.aclose()
        headers = _plain(inner.headers.raw)
        response = httpx.Response(inner.status_code, headers=headers, content=bytes(content), request=request)
        if not await line.hold(response):
            raise httpx.ReadError("the answer was thrown away", request=request)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()
