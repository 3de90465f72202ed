"""One repository of a container registry: python-dxf speaks to it, with Docker's credentials and with patience."""

from __future__ import annotations

import ipaddress
import re
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar, cast
from urllib.parse import urlsplit

import requests
import urllib3
from docker import auth as docker_auth  # type: ignore[import-untyped]
from docker.errors import DockerException  # type: ignore[import-untyped]
from dxf import DXF
from dxf.exceptions import DXFDigestMismatchError, DXFMountFailed, DXFUnauthorizedError
from requests.exceptions import ChunkedEncodingError, ConnectionError, ConnectTimeout, HTTPError, SSLError, Timeout

from lockgen.image.reference import DIGEST, INDEXES, Descriptor, Reference, RegistryError, digest_of, parsed, refuse
from lockgen.knowledge.registry import api_host

T = TypeVar("T")
TIMEOUT = (20.0, 180.0)
"""Seconds until a connection stands, and between two signs of life of it: to store a blob may take its time."""
PAUSES = (0.25, 1.0, 4.0)
"""Seconds before each new try after a passing failure."""
_CHUNK = 1 << 20


class Client(DXF):
    """The repository of a reference; to be used in a `with`."""

    def __init__(self, where: Reference, *, tls_verify: bool) -> None:
        host = api_host(where.host)
        insecure = _scheme(host, tls_verify) == "http"
        super().__init__(
            host,
            where.repository,
            auth=lambda _, response: _log_in(self, response),
            insecure=insecure,
            tlsverify=tls_verify,
            timeout=cast(float, TIMEOUT),
        )
        self.where = where
        self.knocked = False
        """Stored credentials were sent."""

    def __enter__(self) -> Client:
        self._sessions.insert(0, _Session())
        return self

    def _base_request(self, method: str, path: str, **options: Any) -> Any:
        """A request; another host, which an upload can be sent to, is not given the registry's credentials."""
        host = urlsplit(path).netloc.removesuffix(":443").lower()
        other = host not in ("", self._host.removesuffix(":443").lower())
        kept = self._headers, self._auth
        if other:
            self._headers, self._auth = {}, None
        try:
            return super()._base_request(method, path, **options)  # type: ignore[no-untyped-call]
        finally:
            if other:
                self._headers, self._auth = kept

    def has_blob(self, digest: str) -> bool:
        """Whether the repository holds a blob."""
        return self._head(f"blobs/{digest}") is not None

    def mount(self, repository: str, digest: str) -> bool:
        """Take a blob over from another repository of this registry, if it lets us."""
        try:
            patiently(lambda: self.mount_blob(repository, digest))
        except (DXFMountFailed, HTTPError, DXFUnauthorizedError):
            return False
        return True

    def send_blob(self, path: Path, digest: str, progress: Callable[[int], None]) -> None:
        """Upload a file in one stream; `progress` is told how many bytes are through."""

        def attempt() -> str:
            done = 0

            def count(_: str, chunk: bytes, _size: int) -> None:
                nonlocal done
                done += len(chunk)
                progress(done)

            return self.push_blob(str(path), progress=count, check_exists=False)

        sent = patiently(attempt)
        if sent != digest:
            raise refuse(f"`{path}` is damaged: its digest is {sent}")

    def read_blob(self, descriptor: Descriptor, progress: Callable[[int], None]) -> Iterator[bytes]:
        """The chunks of a blob, no more than its size; its digest is checked at the end."""
        done, size = 0, descriptor["size"]
        wrong = refuse(f"{self.where.host} sent a blob that is not of {size} bytes: {descriptor['digest']}")
        for chunk in cast(Iterator[bytes], self.pull_blob(descriptor["digest"], chunk_size=_CHUNK)):
            done += len(chunk)
            if done > size:
                raise wrong
            progress(done)
            yield chunk
        if done < size:
            raise wrong

    def manifest(self, name: str) -> tuple[bytes, str]:
        """
        A manifest or index by tag or digest, and its media type; checked against the digest that the registry names.

        Raises:
            RegistryError: it has another digest.
        """
        answer = patiently(lambda: self.get_manifest_and_response(name))[1]
        content: bytes = answer.content
        expected = name if DIGEST.fullmatch(name) else answer.headers.get("Docker-Content-Digest")
        if expected and digest_of(content) != expected:
            raise refuse(f"{self.where.host} sent a manifest with digest {digest_of(content)}, expected {expected}")
        media_type = answer.headers.get("Content-Type", "").partition(";")[0]
        return content, parsed(content, str(self.where)).get("mediaType") or media_type

    def put_manifest(self, name: str, content: bytes, media_type: str) -> int:
        """Store a manifest under a tag or digest; how many bytes were sent, 0 where it is there already."""
        present = self._head(f"manifests/{name}", Accept=media_type)
        if present and present.get("Docker-Content-Digest") == digest_of(content):
            return 0
        headers = {"Content-Type": media_type}
        patiently(lambda: self._ask("put", f"manifests/{name}", data=content, headers=headers))
        return len(content)

    def index(self, name: str) -> list[dict[str, Any]]:
        """What an index lists; nothing where there is none."""
        if self._head(f"manifests/{name}", Accept=INDEXES[0]) is None:
            return []
        return list(parsed(self.manifest(name)[0], name).get("manifests", ()))

    def lists_referrers(self, digest: str) -> bool:
        """Whether the registry finds the referrers of a manifest by itself."""
        try:
            answer = patiently(lambda: self._ask("get", f"referrers/{digest}"))
            return "manifests" in answer.json()
        except (HTTPError, ValueError):
            return False

    def _ask(self, method: str, path: str, **options: Any) -> requests.Response:
        """A request below the repository."""
        return cast(requests.Response, self._request(method, path, **options))  # type: ignore[no-untyped-call]

    def _head(self, path: str, **headers: str) -> Mapping[str, str] | None:
        """What is said of a thing, None where it is not there."""
        try:
            answer = patiently(lambda: self._ask("head", path, headers=headers))
        except HTTPError as error:
            if _status(error) == HTTPStatus.NOT_FOUND:
                return None
            raise
        return answer.headers


