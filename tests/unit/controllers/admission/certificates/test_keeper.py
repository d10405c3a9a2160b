"""The certificate that the webhook shows: read again when it changes, and replaced without dropping a connection."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import uvloop
from aiohttp import ClientSession, TCPConnector, web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from support import virtual_time
from support.api_server.server import ModelServer
from support.local_server import serving
from testbed.access.certificates import Authority
from trellis.base.errors import InvalidInput
from trellis.controllers.admission.certificates.files import CertificateFiles
from trellis.controllers.admission.certificates.keeper import (
    CertificateKeeper,
    create_keeper,
    read_ciphers,
    server_context,
)
from trellis.controllers.admission.certificates.key_pairs import KeyPair, examine_pair
from trellis.controllers.admission.metrics import UPKEEP_METRICS
from trellis.controllers.admission.settings import TLS_1_3, CertificateOrigin, CertificateSettings
from trellis.controllers.admission.webhook.http_requests import HttpRequest
from trellis.controllers.admission.webhook.server import HttpReply, ReviewServer, ServerCallbacks
from trellis.kube.write.writer import Writer
from trellis.runtime.addresses import Address
from trellis.runtime.settings.loader import from_environment, load_settings
from trellis.runtime.telemetry.metrics import Metrics

HOST = "127.0.0.1"


class Files:
    """A directory with a certificate, and a keeper that looks at it."""

    def __init__(self, directory: Path, **more: Any) -> None:
        self.directory = directory
        self.authority = Authority.new("first")
        self.settings = CertificateSettings(
            client_ca_file=str(directory / "ca.crt"),
            tls_cert_file=str(directory / "tls.crt"),
            tls_private_key=str(directory / "tls.key"),
            **more,
        )
        self.metrics = Metrics(UPKEEP_METRICS, about_process=False)
        self.now = time.time()
        self.bundles: list[bytes] = []
        self.keeper = CertificateKeeper(
            CertificateFiles(self.settings),
            self.settings,
            self.metrics,
            now=lambda: self.now,
            on_bundle=self.bundles.append,
        )

    def write(self, name: str = "server", authority: Authority | None = None) -> KeyPair:
        authority = authority or self.authority
        pair = authority.issue_server(name, HOST, "localhost")
        for file, content in (
            ("ca.crt", authority.pair.certificate),
            ("tls.crt", pair.certificate),
            ("tls.key", pair.key),
        ):
            self.replace(file, content)
        return KeyPair(pair.certificate, pair.key)

    def replace(self, name: str, content: bytes) -> None:
        """In one step, as good writers do; another inode each time, whatever the clock of the disk says."""
        (self.directory / f"{name}.new").write_bytes(content)
        (self.directory / f"{name}.new").rename(self.directory / name)

    def check(self) -> None:
        virtual_time.run(self.keeper.check())

    def count(self, result: str) -> float:
        for line in self.metrics.format_text().decode().splitlines():
            if line.startswith(f'trellis_admission_certificate_loads_total{{result="{result}"}}'):
                return float(line.split()[-1])
        raise AssertionError(result)


def shown(context: ssl.SSLContext, *, version: ssl.TLSVersion | None = None) -> bytes:
    """The certificate that a client gets to see."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    if version is not None:
        client.maximum_version = version
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = client.wrap_bio(back, there), context.wrap_bio(there, back, server_side=True)
    for side in sides * 4:
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    certificate = sides[0].getpeercert(binary_form=True)
    assert certificate
    return ssl.DER_cert_to_PEM_cert(certificate).encode()


def test_nothing_is_ready_before_there_is_a_certificate(tmp_path: Path) -> None:
    files = Files(tmp_path)
    files.check()
    assert "No such file" in str(files.keeper.find_readiness_problem())
    with pytest.raises(ssl.SSLError):
        shown(files.keeper.context)
    pair = files.write()
    files.check()
    assert files.keeper.find_readiness_problem() is None
    assert shown(files.keeper.context) == pair.certificate
    assert files.bundles == [files.authority.pair.certificate]
    files.now += 31 * 86400
    assert files.keeper.find_readiness_problem() == "the certificate has expired"


