"""Tools whose every run the tests see, and may hold up: each calls an address and gives what it answers.

The launcher adds this folder to those the gateway finds its tools in.
"""

import httpx

from tools.base import File, Rule, tool


@tool(timeout=60)
async def ring(address: str) -> str:
    """Ring a bell; it must not be rung twice.

    Args:
        address: Where it hangs.
    """
    return await _call_bell(address)


@tool(repeatable=True, timeout=60)
async def look(address: str) -> str:
    """Look at a bell; as often as you like.

    Args:
        address: Where it hangs.
    """
    return await _call_bell(address)


@tool(rule=Rule("always"), timeout=60)
async def toll(address: str) -> str:
    """Toll a bell; a person is asked first, and it must not be tolled twice.

    Args:
        address: Where it hangs.
    """
    return await _call_bell(address)


@tool(timeout=60)
async def draw(address: str) -> File:
    """Ring a bell, and give a file that tells of it; it must not be rung twice.

    Args:
        address: Where it hangs.
    """
    return File("bell.txt", (await _call_bell(address)).encode())


async def _call_bell(address: str) -> str:
    async with httpx.AsyncClient(timeout=None) as client:
        return (await client.get(address)).text
