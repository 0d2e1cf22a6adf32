"""The options that say how a service is reached, the same for `tools add` and `tools configure`."""

from typing import Annotated

import typer

Header = Annotated[
    list[str] | None, typer.Option(help="`NAME: VALUE` sent with each call; {name} stands for a secret.")
]
Query = Annotated[
    list[str] | None, typer.Option(help="NAME=VALUE in the query of each call; {name} stands for a secret.")
]
Cookie = Annotated[list[str] | None, typer.Option(help="NAME=VALUE as a cookie; {name} stands for a secret.")]
Basic = Annotated[str | None, typer.Option(help="NAME:{secret}, a name and a password (HTTP basic).")]
Fixed = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="NAME=VALUE of an argument that is the same in each call; the model neither sees nor gives it.",
    ),
]
BaseUrl = Annotated[
    str | None, typer.Option(help="Where the service is, instead of the servers of the document.")
]
Variable = Annotated[
    list[str] | None, typer.Option(help="NAME=VALUE of a variable in the document's server.")
]


def list_access_options(**texts: list[str] | str | None) -> tuple[tuple[str, str], ...]:
    """The options that say how a service is reached, as names and texts."""
    options: list[tuple[str, str]] = []
    for name, text in texts.items():
        option = "set" if name == "fixed" else name.replace("_", "-")
        if isinstance(text, str):
            options.append((option, text))
        else:
            options += [(option, each) for each in text or ()]
    return tuple(options)