def is_loopback(host: str) -> bool:
    """Whether a host, with or without a port, is this machine."""
    name = re.sub(r":[0-9]+$", "", host).strip("[]")
    with suppress(ValueError):
        return ipaddress.ip_address(name).is_loopback
    return name == "localhost" or name.endswith(".localhost")


class _Session(requests.Session):
    """Connections that are kept, without what ~/.netrc says, and without a proxy to this machine."""

    def __init__(self) -> None:
        super().__init__()
        self.auth = lambda request: request

    def request(self, method: str, url: str | bytes, *arguments: Any, **options: Any) -> requests.Response:
        if is_loopback(urlsplit(str(url)).netloc):
            options["proxies"] = {"no_proxy": "*"}
        return super().request(method, url, *arguments, **options)


def _scheme(host: str, tls_verify: bool) -> str:
    """`https`; `http` for this machine, and for one whose TLS is not to be verified, if it speaks no TLS."""
    if is_loopback(host):
        return "http" if _speaks(f"http://{host}/v2/", tls_verify) else "https"
    return "https" if tls_verify or _speaks(f"https://{host}/v2/", tls_verify) else "http"


def _speaks(url: str, tls_verify: bool) -> bool:
    """Whether something answers; a server that speaks TLS says 400 to what is none."""
    with _Session() as session, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            answer = session.get(url, verify=tls_verify, timeout=TIMEOUT, stream=True)
        except Timeout:
            raise
        except ConnectionError:
            return False
    return answer.status_code != HTTPStatus.BAD_REQUEST


def _log_in(client: Client, response: requests.Response) -> None:
    """Answer the registry's challenge with what Docker has stored for it, or as nobody."""
    found = credentials(client.where.host)
    client.knocked = found is not None
    insecure = client._insecure
    if found and insecure and not is_loopback(client._host):
        raise refuse(f"{client.where.host} wants a password and speaks no TLS", "none is sent over plain HTTP")
    client._insecure = False  # dxf sends none over plain HTTP, to this machine neither
    try:
        user, password = found or (None, None)
        client.authenticate(user, password, response=response)
    except (KeyError, ValueError, TypeError):
        raise refuse(f"{client.where.host} asks for credentials in a way that is not understood") from None
    finally:
        client._insecure = insecure


