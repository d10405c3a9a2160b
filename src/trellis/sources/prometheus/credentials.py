"""Who are we to Prometheus? A bearer token, from a file that may change, or a name and a password."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path

from trellis.base.errors import PrometheusRefused, Unauthorized
from trellis.kube.credentials import Credentials, FixedCredentials, Identity, TokenFile
from trellis.sources.prometheus.settings import PrometheusSettings


class PrometheusCredentials:
    """In upstream's order: the file's token, the token, name and password; last those in the address."""

    def __init__(self, settings: PrometheusSettings, user: str = "", password: str = "") -> None:
        self._file = settings.prometheus_bearer_token_file
        token = settings.prometheus_bearer_token.strip()
        self._tokens: Credentials | None = None
        if self._file:
            self._tokens = TokenFile(Path(self._file))
        elif token:
            self._tokens = FixedCredentials(Identity(token))
        if settings.username:
            user, password = settings.username, settings.password
        self._basic = f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}" if user else ""
        self._shown = Identity()

    async def header(self) -> Mapping[str, str]:
        """What to send along; empty if we are nobody."""
        if self._tokens is None:
            return {"Authorization": self._basic} if self._basic else {}
        try:
            self._shown = await self._tokens.identity()
        except Unauthorized as error:
            raise PrometheusRefused(f"--prometheus-bearer-token-file: {error}", 401) from error
        return {"Authorization": f"Bearer {self._shown.token}"}

    async def renew(self) -> bool:
        """They were refused. Whether there are others by now."""
        return self._tokens is not None and await self._tokens.renew(self._shown)
