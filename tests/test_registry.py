"""Push, fetch and attach: against Debian's own registry where it is installed, and against one that misbehaves."""

from __future__ import annotations

import base64
import contextlib
import gzip
import hashlib
import http.server
import io
import json
import os
import shutil
import socket
import ssl
import subprocess
import tarfile
import threading
import time
import traceback
import tracemalloc
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lockgen.image import registry, registry_client
from lockgen.image.reference import RegistryError, parse_reference
from lockgen.image.registry import attach, fetch, push
from lockgen.image.registry_client import credentials
from lockgen.knowledge.registry import api_host

USER, PASSWORD = "someone", "hunter2hunter2"


# layouts made by hand


def digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def put(layout: Path, content: bytes) -> dict[str, Any]:
    """A blob in a layout, and the part of its descriptor that every one has."""
    blobs = layout / "blobs" / "sha256"
    blobs.mkdir(parents=True, exist_ok=True)
    (blobs / digest(content)[7:]).write_bytes(content)
    return {"digest": digest(content), "size": len(content)}


def layer(seed: bytes, size: int = 50_000) -> bytes:
    """A gzipped tar with one file that does not compress."""
    noise = hashlib.shake_256(seed).digest(size)
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        entry = tarfile.TarInfo(f"opt/{seed.decode()}")
        entry.size = size
        tar.addfile(entry, io.BytesIO(noise))
    return gzip.compress(out.getvalue(), mtime=0)


def manifest(layout: Path, layers: tuple[bytes, ...], architecture: str = "amd64") -> dict[str, Any]:
    """An image in a layout; its descriptor."""
    rootfs = {"type": "layers", "diff_ids": [digest(gzip.decompress(each)) for each in layers]}
    config = json.dumps({"architecture": architecture, "os": "linux", "config": {}, "rootfs": rootfs}).encode()
    content = {
        "schemaVersion": 2,
        "mediaType": registry.OCI_MANIFEST,
        "config": {"mediaType": "application/vnd.oci.image.config.v1+json", **put(layout, config)},
        "layers": [
            {"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", **put(layout, each)} for each in layers
        ],
    }
    platform = {"architecture": architecture, "os": "linux"}
    return {"mediaType": registry.OCI_MANIFEST, **put(layout, json.dumps(content).encode()), "platform": platform}


