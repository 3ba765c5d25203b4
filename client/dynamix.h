#pragma once

/* The client of a Dynamix agent: what a training process does besides training. C99, stable, without Torch, CAF or
 * Python, and without a thread of its own: it acts only inside of calls. All of it is Torch-free arithmetic (which
 * samples, which weights, which learning rate, which batch sizes) and one Unix socket; whoever calls it owns the model,
 * the data and the collectives. A run may be used by one thread at a time, and only by the process that opened it.
 *
 * Order of calls:
 *
 *   open -> introduce -> (all-gather the rows) -> begin
 *   per epoch:  start_epoch
 *   per batch:  fetch, samples         as far ahead as a data loader fetches; left out where it takes what is dealt
 *               deal, (samples)        how many of them the next batch has
 *               deliver                when the training loop is given the batch
 *   per step:   due, weights           while backward runs
 *               write_row              if due & DYNAMIX_GATHER, then all-gather the rows
 *               read_rows              when they have come
 *               rate                   before the optimiser's step
 *               complete               behind it
 *   finish -> close
 *
 * Functions that return int return DYNAMIX_OK, another code below, or DYNAMIX_ERROR, for which dynamix_error() has the
 * text. Structs begin with their size, so that fields can be added: set it to sizeof. */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DYNAMIX_ABI_VERSION 1
#define DYNAMIX_API __attribute__((visibility("default")))

enum {
  DYNAMIX_OK = 0,
  DYNAMIX_ERROR = 1, /* dynamix_error() says what and what to do */
  DYNAMIX_END = 2,   /* deal: the epoch is dealt, or training was asked to stop */
  DYNAMIX_WAIT = 3   /* deal: rows are under way; read_rows first, since the next batch may depend on them */
};

typedef struct dynamix_run dynamix_run;

DYNAMIX_API uint32_t dynamix_abi_version(void);

/* The socket of the agent that serves the process with this local rank: $DYNAMIX_AGENT if it names a socket,
 * $DYNAMIX_AGENT/<local_rank>.sock if it names a directory, and an empty text if it is not set. Returns the length. */
DYNAMIX_API size_t dynamix_agent_path(uint32_t local_rank, char* path, size_t size);

typedef struct dynamix_options {
  uint32_t size;
  uint32_t position;           /* of this process among the members: torch's rank */
  uint32_t members;            /* torch's world size, 1 to 4096 */
  uint32_t connect_timeout_ms; /* for the agent's welcome; 0: 5000 */
  const char* agent;           /* path of its socket; NULL or empty: none, batch sizes stay as they are */
} dynamix_options;

/* NULL when the options make no sense, or the agent cannot be reached or refuses; `error` says why and what to do.
 * Where the agent serves one of several workers of its host, the threads of this process are kept to that worker's
 * cores ([[host]] bind_cores). */
DYNAMIX_API dynamix_run* dynamix_open(const dynamix_options* options, char* error, size_t error_size);
/* Closes the socket and frees the run. Without `finish` before, the agent takes the process for lost. */
DYNAMIX_API void dynamix_close(dynamix_run* run);
/* Of the last DYNAMIX_ERROR; valid until the next call with this run. */
DYNAMIX_API const char* dynamix_error(const dynamix_run* run);
/* The next line for the user's log ("window 12: batch 64 -> 96 from step 124 on"), or NULL. Valid until the next
 * call. One that begins with "warning: " wants the user's attention. */
DYNAMIX_API const char* dynamix_next_notice(dynamix_run* run);

enum {
  DYNAMIX_RULE_AGENT = 0,
  DYNAMIX_RULE_CONSTANT = 1,
  DYNAMIX_RULE_LINEAR = 2,
  DYNAMIX_RULE_SQUARE_ROOT = 3,
  DYNAMIX_RULE_ADASCALE = 4
};

enum { DYNAMIX_BALANCE_AGENT = 0, DYNAMIX_BALANCE_ON = 1, DYNAMIX_BALANCE_OFF = 2 };