def test_a_rotation_is_logged_in_upstreams_words(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    messages = ["New certificate found, reloading", "New client CA found, reloading and patching webhook"]
    files = Files(tmp_path)
    files.write("old")
    files.check()
    assert not [words for words in messages if words in caplog.text]
    files.write("new")
    files.check()
    assert [words for words in messages if words in caplog.text] == messages[:1]
    files.write("newer", Authority.new("second"))
    files.check()
    assert [words for words in messages if words in caplog.text] == messages


def test_a_changed_certificate_is_shown_within_two_seconds(tmp_path: Path) -> None:
    files = Files(tmp_path)
    files.write("old")

    async def main() -> None:
        running = asyncio.create_task(files.keeper.run())
        await files.keeper.wait_until_ready()
        other = Authority.new("second")
        new = files.write("new", other)
        await asyncio.sleep(2)
        assert shown(files.keeper.context) == new.certificate
        assert files.keeper.ca_bundle() == other.pair.certificate
        running.cancel()

    virtual_time.run(main())
    assert len(files.bundles) == 2
    assert (files.count("loaded"), files.count("refused")) == (2, 0)


def test_a_volume_of_the_kubelet_is_followed_when_its_link_is_swapped(tmp_path: Path) -> None:
    for version in ("1", "2"):
        (tmp_path / version).mkdir()
        Files(tmp_path / version).write(version)
    (tmp_path / "..data").symlink_to("1")
    for name in ("ca.crt", "tls.crt", "tls.key"):
        (tmp_path / name).symlink_to(f"..data/{name}")
    files = Files(tmp_path)
    files.check()
    assert shown(files.keeper.context) == (tmp_path / "1" / "tls.crt").read_bytes()
    (tmp_path / "..next").symlink_to("2")
    (tmp_path / "..next").rename(tmp_path / "..data")
    files.check()
    assert shown(files.keeper.context) == (tmp_path / "2" / "tls.crt").read_bytes()
    assert files.keeper.ca_bundle() == (tmp_path / "2" / "ca.crt").read_bytes()


@pytest.mark.parametrize("spoilt", ["tls.crt", "tls.key", "ca.crt"])
def test_what_is_broken_is_refused_and_the_old_certificate_stays(tmp_path: Path, spoilt: str) -> None:
    files = Files(tmp_path)
    pair = files.write()
    files.check()
    files.write("new")
    files.replace(spoilt, Authority.new("stranger").pair.certificate if spoilt == "ca.crt" else b"nonsense")
    files.check()
    files.check()
    assert shown(files.keeper.context) == pair.certificate
    assert files.keeper.ca_bundle() == files.authority.pair.certificate
    assert files.count("refused") == 1
    mended = files.write("newest")
    files.check()
    assert shown(files.keeper.context) == mended.certificate
    assert (files.count("loaded"), files.count("refused")) == (2, 1)


def test_files_that_are_written_one_by_one_are_taken_when_they_fit_together(tmp_path: Path) -> None:
    files = Files(tmp_path)
    old = files.write()
    files.check()
    new = files.authority.issue_server("new", HOST)
    files.replace("tls.crt", new.certificate)
    files.check()
    assert shown(files.keeper.context) == old.certificate
    files.replace("tls.key", new.key)
    files.check()
    assert shown(files.keeper.context) == new.certificate


def test_an_expired_certificate_replaces_none_but_is_better_than_nothing(tmp_path: Path) -> None:
    files = Files(tmp_path)
    pair = files.write()
    files.check()
    later = Files(tmp_path)
    later.now += 31 * 86400
    later.check()
    assert shown(later.keeper.context) == pair.certificate
    assert later.keeper.find_readiness_problem() == "the certificate has expired"
    files.write("new")
    files.now += 31 * 86400
    files.check()
    assert shown(files.keeper.context) == pair.certificate
    assert files.count("refused") == 1


def test_files_are_read_once_where_reloading_is_off(tmp_path: Path) -> None:
    files = Files(tmp_path, reload_cert=False)
    files.check()
    pair = files.write()
    files.check()
    files.write("new")
    files.check()
    assert shown(files.keeper.context) == pair.certificate


def test_the_authority_may_be_missing_where_others_register_the_webhook(tmp_path: Path) -> None:
    files = Files(tmp_path)
    files.write()
    (tmp_path / "ca.crt").unlink()
    files.check()
    assert files.keeper.find_readiness_problem() is None
    assert files.keeper.ca_bundle() == b""


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_key_of_another_kind_takes_the_place_of_the_old_one(tmp_path: Path, version: ssl.TLSVersion) -> None:
    """OpenSSL keeps one pair for each kind, and would go on showing the old one."""
    files = Files(tmp_path)
    files.write()
    files.check()
    files.replace("ca.crt", self_signed(tmp_path))
    files.check()
    assert shown(files.keeper.context, version=version) == (tmp_path / "tls.crt").read_bytes()
    new = files.write()
    files.check()
    assert shown(files.keeper.context, version=version) == new.certificate


def self_signed(directory: Path) -> bytes:
    """An RSA certificate that vouches for itself, with its key; 2048 bits are what OpenSSL accepts at least."""
    key = rsa.generate_private_key(65537, 2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "rsa")])
    day = examine_pair(Files(directory).write()).validity
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1)
    builder = builder.not_valid_before(_moment(day.begins)).not_valid_after(_moment(day.ends))
    certificate = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    form, bare = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (directory / "tls.crt").write_bytes(certificate)
    (directory / "tls.key").write_bytes(key.private_bytes(serialization.Encoding.PEM, form, bare))
    return certificate


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def test_expiry_is_a_metric(tmp_path: Path) -> None:
    files = Files(tmp_path)
    pair = files.write()
    files.check()
    text = files.metrics.format_text().decode()
    ends = examine_pair(pair).validity.ends
    for certificate in ("serving", "authority"):
        line = f'trellis_admission_certificate_expiry_timestamp_seconds{{certificate="{certificate}"}} '
        [sample] = [row for row in text.splitlines() if row.startswith(line)]
        assert float(sample.split()[-1]) == pytest.approx(ends, abs=60)


