"""How instances prove to each other who they are: requests and answers are signed with a secret that is never sent.

A request's signature covers the address that is asked, method, path, body, the time, and a number that its sender uses
once. An answer's covers the request that it answers. So whoever only listens, or takes an instance's address, can
neither ask nor answer, nor pass a request on to another instance.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Mapping
from hashlib import sha256
from itertools import count

SENDER_HEADER = "Headrace-Sender"
NUMBER_HEADER = "Headrace-Number"
TIME_HEADER = "Headrace-Time"
BODY_HEADER = "Headrace-Body"
SIGNATURE_HEADER = "Headrace-Signature"

MOST_SECONDS = 60.0
"""How far the clocks of two instances may differ."""
_WINDOW = 4096
"""So many requests of a sender may overtake each other."""
_SENDERS = 1024
"""So many senders are remembered."""


class Refused(Exception):
    """A request that does not come from a peer, with the reason."""


class PeerSigner:
    """Signs requests and checks answers."""

    def __init__(self, secret: bytes, application_id: str) -> None:
        self._secret = secret
        self._application_id = application_id
        self._sender = secrets.token_hex(8)
        self._numbers = count(1)

    def sign(self, address: str, method: str, path: str, body: bytes) -> dict[str, str]:
        """The headers that go with a request to an address."""
        headers = {
            SENDER_HEADER: self._sender,
            NUMBER_HEADER: str(next(self._numbers)),
            TIME_HEADER: str(int(time.time() * 1000)),
            BODY_HEADER: sha256(body).hexdigest(),
        }
        signature = _signature(self._secret, self._application_id, address, method, path, *headers.values())
        return {**headers, SIGNATURE_HEADER: signature}

    def is_answer(self, headers: Mapping[str, str], status: int, body: bytes, answered: str | None) -> bool:
        """Whether a peer has answered the request of these headers, and with this; `answered` is its signature."""
        expected = answer_signature(self._secret, headers[SIGNATURE_HEADER], status, body)
        return answered is not None and hmac.compare_digest(answered.encode(), expected.encode())


class PeerChecker:
    """Checks requests and signs answers."""

    def __init__(self, secret: bytes, application_id: str, address: str) -> None:
        """`address` is where peers know this instance."""
        self._secret = secret
        self._application_id = application_id
        self._address = address
        self._started = time.time()
        self._seen: OrderedDict[str, _Numbers] = OrderedDict()

    def check(self, method: str, path: str, headers: Mapping[str, str]) -> str:
        """The signature of a request by its headers, whose names are in lower case; Refused where it is not a peer's.

        Its body has to have the hash that `BODY_HEADER` says.
        """
        try:
            signed = [headers[name.lower()] for name in (SENDER_HEADER, NUMBER_HEADER, TIME_HEADER, BODY_HEADER)]
            given = headers[SIGNATURE_HEADER.lower()]
        except KeyError:
            raise Refused("it is not signed") from None
        signature = _signature(self._secret, self._application_id, self._address, method, path, *signed)
        if not hmac.compare_digest(given.encode(), signature.encode()):
            raise Refused(f"its signature is wrong, or not for {self._address}")
        sent = int(signed[2]) / 1000
        ahead = sent - time.time()
        if abs(ahead) > MOST_SECONDS:
            raise Refused(f"the clocks of the two instances differ by {abs(ahead):.0f} seconds")
        if signed[0] not in self._seen and sent < self._started:
            raise Refused("it was sent before this instance started")
        if not self._numbers_of(signed[0]).take(int(signed[1])):
            raise Refused("it was here before")
        return signature

    def answer(self, request_signature: str, status: int, body: bytes) -> str:
        """The signature of an answer."""
        return answer_signature(self._secret, request_signature, status, body)

    def _numbers_of(self, sender: str) -> _Numbers:
        numbers = self._seen.setdefault(sender, _Numbers())
        self._seen.move_to_end(sender)
        if len(self._seen) > _SENDERS:
            self._seen.popitem(last=False)
        return numbers


class _Numbers:
    """The numbers that a sender has used; those long before the last one count as used."""

    __slots__ = ("_last", "_used")

    def __init__(self) -> None:
        self._last = 0
        self._used = 0
        """Bit n is set where the number n before the last was used."""

    def take(self, number: int) -> bool:
        """Uses a number; False if it was used before."""
        if number > self._last:
            self._used = (self._used << min(number - self._last, _WINDOW) | 1) & ((1 << _WINDOW) - 1)
            self._last = number
            return True
        bit = 1 << (self._last - number)
        if self._last - number >= _WINDOW or self._used & bit:
            return False
        self._used |= bit
        return True


def answer_signature(secret: bytes, request_signature: str, status: int, body: bytes) -> str:
    """What goes with an answer."""
    return _signature(secret, "answer", request_signature, str(status), sha256(body).hexdigest())


def _signature(secret: bytes, *parts: str) -> str:
    # With their lengths, so that no two lists of parts are signed alike.
    text = "".join(f"{len(part)}:{part}" for part in parts)
    return hmac.digest(secret, text.encode(), "sha256").hex()