typedef struct dynamix_workload {
  uint32_t size;
  uint32_t batch;          /* of this worker at the start, samples per step, 1 to 2^20 */
  uint64_t samples;        /* of an epoch, 1 to 2^31 - 1 */
  uint64_t seed;           /* of the permutations; that of member 0 counts */
  uint32_t lowest_batch;   /* of this worker; 0: the agent's, or 1 */
  uint32_t highest_batch;  /* of this worker; 0: the agent's, or 2^20 */
  uint32_t shuffle;        /* 0: samples in their order */
  uint32_t drop_last;      /* 1: an epoch's last step is dropped where the samples do not fill all batches; there must be
                              one that they fill. Where batches have grown beyond an epoch since, it has one step */
  uint32_t rule;           /* how the learning rate follows the global batch; DYNAMIX_RULE_AGENT: as the agent says, and
                              constant without one */
  uint32_t adaptive;       /* 1: the optimiser is of Adam's kind: the square root of AdaScale's gain is used */
  uint32_t noise_interval; /* gradient noise is measured every so many steps (and in each of the first 16); 0: twice a
                              window */
  uint32_t window_steps;   /* 0: the agent's, or 10 */
  uint32_t balance;        /* whether the members share the global batch by their own paces at every step;
                              DYNAMIX_BALANCE_AGENT: as the cluster file says, and off without an agent */
  uint32_t ahead;          /* batches that are fetched before they are dealt; the largest of all members counts */
  const uint64_t* lengths; /* of a stream: items of each of its shards, `samples` in all, the same on all members. NULL:
                              the samples have numbers */
  uint64_t shards;         /* so many lengths */
  uint64_t identity;       /* a hash of the shards' names, the same on all members */
  uint32_t lanes;          /* shards that are read at once, by turns; 0: one */
  uint32_t reserved;
} dynamix_workload;

/* What every member tells the others once. */
#define DYNAMIX_INTRODUCTION_COLUMNS 24
DYNAMIX_API int dynamix_introduce(dynamix_run* run, const dynamix_workload* workload, int64_t* columns);
/* `rows`: those of all members, members x DYNAMIX_INTRODUCTION_COLUMNS. Fails, on all members alike, where they do not
 * fit together (other data sets, other seeds of one file, other versions). */
DYNAMIX_API int dynamix_begin(dynamix_run* run, const int64_t* rows);

/* ---- Samples. Every member leases items of the same permutation by the same batch sizes (client/leases.hpp), so that
 * each sample is used exactly once an epoch. What is fetched ahead of its deal may be used in batches of any size: new
 * batch sizes hold from the next deal. What is not fetched is dealt at once: new batch sizes hold from the first step
 * that no member has dealt. ---- */

typedef struct dynamix_deal {
  uint32_t size;
  uint32_t own;   /* samples of this worker in this step; 0 in an epoch's last step, perhaps */
  uint64_t step;  /* from 0, counted over the whole training; every deal is one step's */
  uint64_t epoch; /* from 0 */
  uint64_t total; /* samples of all workers in this step */
  uint64_t first; /* of the own samples, in the order in which the epoch is used, step by step and member by member */
  uint32_t ends_epoch;
  uint32_t padded; /* 1: own is 0, and `samples` gives one sample that is not counted, so that a batch can be made */
  uint32_t ranges; /* that `ranges` gives */
  uint32_t lane;   /* of a stream: who reads them. Each lane's pieces follow each other in a shard as far as it goes */
} dynamix_deal;

/* Items first to last - 1 of a shard; of samples that have numbers, places in the epoch's permutation. */
typedef struct dynamix_range {
  uint64_t shard;
  uint64_t first;
  uint64_t last;
} dynamix_range;

/* Begins the next epoch, or goes on with the one that a restored state stands in. What an abandoned epoch had left is
 * given up; one of which no step was completed begins again. The first call tells the agent that training begins. */
DYNAMIX_API int dynamix_start_epoch(dynamix_run* run);
/* The next samples that this member uses, `own` of them in the order of their use; only that, `epoch`, `ranges` and `lane`
 * are given. Either all samples are fetched, or none. DYNAMIX_WAIT: no more are leased before the next deal; DYNAMIX_END:
 * the epoch is dealt. What was fetched and not dealt is fetched again behind start_epoch and regroup. */
DYNAMIX_API int dynamix_fetch_next(dynamix_run* run, dynamix_deal* piece);
/* The next step's samples. DYNAMIX_END at the epoch's end. */
DYNAMIX_API int dynamix_deal_next(dynamix_run* run, dynamix_deal* deal);
/* The numbers of what was fetched or dealt last (one where padded) into `numbers`, `count` of them. */
DYNAMIX_API int dynamix_samples(dynamix_run* run, uint32_t* numbers, size_t count);
/* Where they lie, in the order of their use, into `ranges`, `count` of them: for streams, or callers whose samples have other
 * numbers than those of dynamix_samples. */
