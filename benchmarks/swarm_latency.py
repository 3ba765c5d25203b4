"""Decision latency against the number of workers: `dynamix-node swarm`, central and as a tree, in turns."""
import json
import os
import statistics
import subprocess

WORKERS = (32, 128, 512, 1024)
FANOUT = 32
WINDOWS = 30
WARM_UP = 5
INTERVAL_MS = 1000
TIMEOUT_SECONDS = 600
POLICY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "deployments", "policies", "ppo.dynamix")


def forms_of(build):
    """What is compared, in the clear: name -> command line without its size."""
    node = [os.path.join(build, "node", "dynamix-node"), "swarm", "--insecure"]
    return {"central": node + ["--topology", "central"],
            "tree": node + ["--topology", "tree", "--fanout", str(FANOUT)]}


def measure(command, workers, windows=WINDOWS, interval_ms=INTERVAL_MS, more=()):
    """The figures that one swarm prints, as a dict. Raises RuntimeError where it ends badly or loses a decision."""
    line = command + ["--json", "--workers", str(workers), "--windows", str(windows), "--warm-up", str(WARM_UP),
                      "--interval-ms", str(interval_ms), "--set", "arbitrator.mode=infer", "--set",
                      f"arbitrator.policy_file={POLICY}", *more]
    ended = subprocess.run(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=TIMEOUT_SECONDS)
    if ended.returncode != 0:
        raise RuntimeError(f"exit code {ended.returncode}: {' '.join(line)}\n{ended.stderr}")
    return json.loads(ended.stdout)


def level(figures, name):
    return next((each for each in figures["levels"] if each["level"] == name), None)


def shard_service_ms(figures):
    """CPU of one shard for one window: of the central arbitrator where there is no other."""
    shards = level(figures, "shards") or level(figures, "arbitrator")
    return 1000 * shards["cpu_seconds"] / shards["processes"] / figures["windows"]


def print_table(results):
    print(f"{'':8} {'workers':>7} {'p50 ms':>8} {'p99 ms':>8} {'own p50':>8} {'own p99':>8} {'joined s':>8} "
          f"{'root %':>7} {'shard ms per window':>17} {'KiB per worker':>12}")
    for (form, workers), runs in results.items():
        middle = lambda value: statistics.median(value(run) for run in runs)
        print(f"{form:8} {workers:7} {middle(lambda r: r['window_end_to_applied']['p50_ms']):8.2f} "
              f"{middle(lambda r: r['window_end_to_applied']['p99_ms']):8.2f} "
              f"{middle(lambda r: r['report_sent_to_applied']['p50_ms']):8.2f} "
              f"{middle(lambda r: r['report_sent_to_applied']['p99_ms']):8.2f} "
              f"{middle(lambda r: r['join_seconds']):8.2f} "
              f"{middle(lambda r: 100 * level(r, 'arbitrator')['share_of_a_core']):7.1f} "
              f"{middle(shard_service_ms):17.2f} "
              f"{middle(lambda r: level(r, 'arbitrator')['bytes_a_worker'] / 1024):12.1f}")


def p99(results, form, workers):
    return statistics.median(run["window_end_to_applied"]["p99_ms"] for run in results[form, workers])


def print_ratios(results):
    """Below 1 the tree is faster. The model: a shard with a core of its own takes as long as one alone does, and as
    much longer as its CPU for a window has grown."""
    most = WORKERS[-1]
    for workers in WORKERS:
        print(f"swarm_latency_{workers} tree against central, p99: {p99(results, 'tree', workers):.2f} against "
              f"{p99(results, 'central', workers):.2f} ms, ratio {p99(results, 'tree', workers) / p99(results, 'central', workers):.3f}")
    alone = p99(results, "tree", FANOUT)
    service = {n: statistics.median(map(shard_service_ms, results["tree", n])) for n in (FANOUT, most)}
    modelled = alone + max(0, service[most] - service[FANOUT])
    print(f"swarm_latency as measured: tree p99 at {most} / at {FANOUT} = {p99(results, 'tree', most) / alone:.2f}")
    print(f"swarm_latency modelled with a core a shard: {alone:.2f} ms + ({service[most]:.2f} - {service[FANOUT]:.2f}) ms "
          f"of a shard's CPU a window = {modelled:.2f} ms, {modelled / alone:.2f} times that at {FANOUT}")
    print(f"swarm_latency ratio {p99(results, 'tree', most) / p99(results, 'central', most):.3f}", flush=True)


def run(build, rounds):
    forms = forms_of(build)
    results = {(form, workers): [] for form in forms for workers in WORKERS}
    for turn in range(rounds):
        for workers in WORKERS:
            order = list(forms) if turn % 2 == 0 else list(reversed(forms))
            for form in order:
                results[form, workers].append(measure(forms[form], workers))
            shown = "  ".join(f"{form} {results[form, workers][-1]['window_end_to_applied']['p99_ms']:.2f}"
                              for form in forms)
            print(f"swarm_latency round {turn + 1}/{rounds}, {workers} workers, p99 ms: {shown}", flush=True)
    print_table(results)
    print_ratios(results)


def protections_of(build):
    """One central arbitrator's swarm in the clear, and over links whose messages are checked by who says them."""
    clear = forms_of(build)["central"]
    return {"clear": clear, "links": [word for word in clear if word != "--insecure"]}


def run_links(build, rounds):
    """What links cost the latency of decisions at the largest size, in turns."""
    results = {name: [] for name in ("clear", "links")}
    commands = protections_of(build)
    for turn in range(rounds):
        for name in list(results) if turn % 2 == 0 else list(reversed(results)):
            results[name].append(measure(commands[name], WORKERS[-1]))
        shown = "  ".join(f"{name} {runs[-1]['window_end_to_applied']['p99_ms']:.2f}" for name, runs in results.items())
        print(f"swarm_links round {turn + 1}/{rounds}, {WORKERS[-1]} workers, p99 ms: {shown}", flush=True)
    for figure in ("p50_ms", "p99_ms"):
        ratios = sorted(links["window_end_to_applied"][figure] / clear["window_end_to_applied"][figure]
                        for links, clear in zip(results["links"], results["clear"]))
        print(f"swarm_links {figure[:3]} ratio {statistics.median(ratios):.3f} lowest {ratios[0]:.3f} highest {ratios[-1]:.3f}",
              flush=True)


def run_throughput(build):
    """Messages a core-second of a central arbitrator's process that gathers reports and hands decisions out, and does
    little else: the policy is `static`. In the clear, and over links whose messages are checked by who says them."""
    for name, command in protections_of(build).items():
        figures = measure(command, 256, windows=400, interval_ms=20,
                          more=["--policy", "static", "--set", "cluster.detect_ms=4000"])
        arbitrator = level(figures, "arbitrator")
        print(f"aggregator_messages {name}: {arbitrator['messages']} messages, {arbitrator['cpu_seconds']:.2f} core-seconds "
              f"of the arbitrator's process, {arbitrator['messages'] / arbitrator['cpu_seconds']:.0f} a core-second",
              flush=True)