def test_ciphers_have_the_names_that_go_gives_them() -> None:
    text = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256:TLS_WISHES"
    known, unknown = read_ciphers(text)
    assert known == ("ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-RSA-AES128-GCM-SHA256")
    assert unknown == ("TLS_WISHES",)
    assert read_ciphers("TLS_AES_128_GCM_SHA256, ") == ((), ("TLS_AES_128_GCM_SHA256",))
    context = server_context(CertificateSettings(tls_ciphers=text))
    chosen = {cipher["name"] for cipher in context.get_ciphers() if cipher["protocol"] == "TLSv1.2"}
    assert chosen == set(known)
    assert server_context(CertificateSettings(tls_ciphers="TLS_WISHES")).get_ciphers()


def test_nothing_older_than_asked_for_is_spoken(tmp_path: Path) -> None:
    files = Files(tmp_path, min_tls_version=TLS_1_3)
    pair = files.write()
    files.check()
    assert shown(files.keeper.context) == pair.certificate
    with pytest.raises(ssl.SSLError, match="unsupported protocol"):
        shown(files.keeper.context, version=ssl.TLSVersion.TLSv1_2)
    assert server_context(CertificateSettings()).minimum_version is ssl.TLSVersion.TLSv1_2


def test_files_are_meant_where_their_flags_are_set_or_they_are_there(tmp_path: Path) -> None:
    assert not CertificateSettings().from_files
    assert CertificateSettings(certificates=CertificateOrigin.FILES).from_files
    named = CertificateSettings(tls_cert_file=str(tmp_path / "not-there-yet.crt"))
    assert named.from_files
    assert not CertificateSettings(tls_cert_file=named.tls_cert_file, certificates=CertificateOrigin.SECRET).from_files


