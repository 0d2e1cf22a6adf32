"""The sub-commands of `canvasgram tools secret`: options in, lines out."""

import sys

import typer

from bot.cli.tools.session_runner import (
    DEFAULT_ENV_FILE,
    EnvFile,
    Json,
    ToolOrSourceName,
    print_result,
)

secret = typer.Typer(help="Store secrets of tools, encrypted and never shown.", no_args_is_help=True)


@secret.command(
    "set",
    epilog='Examples: canvasgram tools secret set shop · printf %s "$KEY" | canvasgram tools secret set shop',
)
def set_secret(name: ToolOrSourceName, env_file: EnvFile = DEFAULT_ENV_FILE) -> None:
    """Store a secret, typed without echo or read from a pipe."""
    from bot.cli.tools import actions

    if sys.stdin.isatty():
        value = typer.prompt("Secret", hide_input=True)
    else:
        value = sys.stdin.readline().rstrip("\r\n")
    print_result(env_file, lambda session: actions.store_secret(session, name, str(value)), can_create=True)


@secret.command("remove", epilog="Example: canvasgram tools secret remove shop")
def remove_secret(name: ToolOrSourceName, env_file: EnvFile = DEFAULT_ENV_FILE) -> None:
    """Delete a secret, and list the sources that still use it."""
    from bot.cli.tools import actions

    print_result(env_file, lambda session: actions.remove_secret(session, name))


@secret.command("list", epilog="Example: canvasgram tools secret list")
def list_secrets(json: Json = False, env_file: EnvFile = DEFAULT_ENV_FILE) -> None:
    """List the names of all secrets."""
    from bot.cli.tools import actions

    print_result(env_file, lambda session: actions.list_secrets(session, as_json=json))


@secret.command(
    "rotate",
    epilog="Example: put a new key before the old one in SECRETS_KEY, then canvasgram tools secret rotate",
)
def rotate_secrets(env_file: EnvFile = DEFAULT_ENV_FILE) -> None:
    """Re-encrypt all secrets with the first key of SECRETS_KEY."""
    from bot.cli.tools import actions

    print_result(env_file, actions.rotate_secrets)