def index(layout: Path, *entries: dict[str, Any]) -> Path:
    """The layout with these entries."""
    (layout / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')
    (layout / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": entries}))
    return layout


def named(entry: dict[str, Any], name: str) -> dict[str, Any]:
    return {**entry, "annotations": {registry.NAME: name}}


def image(layout: Path, *seeds: bytes) -> Path:
    """A layout with one image, `one`, of a layer a seed."""
    return index(layout, named(manifest(layout, tuple(map(layer, seeds))), "one"))


# registries


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def opened(url: str, **headers: str) -> Any:
    """An answer from this machine; proxies are left out."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    return opener.open(urllib.request.Request(url, headers=headers), timeout=10)


def is_open(host: str) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", int(host.rsplit(":", 1)[1]))) == 0


Serve = Callable[..., str]


@pytest.fixture(autouse=True)
def _machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Docker's configuration is an empty folder; nobody listens on the proxy; what fails is tried anew at once."""
    (tmp_path / "docker").mkdir()
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(registry_client, "PAUSES", (0, 0))


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Starts Debian's registry; gives its host."""
    program = shutil.which("docker-registry")
    running: list[subprocess.Popen[bytes]] = []

    def start(auth: str = "") -> str:
        if program is None:
            pytest.skip("docker-registry is not installed")
        host = f"127.0.0.1:{free_port()}"
        config = tmp_path / "registry.yml"
        config.write_text(
            f"version: 0.1\nstorage: {{filesystem: {{rootdirectory: '{tmp_path / 'storage'}'}}}}\n"
            f"http: {{addr: '{host}'}}\n{auth}"
        )
        log = tmp_path / "registry.log"
        with log.open("wb") as out:
            running.append(subprocess.Popen([program, "serve", str(config)], stdout=out, stderr=out))
        for _ in range(400):
            if is_open(host):
                return host
            time.sleep(0.05)
        raise AssertionError(log.read_text())

    yield start
    for process in running:
        process.terminate()
        process.wait()


@pytest.fixture
def locked(serve: Serve, tmp_path: Path) -> str:
    """A registry that wants a password; its host."""
    bcrypt = pytest.importorskip("bcrypt")
    line = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()
    (tmp_path / "htpasswd").write_text(f"{USER}:{line}\n")
    return serve(f"auth: {{htpasswd: {{realm: test, path: '{tmp_path / 'htpasswd'}'}}}}\n")


def stored(tmp_path: Path, **content: object) -> None:
    """Docker's configuration."""
    (tmp_path / "docker" / "config.json").write_text(json.dumps(content))


def basic(user: str = USER, password: str = PASSWORD) -> str:
    return base64.b64encode(f"{user}:{password}".encode()).decode()


class Counter:
    """Passes connections on to a host, and counts the bytes on their way there."""

    def __init__(self, host: str) -> None:
        self.sent = 0
        self.target = ("127.0.0.1", int(host.rsplit(":", 1)[1]))
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.host = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                far = socket.create_connection(self.target)
                threading.Thread(target=self._pass, args=(near, far, True), daemon=True).start()
                threading.Thread(target=self._pass, args=(far, near, False), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, counted: bool) -> None:
        with contextlib.suppress(OSError):
            while part := source.recv(65536):
                self.sent += len(part) if counted else 0
                target.sendall(part)
            target.shutdown(socket.SHUT_WR)


@pytest.fixture
def counter(serve: Serve) -> Iterator[Counter]:
    counting = Counter(serve())
    yield counting
    counting.listener.close()


class Fake:
    """A registry in memory, which does as `rule` says: a status, `hang`, or None for what is right."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.blobs: dict[str, bytes] = {}
        self.manifests: dict[str, tuple[bytes, str]] = {}
        self.asked: list[tuple[str, str, str | None]] = []
        """Method, path and credentials of each request."""
        self.rule: Callable[[str, str, str | None], int | str | None] = lambda method, path, credentials: None
        self.challenge = 'Basic realm="test"'
        self.location = "/v2/team/env/blobs/uploads/1?_state=SIGNED"
        self.referrers = False
        self.done = threading.Event()
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self.handler())
        self.server.daemon_threads = True
        if context:
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.host = f"127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self.done.set()
        self.server.shutdown()
        self.server.server_close()

    def count(self, method: str, part: str) -> int:
        return sum(each[0] == method and part in each[1] for each in self.asked)

    def answer(self, method: str, path: str, body: bytes, kind: str) -> tuple[int, bytes, dict[str, str]]:
        """Status, content and headers of a right answer."""
        name = path.partition("?")[0].rsplit("/", 1)[-1]
        if method == "POST":
            return 202, b"", {"Location": self.location}
        if method == "PUT" and "/uploads/" in path:
            self.blobs[digest(body)] = body
            return 201, b"", {}
        if method == "PUT":
            self.manifests[name] = self.manifests[digest(body)] = (body, kind)
            return 201, b"", {"Docker-Content-Digest": digest(body)}
        if "/blobs/" in path and name in self.blobs:
            return 200, self.blobs[name], {}
        if "/manifests/" in path and name in self.manifests:
            content, kind = self.manifests[name]
            return 200, content, {"Content-Type": kind, "Docker-Content-Digest": digest(content)}
        if "/referrers/" in path and self.referrers:
            return 200, b'{"manifests": []}', {}
        return (200, b"{}", {}) if path == "/v2/" else (404, b'{"errors": [{"code": "UNKNOWN"}]}', {})

    def handler(self) -> type[http.server.BaseHTTPRequestHandler]:
        fake = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args: object) -> None:
                pass

            def any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                credentials = self.headers.get("Authorization")
                fake.asked.append((self.command, self.path, credentials))
                ruled = fake.rule(self.command, self.path, credentials)
                if ruled == "hang":
                    fake.done.wait(20)
                    return
                status, content, headers = fake.answer(
                    self.command, self.path, body, self.headers.get("Content-Type", "")
                )
                if isinstance(ruled, bytes):
                    status, content, headers = 200, ruled, {}
                elif ruled:
                    status, content, headers = int(ruled), b'{"errors": [{"code": "BROKEN"}]}', {}
                self.send_response(status)
                if status == 401:
                    headers["WWW-Authenticate"] = fake.challenge
                for key, value in {**headers, "Content-Length": str(len(content))}.items():
                    self.send_header(key, value)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)

            do_GET = do_HEAD = do_POST = do_PUT = any  # noqa: N815

        return Handler


@pytest.fixture
def fake() -> Iterator[Fake]:
    one = Fake()
    yield one
    one.close()


def filled(fake: Fake, layout: Path, name: str = "1") -> Path:
    """A registry that holds what a layout has, with its image `one` under a tag."""
    for path in (layout / "blobs" / "sha256").iterdir():
        content = path.read_bytes()
        fake.blobs[digest(content)] = content
        if content.startswith(b"{") and b"schemaVersion" in content:
            fake.manifests[digest(content)] = (content, json.loads(content)["mediaType"])
    entry = json.loads((layout / "index.json").read_text())["manifests"][0]
    fake.manifests[name] = fake.manifests[entry["digest"]]
    return layout


# what goes over the wire


def test_layers_that_the_registry_has_are_not_sent_again(counter: Counter, tmp_path: Path) -> None:
    layout = image(tmp_path / "a", b"base", b"cuda", b"python")
    sizes = {path.name: path.stat().st_size for path in (layout / "blobs" / "sha256").iterdir()}
    done = push(layout, "one", f"{counter.host}/team/env:1")
    assert (done.sent_layers, done.kept_layers, done.kept_bytes) == (3, 0, 0)
    assert sum(sizes.values()) <= done.sent_bytes <= counter.sent < sum(sizes.values()) + 12_000
    before = counter.sent
    again = push(layout, "one", f"{counter.host}/team/env:1")
    assert (again.digest, again.sent_bytes, again.sent_layers, again.kept_layers) == (done.digest, 0, 0, 3)
    assert counter.sent - before < 4_000


def test_of_a_bumped_layer_that_layer_alone_is_sent(counter: Counter, tmp_path: Path) -> None:
    push(image(tmp_path / "a", b"base", b"cuda", b"python"), "one", f"{counter.host}/team/env:1")
    before = counter.sent
    done = push(image(tmp_path / "b", b"base", b"cuda", b"python2"), "one", f"{counter.host}/team/env:2")
    assert (done.sent_layers, done.kept_layers) == (1, 2)
    assert done.kept_bytes == len(layer(b"base")) + len(layer(b"cuda"))
    assert len(layer(b"python2")) < counter.sent - before < len(layer(b"python2")) + 10_000


def test_layers_of_the_base_are_taken_over_inside_the_registry(counter: Counter, tmp_path: Path) -> None:
    push(image(tmp_path / "a", b"base"), "one", f"{counter.host}/library/debian:12")
    both = image(tmp_path / "b", b"base", b"env")
    done = push(both, "one", f"{counter.host}/team/env:1", base=f"{counter.host}/library/debian:12")
    assert (done.sent_layers, done.kept_layers) == (1, 1)
    fetch(f"{counter.host}/team/env:1", tmp_path / "c")
    assert (tmp_path / "c" / "blobs" / "sha256" / digest(layer(b"base"))[7:]).read_bytes() == layer(b"base")


def test_a_large_layer_takes_no_memory(serve: Serve, tmp_path: Path) -> None:
    large = gzip.compress(hashlib.shake_256(b"large").digest(50_000_000), 0)
    layout = index(tmp_path / "a", named(manifest(tmp_path / "a", (large,)), "one"))
    host = serve()
    tracemalloc.start()
    push(layout, "one", f"{host}/team/env:1")
    fetch(f"{host}/team/env:1", tmp_path / "b")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20_000_000


def test_progress_tells_every_byte_of_every_blob(serve: Serve, tmp_path: Path) -> None:
    told: dict[str, list[int]] = {}
    sizes = {}

    def progress(name: str, done: int, size: int) -> None:
        told.setdefault(name, []).append(done)
        sizes[name] = size

    push(image(tmp_path / "a", b"base"), "one", f"{serve()}/team/env:1", progress)
    assert sizes[digest(layer(b"base"))] == len(layer(b"base"))
    assert {name: done[-1] for name, done in told.items()} == sizes
    assert all(done == sorted(done) for done in told.values())


# what is there afterwards


def test_what_was_pushed_is_fetched_bit_by_bit(serve: Serve, tmp_path: Path) -> None:
    host = serve()
    layout = image(tmp_path / "a", b"base", b"env")
    done = push(layout, "one", f"{host}/team/env:1")
    assert fetch(f"docker://{host}/team/env@{done.digest}", tmp_path / "b") == done.digest
    assert fetch(f"{host}/team/env:1", tmp_path / "b") == done.digest
    names = sorted(path.name for path in (layout / "blobs" / "sha256").iterdir())
    assert sorted(path.name for path in (tmp_path / "b" / "blobs" / "sha256").iterdir()) == names
    entries = json.loads((tmp_path / "b" / "index.json").read_text())["manifests"]
    assert [entry["annotations"][registry.NAME] for entry in entries] == [
        f"{host}/team/env@{done.digest}",
        f"{host}/team/env:1",
    ]
    assert entries[1]["platform"] == {"architecture": "amd64", "os": "linux"}
    again = push(tmp_path / "b", f"{host}/team/env:1", f"{host}/team/env:2")
    assert (again.digest, again.sent_layers) == (done.digest, 0)


def test_an_index_is_pushed_with_all_platforms_and_fetched_by_one(serve: Serve, tmp_path: Path) -> None:
    host, layout = serve(), tmp_path / "a"
    entries = [manifest(layout, (layer(name.encode()),), name) for name in ("amd64", "arm64")]
    both = json.dumps({"schemaVersion": 2, "mediaType": registry.OCI_INDEX, "manifests": entries}).encode()
    index(layout, named({"mediaType": registry.OCI_INDEX, **put(layout, both)}, "one"))
    done = push(layout, "one", f"{host}/team/env:1")
    assert (done.digest, done.sent_layers) == (digest(both), 2)
    assert fetch(f"{host}/team/env:1", tmp_path / "b", "linux/arm64") == entries[1]["digest"]
    assert not (tmp_path / "b" / "blobs" / "sha256" / digest(layer(b"amd64"))[7:]).exists()
    with pytest.raises(RegistryError) as caught:
        fetch(f"{host}/team/env:1", tmp_path / "b", "linux/ppc64le")
    assert str(caught.value) == f"`{host}/team/env:1` has no image for linux/ppc64le; it has linux/amd64, linux/arm64"


def test_an_image_of_another_platform_is_refused(fake: Fake, tmp_path: Path) -> None:
    filled(fake, image(tmp_path / "a", b"base"))
    with pytest.raises(RegistryError) as caught:
        fetch(f"{fake.host}/team/env:1", tmp_path / "b", "linux/arm64")
    assert str(caught.value) == f"`{fake.host}/team/env:1` is for linux/amd64, not for linux/arm64"
    assert not (tmp_path / "b" / "index.json").exists()


def test_a_docker_manifest_and_its_list_are_fetched_as_they_are(fake: Fake, tmp_path: Path) -> None:
    layout = image(tmp_path / "a", b"base")
    of_oci = json.loads((layout / "index.json").read_text())["manifests"][0]
    content = json.loads((layout / "blobs" / "sha256" / of_oci["digest"][7:]).read_text())
    kind = "application/vnd.docker.distribution.manifest.v2+json"
    content["mediaType"], content["config"]["mediaType"] = kind, "application/vnd.docker.container.image.v1+json"
    one = {"mediaType": kind, **put(layout, json.dumps(content).encode()), "platform": of_oci["platform"]}
    kind = "application/vnd.docker.distribution.manifest.list.v2+json"
    several = {"schemaVersion": 2, "mediaType": kind, "manifests": [one]}
    filled(fake, index(layout, {"mediaType": kind, **put(layout, json.dumps(several).encode())}))
    assert fetch(f"{fake.host}/team/env:1", tmp_path / "b") == one["digest"]
    entry = json.loads((tmp_path / "b" / "index.json").read_text())["manifests"][0]
    assert entry["mediaType"] == "application/vnd.docker.distribution.manifest.v2+json"


def test_a_document_about_the_image_is_pushed_along_and_found_by_the_tag_of_its_subject(
    serve: Serve, tmp_path: Path
) -> None:
    host, layout = serve(), image(tmp_path / "a", b"base")
    subject = json.loads((layout / "index.json").read_text())["manifests"][0]
    kind = "application/vnd.cyclonedx+json"
    attached = attach(layout, subject, kind, kind, b'{"bomFormat": "CycloneDX"}', {"a": "b"})
    assert attach(layout, subject, kind, kind, b'{"bomFormat": "CycloneDX"}', {"a": "b"}) == attached
    push(layout, "one", f"{host}/team/env:1")
    other = attach(layout, subject, "application/vnd.in-toto+json", "application/vnd.in-toto+json", b"{}")
    assert push(layout, "one", f"{host}/team/env:1").sent_layers == 0
    tag = subject["digest"].replace(":", "-")
    listed = json.load(opened(f"http://{host}/v2/team/env/manifests/{tag}", Accept=registry.OCI_INDEX))
    assert [(each["digest"], each["artifactType"]) for each in listed["manifests"]] == [
        (attached, kind),
        (other, "application/vnd.in-toto+json"),
    ]
    found = json.load(opened(f"http://{host}/v2/team/env/manifests/{attached}", Accept=registry.OCI_MANIFEST))
    assert found["subject"] == {key: subject[key] for key in ("mediaType", "digest", "size")}
    assert found["config"]["mediaType"] == "application/vnd.oci.empty.v1+json"
    assert found["config"]["digest"] == digest(b"{}")
    blob = opened(f"http://{host}/v2/team/env/blobs/{found['layers'][0]['digest']}").read()
    assert blob == b'{"bomFormat": "CycloneDX"}'


def test_a_registry_that_lists_referrers_gets_no_tag_for_them(fake: Fake, tmp_path: Path) -> None:
    layout = image(tmp_path / "a", b"base")
    subject = json.loads((layout / "index.json").read_text())["manifests"][0]
    fake.referrers = True
    attached = attach(layout, subject, "application/x", "application/x", b"x")
    push(layout, "one", f"{fake.host}/team/env:1")
    assert set(fake.manifests) == {subject["digest"], attached, "1"}


def test_the_tag_comes_last(fake: Fake, tmp_path: Path) -> None:
    layout = image(tmp_path / "a", b"base")
    attach(layout, json.loads((layout / "index.json").read_text())["manifests"][0], "a/b", "a/b", b"x")
    push(layout, "one", f"{fake.host}/team/env:1")
    assert [path for method, path, _ in fake.asked if method == "PUT"][-1] == "/v2/team/env/manifests/1"


@pytest.mark.skipif(not shutil.which("skopeo"), reason="skopeo is not installed")
def test_skopeo_takes_what_was_pushed(serve: Serve, tmp_path: Path) -> None:
    host = serve()
    done = push(image(tmp_path / "a", b"base", b"env"), "one", f"{host}/team/env:1")

    def skopeo(*words: str) -> str:
        command = ["skopeo", "--insecure-policy", *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    seen = json.loads(skopeo("inspect", "--tls-verify=false", f"docker://{host}/team/env:1"))
    assert (seen["Digest"], seen["Layers"]) == (done.digest, [digest(layer(b"base")), digest(layer(b"env"))])
    skopeo("copy", "--src-tls-verify=false", f"docker://{host}/team/env:1", f"oci:{tmp_path / 'b'}:x")
    assert (tmp_path / "b" / "blobs" / "sha256" / done.digest[7:]).is_file()


# credentials


def test_without_credentials_the_registry_and_the_way_to_log_in_are_named(locked: str, tmp_path: Path) -> None:
    for action in (
        lambda: push(image(tmp_path / "a", b"base"), "one", f"{locked}/team/env:1"),
        lambda: fetch(f"{locked}/team/env:1", tmp_path / "b"),
    ):
        with pytest.raises(RegistryError) as caught:
            action()
        assert str(caught.value) == (
            f"{locked} refuses `team/env` (401): no credentials are stored for it\n  hint: `docker login {locked}`"
        )


def test_credentials_of_docker_are_used(locked: str, tmp_path: Path) -> None:
    stored(tmp_path, auths={locked: {"auth": basic()}})
    done = push(image(tmp_path / "a", b"base"), "one", f"{locked}/team/env:1")
    assert fetch(f"{locked}/team/env:1", tmp_path / "b") == done.digest


def test_wrong_credentials_are_refused_and_not_shown(locked: str, tmp_path: Path) -> None:
    stored(tmp_path, auths={f"https://{locked}": {"auth": basic(password="wrong-secret")}})
    with pytest.raises(RegistryError) as caught:
        push(image(tmp_path / "a", b"base"), "one", f"{locked}/team/env:1")
    assert str(caught.value) == (
        f"{locked} refuses `team/env` (401): the stored credentials do not allow it\n  hint: `docker login {locked}`"
    )
    assert "wrong-secret" not in "".join(traceback.format_exception(caught.value))


def helper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """A credential helper `test`."""
    path = tmp_path / "bin" / "docker-credential-test"
    path.parent.mkdir()
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{path.parent}:{os.environ['PATH']}")


@pytest.mark.parametrize("place", ["credHelpers", "credsStore"])
def test_a_credential_helper_is_asked(place: str, locked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = json.dumps({"ServerURL": locked, "Username": USER, "Secret": PASSWORD})
    helper(tmp_path, monkeypatch, f"read host; [ \"$1 $host\" = 'get {locked}' ] && echo '{answer}'")
    stored(tmp_path, **{place: {locked: "test"} if place == "credHelpers" else "test"})
    assert push(image(tmp_path / "a", b"base"), "one", f"{locked}/team/env:1").sent_layers == 1


@pytest.mark.parametrize("script", [f"echo {PASSWORD} >&2; exit 1", f"echo {PASSWORD}"])
def test_a_credential_helper_that_fails_is_named_and_what_it_says_is_not_shown(
    script: str, locked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    helper(tmp_path, monkeypatch, script)
    stored(tmp_path, credHelpers={locked: "test"})
    with pytest.raises(RegistryError) as caught:
        push(image(tmp_path / "a", b"base"), "one", f"{locked}/team/env:1")
    assert str(caught.value).startswith(f"`docker-credential-test` gives no credentials for {locked}\n  hint: ")
    assert PASSWORD not in str(caught.value)


def test_another_host_that_an_upload_is_sent_to_gets_no_credentials(fake: Fake, tmp_path: Path) -> None:
    stored(tmp_path, auths={fake.host: {"auth": basic()}})
    store = Fake()
    fake.rule = lambda method, path, credentials: None if credentials or path == "/v2/" else 401
    fake.location = f"http://{store.host}/v2/team/env/blobs/uploads/1"
    push(image(tmp_path / "a", b"base"), "one", f"{fake.host}/team/env:1")
    store.close()
    assert {(method, credentials) for method, _, credentials in store.asked} == {("PUT", None)}
    assert digest(layer(b"base")) in store.blobs


@pytest.fixture
def certified(tmp_path: Path) -> Iterator[Fake]:
    """A registry with TLS and a certificate of its own, `certificate.pem`."""
    names = ("-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1")
    files = ("-keyout", str(tmp_path / "key.pem"), "-out", str(tmp_path / "certificate.pem"))
    kind = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    if not shutil.which("openssl"):
        pytest.skip("openssl is not installed")
    subprocess.run(["openssl", "req", "-x509", *kind, *names, *files], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "certificate.pem", tmp_path / "key.pem")
    one = Fake(context)
    yield one
    one.close()


def test_a_token_is_had_for_the_stored_credentials(
    certified: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "certificate.pem"))
    stored(tmp_path, auths={certified.host: {"auth": basic()}})
    realm = f"https://{certified.host}/token"
    certified.challenge = f'Bearer realm="{realm}",service="test",scope="repository:team/env:pull,push"'

    def rule(_: str, path: str, credentials: str | None) -> int | bytes | None:
        if path.startswith("/token?"):
            return b'{"token": "T1"}' if credentials == f"Basic {basic()}" else 401
        return None if credentials == "Bearer T1" else 401

    certified.rule = rule
    assert push(image(tmp_path / "a", b"base"), "one", f"{certified.host}/team/env:1").sent_layers == 1
    assert certified.count("GET", "/token?service=test&scope=repository%3Ateam%2Fenv%3Apull%2Cpush") == 1


def test_a_certificate_that_nobody_vouches_for_is_refused_unless_told(certified: Fake, tmp_path: Path) -> None:
    filled(certified, image(tmp_path / "a", b"base"))
    with pytest.raises(RegistryError) as caught:
        fetch(f"{certified.host}/team/env:1", tmp_path / "b")
    assert str(caught.value) == (
        f"{certified.host} cannot prove with its certificate who it is\n"
        "  hint: its CA in `REQUESTS_CA_BUNDLE`, or `--tls-verify=false` for a registry that you trust"
    )
    fetch(f"{certified.host}/team/env:1", tmp_path / "b", tls_verify=False)


def test_the_hub_of_docker_is_asked_at_its_own_host_with_its_own_credentials(tmp_path: Path) -> None:
    stored(tmp_path, auths={"https://index.docker.io/v1/": {"auth": basic()}})
    assert api_host("docker.io") == "registry-1.docker.io"
    assert api_host("ghcr.io") == "ghcr.io"
    assert credentials("docker.io") == (USER, PASSWORD)
    assert credentials("ghcr.io") is None


def test_what_netrc_says_of_a_host_is_not_sent_to_it(
    fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "netrc").write_text(f"machine 127.0.0.1 login {USER} password {PASSWORD}\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    push(image(tmp_path / "a", b"base"), "one", f"{fake.host}/team/env:1")
    assert {sent for _, _, sent in fake.asked} == {None}


def off_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.delenv(name)


def test_a_registry_without_tls_on_another_machine_is_used_only_when_told(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    off_proxy(monkeypatch)
    elsewhere = serve().replace("127.0.0.1", "0.0.0.0")  # reaches it, and is no name of this machine
    layout = image(tmp_path / "a", b"base")
    with pytest.raises(RegistryError) as caught:
        push(layout, "one", f"{elsewhere}/team/env:1")
    assert str(caught.value) == (
        f"{elsewhere} speaks no TLS\n  hint: `--tls-verify=false` for a registry that you trust"
    )
    assert push(layout, "one", f"{elsewhere}/team/env:1", tls_verify=False).sent_layers == 1


def test_a_password_never_goes_to_another_machine_without_tls(
    locked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    off_proxy(monkeypatch)
    elsewhere = locked.replace("127.0.0.1", "0.0.0.0")
    stored(tmp_path, auths={elsewhere: {"auth": basic()}})
    with pytest.raises(RegistryError) as caught:
        push(image(tmp_path / "a", b"base"), "one", f"{elsewhere}/team/env:1", tls_verify=False)
    assert str(caught.value) == (
        f"{elsewhere} wants a password and speaks no TLS\n  hint: none is sent over plain HTTP"
    )


# a bad day


def test_a_passing_failure_is_waited_out(fake: Fake, tmp_path: Path) -> None:
    failures = iter([503, 500])
    fake.rule = lambda method, path, credentials: next(failures, None) if method == "PUT" else None
    told: list[int] = []
    layout = image(tmp_path / "a", b"base")
    done = push(layout, "one", f"{fake.host}/team/env:1", lambda name, done, size: told.append(done))
    assert done.sent_layers == 1
    assert fake.blobs[digest(layer(b"base"))] == layer(b"base")
    assert next(failures, None) is None


def test_a_failure_that_stays_is_told_with_the_registrys_own_code(fake: Fake, tmp_path: Path) -> None:
    fake.rule = lambda method, path, credentials: 503 if "/uploads/" in path else None
    with pytest.raises(RegistryError) as caught:
        push(image(tmp_path / "a", b"base"), "one", f"{fake.host}/team/env:1")
    assert str(caught.value) == f"{fake.host} answered 503 for `team/env`: BROKEN"
    assert fake.count("POST", "/uploads/") == 3
    assert "1" not in fake.manifests


def test_a_registry_that_hangs_is_given_up(fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_client, "TIMEOUT", (0.3, 0.3))
    fake.rule = lambda method, path, credentials: "hang" if "/manifests/" in path else None
    with pytest.raises(RegistryError) as caught:
        fetch(f"{fake.host}/team/env:1", tmp_path / "b")
    assert str(caught.value) == f"{fake.host} does not answer: nothing for 0.3 seconds"


def test_a_layer_that_is_not_what_it_should_be_is_refused_and_not_kept(fake: Fake, tmp_path: Path) -> None:
    filled(fake, image(tmp_path / "a", b"base"))
    fake.blobs[digest(layer(b"base"))] = bytes(len(layer(b"base")))
    with pytest.raises(RegistryError) as caught:
        fetch(f"{fake.host}/team/env:1", tmp_path / "b")
    assert str(caught.value) == (
        f"{fake.host} sent a blob of `team/env` that has another digest than {digest(layer(b'base'))}"
    )
    kept = {path.name for path in (tmp_path / "b").rglob("*") if path.is_file()}
    assert digest(layer(b"base"))[7:] not in kept
    assert "index.json" not in kept
    assert not [name for name in kept if name.startswith(".")]


def test_a_layer_that_does_not_end_is_not_read_to_its_end(fake: Fake, tmp_path: Path) -> None:
    filled(fake, image(tmp_path / "a", b"base"))
    fake.blobs[digest(layer(b"base"))] = bytes(5_000_000)
    told: list[int] = []
    with pytest.raises(RegistryError) as caught:
        fetch(f"{fake.host}/team/env:1", tmp_path / "b", progress=lambda name, done, size: told.append(done))
    size = len(layer(b"base"))
    assert str(caught.value) == f"{fake.host} sent a blob that is not of {size} bytes: {digest(layer(b'base'))}"
    assert max(told) <= size


def test_a_manifest_that_is_not_what_was_asked_for_is_refused(fake: Fake, tmp_path: Path) -> None:
    filled(fake, image(tmp_path / "a", b"base"))
    asked = digest(b"another")
    fake.manifests[asked] = fake.manifests["1"]
    with pytest.raises(RegistryError) as caught:
        fetch(f"{fake.host}/team/env@{asked}", tmp_path / "b")
    sent = digest(fake.manifests["1"][0])
    assert str(caught.value) == f"{fake.host} sent a manifest with digest {sent}, expected {asked}"


@pytest.mark.parametrize(
    "content", [b"[]", b"no JSON", b'{"layers": []}', b'{"config": {"digest": 1, "size": 2}}', b'{"config": []}']
)
def test_a_manifest_without_its_parts_is_refused(content: bytes, fake: Fake, tmp_path: Path) -> None:
    fake.manifests["1"] = (content, registry.OCI_MANIFEST)
    with pytest.raises(RegistryError, match=r"^not "):
        fetch(f"{fake.host}/team/env:1", tmp_path / "b")


def test_what_is_no_image_is_refused(fake: Fake, tmp_path: Path) -> None:
    kind = "application/vnd.docker.distribution.manifest.v1+prettyjws"
    fake.manifests["1"] = (b'{"schemaVersion": 1, "fsLayers": []}', kind)
    with pytest.raises(RegistryError) as caught:
        fetch(f"{fake.host}/team/env:1", tmp_path / "b")
    assert str(caught.value) == f"`{fake.host}/team/env:1` is no image that lockgen reads: {kind}"


def test_what_a_fetch_broke_off_is_had_by_the_next_one(fake: Fake, tmp_path: Path) -> None:
    filled(fake, image(tmp_path / "a", b"base", b"env"))
    fake.rule = lambda method, path, credentials: 403 if digest(layer(b"env")) in path else None
    with pytest.raises(RegistryError, match="refuses `team/env`"):
        fetch(f"{fake.host}/team/env:1", tmp_path / "b")
    fake.rule = lambda method, path, credentials: None
    fake.asked.clear()
    fetch(f"{fake.host}/team/env:1", tmp_path / "b")
    assert fake.count("GET", digest(layer(b"base"))) == 0
    assert fake.count("GET", digest(layer(b"env"))) == 1


def test_an_image_that_is_not_there_is_named(serve: Serve, tmp_path: Path) -> None:
    host = serve()
    with pytest.raises(RegistryError) as caught:
        fetch(f"{host}/team/env:gone", tmp_path / "b")
    assert str(caught.value) == f"not in the registry: `{host}/team/env:gone`"


def test_a_host_that_does_not_exist_or_does_not_listen_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    off_proxy(monkeypatch)
    with pytest.raises(RegistryError) as caught:
        fetch("registry.invalid/team/env:1", tmp_path / "b")
    assert str(caught.value) == "no such host: registry.invalid"
    host = f"127.0.0.1:{free_port()}"
    with pytest.raises(RegistryError) as caught:
        fetch(f"{host}/team/env:1", tmp_path / "b")
    assert str(caught.value) == f"no connection, or one that broke: {host}"


# layouts and references


def test_a_name_that_the_layout_lacks_is_told_with_those_it_has(fake: Fake, tmp_path: Path) -> None:
    layout = image(tmp_path / "a", b"base")
    with pytest.raises(RegistryError) as caught:
        push(layout, "two", f"{fake.host}/team/env:1")
    assert str(caught.value) == f"no image `two` in the layout `{layout}`; it has `one`"
    with pytest.raises(RegistryError, match="no OCI layout: "):
        push(tmp_path / "none", "one", f"{fake.host}/team/env:1")


def test_a_layout_that_is_not_whole_is_refused_before_the_image_has_a_name(fake: Fake, tmp_path: Path) -> None:
    layout = image(tmp_path / "a", b"base")
    blob = layout / "blobs" / "sha256" / digest(layer(b"base"))[7:]
    blob.write_bytes(b"x" * blob.stat().st_size)
    with pytest.raises(RegistryError, match="is damaged: its digest is sha256:"):
        push(layout, "one", f"{fake.host}/team/env:1")
    blob.unlink()
    with pytest.raises(RegistryError) as caught:
        push(layout, "one", f"{fake.host}/team/env:1")
    assert str(caught.value) == (
        f"the layout `{layout}` lacks the blob {digest(layer(b'base'))} or has it in another size"
    )
    assert fake.manifests == {}


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("debian", "docker.io/library/debian:latest"),
        ("debian:bookworm-slim", "docker.io/library/debian:bookworm-slim"),
        ("nvidia/cuda:12.8.1-base-ubuntu22.04", "docker.io/nvidia/cuda:12.8.1-base-ubuntu22.04"),
        ("docker://ghcr.io/team/env:1", "ghcr.io/team/env:1"),
        ("localhost/env", "localhost/env:latest"),
        ("localhost:5000/env:1", "localhost:5000/env:1"),
        ("[::1]:5000/team/env:1", "[::1]:5000/team/env:1"),
        (f"debian:12@sha256:{'ab' * 32}", f"docker.io/library/debian:12@sha256:{'ab' * 32}"),
        (f"reg.example.org/a/b/c@sha256:{'ab' * 32}", f"reg.example.org/a/b/c@sha256:{'ab' * 32}"),
    ],
)
def test_a_reference_is_read_as_docker_reads_it(text: str, full: str) -> None:
    assert str(parse_reference(text)) == full


@pytest.mark.parametrize(
    "text",
    ["", "Team/Env", "a b", "host.example/env:", "host.example/", "a//b", "env:-x", "a/../b", "https://h.example/a"],
)
def test_what_is_no_reference_is_refused(text: str) -> None:
    with pytest.raises(RegistryError, match="reference of an image"):
        parse_reference(text)


@pytest.mark.parametrize(
    "text", [f"{USER}:{PASSWORD}@host.example/env:1", f"docker://{USER}:{PASSWORD}@host.example/env:1"]
)
def test_a_password_in_a_reference_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(RegistryError, match="`docker login`") as caught:
        parse_reference(text)
    assert PASSWORD not in "".join(traceback.format_exception(caught.value)).replace("def ", "")


def test_an_image_is_not_pushed_to_a_digest(tmp_path: Path) -> None:
    with pytest.raises(RegistryError, match="an image is pushed to a tag, not to a digest"):
        push(image(tmp_path / "a", b"base"), "one", f"h.example/env@sha256:{'ab' * 32}")
