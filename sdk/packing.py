"""Packs the SDKs, with a function per language that returns its files: as registries and a release have them, and as sdk/packages has
them for the server.

An archive depends only on the contents of its files: times, owners, modes and the order are fixed.
"""

import gzip
import io
import json
import shutil
import tarfile
import tempfile
import tomllib
import zipfile
from pathlib import Path

import tools
from tools import ROOT, SDK, run

VERSION = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
PACKAGES = SDK / "packages"
WHEEL = f"conclave_sdk-{VERSION}-py3-none-any.whl"
# Files of sdk/packages by language, with their names in a release. The names in sdk/packages have no version, so that a new
# version changes files instead of adding them; src/http/console/sdks.rs also contains them.
EMBEDDED = {
    "python": {WHEEL: "conclave_sdk.whl"},
    "typescript": {f"conclave-sdk-{VERSION}.tgz": "conclave-sdk.tgz"},
    "react": {f"conclave-react-{VERSION}.tgz": "conclave-react.tgz"},
    "go": {f"conclave-sdk-go-v{VERSION}.{part}": f"conclave-sdk-go.{part}" for part in ("zip", "mod")},
}
# Modification time of every file in npm's archives: the earliest that all programs can represent.
NPM_TIME = 499_162_500


def check_versions():
    """Fails unless the packages have the product's version. The Go module's version is a tag of the repository."""
    versions = {name: json.loads((SDK / name / "package.json").read_text())["version"] for name in ("typescript", "react")}
    versions["python"] = tomllib.loads((SDK / "python" / "pyproject.toml").read_text())["project"]["version"]
    if wrong := [name for name, version in versions.items() if version != VERSION]:
        raise RuntimeError(f"the version must be {VERSION}: {', '.join(wrong)}")


def python(output):
    """Builds a wheel and a source archive."""
    build = ["python", "-m", "build", "--no-isolation", "--outdir", output, SDK / "python"]
    run(build, env=tools.python_tools())
    wheel = output / WHEEL
    # The metadata comes last, as PEP 427 recommends.
    write_zip(wheel, sorted(contents(wheel).items(), key=lambda entry: (".dist-info/" in entry[0], entry[0])))
    return [wheel, output / f"conclave_sdk-{VERSION}.tar.gz"]


def typescript(output):
    return npm("typescript", output)


def react(output):
    return npm("react", output)


def npm(name, output):
    """Builds an npm package in a copy of its sources."""
    with tempfile.TemporaryDirectory(prefix="conclave-sdk.") as folder:
        copy = Path(folder) / name
        shutil.copytree(SDK / name, copy, ignore=shutil.ignore_patterns("node_modules", "dist"))
        (copy / "node_modules").symlink_to(tools.node_modules(name).resolve())
        run(["npm", "--silent", "run", "build"], cwd=copy)
        packed = run(["npm", "--silent", "pack", "--pack-destination", output], cwd=copy)
    archive = output / packed.strip().splitlines()[-1]
    # Files with the same name are adjacent, in npm's order: the same code for both module kinds compresses well.
    write_tgz(archive, sorted(contents(archive).items(), key=lambda entry: (entry[0].rpartition("/")[2], entry[0])))
    return [archive]


def go_path(folder=SDK / "go"):
    """Returns the Go module's path."""
    return (folder / "go.mod").read_text().split(maxsplit=2)[1]


def go(output):
    """Builds the module and its go.mod, as a module proxy serves them."""
    folder, prefix = SDK / "go", f"{go_path()}@v{VERSION}"
    archive, go_mod = (output / f"conclave-sdk-go-v{VERSION}.{part}" for part in ("zip", "mod"))
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    write_zip(archive, [(f"{prefix}/{path.relative_to(folder).as_posix()}", path.read_bytes()) for path in files])
    shutil.copy(folder / "go.mod", go_mod)
    return [archive, go_mod]


def rename_go(path, folders, documents=()):
    """Renames the Go module in its own files, in its importers, and in documents."""
    old, new = (whole.removesuffix("/sdk/go") for whole in (go_path(folders[0]), path))
    named = [file for folder in folders for file in folder.rglob("*") if file.suffix in (".go", ".mod", ".md")]
    for file in [*named, *documents]:
        file.write_text(file.read_text().replace(old, new))
    # The order of imports follows their paths.
    run(["gofmt", "-w", *(file for file in named if file.suffix == ".go")])


PACKERS = {"python": python, "typescript": typescript, "react": react, "go": go}


# -------------------------------------------------------------------------------------------------------- sdk/packages


def embed(name):
    """Writes a language's packages into sdk/packages. A file with the same contents is not touched."""
    PACKAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="conclave-sdk.") as folder:
        for packed, embedded in packed_again(name, Path(folder)):
            if not embedded.exists() or differences(packed, embedded):
                shutil.copy(packed, embedded)
            yield embedded


def stale(name):
    """Returns the differences between a language's packages in sdk/packages and its sources."""
    with tempfile.TemporaryDirectory(prefix="conclave-sdk.") as folder:
        problems = []
        for packed, embedded in packed_again(name, Path(folder)):
            different = differences(packed, embedded) if embedded.exists() else ["it does not exist"]
            if different:
                problems.append(f"{embedded.relative_to(ROOT)} is stale: run sdk/pack ({', '.join(different[:3])})")
        return problems


def packed_again(name, folder):
    made = {file.name: file for file in PACKERS[name](folder)}
    return [(made[released], PACKAGES / embedded) for released, embedded in EMBEDDED[name].items()]


def differences(one, other):
    """Returns the names of the entries that differ between two archives."""
    one, other = contents(one), contents(other)
    if list(one) == list(other):
        return [name for name in one if one[name] != other[name]]
    return sorted(set(one) ^ set(other)) or ["the order of the entries"]


# ------------------------------------------------------------------------------------------------------------ archives


def contents(file):
    """Returns an archive's files by name, in its order; for any other file, the file itself."""
    if file.suffix in (".zip", ".whl"):
        with zipfile.ZipFile(file) as archive:
            return {entry.filename: archive.read(entry) for entry in archive.infolist() if not entry.is_dir()}
    if file.suffix == ".tgz":
        with tarfile.open(file) as archive:
            return {entry.name: archive.extractfile(entry).read() for entry in archive if entry.isfile()}
    return {file.suffix: file.read_bytes()}


def write_zip(path, files):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content in files:
            entry = zipfile.ZipInfo(name)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o100644 << 16
            archive.writestr(entry, content, compresslevel=9)


def write_tgz(path, files):
    uncompressed = io.BytesIO()
    with tarfile.open(fileobj=uncompressed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in files:
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime, entry.mode = len(content), NPM_TIME, 0o644
            archive.addfile(entry, io.BytesIO(content))
    path.write_bytes(gzip.compress(uncompressed.getvalue(), mtime=0))
