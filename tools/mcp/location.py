"""Where an MCP server is: a program of this machine, or a URL. Values only.

`secrets` are those the server is given: they are masked where it repeats them.
"""

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tools.mcp.sign_in import SignInStore

SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
_INSTALLERS = frozenset({"npx", "pnpx", "bunx", "uvx"})
_INSTALLER_COMMANDS = frozenset({"exec", "dlx", "x", "run", "tool"})
_PACKAGE_MANAGERS = frozenset({"npm", "pnpm", "yarn", "bun", "uv", "pipx", "docker", "podman"})


@dataclass(frozen=True, slots=True)
class ServerProgram:
    """A server that is started here and addressed through its standard input and output.

    It receives nothing of the gateway's environment: only PATH, LANG, HOME, and what `environment` holds.
    `home` is its home and working folder; None: an empty one that is deleted when it ends.
    """

    command: tuple[str, ...]
    home: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    private: frozenset[str] = frozenset()  # hosts; it opens what it likes, but may ask nobody to
    token_texts: frozenset[str] = frozenset()  # nobody signs in to a program

    def __str__(self) -> str:
        return shlex.join(self.command)

    @property
    def search_path(self) -> str:
        """Where the command is looked for.

        The folder of this Python, then the system's, unless `environment` has a PATH.
        """
        return self.environment.get("PATH", f"{Path(sys.executable).parent}:{SYSTEM_PATH}")

    @property
    def may_install(self) -> bool:
        """Whether the command may download what it starts, as npx and uvx do."""
        return is_installer(self.command)


def is_installer(command: Sequence[str]) -> bool:
    """Whether a command downloads what it starts, unless it has done so before."""
    program, *rest = (Path(command[0]).name, *command[1:2])
    return program in _INSTALLERS or (
        program in _PACKAGE_MANAGERS and not _INSTALLER_COMMANDS.isdisjoint(rest)
    )


@dataclass(frozen=True, slots=True)
class ServerUrl:
    """A server that answers at a URL. `headers` may hold secrets and go to its host only.

    `private` are the hosts that may have addresses outside the public internet. `sign_in_store` has the
    tokens of the sign-in made at `signed_in_at` (epoch seconds), if there is one.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    private: frozenset[str] = frozenset()
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    sign_in_store: SignInStore | None = field(default=None, compare=False, repr=False)
    signed_in_at: float | None = None

    def __str__(self) -> str:
        return self.url

    @property
    def token_texts(self) -> frozenset[str]:
        """The tokens of its sign-in, which change; masked like `secrets`."""
        return self.sign_in_store.secret_texts if self.sign_in_store else frozenset()

    @property
    def has_key(self) -> bool:
        """Whether it is sent a key of its own, so that nobody signs in."""
        return any(name.lower() == "authorization" for name in self.headers)


ServerLocation = ServerProgram | ServerUrl
