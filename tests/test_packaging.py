"""The files around the code: licence, image, compose file, hooks; no secret gets into any of them."""

import asyncio
import configparser
import contextlib
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bot.http_server import serve
from bot.settings import Settings, build_settings
from tests.conftest import SLOW
from tests.support.missing_programs import skip_for_missing

ROOT = Path(__file__).parent.parent
PROFILES = ("spark", "rtx5090", "h100")


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    loaded = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
    assert isinstance(loaded, dict)
    return loaded


def flag(service: dict[str, Any], name: str) -> str | None:
    """The value of a flag of `vllm serve`; empty when it has none."""
    for word in [*service["entrypoint"], *service["command"]]:
        flag_name, _, value = word.partition("=")
        if flag_name == f"--{name}":
            return str(value)
    return None


@pytest.mark.parametrize("profile", PROFILES)
def test_each_profile_serves_the_model_to_a_gateway_with_as_many_seats(
    compose: dict[str, Any], profile: str
) -> None:
    model = compose["services"][f"model-{profile}"]
    gateway = compose["services"][f"gateway-{profile}"]
    assert gateway["profiles"] == [profile]
    assert model["profiles"] == [profile, f"{profile}-model"]
    assert gateway["depends_on"] == [f"model-{profile}"]
    assert flag(model, "max-num-seqs") == gateway["environment"]["MODEL_SEATS"]
    assert gateway["environment"]["MODEL_URL"] == "http://model:8000/v1"
    assert model["networks"]["default"]["aliases"] == ["model"]
    assert 0.5 < float(flag(model, "gpu-memory-utilization") or 0) < 1
    assert int(flag(model, "max-model-len") or 0) >= Settings.model_fields["prompt_budget"].default
    assert ("NVFP4" in model["entrypoint"][2]) is (profile != "h100")
    assert (model.get("platform") == "linux/arm64") is (profile == "spark")


@pytest.mark.parametrize("profile", PROFILES)
def test_the_server_has_the_flags_that_the_gateway_relies_on(compose: dict[str, Any], profile: str) -> None:
    model = compose["services"][f"model-{profile}"]
    assert model["entrypoint"][:2] == ["vllm", "serve"]
    release = re.search(r":v(\d+)\.(\d+)\.\d+$", model["image"])
    assert release
    assert (int(release[1]), int(release[2])) >= (0, 33)
    for name, value in {
        "kv-cache-dtype": "fp8",
        "attention-backend": "TRITON_ATTN",
        "tool-call-parser": "gemma4",
        "reasoning-parser": "gemma4",
        "scheduling-policy": "priority",
        "enable-auto-tool-choice": "",
        "enable-prompt-tokens-details": "",
        "enable-force-include-usage": "",
        "enable-per-request-metrics": "",
        "enable-request-id-headers": "",
    }.items():
        assert flag(model, name) == value
    assert int(flag(model, "max-num-queued-reqs") or 0) > int(flag(model, "max-num-seqs") or 0)


@pytest.mark.parametrize("profile", PROFILES)
def test_the_key_is_set_no_port_is_open_and_the_weights_are_kept(
    compose: dict[str, Any], profile: str
) -> None:
    model = compose["services"][f"model-{profile}"]
    gateway = compose["services"][f"gateway-{profile}"]
    assert model["environment"]["VLLM_API_KEY"].startswith("${MODEL_API_KEY:?")
    assert "ports" not in model
    assert "ports" not in gateway
    assert model["volumes"] == ["weights:/root/.cache/huggingface"]
    assert gateway["volumes"] == ["data:/data", "backups:/backups"]
    assert set(compose["volumes"]) == {
        "weights",
        "data",
        "data-1",
        "data-2",
        "backups",
        "database",
        "hearing",
    }


def test_two_gateways_wait_for_postgresql_and_their_settings_are_accepted(compose: dict[str, Any]) -> None:
    services = compose["services"]
    server = services["postgresql"]
    first, second = (services[name] for name in ("gateway-1", "gateway-2"))
    assert server["profiles"] == first["profiles"] == second["profiles"] == ["replicas"]
    assert not any("ports" in service for service in (server, first, second))
    assert "pg_isready" in server["healthcheck"]["test"]
    assert first["depends_on"] == second["depends_on"] == {"postgresql": {"condition": "service_healthy"}}
    assert first["environment"] == second["environment"]
    assert first["volumes"] != second["volumes"]  # what MCP servers store belongs to one gateway

    environment = {name: _fill_in(value) for name, value in first["environment"].items()}
    assert environment["PGPASSWORD"] == _fill_in(server["environment"]["POSTGRES_PASSWORD"]) == "word"
    values = {name.lower(): value for name, value in environment.items() if value and name != "PGPASSWORD"}
    settings = build_settings(telegram_token="1:x", **values)
    url = urlsplit(settings.database_url)
    user, database = (server["environment"][name] for name in ("POSTGRES_USER", "POSTGRES_DB"))
    assert (url.username, url.password, url.hostname, url.path) == (user, None, "postgresql", f"/{database}")
    assert settings.model_seats == 4
    assert "BACKUP_DIR=/backups" in dockerfile()  # which settings refuse on PostgreSQL
    assert environment["BACKUP_DIR"] == ""
    assert dockerfile().count("--extra postgresql") == dockerfile().count("uv sync")