def credentials(host: str) -> tuple[str, str] | None:
    """User and password that `docker login` or a credential helper keeps for a registry."""
    hint = "they are Docker's: `$DOCKER_CONFIG/config.json`, else `~/.docker/config.json`"
    helper = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            config = docker_auth.load_config()
            helper = config.get_credential_store(host)
            stored = config.resolve_authconfig(host) or {}
        except (DockerException, ValueError, KeyError, TypeError, AttributeError):
            where = f"`docker-credential-{helper}` gives no" if helper else "cannot read the stored"
            raise refuse(f"{where} credentials for {host}", hint) from None
    found = {key.lower(): value for key, value in stored.items()}
    if found.get("identitytoken"):
        hint = f"`docker login {host}`"
        raise refuse(f"an identity token is stored for {host}; lockgen takes user and password", hint)
    return (found["username"], found["password"]) if found.get("username") else None


def patiently(action: Callable[[], T]) -> T:
    """Do it, and again after a pause when the failure may pass."""
    for pause in PAUSES:
        try:
            return action()
        except (ConnectionError, ChunkedEncodingError, HTTPError) as error:
            if not _passes(error):
                raise
        time.sleep(pause)
    return action()


def _passes(error: requests.RequestException) -> bool:
    if isinstance(error, HTTPError):
        return _status(error) == HTTPStatus.TOO_MANY_REQUESTS or _status(error) >= HTTPStatus.INTERNAL_SERVER_ERROR
    return not isinstance(error, SSLError) and not _is_unknown_host(error)


def _is_unknown_host(error: Exception) -> bool:
    reason = getattr(error.args[0], "reason", None) if error.args else None
    return isinstance(reason, urllib3.exceptions.NameResolutionError)


def _status(error: HTTPError) -> int:
    return error.response.status_code if error.response is not None else 0


@contextmanager
def connected(where: Reference, *, tls_verify: bool) -> Iterator[Client]:
    """A repository to work with; what goes wrong with it is a `RegistryError`."""
    with _told(where):
        client = Client(where, tls_verify=tls_verify)
    with _told(where, client), client:
        yield client


@contextmanager
def _told(where: Reference, client: Client | None = None) -> Iterator[None]:
    """Turn what goes wrong with a registry into words; no address with a query, no header and no body is repeated."""
    try:
        yield
    except DXFUnauthorizedError:
        raise _refused(where, 401, client) from None
    except DXFDigestMismatchError as error:
        raise refuse(
            f"{where.host} sent a blob of `{where.repository}` that has another digest than {error.expected}"
        ) from None
    except HTTPError as error:
        raise _answered(where, error, client) from None
    except SSLError as error:
        raise _untrusted(where, error) from None
    except Timeout as error:
        seconds = TIMEOUT[0 if isinstance(error, ConnectTimeout) else 1]
        raise refuse(f"{where.host} does not answer: nothing for {seconds:g} seconds") from None
    except (ConnectionError, ChunkedEncodingError) as error:
        what = "no such host" if _is_unknown_host(error) else "no connection, or one that broke"
        raise refuse(f"{what}: {where.host}") from None
    except requests.RequestException as error:
        raise refuse(f"no answer of {where.host} that can be used: {type(error).__name__}") from None


def _untrusted(where: Reference, error: SSLError) -> RegistryError:
    """A certificate that is not taken, or no TLS at all."""
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        hint = "its CA in `REQUESTS_CA_BUNDLE`, or `--tls-verify=false` for a registry that you trust"
        return refuse(f"{where.host} cannot prove with its certificate who it is", hint)
    return refuse(f"{where.host} speaks no TLS", "`--tls-verify=false` for a registry that you trust")


def _answered(where: Reference, error: HTTPError, client: Client | None) -> RegistryError:
    """A status that is none of success."""
    status = _status(error)
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return _refused(where, status, client)
    if status == HTTPStatus.NOT_FOUND:
        return refuse(f"not in the registry: `{where}`")
    return refuse(f"{where.host} answered {status} for `{where.repository}`{_said(error)}")


def _refused(where: Reference, status: int, client: Client | None) -> RegistryError:
    right = (
        "the stored credentials do not allow it" if client and client.knocked else "no credentials are stored for it"
    )
    return refuse(f"{where.host} refuses `{where.repository}` ({status}): {right}", f"`docker login {where.host}`")


def _said(error: HTTPError) -> str:
    """The code that a registry gives as the reason: `: TOOMANYREQUESTS`."""
    with suppress(ValueError, KeyError, IndexError, TypeError):
        code = error.response.json()["errors"][0]["code"] if error.response is not None else ""
        return f": {code}" if re.fullmatch(r"[A-Z_]{1,40}", code) else ""
    return ""
