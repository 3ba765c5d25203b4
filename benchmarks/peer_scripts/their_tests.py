"""docs/peers.md, "Their own tests": what other projects' tests expect, and what comes of the same here. Kept by hand, beside the tests that hold it."""

_NOISE, _ELASTIC = "tests/python/outside_noise_test.py", "tests/python/outside_elastic_test.py"
_FORMULA, _PLAN = "tests/unit/simulator/outside_goodput_test.cpp", "tests/unit/policy/outside_goodput_test.cpp"

_WAITS = "yes; who is left goes on alone here, unless the script waits, as that of the test does"

#: Project and version, and of each: its test, what it expects, what comes here, whether that is the same, and where ours is.
PROJECTS = [
    ("fairscale 0.4.13, AdaScale", _NOISE, [
        ("`test_grad_accum`, `test_basic`", "gains of six cases of two gradients: 4/3, 1.00000012, 2, 1.46888, 1.84729; 1.67210 behind two steps",
         "the same to 1e-5, of the library, and the last of two processes with DistributedDataParallel", "yes"),
        ("`test_scale_not_equal_default`, `test_debias_ewma`", "the scale of orthogonal gradients: 4, 4/3, 2; 2 in each of four steps", "4, 4/3, 2; 2", "yes"),
        ("`test_gradient_value`", "1.00000025 of equal gradients", "1", "to 1e-5: their variance is at least 1e-6, ours 0"),
        ("`test_add_param_group`, first step", "1.14402 of the whole; 1.14286 and 1.14713 of its two parameter groups", "1.14402",
         "of the whole; no gain of a group is kept here, and all step by the same"),
        ("`test_grad_accum` (DDP)", "4 of two workers with two passes each", "2, of steps with two passes each",
         "yes, times the passes: theirs counts from one pass, ours from what the script accumulates"),
        ("`test_set_num_gradients_to_accumulate`", "2.14139, 2.99279, 3.44618 of 3, 6, 9 passes behind a step of 2", "2.33200, 4.32664, 6.31724",
         "**no**: `set_scale` multiplies the variance by the old scale over the new one, but one pass's stays what it was; with that factor ours are theirs"),
        ("`test_lr_scheduler`", "at most 3 of three passes; the schedule's rate stays", "1 to 3; stays", "yes"),
        ("`test_basic_cpu`", "RuntimeError for one worker without accumulation", "trains on, gain 1", "**no**: one gradient shows no noise, so nothing is scaled"),
    ]),
    ("AdaptDL 0.2.11, noise and rules", _NOISE, [
        ("`gradient_noise_scale_test.test_object`", "gain 1 without variance, 2 at scale 3 with a variance of 3", "1, 2", "yes"),
        ("`scaling_rules_test.test_scaling_rules_1`, AdaScale", "0.6, 1, 1.5, 2, 2.5 at scales 0.5, 1, 2, 4, 10; of noise alone the scale", "the same, to 1e-12; at 0.5 from the 200th step on",
         "yes, for the whole model: theirs has a factor a parameter group"),
        ("the same without any gradient", "the scale", "0.5, 1, 1, 1, 1", "**no**: their variance is at least 1e-6; here nothing known raises no rate"),
        ("`test_scaling_rules_2`, `_3`: linear, square root", "the scale; its root, 1 to 5 at 1 to 25", "the same", "yes"),
        ("`test_scaling_rules_4`: LEGW", "a warm-up that is as many epochs", "no such rule", "**no**: schedules are the script's, and advance by progress"),
        ("`gradient_noise_scale_test.test_nan`", "1 goes to 4 +- 0.01 in 100 steps, half of which are NaN; averages stay finite",
         "the same with `nan=\"drop\"`, of two members", "yes, with targets that differ by 0.001: equal gradients of other samples are refused here"),
    ]),
    ("AdaptDL 542e123 (behind 0.2.11), goodput", _FORMULA, [
        ("`goodput_test.test_evaluate`", "goodput is throughput times efficiency, which fall and rise with the batch as they say",
         "the same numbers to 1e-9 for four of the cases that the test draws, and the same courses", "yes, with the noise scale var B0/sqr; T is that of their gamma"),
        ("`scaling_rules_test`", "AdaScale's factors", "the same", "yes"),
    ]),
    ("AdaptDL 542e123 (behind 0.2.11), batch sizes", _PLAN, [
        ("`goodput_test.test_optimize_no_bounds`", "each of n replicas has a n-th of 128, rounded up, where 128 is the largest", "128 in all",
         "yes, but for what rounding adds: shares may differ here"),
        ("`test_optimize_local_bounds`, `test_optimize_max_bounds`, `test_optimize_all_bounds`", "64 to 256 a replica, 128 to 1,280 in all, to within a sample a replica",
         "the same, 1,280 at most", "yes"),
        ("`GoodputFunction.optimize`", "global batches of 492, 700, 1,000, 304, 2,168 for five of the same workers and noise scales; goodputs of 1,849 to 5,123 samples/s",
         "batches within 15 % of these, goodputs within 1 %", "yes, given a 1.2th of the noise scale: beyond B0 a batch has to gain more here than the noise scale may be wrong by"),
        ("`fit_test.test_fit_1`", "a fit of seven parameters is as near to the times as those that made them", "computing within 2 % of the line that made the times, the overlap's effect within 0.03",
         "**no** fit: computing is a table by batch size, the exchange is measured, and only the overlap is fitted"),
        ("`test_optimize_accumulation`, `test_one_replica_accumulation`", "several passes a step where a batch is larger than memory holds",
         "nothing of it in the plan", "**no**: passes are the script's, or made where memory does not hold a batch"),
        ("`speedup_test`, `pollux_test`", "how many replicas a job gets", "nothing of it", "**no**: Dynamix gives no job more or fewer hosts"),
    ]),
    ("torchft 0.2.0", _ELASTIC, [
        ("`test_ddp_healthy`, `test_quorum_happy`", "two replicas, four steps: one state, one quorum", "one state, one generation", "yes"),
        ("`test_ddp_recovery`", "one of two fails behind two of four steps, comes back; one state of model and Adam", "the same", _WAITS),
        ("`test_ddp_recovery_multi_rank`", "both ranks of one of two groups fail there", "the same: members have no groups, and two of four fail", _WAITS),
        ("`test_quorum_heal_sync`", "who comes at step 0 to a peer at 20 loads its state, both stand at 21", "the same, the sampler's place, too", "yes"),
        ("`test_streaming_diloco_upscale`", "a third comes behind the others' second step; one state", "the same, synchronous", "yes, without DiLoCo"),
        ("`test_allreduce_error`, `test_pg_errored`", "the step is not committed; the next quorum commits", "the step is dropped, and done again with the same samples", "yes"),
        ("`test_streaming_diloco_commit_failure`", "the exchange of both fails in one step; one state", "the same, synchronous", "yes, without DiLoCo"),
        ("`test_quorum_timeout`", "TimeoutError after 0.01 s without a quorum", "DynamixError with who has not come, after `elastic_seconds`",
         "yes (`elastic_test`: `of_members_that_do_not_come_and_of_runs_that_have_ended`)"),
        ("`test_quorum_fixed_world_size`, `test_quorum_no_healing`", "spares that stand by", "no spares", "**no**: whoever comes takes part"),
        ("`data_test`", "a replica's sampler begins with its own sample", "no such sampler", "**no**: samples are dealt, so that none is lost or used twice at a failure"),
    ]),
    ("KungFu b1e1768", _ELASTIC, [
        ("`test_step_based_schedule`", "1, 2, 4, 8, 4, 2, 1, 2, 4, 8, 4, 2, 1 workers for three steps each; the sum of ones is the size; who is detached stops",
         "the same sizes in all 39 steps, every sample used once", "yes; the global batch stays here, where each worker brings its own there"),
    ]),
]


def lines():
    """Of the page."""
    text = ["## Their own tests", "",
            "What the tests of others expect, asked of Dynamix: their numbers and courses, restated in tests of ours, which `make test` runs, and none of their code. "
            "How many of accelerate's and torch's own test scripts pass joined is in [the guide](sdk.md#frameworks).", ""]
    for name, where, rows in PROJECTS:
        text += [f"**{name}** ([`{where.rpartition('/')[2]}`](../{where})):", "", "| their test | expects | ours | the same? |", "|---|---|---|---|",
                 *("| " + " | ".join(row) + " |" for row in rows), ""]
    return text
