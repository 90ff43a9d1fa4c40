"""`gateway`: where the process listens and who may talk to it."""

from typing import Literal

from pydantic import Field

from tidegate.config.sections.base import Count, Flag, Lazy, Names, Port, Positive, Secret, Section, absent

DEFAULT_PORT = 18790


class RateLimit(Section):
    """How many wrong secrets an address may try."""

    max_attempts: Positive = 10
    """Wrong attempts in one window before the address is locked out."""
    window_ms: Positive = 60_000
    """Length of the window, milliseconds."""
    lockout_ms: Count = 300_000
    """How long the address is refused, milliseconds; 0: only until the window ends."""
    exempt_loopback: Flag = True
    """Never lock out connections from this machine."""


class TrustedProxy(Section):
    """How the proxy of mode `trusted-proxy` tells who the person is."""

    user_header: str = "x-forwarded-user"
    """Header with the person's name; believed from `gateway.trustedProxies` only."""
    allow_users: Names = ()
    """The only persons who may come in; empty: all whom the proxy lets through."""


class GatewayAuth(Section):
    """How a connection proves that it is the operator's."""

    mode: Literal["none", "token", "password", "trusted-proxy"] | None = None
    """Kind of proof; unset: `password` if only a password is set, else `token`."""
    token: Secret | None = Field(default=None, repr=False)
    """Shared secret; unset in mode `token`: one is generated into the state directory."""
    password: Secret | None = Field(default=None, repr=False)
    """Shared password for mode `password`."""
    rate_limit: Lazy[RateLimit] = absent(RateLimit)
    """Limits on wrong secrets."""
    trusted_proxy: Lazy[TrustedProxy] = absent(TrustedProxy)
    """Who the person is, in mode `trusted-proxy`."""

    @property
    def effective_mode(self) -> Literal["none", "token", "password", "trusted-proxy"]:
        """The mode after its default is applied."""
        if self.mode is not None:
            return self.mode
        return "password" if self.password is not None and self.token is None else "token"


class ControlUi(Section):
    """Pages in a browser."""

    enabled: Flag = True
    """Serve the web chat."""
    allowed_origins: Names = ()
    """Origins (`https://host:port`) of pages that may connect besides our own; their hosts may name this gateway."""


class NodePairing(Section):
    """How new devices are admitted."""

    auto_approve_local: Flag = True
    """A new device on this machine that shows the shared secret is paired without asking."""


class NodeCommands(Section):
    """Which commands nodes may be asked for, besides those that are usual on their platform."""

    allow: Names = ()
    """Commands by their exact names, for example `camera.snap`; needed for all that watch, record, send or write."""
    deny: Names = ()
    """Commands that no node is asked for, whatever else allows them."""


class NodesSection(Section):
    """Devices that connect."""

    pairing: Lazy[NodePairing] = absent(NodePairing)
    """How new devices are admitted."""
    commands: Lazy[NodeCommands] = absent(NodeCommands)
    """Which commands nodes may be asked for."""


class HttpEndpoint(Section):
    """One interface for programs."""

    enabled: Flag = False
    """Serve it."""


class HttpEndpoints(Section):
    """Interfaces in OpenAI's formats, for programs that hold the token or password."""

    chat_completions: Lazy[HttpEndpoint] = absent(HttpEndpoint)
    """`/v1/chat/completions` and `/v1/models`."""
    responses: Lazy[HttpEndpoint] = absent(HttpEndpoint)
    """`/v1/responses` and `/v1/models`."""


class HttpSection(Section):
    """What is served to programs."""

    endpoints: Lazy[HttpEndpoints] = absent(HttpEndpoints)
    """Interfaces in OpenAI's formats, for programs that hold the token or password."""


class Reload(Section):
    """What happens when the configuration file changes while the gateway runs."""

    mode: Literal["hybrid", "off"] = "hybrid"
    """`hybrid`: applied in place, or by a restart of what needs one; `off`: checked, applied at the next start."""


class GatewaySection(Section):
    """Where the process listens and who may talk to it."""

    port: Port = DEFAULT_PORT
    """TCP port for HTTP and WebSocket."""
    mode: Literal["local", "remote"] = "local"
    """`local`: this machine runs the gateway; `remote`: commands talk to one elsewhere."""
    bind: Literal["loopback", "auto", "lan", "tailnet", "custom"] = "loopback"
    """Addresses to listen on; anything but `loopback` needs a token or password."""
    custom_bind_host: str | None = None
    """Address for `bind: "custom"`."""
    auth: Lazy[GatewayAuth] = absent(GatewayAuth)
    """How a connection proves that it is the operator's."""
    control_ui: Lazy[ControlUi] = absent(ControlUi)
    """Pages in a browser."""
    nodes: Lazy[NodesSection] = absent(NodesSection)
    """Devices that connect."""
    http: Lazy[HttpSection] = absent(HttpSection)
    """What is served to programs."""
    reload: Lazy[Reload] = absent(Reload)
    """What happens when the file changes."""
    trusted_proxies: Names = ()
    """Addresses or networks whose forwarding headers are believed; empty: none."""
    allow_real_ip_fallback: Flag = False
    """Believe `X-Real-IP` of a trusted proxy that sends no `X-Forwarded-For`."""