def test_a_gateway_has_bounds_and_no_secret_of_another_service(compose: dict[str, Any]) -> None:
    example = (ROOT / ".env.example").read_text(encoding="utf-8")
    names = set(re.findall(r"^([A-Z_]+)=", example, re.MULTILINE))
    foreign = names - {name.upper() for name in Settings.model_fields} - {"COMPOSE_PROFILES"}
    gateways = [service for name, service in compose["services"].items() if name.startswith("gateway-")]
    assert len(gateways) == 5
    for service in gateways:
        assert {service["environment"][name] for name in foreign} == {""}
    others = [compose["services"][name] for name in ("postgresql", "search", "speak", "hear")]
    for service in (*gateways, *others):
        assert service["mem_limit"]
        assert service["pids_limit"] <= 512


def test_every_image_has_an_exact_version(compose: dict[str, Any]) -> None:
    images = [service["image"] for service in compose["services"].values() if "image" in service]
    images += re.findall(r"^FROM (\S+)", dockerfile(), re.MULTILINE)
    assert len(images) == 10
    for image in images:
        assert re.search(r":v?\d+\.\d+", image), image
    assert re.search(r'pip install .*"uv==[\d.]+"', dockerfile())


def find_unit() -> str:
    operations = (ROOT / "bot/docs/operations.md").read_text(encoding="utf-8")
    [unit] = re.findall(r"^```ini\n(\[Unit\]\n.*?)^```", operations, re.MULTILINE | re.DOTALL)
    return str(unit)


def test_the_unit_is_bounded_and_closed() -> None:
    parser = configparser.RawConfigParser()
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # names keep their case
    parser.read_string(find_unit())
    service = dict(parser["Service"])
    assert service["MemoryMax"].endswith("G")
    assert (service["OOMPolicy"], service["CapabilityBoundingSet"], service["UMask"]) == (
        "continue",
        "",
        "0077",
    )
    for name in ("NoNewPrivileges", "PrivateDevices", "PrivateTmp", "ProtectHome", "RestrictSUIDSGID"):
        assert service[name] == "yes"
    assert "time-sync.target" in parser["Unit"]["After"]
    assert service["WorkingDirectory"] == f"/var/lib/{service['StateDirectory']}"


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        skip_for_missing("systemd is not installed here")
    unit = tmp_path / "canvasgram.service"
    text = re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", find_unit(), flags=re.MULTILINE)
    unit.write_text(re.sub(r"^User=.*", "User=root", text, flags=re.MULTILINE), encoding="utf-8")
    args = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(unit)]
    result = subprocess.run(args, capture_output=True, text=True)
    complaints = [line for line in result.stderr.splitlines() if unit.name in line]
    assert (result.returncode, complaints) == (0, [])


def _fill_in(value: str) -> str:
    """A value of the compose file, with `word` where `.env` is to be filled in and defaults elsewhere."""
    value = value.replace("${POSTGRES_PASSWORD:-}", "word")
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", value)


def test_every_profile_says_why_and_the_file_says_that_nothing_was_measured() -> None:
    text = (ROOT / "compose.yaml").read_text(encoding="utf-8")
    assert "none of the three profiles was measured here" in text
    for profile in PROFILES:
        assert re.search(rf"\n  # [^\n]+\n(  # [^\n]+\n)*  model-{profile}:", text)


