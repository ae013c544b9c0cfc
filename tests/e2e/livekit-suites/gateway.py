"""The suites' fixed address: it forwards WebSockets and requests to the current server, byte by byte.

For Conclave, it also acts as a backend: it creates rooms, names them in tokens as Conclave does, and translates calls of LiveKit's
server API to Conclave's (room_service.py). A suite starts a new server by `POST /suite/server` with the settings that it needs.
"""

import asyncio
import json
import threading
from urllib.parse import parse_qsl, urlencode

from . import tokens
from .room_service import RoomService, TwirpError

TWIRP = "/twirp/livekit.RoomService/"


class Head:
    """The head of an HTTP request."""

    def __init__(self, data):
        first, *lines = data.decode("latin-1").rstrip("\r\n").split("\r\n")
        self.method, self.target, self.version = first.split(" ", 2)
        self.headers = [tuple(line.split(": ", 1)) if ": " in line else (line.rstrip(":"), "") for line in lines]

    def get(self, name):
        return next((value for known, value in self.headers if known.lower() == name), "")

    def set(self, name, value):
        self.headers = [(known, old) for known, old in self.headers if known.lower() != name] + [(name, value)]

    @property
    def path(self):
        return self.target.partition("?")[0]

    def token(self):
        bearer = self.get("authorization").removeprefix("Bearer ")
        return bearer or dict(parse_qsl(self.target.partition("?")[2])).get("access_token", "")

    def replace_token(self, token):
        if self.get("authorization"):
            self.set("authorization", f"Bearer {token}")
            return
        path, _, query = self.target.partition("?")
        pairs = parse_qsl(query, keep_blank_values=True)
        self.target = f"{path}?{urlencode([(name, token if name == 'access_token' else value) for name, value in pairs])}"

    def encode(self):
        lines = [f"{self.method} {self.target} {self.version}", *(f"{name}: {value}" for name, value in self.headers)]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


class Gateway:
    def __init__(self, server):
        self.server, self.service, self.creates_rooms = server, None, True
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        self.lock = threading.Lock()
        self.port = asyncio.run_coroutine_threadsafe(self.listen(), self.loop).result()
        self.url = f"http://localhost:{self.port}"

    async def listen(self):
        listener = await asyncio.start_server(self.accept, "127.0.0.1", 0, limit=1 << 20)
        return listener.sockets[0].getsockname()[1]

    def start(self, settings=None):
        """Starts another server."""
        with self.lock:
            self.server.start(settings)
            self.creates_rooms = (settings or {}).get("auto_create", True)
            self.service = RoomService(self.server) if self.server.kind == "conclave" else None

    async def accept(self, reader, writer):
        try:
            head = Head(await reader.readuntil(b"\r\n\r\n"))
            if head.path == "/suite/server":
                settings = json.loads(await reader.readexactly(int(head.get("content-length"))))
                await self.answer(writer, self.start, settings)
            elif self.service and head.path.replace("//", "/").startswith(TWIRP):
                body = json.loads(await reader.readexactly(int(head.get("content-length"))) or b"{}")
                method = head.path.rpartition("/")[2]
                await self.answer(writer, self.call, method, body)
            else:
                await self.pass_on(head, reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError, OSError):
            pass
        finally:
            writer.close()

    def call(self, method, body):
        with self.lock:
            return self.service.answer(method, camel_case(body))

    async def answer(self, writer, handler, *arguments):
        """Responds like Twirp, with the result of a function that may wait."""
        try:
            status, answer = 200, await asyncio.to_thread(handler, *arguments)
        except TwirpError as error:
            status, answer = error.status, {"code": error.code, "msg": str(error)}
        except RuntimeError as error:
            status, answer = 500, {"code": "internal", "msg": str(error)}
        body = json.dumps(answer if answer is not None else {}).encode()
        head = f"HTTP/1.1 {status} -\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()

    def join(self, token):
        """Returns a token with which Conclave admits this token's participant; the token itself if it is not from a suite."""
        claims = tokens.verify(token)
        room = (claims or {}).get("video", {}).get("room")
        # Tokens refreshed by the server contain the project in the room's name.
        if not room or "." in room and room.startswith("prj_"):
            return token
        with self.lock:
            if not self.creates_rooms and room not in self.service.rooms:
                raise TwirpError("not_found", "requested room does not exist")
            claims["video"]["room"] = self.service.open(room)["namespaced_name"]
            claims["sub"] = tokens.identity(claims.get("sub", ""))
            minted = tokens.verify(self.service.token(room, claims["sub"]))
        # Conclave's own attributes contain, for example, the version of the identity's role at the token's creation.
        claims["attributes"] = claims.get("attributes", {}) | minted.get("attributes", {})
        return tokens.sign(claims)

    async def pass_on(self, head, reader, writer):
        if self.service and head.path.startswith("/rtc") and head.token():
            try:
                head.replace_token(await asyncio.to_thread(self.join, head.token()))
            except TwirpError as error:
                return await self.answer(writer, refuse, error)
        if not head.get("upgrade"):
            head.set("connection", "close")
        head.set("host", f"127.0.0.1:{self.server.port}")
        from_server, to_server = await asyncio.open_connection("127.0.0.1", self.server.port, limit=1 << 20)
        to_server.write(head.encode())
        ways = [asyncio.ensure_future(copy(reader, to_server)), asyncio.ensure_future(copy(from_server, writer))]
        try:
            # When one side has closed, the connection has ended, as with a stopped server.
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            to_server.close()


def refuse(error):
    raise error


async def copy(reader, writer):
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass


def camel_case(value):
    """Renames a message's fields for protobuf's JSON, which allows both spellings."""
    if isinstance(value, list):
        return [camel_case(one) for one in value]
    if not isinstance(value, dict):
        return value
    named = {}
    for name, one in value.items():
        head, *tail = name.split("_")
        # The keys of attributes are chosen by users.
        named[head + "".join(map(str.title, tail))] = one if name == "attributes" else camel_case(one)
    return named
