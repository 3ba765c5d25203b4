#!/usr/bin/env python3
"""How soon `dynamix-node launch` has started the processes of many hosts, each behind an sshd in a network namespace.

    sudo benchmarks/launch_hosts.py --program build/release/node/dynamix-node --hosts 64
    sudo benchmarks/launch_hosts.py --program build/release/node/dynamix-node --hosts 64 --waiting

All hosts share this machine's cores: with --waiting their processes only wait, so that what is left is launch's own work
and ssh's. The processes are agents (`trainer = "client"`), which need no cores to train with. Prints seconds from the call to the
first and to the last process's start and until all agents listen, and from Ctrl-C to the end of all. Needs root, sshd
and iproute2; everything is in namespaces that end with it.
"""
from __future__ import annotations

import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
from typing import Callable, List

PATIENCE_SECONDS = 300.0

WRAPPER = """#!/bin/sh
# Says when it was started, and becomes dynamix-node.
for word; do [ "$last" = --name ] && name=$word; last=$word; done
[ -z "$name" ] || date +%s.%N >"{started}/$name"
{waiting}exec {program} "$@"
"""
WAITING = """[ -z "$name" ] || { mkdir -p agents; : >agents/0.sock; exec sleep 600; }
"""


def run(*words: str) -> None:
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


def address_of(host: int) -> str:
    return f"10.77.{host // 250}.{host % 250 + 2}"


def make_network(hosts: int) -> None:
    """A bridge, and a namespace behind it for each host."""
    run("ip", "link", "set", "lo", "up")
    run("ip", "link", "add", "bridge", "type", "bridge")
    run("ip", "addr", "add", "10.77.255.1/16", "dev", "bridge")
    run("ip", "link", "set", "bridge", "up")
    for host in range(hosts):
        run("ip", "netns", "add", f"h{host}")
        run("ip", "link", "add", f"v{host}", "type", "veth", "peer", "name", "eth0", "netns", f"h{host}")
        run("ip", "link", "set", f"v{host}", "master", "bridge", "up")
        for words in (f"addr add {address_of(host)}/16 dev eth0", "link set eth0 up", "link set lo up"):
            run("ip", "-n", f"h{host}", *words.split())


def start_sshd(directory: pathlib.Path, host: int) -> subprocess.Popen[bytes]:
    settings = directory / f"sshd-{host}.conf"
    settings.write_text(
        f"ListenAddress {address_of(host)}\nHostKey {directory}/machine\nAuthorizedKeysFile {directory}/user.pub\n"
        "PidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\n", encoding="ascii")
    return subprocess.Popen(["ip", "netns", "exec", f"h{host}", "/usr/sbin/sshd", "-D", "-f", str(settings)],
                            stderr=subprocess.DEVNULL)


def wait(come_true: Callable[[], bool], launched: subprocess.Popen[bytes]) -> float:
    """When it came true."""
    deadline = time.time() + PATIENCE_SECONDS
    while not come_true():
        if launched.poll() is not None:
            raise RuntimeError(f"launch has ended with {launched.returncode}")
        if time.time() > deadline:
            raise RuntimeError("it takes too long")
        time.sleep(0.05)
    return time.time()


def measure(arguments: argparse.Namespace, directory: pathlib.Path) -> dict[str, float]:
    there, started = directory / "there", directory / "started"
    started.mkdir()
    wrapper = directory / "program"
    wrapper.write_text(WRAPPER.format(started=started, program=pathlib.Path(arguments.program).resolve(),
                                      waiting=WAITING if arguments.waiting else ""), encoding="ascii")
    wrapper.chmod(0o755)
    cluster = ('[cluster]\nname = "many"\n[training]\ntrainer = "client"\n[arbitrator]\npolicy = "goodput"\n'
               '[dashboard]\nlisten = ""\n')
    for host in range(arguments.hosts):
        roles = '["worker", "arbitrator"]' if host == 0 else '["worker"]'
        cluster += f'[[host]]\nname = "h{host}"\naddress = "{address_of(host)}"\nport = 7400\nroles = {roles}\n'
    (directory / "cluster.toml").write_text(cluster, encoding="ascii")
    ssh = (f"ssh -F none -i {directory}/user -oIdentitiesOnly=yes -oStrictHostKeyChecking=no "
           "-oUserKnownHostsFile=/dev/null -oLogLevel=ERROR")
    begin = time.time()
    with open(directory / "said", "wb") as said:
        launched = subprocess.Popen(
            [arguments.program, "launch", "--cluster", str(directory / "cluster.toml"), "--ssh", ssh, "--directory",
             str(there), "--program", str(wrapper), "--out", str(directory / "run"), "--quiet"],
            stdout=said, stderr=said)
    try:
        names = [f"h{host}" for host in range(arguments.hosts)]
        wait(lambda: all((started / name).exists() and (started / name).stat().st_size > 0 for name in names), launched)
        listening = wait(lambda: all((there / name / "agents" / "0.sock").exists() for name in names), launched)
        starts = [float((started / name).read_text(encoding="ascii")) - begin for name in names]
        asked = time.time()
        launched.send_signal(signal.SIGINT)
        launched.wait(PATIENCE_SECONDS)
    except Exception:
        launched.kill()
        print((directory / "said").read_text(encoding="utf-8", errors="replace"), file=sys.stderr)
        raise
    return {"hosts": arguments.hosts, "first_started_seconds": round(min(starts), 2),
            "last_started_seconds": round(max(starts), 2), "all_listen_seconds": round(listening - begin, 2),
            "ended_seconds": round(time.time() - asked, 2), "load": os.getloadavg()[0]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--hosts", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--waiting", action="store_true", help="the hosts' processes do nothing")
    parser.add_argument("--apart", action="store_true", help=argparse.SUPPRESS)  # already in namespaces of its own
    arguments = parser.parse_args()
    if not arguments.apart:
        os.execvp("unshare", ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
                              sys.executable, *sys.argv, "--apart"])
    run("mount", "-t", "tmpfs", "none", "/run")
    os.makedirs("/run/sshd")
    make_network(arguments.hosts)
    with tempfile.TemporaryDirectory(prefix="dynamix-launch-") as temporary:
        directory = pathlib.Path(temporary)
        for key in ("machine", "user"):
            run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(directory / key))
        daemons: List[subprocess.Popen[bytes]] = [start_sshd(directory, host) for host in range(arguments.hosts)]
        time.sleep(3)
        try:
            for number in range(arguments.rounds):
                place = directory / str(number)
                place.mkdir()
                for key in ("machine", "user", "user.pub"):
                    os.link(directory / key, place / key)
                print(json.dumps(measure(arguments, place)), flush=True)
        finally:
            for daemon in daemons:
                daemon.terminate()
    return 0


if __name__ == "__main__":
    sys.exit(main())
