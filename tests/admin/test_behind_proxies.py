"""The examples for nginx and Caddy in the pages, run as they stand but for addresses and certificates.

Caddy is one of the packages that tests need; nginx is tried where it is installed.
"""

import asyncio
import contextlib
import re
import shutil
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from bot.db.engine import Database
from tests.support.admin_page import PATIENCE, AdminPageHarness, open_admin_page
from tests.support.free_ports import find_free_port
from tests.support.missing_programs import skip_for_missing

ROOT = Path(__file__).parents[2]
CERTIFICATE = ROOT / "tests/fixtures/tls/page.test.crt"
KEY = ROOT / "tests/fixtures/tls/page.test.key"
HOST = "bot.example.com"


def read_example(language: str) -> str:
    page = (ROOT / "bot/docs/operations.md").read_text(encoding="utf-8").partition("## The admins' page")[2]
    example = re.search(rf"```{language}\n(.*?)```", page, re.DOTALL)
    assert example
    return example[1]


def build_nginx(folder: Path, port: int, page_port: int, *, tls: bool) -> list[str]:
    """The command of nginx with the example; `tls` False: on a port without it."""
    server = read_example("nginx").replace("/etc/ssl/canvasgram.pem", str(CERTIFICATE))
    server = server.replace("/etc/ssl/canvasgram.key", str(KEY)).replace(":8080", f":{page_port}")
    server = server.replace("listen 443 ssl", f"listen 127.0.0.1:{port}{' ssl' if tls else ''}")
    paths = "".join(
        f"{name}_temp_path {folder / name}; " for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    config = folder / "nginx.conf"
    config.write_text(
        f"daemon off; master_process off; pid {folder / 'pid'}; error_log stderr; events {{}}\n"
        f"http {{ access_log off; {paths}\n{server}\n}}\n"
    )
    return [shutil.which("nginx") or "nginx", "-p", str(folder), "-e", "stderr", "-c", str(config)]


def build_caddy(folder: Path, port: int, page_port: int, *, tls: bool) -> list[str]:
    """The same of Caddy, which gets the certificate that it would fetch."""
    example = read_example("caddy").replace(":8080", f":{page_port}")
    if tls:
        example = example.replace(f"{HOST} {{", f"{HOST}:{port} {{\n    tls {CERTIFICATE} {KEY}")
    else:
        example = example.replace(f"{HOST} {{", f"http://{HOST}:{port} {{")
    config = folder / "Caddyfile"
    config.write_text(
        f"{{\n    admin off\n    auto_https off\n    storage file_system {folder}\n}}\n{example}"
    )
    return [
        str(Path(sys.executable).with_name("caddy")),
        "run",
        "--adapter",
        "caddyfile",
        "--config",
        str(config),
    ]


BuildCommand = Callable[..., list[str]]


@contextlib.asynccontextmanager
async def run_proxy(
    build: BuildCommand, folder: Path, page: AdminPageHarness, *, tls: bool
) -> AsyncIterator[httpx.AsyncClient]:
    """Run a proxy in front of the page; yields a browser that comes through it."""
    port = find_free_port()
    command = build(folder, port, urlsplit(page.url).port, tls=tls)
    process = await asyncio.create_subprocess_exec(
        *command, env={"HOME": str(folder)}, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        async with asyncio.timeout(PATIENCE):
            while True:
                with contextlib.suppress(OSError):
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                    writer.close()
                    break
                await asyncio.sleep(0.02)
        scheme = "https" if tls else "http"
        headers = {"host": HOST, "origin": f"{scheme}://{HOST}"}
        async with httpx.AsyncClient(
            base_url=f"{scheme}://127.0.0.1:{port}", headers=headers, verify=False, timeout=PATIENCE
        ) as http:
            yield http
    finally:
        process.terminate()
        await process.wait()


@pytest.mark.parametrize(("name", "build"), [("nginx", build_nginx), ("caddy", build_caddy)])
async def test_the_example_lets_an_admin_in_over_tls_alone(
    database: Database, database_url: str, tmp_path: Path, name: str, build: BuildCommand
):
    if name == "nginx" and shutil.which(name) is None:
        skip_for_missing("nginx is not installed here")
    settings = {"http_port": 8080, "admin_page": "on", "admin_url": f"https://{HOST}"}
    sni = {"sni_hostname": HOST}
    async with open_admin_page(database, database_url, **settings) as page:  # type: ignore[arg-type]
        async with run_proxy(build, tmp_path, page, tls=True) as http:
            link = urlsplit(await page.create_link()).path
            answer = await http.post(link, extensions=sni)
            assert (answer.status_code, "Secure" in answer.headers["set-cookie"]) == (303, True)
            cookie = answer.headers["set-cookie"].partition(";")[0]
            answer = await http.get("/admin/now", headers={"cookie": cookie}, extensions=sni)
            assert (answer.status_code, "<h1>Now</h1>" in answer.text) == (200, True)
            assert (await http.get("/metrics", extensions=sni)).text.find("canvasgram_") == -1
        async with run_proxy(build, tmp_path, page, tls=False) as http:
            answer = await http.get("/admin/now")
            assert (answer.status_code, "plain HTTP" in answer.text) == (403, True)
