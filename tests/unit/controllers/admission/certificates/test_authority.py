"""An authority of our own: replicas agree on it, it is followed in time, and what it signs is trusted throughout."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support import virtual_time
from support.api_server.server import ModelServer
from testbed.access.certificates import Authority
from trellis.base.errors import Unreachable
from trellis.controllers.admission.certificates.authority import (
    PROPAGATION_SECONDS,
    CertificateLifetimes,
    SharedCertificates,
    renew_certificates,
)
from trellis.controllers.admission.certificates.key_pairs import (
    CertificateValidity,
    KeyPair,
    examine_pair,
    find_trust_problem,
    normalize_host,
    read_validity,
    split_authorities,
)
from trellis.controllers.admission.certificates.secret import (
    MANAGED_BY,
    CertificateSecret,
    from_secret_data,
    to_secret_data,
)
from trellis.kube.transport.requests import Request
from trellis.kube.write.outcomes import WriteOutcome
from trellis.kube.write.writer import Writer, WriterSettings
from trellis.testing.scripted_transport import ScriptedResponse, error_response

HOSTS = ("vpa-webhook.kube-system.svc", "vpa-webhook.kube-system")
DAY = 86400.0
LIFETIMES = CertificateLifetimes(authority=3650 * DAY, serving=90 * DAY)
BEGIN = 1_800_000_000.0
PATH = "/api/v1/namespaces/kube-system/secrets/certificates"


def begun() -> SharedCertificates:
    certificates, done = renew_certificates(None, HOSTS, BEGIN, LIFETIMES)
    assert done == ("authority", "certificate")
    return certificates


def certificate_life(certificates: SharedCertificates) -> CertificateValidity:
    return examine_pair(certificates.serving).validity


def test_the_first_certificate_is_good_for_the_service_and_vouched_for_by_its_authority() -> None:
    certificates = begun()
    shown = examine_pair(certificates.serving)
    assert shown.hosts == set(HOSTS)
    assert find_trust_problem(certificates.serving, certificates.bundle) is None
    assert shown.validity.begins < BEGIN < shown.validity.ends == BEGIN + 90 * DAY
    assert read_validity(certificates.bundle) == CertificateValidity(shown.validity.begins, BEGIN + 3650 * DAY)


def test_addresses_are_good_names_in_any_spelling() -> None:
    certificates, _ = renew_certificates(None, ("127.0.0.1", "0:0::1", "Web.Example"), BEGIN, LIFETIMES)
    assert examine_pair(certificates.serving).hosts == {"127.0.0.1", "::1", "web.example"}
    assert renew_certificates(certificates, ("::1", "127.0.0.1"), BEGIN, LIFETIMES) == (certificates, ())
    assert normalize_host("FE80:0:0:0:0:0:0:1") == "fe80::1"


@pytest.mark.parametrize(("days", "renewed"), [(0, False), (59, False), (61, True), (89, True), (91, True)])
def test_a_certificate_is_renewed_at_two_thirds_of_its_life(days: int, renewed: bool) -> None:
    certificates = begun()
    after, done = renew_certificates(certificates, HOSTS, BEGIN + days * DAY, LIFETIMES)
    assert done == (("certificate",) if renewed else ())
    assert after.authorities == certificates.authorities
    assert (certificate_life(after).ends > certificate_life(certificates).ends) == renewed


def test_a_new_authority_signs_only_when_it_has_been_trusted_for_a_while() -> None:
    moment = BEGIN + 2440 * DAY
    certificates, _ = renew_certificates(begun(), HOSTS, moment - 10 * DAY, LIFETIMES)
    both, done = renew_certificates(certificates, HOSTS, moment, LIFETIMES)
    assert done == ("authority",)
    assert len(both.authorities) == 2
    assert both.authorities[1:] == certificates.authorities
    assert both.serving == certificates.serving
    assert renew_certificates(both, HOSTS, moment + PROPAGATION_SECONDS - 1, LIFETIMES) == (both, ())
    after, done = renew_certificates(both, HOSTS, moment + PROPAGATION_SECONDS, LIFETIMES)
    assert done == ("certificate",)
    assert after.authorities == both.authorities
    assert find_trust_problem(after.serving, after.authorities[0]) is None
    assert find_trust_problem(after.serving, after.authorities[1]) is not None


def test_an_authority_leaves_the_bundle_when_its_time_is_over() -> None:
    certificates, _ = renew_certificates(begun(), HOSTS, BEGIN + 2440 * DAY, LIFETIMES)
    later, _ = renew_certificates(certificates, HOSTS, BEGIN + 3651 * DAY, LIFETIMES)
    assert later.authorities == certificates.authorities[:1]


def test_after_years_of_absence_everything_is_made_anew() -> None:
    certificates = begun()
    later, done = renew_certificates(certificates, HOSTS, BEGIN + 4000 * DAY, LIFETIMES)
    assert done == ("authority", "certificate")
    assert len(later.authorities) == 1
    assert later.authorities != certificates.authorities


def test_another_name_is_added_and_those_of_before_stay() -> None:
    """Else two replicas with different settings would renew in turn for ever."""
    certificates, done = renew_certificates(begun(), ("10.1.2.3",), BEGIN, LIFETIMES)
    assert done == ("certificate",)
    assert examine_pair(certificates.serving).hosts == {*HOSTS, "10.1.2.3"}
    assert renew_certificates(certificates, HOSTS, BEGIN, LIFETIMES) == (certificates, ())


def test_what_cannot_be_read_is_made_anew_and_no_more_than_that() -> None:
    certificates = begun()
    broken = SharedCertificates(
        certificates.authorities, certificates.authority_key, KeyPair(b"nonsense", certificates.serving.key)
    )
    after, done = renew_certificates(broken, HOSTS, BEGIN, LIFETIMES)
    assert (after.authorities, done) == (certificates.authorities, ("certificate",))
    keyless = SharedCertificates(certificates.authorities, b"nonsense", KeyPair(b"nonsense", b""))
    after, done = renew_certificates(keyless, HOSTS, BEGIN, LIFETIMES)
    assert done == ("authority", "certificate")
    assert find_trust_problem(after.serving, after.bundle) is None
    other = begun()
    swapped = SharedCertificates(certificates.authorities, other.authority_key, other.serving)
    after, _ = renew_certificates(swapped, HOSTS, BEGIN, LIFETIMES)
    assert find_trust_problem(after.serving, after.bundle) is None


@settings(max_examples=5, deadline=None)
@given(st.lists(st.floats(60.0, 200 * DAY), min_size=1, max_size=4), st.integers(0, 3000))
def test_after_every_renewal_the_certificate_is_valid_and_trusted_by_the_previous_bundle(
    pauses: list[float], first: int
) -> None:
    now = BEGIN
    certificates = begun()
    now += first * DAY
    for pause in (0.0, *pauses):
        now += pause
        before, (certificates, _) = certificates, renew_certificates(certificates, HOSTS, now, LIFETIMES)
        assert certificate_life(certificates).begins < now < certificate_life(certificates).ends
        assert find_trust_problem(certificates.serving, certificates.bundle) is None
        assert renew_certificates(certificates, HOSTS, now, LIFETIMES) == (certificates, ())
        if (before_ends := read_validity(before.authorities[0])) and now < before_ends.ends:
            assert find_trust_problem(certificates.serving, before.bundle) is None


def test_a_bundle_is_read_whatever_stands_around_it() -> None:
    first, second = (Authority.new(name).pair.certificate for name in ("one", "two"))
    text = b"# ours\r\n" + first.replace(b"\n", b"\r\n") + b"Bag Attributes\n" + second + first
    assert split_authorities(text) == (first, second)
    assert split_authorities(b"") == ()
    assert read_validity(b"nonsense") is None


# Replicas and their Secret.


class Replica:
    def __init__(self, server: ModelServer, *, read_only: bool = False, hosts: tuple[str, ...] = HOSTS) -> None:
        self.outcomes: list[WriteOutcome] = []
        writer = Writer(server.client, record=self.outcomes.append, settings=WriterSettings(read_only=read_only))
        self.secret = CertificateSecret(
            server.client,
            writer,
            name="certificates",
            namespace="kube-system",
            hosts=hosts,
            lifetimes=LIFETIMES,
            now=lambda: BEGIN + asyncio.get_running_loop().time(),
        )
        self.shown: Any = None

    async def refresh(self) -> None:
        certificate = await self.secret.read_if_changed(is_serving=self.shown is not None)
        self.shown = certificate or self.shown


def stored(server: ModelServer) -> SharedCertificates:
    certificates = from_secret_data(server.objects[PATH]["data"])
    assert certificates
    return certificates


def test_the_first_replica_creates_the_secret_and_the_others_adopt_it() -> None:
    server = ModelServer()

    async def main() -> None:
        first, second = Replica(server), Replica(server)
        await first.refresh()
        await second.refresh()
        assert first.shown == second.shown
        assert first.shown.bundle == stored(server).bundle
        assert len(first.outcomes) == 1
        assert second.outcomes == []
        assert await first.secret.read_if_changed(is_serving=True) is None

    virtual_time.run(main())
    assert server.objects[PATH]["metadata"]["labels"] == MANAGED_BY


def test_of_replicas_that_start_at_the_same_moment_one_wins_and_all_agree() -> None:
    server = ModelServer()

    async def main() -> None:
        replicas = [Replica(server) for _ in range(5)]
        await asyncio.gather(*(replica.refresh() for replica in replicas))
        assert len({replica.shown.bundle for replica in replicas}) == 1
        assert {replica.shown.pair.certificate for replica in replicas} == {stored(server).serving.certificate}
        assert sum(outcome.applied for replica in replicas for outcome in replica.outcomes) == 1

    virtual_time.run(main())


def test_of_replicas_that_renew_at_the_same_moment_one_wins_and_all_agree() -> None:
    server = ModelServer()

    async def main() -> None:
        replicas = [Replica(server) for _ in range(3)]
        for replica in replicas:
            await replica.refresh()
        old = stored(server)
        await asyncio.sleep(61 * DAY)
        await asyncio.gather(*(replica.refresh() for replica in replicas))
        new = stored(server)
        assert new.authorities == old.authorities
        assert new.serving != old.serving
        assert {replica.shown.pair for replica in replicas} == {new.serving}

    virtual_time.run(main())


def test_a_secret_that_is_deleted_or_spoiled_comes_back_as_it_was() -> None:
    server = ModelServer()

    async def main() -> None:
        replica = Replica(server)
        await replica.refresh()
        before = stored(server)
        del server.objects[PATH]
        assert await replica.secret.read_if_changed(is_serving=True) is None
        assert stored(server) == before
        spoiled = server.objects[PATH]["data"] | {"ca.crt": "%%%"}
        server.put(PATH, server.objects[PATH] | {"data": spoiled})
        await replica.refresh()
        assert stored(server) == before

    virtual_time.run(main())


def test_a_secret_of_another_owner_is_not_touched() -> None:
    server = ModelServer()
    theirs = {"tls.crt": b64encode(b"theirs").decode()}
    server.put(PATH, {"data": theirs})

    async def main() -> None:
        replica = Replica(server)
        await replica.refresh()
        assert replica.shown is None
        assert "was not created by Trellis" in replica.secret.problem
        assert replica.outcomes == []

    virtual_time.run(main())
    assert server.objects[PATH]["data"] == theirs


def test_an_empty_secret_is_filled() -> None:
    """Whoever does not want to give the right to create Secrets makes it beforehand."""
    server = ModelServer()
    server.put(PATH, {"data": {"tls.crt": "", "tls.key": ""}})

    async def main() -> None:
        replica = Replica(server)
        await replica.refresh()
        assert replica.shown.bundle == stored(server).bundle

    virtual_time.run(main())


@pytest.mark.parametrize("fault", [error_response(403, "Forbidden", "no secrets for you"), Unreachable("no route")])
def test_trouble_with_the_api_server_is_reported_and_passes(fault: ScriptedResponse) -> None:
    server = ModelServer()

    async def main() -> None:
        replica = Replica(server)
        server.faults.append(fault)
        await replica.refresh()
        assert not replica.shown
        assert "cannot be read" in replica.secret.problem
        await replica.refresh()
        assert replica.shown
        assert not replica.secret.problem
        server.faults.append(fault)
        await replica.refresh()
        assert replica.shown

    virtual_time.run(main())


def test_without_the_right_to_write_nothing_is_shown_and_the_reason_is_reported() -> None:
    server = ModelServer()

    def refuse_writes(request: Request) -> ScriptedResponse | None:
        return error_response(403, "Forbidden", "no creating of secrets") if request.method != "GET" else None

    server.before = refuse_writes

    async def main() -> None:
        replica = Replica(server)
        await replica.refresh()
        assert replica.shown is None
        assert replica.secret.problem.endswith("no creating of secrets")

    virtual_time.run(main())


def test_a_process_without_write_access_serves_a_certificate_of_its_own() -> None:
    server = ModelServer()

    async def main() -> None:
        replica = Replica(server, read_only=True)
        await replica.refresh()
        first = replica.shown
        await replica.refresh()
        assert replica.shown == first is not None

    virtual_time.run(main())
    assert PATH not in server.objects


def test_what_is_stored_is_what_is_read() -> None:
    certificates = begun()
    data = {name: b64encode(value).decode() for name, value in to_secret_data(certificates).items()}
    assert from_secret_data(data) == certificates
    for name in data:
        assert from_secret_data({other: value for other, value in data.items() if other != name}) is None