def test_without_files_a_certificate_is_made_in_a_secret() -> None:
    server = ModelServer()
    metrics = Metrics(UPKEEP_METRICS, about_process=False)

    async def main() -> None:
        keeper = create_keeper(
            CertificateSettings(),
            server.client,
            Writer(server.client, record=lambda _: None),
            metrics,
            hosts=("vpa-webhook.kube-system.svc",),
            namespace="kube-system",
            now=time.time,
        )
        running = asyncio.create_task(keeper.run())
        await keeper.wait_until_ready()
        assert keeper.find_readiness_problem() is None
        assert shown(keeper.context)
        running.cancel()

    virtual_time.run(main())
    assert "/api/v1/namespaces/kube-system/secrets/trellis-admission-certificates" in server.objects


def test_a_serving_certificate_that_could_outlive_its_authority_is_refused() -> None:
    with pytest.raises(InvalidInput, match="at most a third"):
        load_settings(
            CertificateSettings,
            from_environment(
                CertificateSettings, {"TRELLIS_CERTIFICATE_LIFETIME": "2400h", "TRELLIS_AUTHORITY_LIFETIME": "4800h"}
            ),
        )


# A real server, real connections and both event loops: replacing a certificate disturbs nobody.

IN_FLIGHT = 50

Echo = Callable[[bytes], Awaitable[bytes]]
Server = Callable[[Echo, ssl.SSLContext], AbstractAsyncContextManager[str]]


@asynccontextmanager
async def any_server(echo: Echo, context: ssl.SSLContext) -> AsyncIterator[str]:
    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=await echo(await request.read()))

    async with serving(handle, context) as url:
        yield url


@asynccontextmanager
async def our_server(echo: Echo, context: ssl.SSLContext) -> AsyncIterator[str]:
    async def answer(request: HttpRequest) -> HttpReply:
        return HttpReply(200, await echo(request.body))

    service = ServerCallbacks(answer, lambda _: HttpReply(400, b"{}"), lambda _: None)
    review_server = ReviewServer(service, context)
    address = await review_server.start(Address(HOST, 0))
    try:
        yield f"https://{HOST}:{address.port}"
    finally:
        await review_server.close()


@pytest.mark.parametrize("server", [any_server, our_server])
@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_no_request_fails_when_the_certificate_is_replaced_while_it_is_in_flight(
    tmp_path: Path, loop: Callable[[], asyncio.AbstractEventLoop], server: Server
) -> None:
    files = Files(tmp_path)
    files.write("old")
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(_replace_in_flight(files, server))


async def _replace_in_flight(files: Files, server: Server) -> None:
    await files.keeper.check()
    arrived, go_on = asyncio.Semaphore(0), asyncio.Event()

    async def echo(body: bytes) -> bytes:
        arrived.release()
        await go_on.wait()
        return body

    async with server(echo, files.keeper.context) as url:
        async with session(files) as old:
            waiting = [asyncio.create_task(post(old, url, number)) for number in range(IN_FLIGHT)]
            for _ in waiting:
                await arrived.acquire()
            files.authority = Authority.new("second")
            new = files.write("new")
            await files.keeper.check()
            go_on.set()
            assert await asyncio.gather(*waiting) == list(range(IN_FLIGHT))
            # Connections of before are still good, although nobody vouches for their certificate any more.
            again = (post(old, url, number) for number in range(IN_FLIGHT))
            assert await asyncio.gather(*again) == list(range(IN_FLIGHT))
        async with session(files) as fresh:
            assert await post(fresh, url, 1) == 1
        assert await asyncio.to_thread(_shown_by, url) == new.certificate


def session(files: Files) -> ClientSession:
    trusting = ssl.create_default_context(cadata=(files.directory / "ca.crt").read_text())
    return ClientSession(connector=TCPConnector(ssl=trusting, limit=0))


async def post(client: ClientSession, url: str, number: int) -> int:
    async with client.post(url, data=str(number)) as answer:
        assert answer.status == 200
        return int(await answer.text())


def _shown_by(url: str) -> bytes:
    port = int(url.rpartition(":")[2])
    return ssl.get_server_certificate((HOST, port)).encode()
