"""The deployment files and the operations guide fit the product: their settings, metrics, addresses and times are real.

What needs a container runtime or a cluster is checked as far as reading goes.
"""

import json
import os
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, cast, get_type_hints

import httpx2
import pytest
import yaml
from tests.databases import Postgres, binaries
from tests.docs.documents import ROOT, Block, anchors, blocks, broken_links, commands
from tests.servers import COMMAND, ControlPlane, registration
from tests.support import requirement

from switchboard import settings
from switchboard.rest.app import OPEN_PATHS

DEPLOY = ROOT / "deploy"
GUIDE = ROOT / "docs/operations.md"
FILES = sorted(path for path in DEPLOY.rglob("*") if path.is_file() and "secrets" not in path.parts[:-1])
YAML_FILES = [path for path in FILES if path.suffix in {".yaml", ".yml"}]
TEXTS = [*FILES, GUIDE, ROOT / ".dockerignore"]
INSTRUCTIONS = re.compile(r"^(FROM|ENV|RUN|COPY|USER|VOLUME|WORKDIR|EXPOSE|HEALTHCHECK|ENTRYPOINT|CMD|ARG|ADD) ")
METRIC = re.compile(r"\b((?:agentfield|switchboard|haproxy)_[a-z_]+)(?:\{([^}]*)\})?")
GROUPED = re.compile(r"\bby \(([^)]*)\)")
ADDED = {"job", "instance", "le"}
"""Labels that Prometheus adds itself, and that of every histogram."""
PROXY_METRICS = {"haproxy_backend_http_responses_total": {"proxy", "code"}}
"""What HAProxy's exporter calls what is used of it."""


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def documents(path: Path) -> list[Any]:
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


def manifest(kind: str) -> dict[str, Any]:
    """Return the one object of a kind among the manifests."""
    found = [document for path in YAML_FILES for document in documents(path) if document.get("kind") == kind]
    assert len(found) == 1, f"{len(found)} of {kind}"
    return found[0]


