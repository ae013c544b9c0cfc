"""Packs the SDKs as their registries and a release have them. Each function returns the files that it has made."""

import json
import os
import shutil
import tempfile
import tomllib
import zipfile
from pathlib import Path

import tools
from tools import ROOT, SDK, run

VERSION = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]


def check_versions():
    """Fails unless the packages have the version of the product; that of the Go module is a tag of the repository."""
    versions = {name: json.loads((SDK / name / "package.json").read_text())["version"] for name in ("typescript", "react")}
    versions["python"] = tomllib.loads((SDK / "python" / "pyproject.toml").read_text())["project"]["version"]
    if wrong := [name for name, version in versions.items() if version != VERSION]:
        raise RuntimeError(f"the version must be {VERSION}: {', '.join(wrong)}")


def python(output):
    """A wheel, and the archive of the sources."""
    build = ["python", "-m", "build", "--no-isolation", "--outdir", output, SDK / "python"]
    run(build, env=tools.python_tools())
    return [output / f"conclave_sdk-{VERSION}-py3-none-any.whl", output / f"conclave_sdk-{VERSION}.tar.gz"]


def typescript(output):
    return npm("typescript", output)


def react(output):
    return npm("react", output)


def npm(name, output):
    """A package of npm, built in a copy of its sources."""
    with tempfile.TemporaryDirectory(prefix="conclave-sdk.") as folder:
        copy = Path(folder) / name
        shutil.copytree(SDK / name, copy, ignore=shutil.ignore_patterns("node_modules", "dist"))
        (copy / "node_modules").symlink_to(tools.node_modules(name).resolve())
        run(["npm", "--silent", "run", "build"], cwd=copy)
        packed = run(["npm", "--silent", "pack", "--pack-destination", output], cwd=copy)
    return [output / packed.strip().splitlines()[-1]]


def go_path(folder=SDK / "go"):
    """The path of the Go module."""
    return (folder / "go.mod").read_text().split(maxsplit=2)[1]


def go(output, folder=SDK / "go"):
    """The module as a proxy of modules serves it."""
    archive = output / f"conclave-sdk-go-v{VERSION}.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as module:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            # Without the time, so that the same module is the same archive.
            entry = zipfile.ZipInfo(f"{go_path(folder)}@v{VERSION}/{path.relative_to(folder).as_posix()}")
            entry.compress_type = zipfile.ZIP_DEFLATED
            module.writestr(entry, path.read_bytes())
    return [archive]


def rename_go(path, folders):
    """Gives the Go module another path, in its own files and in those that import it."""
    old = go_path(folders[0])
    named = [file for folder in folders for file in folder.rglob("*") if file.suffix in (".go", ".mod", ".md")]
    for file in named:
        file.write_text(file.read_text().replace(old, path))
    # The order of imports follows their paths.
    run(["gofmt", "-w", *(file for file in named if file.suffix == ".go")])


PACKERS = {"python": python, "typescript": typescript, "react": react, "go": go}
