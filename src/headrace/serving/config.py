"""How an instance is asked: where it listens, who may ask, and how much at once."""

from __future__ import annotations

import ipaddress
import os
import re
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from headrace.errors import ConfigError

LOCALHOST = "127.0.0.1"
ANYWHERE = "0.0.0.0"
MAX_ANSWER_BYTES = 16 * 1024 * 1024
_ADDRESS = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+(%[A-Za-z0-9._-]+)?\]):\d{1,5}")
_TOKEN = re.compile(r"[!-~]+")


@dataclass(frozen=True)
class ServingConfig:
    """The settings of the service. Tokens also come from HEADRACE_TOKEN and HEADRACE_PEER_TOKEN."""

    port: int = 0
    """0 is any free one."""
    host: str = LOCALHOST
    advertise: str | None = None
    """host:port as the other instances and clients reach it; by default where it listens, or the machine's name."""
    token: str | None = field(default=None, repr=False)
    """What clients have to show."""
    peer_token: str | None = field(default=None, repr=False)
    """What instances sign their requests to each other with; by default a secret of the application's in Kafka."""
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    tls_authority: Path | None = None
    """The certificates that peers are trusted by; those of the system by default."""
    max_requests: int = 256
    """How many requests are worked on at once; more are told to come back."""
    max_subscribers: int = 500
    """How many clients follow the changes of stores at once."""
    max_body_bytes: int = 1024 * 1024
    max_answer_bytes: int = MAX_ANSWER_BYTES
    """About how many bytes of keys and values one answer has; there are more pages then."""
    max_sending_bytes: int = 256 * 1024 * 1024
    """How many bytes of large answers may be on their way at once; more clients are told to come back."""

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise ConfigError(f"port must be between 0 and 65535, not {self.port}")
        if not is_loopback(self.host) and (not self.token or not self.peer_token):
            missing = " and ".join(
                name for name, given in (("token", self.token), ("peer_token", self.peer_token)) if not given
            )
            raise ConfigError(
                f"The service is to listen on {self.host}, where others can reach it: {missing} is needed. "
                "Set HEADRACE_TOKEN and HEADRACE_PEER_TOKEN, or listen on 127.0.0.1."
            )
        if self.advertise is not None and not is_address(self.advertise):
            raise ConfigError(f"advertise is to be host:port, such as host1:8080, not {self.advertise!r}")
        for name in ("max_requests", "max_subscribers", "max_body_bytes", "max_answer_bytes", "max_sending_bytes"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, not {getattr(self, name)}")
        for name, token in (("token", self.token), ("peer_token", self.peer_token)):
            if token is not None and not _TOKEN.fullmatch(token):
                raise ConfigError(f"{name} must be of visible ASCII characters, without spaces")
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ConfigError("TLS needs both a certificate and its key")
        for file in (self.tls_certificate, self.tls_key, self.tls_authority):
            if file is not None and not Path(file).is_file():
                raise ConfigError(f"TLS: there is no file {file}")

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None, /, **given: object) -> ServingConfig:
        """The settings given, with the tokens of the environment where none are."""
        variables = os.environ if environment is None else environment
        tokens = {"token": variables.get("HEADRACE_TOKEN"), "peer_token": variables.get("HEADRACE_PEER_TOKEN")}
        settings = {**tokens, **{name: value for name, value in given.items() if value is not None}}
        return cls(**settings)  # type: ignore[arg-type]

    @classmethod
    def at(cls, address: str) -> ServingConfig:
        """The settings to be asked at host:port."""
        if not is_address(address):
            raise ConfigError(f"application_server is to be host:port, such as host1:8080, not {address!r}")
        host, _, port = address.rpartition(":")
        host = host.strip("[]")
        return cls.from_environment(host=host if is_loopback(host) else ANYWHERE, port=int(port), advertise=address)

    def address(self, port: int) -> str:
        """host:port as others reach it, for the port it listens on."""
        if self.advertise is not None:
            return self.advertise
        host = socket.gethostname() if self.host in (ANYWHERE, "::", "") else self.host
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    @property
    def peer_secret(self) -> bytes | None:
        """What instances sign their requests with; where there is a token for clients alone, with that one."""
        secret = self.peer_token or self.token
        return None if secret is None else secret.encode()

    @property
    def uses_tls(self) -> bool:
        """Whether it speaks HTTPS, to clients and to its peers."""
        return self.tls_certificate is not None

    def client_tls(self) -> ssl.SSLContext | None:
        """How peers are trusted; None without TLS."""
        if not self.uses_tls:
            return None
        return ssl.create_default_context(cafile=None if self.tls_authority is None else str(self.tls_authority))


def is_loopback(host: str) -> bool:
    """Whether nobody but this machine can reach the address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_address(text: str) -> bool:
    """Whether it is host:port."""
    return _ADDRESS.fullmatch(text) is not None
