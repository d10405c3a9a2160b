"""Certificates are presented without a file in any directory."""

from __future__ import annotations

import ssl
import sys
import tempfile
from pathlib import Path

import pytest

from testbed.access.certificates import Authority
from trellis.kube.transport.tls import load_certificate_chain


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no files in memory")
def test_a_certificate_is_loaded_where_no_directory_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    pair = Authority.new("testbed").issue_server("webhook", "localhost")
    load_certificate_chain(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), pair.certificate, pair.key)


def test_a_key_of_another_certificate_is_refused() -> None:
    authority = Authority.new("testbed")
    certificate, key = authority.issue_server("a", "localhost"), authority.issue_server("b", "localhost")
    with pytest.raises(ssl.SSLError):
        load_certificate_chain(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), certificate.certificate, key.key)