def run(*arguments: str | Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run a program to its end, with this environment and no other."""
    given = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", **environment}
    return subprocess.run(arguments, env=given, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603 - ours


def variables() -> set[str]:
    return {name for names in settings._VARIABLES.values() for name in names} | {settings.CONFIG_VARIABLE}  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]


# Every file


@pytest.mark.parametrize("path", YAML_FILES, ids=named)
def test_yaml_parses_without_a_key_twice(path: Path) -> None:
    """A key that stands twice would silently win over its first self."""
    waiting: list[Any] = [*cast("Any", yaml).compose_all(path.read_text(encoding="utf-8"), yaml.SafeLoader)]

    assert waiting
    while waiting:
        node = waiting.pop()
        if node.id == "mapping":
            keys = [key.value for key, _ in node.value]
            assert len(keys) == len(set(keys)), str(node.start_mark)
            waiting += [value for _, value in node.value]
        elif node.id == "sequence":
            waiting += node.value


@pytest.mark.parametrize("path", TEXTS, ids=named)
def test_every_setting_exists(path: Path) -> None:
    """`SWITCHBOARD_*` anywhere is a variable that the server reads."""
    used = set(re.findall(r"\b(?:SWITCHBOARD|AGENTFIELD)_[A-Z_]+\b", path.read_text(encoding="utf-8")))

    assert used <= variables()


@pytest.mark.parametrize("path", TEXTS, ids=named)
def test_no_file_has_a_secret_or_a_folder_of_somebody_in_it(path: Path) -> None:
    """What is a key, a password or a home folder is made or named where it is used."""
    text = path.read_text(encoding="utf-8")

    assert not re.search(r"/(home|root|work|Users)/", text)
    assert not re.search(r"""(?i)(api_key|password)\s*[=:]\s*["']?[a-z0-9]{8}""", text)
    assert not re.search(r"postgresql://[^:@\s]+:(?!password@|\$)[^@\s]+@", text)


@pytest.mark.parametrize("path", [path for path in FILES if path.suffix == ".toml"], ids=named)
def test_an_example_of_settings_is_refused_until_it_has_a_key(path: Path) -> None:
    """Nobody runs with a key from a public file."""
    with pytest.raises(settings.SettingsError, match="api_key is empty"):
        settings.serve_settings({"config": str(path), "host": "0.0.0.0"}, {})  # noqa: S104 - that is what is refused


# The image


def instructions() -> list[tuple[str, str]]:
    """Return the instructions of the Dockerfile, each with its lines joined."""
    text = re.sub(r"^#.*\n", "", (DEPLOY / "Dockerfile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    lines = [line for line in text.replace("\\\n", " ").splitlines() if line.strip()]
    assert all(INSTRUCTIONS.match(line) for line in lines)
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in lines)]


def of(word: str) -> list[str]:
    return [rest for name, rest in instructions() if name == word]


def test_the_image_is_built_of_pinned_parts() -> None:
    """Bases have a tag; packages have hashes; nothing says from where."""
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    installs = [part for run in of("RUN") for part in run.split("&&") if " install " in part and "pip" in part]

    assert {base.split()[0] for base in of("FROM")} == {"python:3.11-slim-bookworm"}
    assert all("--require-hashes" in part or "--no-index" in part for part in installs)
    assert not re.search(r"https?://(?!127\.0\.0\.1:')|index-url|trusted-host|\b(wget|apt-get)\b", text)
    assert not of("ARG")
    assert not of("ADD")


def test_the_image_runs_without_rights_and_stops_when_told() -> None:
    """A number as user, programs without a shell around them, data in a volume."""
    last = instructions()[max(i for i, (word, _) in enumerate(instructions()) if word == "FROM") :]
    final = dict(last)

    assert re.fullmatch(r"[1-9]\d+:[1-9]\d+", final["USER"])
    assert json.loads(final["ENTRYPOINT"]) == ["switchboard"]
    assert json.loads(final["CMD"]) == ["serve"]
    assert final["VOLUME"] == "/var/lib/switchboard"
    assert not any(re.search(r"key|password|secret|DATABASE_URL", rest, re.IGNORECASE) for _, rest in last)


def test_everything_the_image_copies_is_let_into_its_build() -> None:
    """`.dockerignore` keeps everything out but this."""
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    allowed = {line[1:] for line in lines if line.startswith("!")}
    copied = {part for rest in of("COPY") if "--from" not in rest for part in rest.split()[:-1]}

    assert "*" in lines
    assert copied == allowed
    assert all((ROOT / name).exists() for name in copied)


def test_the_image_has_everything_the_package_needs() -> None:
    """What hatchling reads to build a wheel is copied."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    copied = {part for rest in of("COPY") for part in rest.split()[:-1]}

    assert set(re.findall(r'"(contract/[^"]+)" =', text)) <= copied
    assert {"pyproject.toml", "README.md", "LICENSE", "src"} <= copied


def test_the_health_check_of_the_image_tells_a_server_from_none(tmp_path: Path) -> None:
    """It ends with 0 while the server answers, and with something else when nobody does, whatever proxy is set."""
    check = of("HEALTHCHECK")[0].partition(" CMD ")[2]
    program = [sys.executable, *json.loads(check)[1:]]
    plane = ControlPlane(tmp_path)
    environment = {"SWITCHBOARD_PORT": plane.url.rpartition(":")[2], "http_proxy": "http://127.0.0.1:1"}

    alive = run(*program, **environment)
    plane.stop()
    dead = run(*program, **environment)

    assert alive.returncode == 0, alive.stderr
    assert dead.returncode != 0


def test_in_the_environment_of_the_image_the_server_needs_a_key_and_keeps_its_data_in_the_volume(
    tmp_path: Path,
) -> None:
    """Started as the image starts it: refused without a key, with a settings file everything is in one folder."""
    given = dict(pair.split("=", 1) for rest in of("ENV") for pair in shlex.split(rest) if not pair.startswith("P"))
    assert given.pop("XDG_DATA_HOME") == str(Path(of("VOLUME")[0]).parent)
    config = tmp_path / "switchboard.toml"
    config.write_text('api_key = "open-sesame"\n')
    environment = {"PATH": os.environ["PATH"], **given, "SWITCHBOARD_PORT": "0", "XDG_DATA_HOME": str(tmp_path)}

    refused = run(COMMAND, "serve", **environment)
    environment["SWITCHBOARD_CONFIG"] = str(config)
    with subprocess.Popen([COMMAND, "serve"], env=environment, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - ours
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1].replace("0.0.0.0", "127.0.0.1")  # noqa: S104 - as it is printed
        unauthorized = httpx2.get(f"{url}/api/v1/nodes", trust_env=False)
        welcome = httpx2.get(f"{url}/api/v1/nodes", headers={"X-API-Key": "open-sesame"}, trust_env=False)
        process.terminate()
        process.wait(30)

    assert refused.returncode == 2
    assert refused.stderr.strip() in GUIDE.read_text(encoding="utf-8").splitlines()
    assert (unauthorized.status_code, welcome.status_code) == (401, 200)
    assert (tmp_path / "switchboard/control-plane.db").exists()


# Compose


def compose() -> dict[str, Any]:
    return documents(DEPLOY / "compose.yaml")[0]


def instances() -> dict[str, Any]:
    """Return the services that run our image."""
    return {name: service for name, service in compose()["services"].items() if "build" in service}


def test_every_service_of_compose_has_a_pinned_image_and_what_it_names_exists() -> None:
    """No `latest`; files are there or made by secrets.sh; networks, volumes and secrets are declared."""
    document = compose()
    for name, service in document["services"].items():
        image, _, tag = service["image"].partition(":")
        assert tag, f"{name} uses {image} without a tag"
        assert tag != "latest"
        assert set(service["networks"]) <= document["networks"].keys()
        assert set(service.get("secrets", [])) <= document["secrets"].keys()
        for source, _, _ in (volume.partition(":") for volume in service.get("volumes", [])):
            assert (DEPLOY / source).exists() if source.startswith("./") else source in document["volumes"]
        assert set(service.get("depends_on", {})) <= document["services"].keys()
        for port in service.get("ports", []):
            assert port.startswith(("127.0.0.1:", "${PROXY_ADDRESS:-127.0.0.1}:"))


def test_compose_runs_two_instances_that_share_everything_but_their_folder() -> None:
    """Each keeps an audit record of its own; a file system they cannot write, no capabilities."""
    assert list(instances()) == ["switchboard-1", "switchboard-2"]
    for name, service in instances().items():
        assert service["volumes"] == [f"{name}:{of('VOLUME')[0]}"]
        assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
        assert "SWITCHBOARD_DATABASE_URL" not in service["environment"], "it would win over the settings file"
        assert seconds(service["stop_grace_period"]) > longest_stop(service["environment"])


def test_secrets_are_made_once_and_fit_together(tmp_path: Path) -> None:
    """The settings have the password of the database, and the server takes them; a second run changes nothing."""
    shutil.copy(DEPLOY / "secrets.sh", tmp_path)
    folder = tmp_path / "secrets"

    done = run(tmp_path / "secrets.sh")
    made = {path.name: path.read_text() for path in folder.iterdir()}
    run(tmp_path / "secrets.sh")
    loaded = settings.serve_settings({"config": str(folder / "switchboard.toml"), "host": "0.0.0.0"}, {})  # noqa: S104

    assert made == {path.name: path.read_text() for path in folder.iterdir()}
    assert {Path(entry["file"]).name for entry in compose()["secrets"].values()} == made.keys()
    assert loaded.database_url == f"postgresql://switchboard:{made['postgres-password']}@postgres:5432/switchboard"
    assert not any(secret in done.stdout for secret in (loaded.api_key or "", made["postgres-password"]))
    assert folder.stat().st_mode & 0o077 == 0


def test_the_proxy_asks_for_readiness_and_waits_as_long_as_the_server_may_take() -> None:
    """Its instances are those of compose; a request waits up to 600 s; the proxy ends idle connections first."""
    text = (DEPLOY / "haproxy/haproxy.cfg").read_text(encoding="utf-8")
    backends = re.findall(r"^    server (\S+) (\S+):8080$", text, re.MULTILINE)

    assert backends == [(name, name) for name in instances()]
    assert "option httpchk GET /ready" in text
    assert "http-request disable-l7-retry unless METH_GET" in text
    assert "http-request deny deny_status 404 if { path /metrics }" in text
    assert {seconds(value) for value in re.findall(r"timeout (?:client|server) (\w+)", text)} == {620}
    assert seconds(re.findall(r"timeout http-keep-alive (\w+)", text)[0]) < 75


def test_the_proxy_notices_before_draining_ends() -> None:
    """Otherwise a request would meet a closed door."""
    text = (DEPLOY / "haproxy/haproxy.cfg").read_text(encoding="utf-8")
    interval, failures = re.findall(r"check inter (\w+) fall (\d+)", text)[0]
    drain = compose()["services"]["switchboard-1"]["environment"]["SWITCHBOARD_DRAIN_SECONDS"]

    assert seconds(interval) * (int(failures) + 1) < float(drain)


def seconds(text: str) -> float:
    return float(text.removesuffix("s"))


def longest_stop(environment: dict[str, str]) -> float:
    """Return how long an instance may take to stop: it drains, lets requests and executions end, and writes."""
    return float(environment["SWITCHBOARD_DRAIN_SECONDS"]) + 20 + 5 + 10


# Monitoring


MCP_HEADERS = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}


@pytest.fixture(scope="module")
def exposed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """What a real server counts: every name with the names of its labels."""
    plane = ControlPlane(tmp_path_factory.mktemp("metrics"))
    plane.register(registration("a", skills={"greet": []}))
    plane.discover()
    plane.client.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, headers=MCP_HEADERS)
    text = plane.client.get("/metrics").text
    plane.stop()
    samples = re.findall(r"^([a-z_]+)(?:\{([^}]*)\})? ", text, re.MULTILINE)
    return {name: set(re.findall(r"(\w+)=", labels)) for name, labels in samples} | PROXY_METRICS


def expressions() -> Iterator[tuple[str, str]]:
    """Yield every question to Prometheus with its place."""
    for group in documents(DEPLOY / "prometheus/alerts.yml")[0]["groups"]:
        yield from ((rule["alert"], rule["expr"]) for rule in group["rules"])
    dashboard = json.loads((DEPLOY / "grafana/switchboard.json").read_text(encoding="utf-8"))
    for panel in dashboard["panels"]:
        yield from ((panel["title"], target["expr"]) for target in panel["targets"])
    yield from (("variable", entry["query"]["query"]) for entry in dashboard["templating"]["list"])


@pytest.mark.parametrize(("place", "expression"), list(expressions()), ids=lambda value: value[:40])
def test_every_metric_and_label_exists(place: str, expression: str, exposed: dict[str, set[str]]) -> None:
    """An alert on a name that nobody counts would never ring."""
    used = METRIC.findall(expression)
    labels = {label for name, _ in used for label in exposed.get(name, set())} | ADDED
    grouped = {label.strip() for found in GROUPED.findall(expression) for label in found.split(",")}

    assert used or "up{" in expression, place
    assert {name for name, _ in used} <= exposed.keys()
    for name, matchers in used:
        assert set(re.findall(r"(\w+)=~?", matchers)) <= exposed[name] | ADDED
    assert grouped <= labels


@requirement(
    "metrics:discovery:requests",
    "metrics:discovery:duration",
    "metrics:discovery:cache-hits",
    "metrics:discovery:cache-misses",
    "metrics:discovery:cache-size",
    "metrics:discovery:filter-usage",
)
def test_the_dashboard_shows_every_metric(exposed: dict[str, set[str]]) -> None:
    """The names of seed 004, section 7.1, and our own."""
    text = (DEPLOY / "grafana/switchboard.json").read_text(encoding="utf-8")
    counted = {re.sub(r"_(bucket|count|sum|created)$", "", name) for name in exposed}

    assert [name for name in sorted(counted) if name not in text] == []


def test_prometheus_asks_every_instance_itself() -> None:
    """A job for the instances, by their names in compose, and one for the proxy."""
    configured = documents(DEPLOY / "prometheus/prometheus.yml")[0]["scrape_configs"]
    jobs = {job["job_name"]: job["static_configs"][0]["targets"] for job in configured}

    assert jobs["switchboard"] == [f"{name}:8080" for name in instances()]
    assert jobs["proxy"] == ["proxy:8404"]
    assert {job for _, text in expressions() for job in re.findall(r'job="(\w+)"', text)} == jobs.keys()


def test_every_alert_is_explained() -> None:
    """The guide says what each means and what to do, and explains none that does not exist."""
    alerts = [rule["alert"] for rule in documents(DEPLOY / "prometheus/alerts.yml")[0]["groups"][0]["rules"]]

    assert re.findall(r"^\| `(Switchboard\w+)` \|", GUIDE.read_text(encoding="utf-8"), re.MULTILINE) == alerts


# Kubernetes


def pod() -> dict[str, Any]:
    return manifest("Deployment")["spec"]["template"]["spec"]


def test_every_manifest_is_listed_and_names_its_kind() -> None:
    """`kubectl apply -k` applies all of them."""
    kustomization = manifest("Kustomization")
    folder = DEPLOY / "kubernetes"
    others = {path.name for path in folder.glob("*.yaml")} - {"kustomization.yaml"}

    assert set(kustomization["resources"]) == others
    for name in others:
        for document in documents(folder / name):
            assert {"apiVersion", "kind", "metadata"} <= document.keys()
    assert (folder / kustomization["configMapGenerator"][0]["envs"][0]).exists()
    assert pod()["containers"][0]["envFrom"] == [
        {"configMapRef": {"name": kustomization["configMapGenerator"][0]["name"]}}
    ]
    assert kustomization["secretGenerator"][0]["name"] in {
        volume["secret"]["secretName"] for volume in pod()["volumes"] if "secret" in volume
    }
    assert all(image["newTag"] != "latest" for image in kustomization["images"])


def test_instances_are_replaced_one_by_one_and_have_time_to_end() -> None:
    """Never fewer than before; longer until they are killed than they may need."""
    deployment = manifest("Deployment")["spec"]
    lines = (DEPLOY / "kubernetes/settings.env").read_text(encoding="utf-8").splitlines()

    assert deployment["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    assert deployment["replicas"] >= 2
    assert pod()["terminationGracePeriodSeconds"] > longest_stop(dict(line.split("=", 1) for line in lines))
    assert manifest("PodDisruptionBudget")["spec"]["maxUnavailable"] == 1


def test_every_selector_finds_the_pods() -> None:
    """Deployment, service, budget and network policy mean the same pods."""
    labels = manifest("Deployment")["spec"]["template"]["metadata"]["labels"]

    assert manifest("Deployment")["spec"]["selector"]["matchLabels"] == labels
    assert manifest("Service")["spec"]["selector"] == labels
    assert manifest("PodDisruptionBudget")["spec"]["selector"]["matchLabels"] == labels
    assert manifest("NetworkPolicy")["spec"]["podSelector"]["matchLabels"] == labels
    ports = {port["name"]: port["containerPort"] for port in pod()["containers"][0]["ports"]}
    assert manifest("Service")["spec"]["ports"][0]["targetPort"] in ports
    assert list(ports.values()) == [int(of("EXPOSE")[0])]


def test_probes_ask_what_they_are_for() -> None:
    """Life is /health, which does not depend on the database; readiness is /ready. Neither needs a key."""
    container = pod()["containers"][0]
    asked = {name: container[name]["httpGet"]["path"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}

    assert asked == {"startupProbe": "/health", "livenessProbe": "/health", "readinessProbe": "/ready"}
    assert set(asked.values()) <= OPEN_PATHS
    assert min(container[name]["timeoutSeconds"] for name in asked) > 1, "they may wait a second for the database"


def test_pods_have_no_rights() -> None:
    """Not root, nothing to write to but volumes, no capabilities, no token of the cluster."""
    spec = pod()

    assert spec["securityContext"]["runAsNonRoot"]
    assert f"{spec['securityContext']['runAsUser']}:{spec['securityContext']['runAsGroup']}" == of("USER")[0]
    assert not spec["automountServiceAccountToken"]
    assert not spec["enableServiceLinks"], "a service named switchboard would set SWITCHBOARD_PORT"
    for container in [*spec["initContainers"], *spec["containers"]]:
        closed = container["securityContext"]
        assert closed["readOnlyRootFilesystem"]
        assert not closed["allowPrivilegeEscalation"]
        assert closed["capabilities"] == {"drop": ["ALL"]}
    mounted = {mount["mountPath"] for mount in spec["containers"][0]["volumeMounts"]}
    assert {of("VOLUME")[0], "/tmp", "/run/switchboard"} == mounted  # noqa: S108 - a path in the pod


def test_the_network_policy_names_both_directions() -> None:
    """What is not named is closed."""
    policy = manifest("NetworkPolicy")["spec"]

    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert policy["ingress"][0]["ports"] == [{"protocol": "TCP", "port": 8080}]
    assert all("to" in rule for rule in policy["egress"])


# systemd


def unit() -> dict[str, dict[str, list[str]]]:
    """Return the unit, every key with all its values."""
    sections: dict[str, dict[str, list[str]]] = {}
    section: dict[str, list[str]] = {}
    for line in (DEPLOY / "systemd/switchboard.service").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            section = sections.setdefault(line.strip("[]"), {})
        elif line and not line.startswith("#"):
            key, _, value = line.partition("=")
            section.setdefault(key, []).append(value)
    return sections


def test_the_unit_gives_the_service_its_settings_and_its_folder_and_nothing_else() -> None:
    """The settings come as a credential; the data folder is the only place to write."""
    service = unit()["Service"]

    assert service["LoadCredential"] == ["switchboard.toml:/etc/switchboard/switchboard.toml"]
    assert set(service["Environment"]) == {"SWITCHBOARD_CONFIG=%d/switchboard.toml", "XDG_DATA_HOME=%S"}
    assert (service["DynamicUser"], service["StateDirectory"]) == (["yes"], ["switchboard"])
    assert (service["ProtectSystem"], service["NoNewPrivileges"]) == (["strict"], ["yes"])
    assert service["CapabilityBoundingSet"] == [""]
    assert service["RestartPreventExitStatus"] == ["2"]
    assert float(service["TimeoutStopSec"][0]) > longest_stop({"SWITCHBOARD_DRAIN_SECONDS": "10"})


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze on this machine")
def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    """With a program that exists in the place of ours."""
    text = (DEPLOY / "systemd/switchboard.service").read_text(encoding="utf-8")
    copy = tmp_path / "switchboard.service"
    copy.write_text(re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", text, flags=re.MULTILINE))

    done = run("systemd-analyze", "verify", "--man=no", copy)

    assert (done.returncode, "switchboard.service" in done.stderr) == (0, False), done.stderr


# The guide


def test_links_of_the_guide_lead_somewhere() -> None:
    """Files and headings exist."""
    assert list(broken_links(GUIDE)) == []
    assert {"alerts", "rolling-upgrade", "backup-and-restore"} <= anchors(GUIDE)


def test_the_guide_names_every_setting_or_the_page_that_does() -> None:
    """Names, variables and defaults in its table are those of the server."""
    text = GUIDE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| `(SWITCHBOARD_\w+)` \| ([^|]+) \|", text, re.MULTILINE)
    execution = "".join(
        (ROOT / "docs/api" / name).read_text(encoding="utf-8") for name in ("EXECUTION_API.md", "MCP_HTTP.md")
    )
    fields = get_type_hints(settings.ServeSettings).keys()
    default = settings.ServeSettings()

    assert {name for name, _, _ in rows} <= fields
    for name, variable, shown in rows:
        assert variable in settings._VARIABLES[name]  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
        value = getattr(default, name)
        if value:
            assert shown.strip("` ") == (f"{value:g}" if isinstance(value, float) else str(value))
    for name in fields - {name for name, _, _ in rows} - {"demo"}:
        assert f"| `{name}` |" in execution, name


def test_the_guide_explains_every_message_of_the_log() -> None:
    """Each that somebody may have to act on, and none that does not exist."""
    folders = [ROOT / "src/switchboard" / name for name in ("actions", "rest")]
    files = [ROOT / "src/switchboard/control_plane.py", *(path for folder in folders for path in folder.glob("*.py"))]
    sources = "".join(path.read_text(encoding="utf-8") for path in files)
    events = re.findall(r'event\(\s*"(\w+)",\s*"([^"]+)"', sources)
    often = re.findall(r'"message":"([^"]+)"', sources)  # encoded beforehand, and always of one level
    written = {message: level for level, message in events if level != "debug"} | dict.fromkeys(often, "info")
    rows = re.findall(r"^\| (`.+`) \| (info|warning|error) \|", GUIDE.read_text(encoding="utf-8"), re.MULTILINE)

    assert {message: level for cell, level in rows for message in re.findall(r"`([^`]+)`", cell)} == written


def test_a_backup_made_as_the_guide_says_brings_everything_back(tmp_path: Path) -> None:
    """While the server runs: what was acknowledged before is in it, and what came later is gone after a restore."""
    backup, restore = (block for block in blocks(GUIDE) if block.text.startswith("$ cd /var/lib/switchboard"))
    plane = ControlPlane(tmp_path)
    plane.register(registration("before", skills={"greet": []}))

    outputs = typed([command.text for command in commands(backup)], tmp_path)
    plane.register(registration("after", skills={"greet": []}))
    plane.kill()
    typed([command.text for command in commands(restore)], tmp_path)
    restored = ControlPlane(tmp_path)
    agents = [agent["agent_id"] for agent in restored.discover()["capabilities"]]
    restored.stop()

    assert outputs.strip() == commands(backup)[-1].output
    assert agents == ["before"]
    with closing(sqlite3.connect(tmp_path / "backup.db")) as copy:
        assert copy.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_dump_made_as_the_guide_says_brings_everything_back(postgres: Postgres, tmp_path: Path) -> None:
    """The same with PostgreSQL, with the commands of the guide."""
    programs = binaries()
    dump, restore = (block for block in blocks(GUIDE) if block.text.startswith(("$ pg_dump", "$ pg_restore")))
    url = postgres.new()
    environment = {"DATABASE_URL": url, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}

    def type_out(block: Block) -> None:
        done = run("bash", "-e", "-c", f"cd {tmp_path}\n{commands(block)[0].text}", **environment)
        assert done.returncode == 0, done.stderr

    plane = ControlPlane(tmp_path, "--database-url", url)
    plane.register(registration("before", skills={"greet": []}))
    type_out(dump)
    plane.register(registration("after", skills={"greet": []}))
    plane.stop()
    type_out(restore)
    restored = ControlPlane(tmp_path, "--database-url", url)
    agents = [agent["agent_id"] for agent in restored.discover()["capabilities"]]
    restored.stop()

    assert agents == ["before"]


def typed(lines: list[str], folder: Path) -> str:
    """Type commands of the guide into a shell, in another folder and with the name that tests give the file."""
    script = "\n".join(lines).replace("/var/lib/switchboard", str(folder)).replace("control-plane.db", "plane.db")
    done = run("bash", "-e", "-c", script)
    assert done.returncode == 0, done.stderr
    return done.stdout
