// What the page's words mean, as tooltips: the sentences of docs/glossary.md, which a test compares.

export const glossary = {
  window: "The steps (10 by default) whose measurements workers report together; each window ends with one decision.",
  decision: "The batch sizes that the arbitrator chooses after a window, which apply on all workers at one step; with balance they set the global batch, and the workers share it.",
  arbitrator: "The process that receives the workers' reports and decides their batch sizes.",
  "global batch": "The samples of one step, summed over all workers.",
  "noise scale": "The global batch beyond which more samples per step add little, measured from how much the workers' gradients differ.",
  goodput: "Samples per second, each weighted by how much it helps training at the present global batch.",
  barrier: "The wait at the end of a step until the slowest worker's gradients have arrived.",
  guard: "The check of a learned policy's choice against measured step times; it overrides choices that are predicted to be slower.",
  balance: "Sharing the global batch anew at every step, by the speeds that the workers measure themselves.",
  generation: "A fixed group of workers that train together; a new one forms whenever a worker joins, leaves or dies.",
  agent: "The process of Dynamix beside a training script: it measures the script and receives batch sizes for it.",
  pace: "How long a worker takes for a step, and for each sample more or less, as it measures itself.",
  shard: "An arbitrator of a tree that decides for the workers below it.",
  straggler: "A worker that makes the others wait, since it takes longer than they do for its share.",
  ledger: "The file in which a run records every window, decision and event; reports, replays and the page read it.",
};