def test_the_compose_file_is_valid_by_the_compose_specification() -> None:
    checker = Path(sys.executable).with_name("check-jsonschema")
    args = [str(checker), "--builtin-schema", "vendor.compose-spec", str(ROOT / "compose.yaml")]
    result = subprocess.run(args, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout


def has_compose() -> bool:
    docker = shutil.which("docker")
    return (
        docker is not None
        and subprocess.run([docker, "compose", "version"], capture_output=True).returncode == 0
    )


@pytest.mark.skipif(not has_compose(), reason="docker compose is not installed here")
@pytest.mark.parametrize("profile", PROFILES)
def test_docker_compose_accepts_the_file(profile: str, tmp_path: Path) -> None:
    for name in ("compose.yaml", "Dockerfile"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / ".env").write_text("TELEGRAM_TOKEN=1:x\nMODEL_API_KEY=key\n")
    assert list_services(tmp_path, profile) == {f"model-{profile}", f"gateway-{profile}"}
    replicas = list_services(tmp_path, f"{profile}-model", "replicas")
    assert replicas == {f"model-{profile}", "postgresql", "gateway-1", "gateway-2"}


def list_services(folder: Path, *profiles: str) -> set[str]:
    options = [option for profile in profiles for option in ("--profile", profile)]
    args = ["docker", "compose", *options, "config", "--format", "json"]
    config = json.loads(subprocess.run(args, cwd=folder, capture_output=True, check=True).stdout)
    return set(config["services"])


def dockerfile() -> str:
    return (ROOT / "Dockerfile").read_text(encoding="utf-8")


def test_the_image_has_two_stages_and_does_not_run_as_root() -> None:
    text = dockerfile()
    assert len(re.findall(r"^FROM ", text, re.MULTILINE)) == 2
    final = text[text.rindex("\nFROM ") :]
    assert "COPY --from=build" in final
    user = re.search(r"^USER (\w+)$", final, re.MULTILINE)
    assert user
    assert user[1].isdigit()  # Kubernetes asks for the number
    assert final.index("\nUSER ") < final.index("\nENTRYPOINT ")


def test_each_way_to_install_compiles_what_the_gateway_imports() -> None:
    assert "UV_COMPILE_BYTECODE=1" in dockerfile()
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert re.search(r"^export .*UV_COMPILE_BYTECODE=1", readme, re.MULTILINE)
    operations = (ROOT / "bot/docs/operations.md").read_text(encoding="utf-8")
    installs = re.findall(r"^.*uv sync .*\n.*", operations, re.MULTILINE)
    assert installs
    for lines in installs:
        assert re.search(r"--compile-bytecode\n.*-m compileall -q bot tools", lines)


def test_the_build_gets_the_packages_and_never_a_secret() -> None:
    allowed = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    assert allowed[0] == "*"
    included = {line.removeprefix("!") for line in allowed if line.startswith("!")}
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"][
        "wheel"
    ]
    assert included == {*packages["packages"], "pyproject.toml", "uv.lock", "README.md", "LICENSE"}
    for line in re.findall(r"^COPY (?!--from)(.+) \S+$", dockerfile(), re.MULTILINE):
        assert set(line.split()) <= included


@contextlib.asynccontextmanager
async def healthz(status: int) -> AsyncIterator[str]:
    async def answer(_: Request) -> Response:
        return Response(status_code=status)

    async with serve(Starlette(routes=[Route("/healthz", answer)])) as url:
        yield url.rpartition(":")[2]


async def health_check(port: str) -> int:
    command = re.search(r"^HEALTHCHECK .* CMD (\[.+\])$", dockerfile(), re.MULTILINE)
    assert command
    args = json.loads(command[1])
    assert args[0] == "bash"
    process = await asyncio.create_subprocess_exec(
        *args, env={"HTTP_PORT": port}, stderr=asyncio.subprocess.DEVNULL
    )
    return await process.wait()


async def test_the_health_check_of_the_image_works_as_shipped() -> None:
    assert re.search(r"^ +HTTP_PORT=\d+$", dockerfile(), re.MULTILINE)
    async with healthz(200) as port:
        assert await health_check(port) == 0
    async with healthz(503) as port:
        assert await health_check(port) == 1
    assert await health_check("9") == 1


def test_the_licence_is_apache_2_whole_and_unchanged() -> None:
    text = (ROOT / "LICENSE").read_bytes()
    assert (
        hashlib.sha256(text).hexdigest() == "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"
    )
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["license"] == "Apache-2.0"


def test_git_keeps_secrets_and_state_out() -> None:
    names = [
        ".env",
        "canvasgram.db",
        "canvasgram.db-wal",
        "canvasgram.db.lock",
        "canvasgram.db.before-0001.bak",
    ]
    result = subprocess.run(
        ["git", "check-ignore", "--no-index", *names, ".env.example", "uv.lock"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert result.stdout.split() == names


def test_the_hooks_fetch_no_other_repository() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    assert [entry["repo"] for entry in hooks["repos"]] == ["local"]
    assert {hook["entry"].split()[2] for hook in hooks["repos"][0]["hooks"]} == {
        "ruff",
        "mypy",
        "lint-imports",
    }


def test_ci_is_a_script_that_runs_every_check() -> None:
    script = ROOT / ".ci" / "run"
    assert script.stat().st_mode & 0o111
    subprocess.run(["bash", "-n", script], check=True)
    text = script.read_text(encoding="utf-8")
    for check in (
        "uv lock --check",
        "ruff check",
        "ruff format --check",
        "mypy",
        "lint-imports",
        "alembic",
        'bash -c "$command"',
    ):
        assert check in text


def test_every_slow_folder_and_module_exists() -> None:
    assert [path for path in SLOW if not path.exists()] == []


def test_the_scripts_of_the_admin_page_are_shipped_each_with_its_licence() -> None:
    folder = "bot/admin/static"
    result = subprocess.run(["git", "ls-files", folder], cwd=ROOT, capture_output=True, text=True, check=True)
    shipped = {Path(name).name for name in result.stdout.split()}  # the wheel has what git has
    assert shipped == {path.name for path in (ROOT / folder).iterdir()}
    vendored = {name.partition(".")[0] for name in shipped if ".min." in name}
    assert vendored == {"htmx"}
    assert {name.partition(".")[0] for name in shipped if name.endswith(".LICENSE")} == vendored
