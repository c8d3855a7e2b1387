"""Our parser beside llhttp and picohttpparser on the same bytes. Sources of the peers come from PyPI and stay out of the repository."""

import functools
import glob
import os
import platform
import shutil
import subprocess
import sys
import tarfile

from harness import Failure, build, client, here, peers_directory

package = os.path.join(here, "Parsers")
head_file = os.path.join(package, "head.http")
BODY, CHUNK = 1 << 20, 4096


def chunked_file(directory):
    """A response of 1 MiB in chunks of 4 KiB."""
    path = os.path.join(directory, "chunked.http")
    chunk = b"%x\r\n" % CHUNK + b"x" * CHUNK + b"\r\n"
    with open(path, "wb") as file:
        file.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n")
        file.write(chunk * (BODY // CHUNK) + b"0\r\n\r\n")
    return path


def ours(skip_build):
    return os.path.join(build(skip_build, package), "ParserLoop")


def source(distribution, file):
    """Fetches a distribution's source unless it is there; returns the path of one of its files."""
    folder = os.path.join(peers_directory, distribution)
    if not os.path.isdir(folder):
        # Beside it: a part of it is none.
        fetched = folder + ".part"
        shutil.rmtree(fetched, ignore_errors=True)
        os.makedirs(fetched)
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-binary", ":all:", "--no-deps", "-d", fetched, distribution]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            raise Failure(f"the source of {distribution} cannot be had: {done.stdout.strip()[-300:]}")
        for archive in glob.glob(os.path.join(fetched, "*.tar.gz")):
            with tarfile.open(archive) as tar:
                tar.extractall(fetched)
        os.rename(fetched, folder)
    found = glob.glob(os.path.join(folder, "**", file), recursive=True)
    if not found:
        raise Failure(f"{distribution} has no {file}")
    return found[0]


def llhttp():
    program = os.path.join(peers_directory, "llhttp")
    if outdated(program, "llhttp_peer.c"):
        folder = os.path.dirname(source("httptools", "llhttp.c"))
        compiled = glob.glob(os.path.join(folder, "*.c"))
        compile_peer(program, "-I", os.path.join(folder, "..", "include"), os.path.join(package, "llhttp_peer.c"), *compiled)
    return program


def picohttpparser():
    program = os.path.join(peers_directory, "pico")
    if outdated(program, "picohttpparser_peer.c"):
        parser = source("gunicorn-h1c", "picohttpparser.c")
        instructions = ["-msse4.2"] if platform.machine() == "x86_64" else []
        compile_peer(program, *instructions, "-I", os.path.dirname(parser), os.path.join(package, "picohttpparser_peer.c"), parser)
    return program


def compile_peer(program, *arguments):
    if subprocess.run(["gcc", "-O3", "-o", program, *arguments]).returncode != 0:
        raise Failure(f"gcc could not build {os.path.basename(program)}: its rows are left out")


def outdated(program, peer):
    return not os.path.exists(program) or os.path.getmtime(program) < os.path.getmtime(os.path.join(package, peer))


def candidates(kind):
    """`head`: nanoseconds a head. `chunked`: nanoseconds a KiB of body."""

    def make(bench):
        count = (100_000 if kind == "head" else 1_000) // (10 if bench.quick else 1) * (10 if kind == "head" else 1)
        path = head_file if kind == "head" else chunked_file(bench.directory)

        def once(program):
            words = [program(), path, count] + (["--body"] if kind == "chunked" else [])
            result = client(words)
            if result["fields"] != (11 if kind == "head" else 2) or result["bytes"] != (0 if kind == "head" else BODY):
                raise Failure(f"{words[0]} found {result['fields']} fields and {result['bytes']} bytes")
            return {"nanoseconds": result["nanoseconds"] / (1 if kind == "head" else BODY / 1024)}

        table = {"Lupine": lambda: ours(bench.skip_build), "llhttp": llhttp}
        if kind == "head":
            table["picohttpparser"] = picohttpparser
        return {name: functools.partial(once, program) for name, program in table.items()}

    return make