DYNAMIX_API int dynamix_ranges(const dynamix_run* run, dynamix_range* ranges, size_t count);
/* How many samples of the newest deal are each member's, into `counts`, `members` of them. The same on all members. */
DYNAMIX_API int dynamix_shares(const dynamix_run* run, uint32_t* counts, size_t members);
/* The oldest batch that was dealt and not delivered is with the training loop now. */
DYNAMIX_API int dynamix_deliver(dynamix_run* run, dynamix_deal* deal);
/* The training loop breaks off the epoch behind so many of the steps that were dealt and are still to be completed; all
 * members at the same one. Nothing more of it is dealt, and behind that step dynamix_save and the status stand at the
 * beginning of the next epoch, where start_epoch goes on: without this, a state that is saved there goes on within the
 * epoch that was broken off. Does nothing where the members stop, who go on from where they have come to; an epoch of
 * which no step is completed begins again. */
DYNAMIX_API int dynamix_leave_epoch(dynamix_run* run, uint64_t steps_to_come);
/* Steps that the epoch is going to have at the present batch sizes, for progress bars and schedules; at the initial ones
 * where training has begun with less, before anything is decided. */
DYNAMIX_API uint64_t dynamix_epoch_steps(const dynamix_run* run);

/* ---- Steps ---- */

enum { DYNAMIX_MEASURE = 1, DYNAMIX_GATHER = 2 };
/* What this step (the next to be completed) needs: the squares of its gradients (MEASURE implies GATHER), a row. The
 * same on all members. */
DYNAMIX_API uint32_t dynamix_due(const dynamix_run* run);
/* b_i and B of what has been delivered since the last completed step. The gradient of the joined batch is
 * sum_i own_i/total * g_i. */
DYNAMIX_API int dynamix_weights(const dynamix_run* run, double* own, double* total);
/* The loss of this step is a mean over `own` items that are not samples (tokens, targets), of `total` among all
 * workers; both count instead of dynamix_weights for the noise. Total may be told as late as before read_rows. */
DYNAMIX_API int dynamix_set_weights(dynamix_run* run, double own, double total);

/* In place: values[i] *= factor. Returns the sum of the squares of the values before (0 if `factor` is 0, which writes
 * zeros whatever the values are). One pass over memory; the order of additions depends on `count` only. */
DYNAMIX_API double dynamix_scale_f32(float* values, size_t count, double factor);
DYNAMIX_API double dynamix_scale_f64(double* values, size_t count, double factor);
/* The sum of squares alone. */
DYNAMIX_API double dynamix_squares_f32(const float* values, size_t count);
DYNAMIX_API double dynamix_squares_f64(const double* values, size_t count);

#define DYNAMIX_ROW_COLUMNS 20
/* `own_square` = |g_i|^2 of this worker's mean gradient (0 unless DYNAMIX_MEASURE is due; NaN where it is and
   nobody has measured; infinite in any step: the gradient is not finite, of which all members are warned). */
DYNAMIX_API int dynamix_write_row(dynamix_run* run, double own_square, int64_t* row);
/* `rows`: those of all members, members x DYNAMIX_ROW_COLUMNS. Decides what holds from which step on. */
DYNAMIX_API int dynamix_read_rows(dynamix_run* run, const int64_t* rows);

typedef struct dynamix_step_rate {
  uint32_t size;
  uint32_t reserved;
  double factor;   /* on the learning rate that the user's schedule says */
  double gain;     /* progress that this step makes, in steps of the base batch (AdaScale's r) */
  double progress; /* the sum of all gains up to and with this step: what per-batch schedules advance by */
} dynamix_step_rate;
/* `global_square` = |g|^2 of the mean gradient over all workers, before clipping (ignored unless DYNAMIX_MEASURE is
 * due). Once a step, behind read_rows. */
DYNAMIX_API int dynamix_rate(dynamix_run* run, double global_square, dynamix_step_rate* rate);

