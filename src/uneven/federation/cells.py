"""NVFlare as transport: a cell for the server, a cell for each site, mutual TLS between them. No code is shipped.

NVFlare's cells bind the name of a peer to the name in its certificate. Sites connect to the server, never to each
other, and the server forwards nothing from one to another.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from uneven.federation.kits import MISSING, SERVER, Kit

CHANNEL, TOPIC = "uneven", "call"
TIMEOUT = 10.0
"""Seconds to wait for one reply; a site that is at work says so within a fraction of one."""


def _cell(kit: Kit, name: str) -> Any:
    """A cell that is not started yet."""
    try:
        from nvflare.fuel.f3.cellnet.core_cell import CoreCell
        from nvflare.fuel.f3.cellnet.defs import Encoding, MessageHeaderKey
        from nvflare.fuel.f3.message import Message
    except ImportError:
        raise ImportError(MISSING) from None
    logging.getLogger("nvflare").setLevel(logging.CRITICAL)
    side = "server" if name == SERVER else "client"
    files = {"ca_cert": "authority.pem", f"{side}_cert": "certificate.pem", f"{side}_key": "key.pem"}
    credentials = {key: str(kit.folder / file) for key, file in files.items()}
    cell = CoreCell(name, f"stcp://{kit.address}", secure=True, credentials=credentials)

    def drop_objects(message: Any) -> Any:
        """Drop what NVFlare would turn into objects before we see it: our messages are text."""
        coded = message.get_header(MessageHeaderKey.PAYLOAD_ENCODING) == Encoding.FOBS
        return Message(payload=b"refused") if coded else None

    cell.add_incoming_filter("*", "*", drop_objects)
    return cell


@contextmanager
def open_server(kit: Kit) -> Iterator[Callable[[str, str], str]]:
    """Listen at the kit's address; gives a function that sends a request to a site and returns its reply.

    It raises a ConnectionError where the site is not connected, a TimeoutError where it does not answer.
    """
    if kit.name != SERVER:
        raise ValueError(f"{kit.folder} must be the server's kit, got that of {kit.name!r}")
    cell = _cell(kit, SERVER)
    from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey, ReturnCode
    from nvflare.fuel.f3.message import Message

    def refuse_forwarding(message: Any) -> Any:
        return None if message.get_header(MessageHeaderKey.DESTINATION) == SERVER else Message(payload=b"refused")

    def call(site: str, text: str) -> str:
        reply = cell.send_request(CHANNEL, TOPIC, site, Message(payload=text.encode()), timeout=TIMEOUT, optional=True)
        code = reply.get_header(MessageHeaderKey.RETURN_CODE)
        if code == ReturnCode.TIMEOUT:
            raise TimeoutError(f"{site!r} did not answer within {TIMEOUT:g} s")
        if code != ReturnCode.OK:
            raise ConnectionError(f"{site!r} is not connected: {code}")
        return bytes(reply.payload).decode()

    cell.set_message_interceptor(refuse_forwarding)
    cell.start()
    try:
        yield call
    finally:
        cell.stop()


@contextmanager
def open_site(kit: Kit, answer: Callable[[str], str]) -> Iterator[None]:
    """Connect to the server and answer its requests; connects again whenever the server comes back."""
    cell = _cell(kit, kit.name)
    from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey
    from nvflare.fuel.f3.message import Message

    def reply(message: Any) -> Any:
        if message.get_header(MessageHeaderKey.ORIGIN) != SERVER:
            return None
        return Message(payload=answer(bytes(message.payload).decode()).encode())

    cell.register_request_cb(CHANNEL, TOPIC, reply)
    cell.start()
    try:
        yield
    finally:
        cell.stop()