typedef struct dynamix_step {
  uint32_t size;
  uint32_t skipped;         /* 1: the optimiser did not step (an overflow, say); the samples are used up all the same */
  double iteration_seconds; /* from the end of the step before to the end of this one; negative or NaN: not known, as
                               of a device that is behind, and the window's mean times leave the step out */
  double compute_seconds;   /* forward, backward, optimiser */
  double exchange_seconds;  /* waiting for the other workers and the network */
  double data_seconds;      /* waiting for the data loader */
  double loss;              /* mean over the own samples, of any sign; NaN: not known */
  double correct;           /* share of the own samples, 0 to 1; negative: not known */
  double gradient_norm;     /* of the mean gradient; negative: not known */
  double learning_rate;     /* that the optimiser used; negative or NaN: not known */
  uint32_t on_device;       /* 1: compute_seconds is a device's, which a quota of CPU time does not stop */
  uint32_t unused;          /* 0 */
} dynamix_step;
/* The step is done. Closes the window where it is due, sends what is due to the agent and takes what it has sent;
 * never waits for it. */
DYNAMIX_API int dynamix_complete(dynamix_run* run, const dynamix_step* step);

/* The user has evaluated the model; losses of any sign, NaN: not known; accuracy 0 to 1, negative: not known. On one
 * member. */
DYNAMIX_API int dynamix_evaluated(dynamix_run* run, double train_loss, double test_loss, double test_accuracy);
/* From now on this worker takes no decision above `samples` (its memory does not hold more). */
DYNAMIX_API int dynamix_limit_batch(dynamix_run* run, uint32_t samples);

typedef struct dynamix_status {
  uint32_t size;
  uint32_t batch;        /* of this worker, in the step that is completed next */
  uint64_t global_batch; /* of the same step */
  uint64_t step;         /* completed */
  uint64_t samples;      /* of all workers, in them */
  uint64_t epoch;        /* and cursor: where the next step's samples begin */
  uint64_t cursor;
  uint64_t window;     /* closed */
  uint64_t generation; /* of the agent's; 0: none yet */
  uint64_t decisions;  /* put in force */
  uint32_t connected;  /* the agent is there */
  uint32_t stop;       /* the members agreed to stop; deal gives DYNAMIX_END */
  uint32_t rank;       /* of this worker in the cluster file */
  uint32_t noise_valid;
  double noise_scale; /* samples */
  double progress;
  uint32_t gpu; /* that the cluster file gives this worker, the driver's number and 1; 0: none */
  uint32_t reserved;
} dynamix_status;
DYNAMIX_API int dynamix_get_status(const dynamix_run* run, dynamix_status* status);
/* The batch sizes of all members in the step that is completed next. */
DYNAMIX_API int dynamix_batches(const dynamix_run* run, uint32_t* batches, size_t members);

/* ---- Checkpoints: the state behind the last completed step, the same on all members, whatever has been fetched
 * ahead. ---- */
DYNAMIX_API size_t dynamix_state_words(const dynamix_run* run);
DYNAMIX_API int dynamix_save(const dynamix_run* run, uint64_t* words, size_t count);
/* Behind begin and before start_epoch, which goes on with the epoch that the state stands in. For other members than those
 * that saved it, the global batch is shared anew. */
DYNAMIX_API int dynamix_restore(dynamix_run* run, const uint64_t* words, size_t count);
/* The same where members have called dynamix_limit_batch before: `highest` holds each member's limit, the same on all
 * members, or 0 for none. No batch size is above it from the first step on. */
DYNAMIX_API int dynamix_restore_within(dynamix_run* run, const uint64_t* words, size_t count, const uint32_t* highest,
                                       size_t members);

/* The group has lost members, or they have come back: `present` is 0 for those that are absent and 1 for the others.
 * Training goes on behind the last completed step; what was dealt and not completed is dealt again. Absent members have
 * batches of 0, and their rows are not read. To be called by all that are present, behind the same step; one that is
 * behind the others takes their state (dynamix_save) between two calls, one that comes back behind begin: catch_up goes on in
 * the epoch that stands open. */
DYNAMIX_API int dynamix_regroup(dynamix_run* run, const uint32_t* present, size_t members);
DYNAMIX_API int dynamix_catch_up(dynamix_run* run, const uint64_t* words, size_t count);

/* Tells the agent that training is over. Waits up to a second for its answer. */
DYNAMIX_API int dynamix_finish(dynamix_run* run, uint32_t succeeded, const char* reason);

#ifdef __cplusplus
}
#endif
