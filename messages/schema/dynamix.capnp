@0xb8e833d0f1f0864f;
# The messages of Dynamix's processes: one Envelope a frame. What each field means stands here; its range stands in its
# row of messages/fields.def, and what breaks it is refused on both sides.
#
# Schemas only grow, so that every frame ever recorded (tests/unit/messages/golden) stays readable:
#   - A field, an enumerant or an arm of the union is added at the end of its list under the next free number.
#   - A number, a type, a unit and a meaning never change. A new meaning is a new field.
#   - A field that is no longer used keeps its number and its type and is renamed to obsolete<Name>.
#   - A new field's default (zero, empty) means "an older sender, which did not know it".
#   - Value 0 of every enum is `unspecified`, and arm 0 of the union `unset`: no sender uses them, every receiver
#     refuses them.
#   - The unit is the last word of a name: Seconds, Ms, Bytes. Counts and ratios have none.
#   - A change that an old peer would misread raises `newest_protocol`, and is sent only to peers that speak it; what
#     this release can no longer speak raises `oldest_protocol` (messages/types.hpp).

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("dynamix::messages::schema");

struct Envelope {
  union {
    unset @0 :Void;
    hello @1 :Hello;
    welcome @2 :Welcome;
    windowReport @3 :WindowReport;
    evaluationReport @4 :EvaluationReport;
    farewell @5 :Farewell;
    shardReport @6 :ShardReport;
    decision @7 :Decision;
    trajectory @8 :Trajectory;
    policyVersion @9 :PolicyVersion;
    storeOperation @10 :StoreOperation;
    storeResult @11 :StoreResult;
    placement @12 :Placement;
    generationNotice @13 :GenerationNotice;
    heartbeat @14 :Heartbeat;
    shardHello @15 :ShardHello;
    absence @16 :Absence;
    beatSummary @17 :BeatSummary;
    shardWindow @18 :ShardWindow;
    guidance @19 :Guidance;
    shardOrder @20 :ShardOrder;
    recipients @21 :Recipients;
    clientHello @22 :ClientHello;
    clientWelcome @23 :ClientWelcome;
    clientNotice @24 :ClientNotice;
  }
}

struct DecisionKey {
  # Orders decisions, by term and then by window. Both 0: no decision yet.

  term @0 :UInt64;
  # Of the arbitrator.

  window @1 :UInt64;
  # Counts from 1.
}

struct Hello {
  # Worker to arbitrator, the first message after a connect, and whenever the worker has left a generation or the size of its
  # group has changed.

  protocol @0 :UInt32;
  # The oldest that the sender speaks; of senders before protocol 4, which compare it for equality, the only one.

  cluster @1 :Text;
  # Name of the cluster.

  clusterDigest @2 :UInt64;
  # Of the resolved cluster file; both sides must read the same one.

  host @3 :Text;
  # Name of the calling host in the cluster file.

  incarnation @4 :UInt64;
  # Unique a process start, never 0.

  heartbeatIntervalMs @5 :UInt32;

  generation @6 :UInt64;
  # The newest that the worker was placed in; 0: none yet.

  lastDecision @7 :DecisionKey;
  # The newest that it holds.

  obsoleteBatch @8 :UInt32;

  training @9 :Bool;
  # In that generation; otherwise it waits for a place.

  members @10 :List(UInt32);
  # Ranks of that generation, rising; empty unless it trains.

  steps @11 :UInt64;
  # Completed; the state after them is in memory.

  attemptedSteps @12 :UInt64;
  # One more than `steps` where one was in flight when the generation ended.

  checkpointSteps @13 :UInt64;
  # Of the newest checkpoint that it can go on from; 0: none.

  newestProtocol @14 :UInt32;
  # That the sender speaks; 0: an older sender, which speaks `protocol` alone.

  group @15 :UInt32;
  # Processes in the group of the user's process that trains for this worker; 0: it trains itself, or an older sender.

  reserves @16 :Bool;
  # It only asks for its rank, since the process that is to train for it has not come.

  leftBecause @17 :Text;
  # Why it is in that generation no more; empty: it is, or an older sender.

  address @18 :Text;
  # Where the others reach a host that the file does not name; empty: the file says it, nobody calls it, or an older sender.
}

enum WelcomeVerdict {
  unspecified @0;
  accepted @1;
  protocolMismatch @2;

  clusterMismatch @3;
  # Another cluster, or another version of its file.

  unknownHost @4;
  # Not in the cluster file, or without a worker role.

  duplicateHost @5;
  # The same name is connected under another incarnation.

  heartbeatMismatch @6;
  # Would cut healthy connections.

  generationClosed @7;
  # Training is over: nobody can join any more.

  notLeader @8;
  # Another replica decides: `leader`.
}

struct Welcome {
  # The answer to a hello. The fields behind `detail` hold only when accepted.

  verdict @0 :WelcomeVerdict;

  detail @1 :Text;
  # For a person.

  term @2 :UInt64;
  generation @3 :UInt64;
  # The newest that was formed; 0: none yet.

  rank @4 :UInt32;
  # The worker's position among the workers of the cluster file, in all generations.

  obsoleteWorldSize @5 :UInt32;
  obsoleteStorePrefix @6 :Text;

  leader @7 :Text;
  # With notLeader: the host to go to; empty where it is not known.

  protocol @8 :UInt32;
  # The newest that both sides speak, which they speak from here on; 0: an older sender, which speaks one alone.
}

struct Placement {
  # A new generation, which is one fixed set of workers with one process group; arbitrator to each of its members.

  generation @0 :UInt64;
  # Counts from 1.

  members @1 :List(UInt32);
  # Ranks, rising.

  source @2 :UInt32;
  # The member whose state all start from.

  storePrefix @3 :Text;
  # Of the keys through which the generation's process group meets.
}

enum GenerationChange {
  unspecified @0;

  ended @1;
  # A member is lost: leave at once, drop the step in flight, and say hello.

  regroup @2;
  # Somebody wants to join: leave together at the next agreement, and say hello.
}

struct GenerationNotice {
  # What becomes of a running generation; arbitrator to each of its members, unasked.

  generation @0 :UInt64;
  change @1 :GenerationChange;

  reason @2 :Text;
  # For a person.
}

struct Heartbeat {
  # A worker's sign of life.

  rank @0 :UInt32;

  incarnation @1 :UInt64;
  # As in its hello.

  generation @2 :UInt64;
  # That it trains in; 0: none.

  steps @3 :UInt64;
  # Completed.
}

enum SignalSource {
  unspecified @0;
  # An older sender, or a simulated one. Allowed here.

  none @1;
  unprivileged @2;
  ebpf @3;
}

struct NetworkStatistics {
  # What the network did to one process in one window. Rates are means over the window.

  valid @0 :Bool;

  throughputBytesPerSecond @1 :Float64;
  # Sent and received.

  rttSeconds @2 :Float64;
  # Mean of the sockets' smoothed round-trip times.

  retransmissions @3 :UInt64;
  # TCP segments.

  source @4 :SignalSource;

  rttP50Seconds @5 :Float64;
  # Of the connections that carry gradients.

  rttP99Seconds @6 :Float64;
  # Of the same; 0: no sample in this window.

  gradientBytesPerSecond @7 :Float64;
  # Sent and received between training threads.

  controlBytesPerSecond @8 :Float64;
  # Sent and received by everything else.

  segmentsSent @9 :UInt64;
  # TCP segments with data, repeated ones too.

  senderBlockedRatio @10 :Float64;
  # Time with gradients sent but not delivered, over wall time, summed over connections.

  receiverBlockedRatio @11 :Float64;
  # Time in which a peer did not read what was to be sent, likewise.

  connectionResets @12 :UInt64;
  # Connections that broke in this window.

  connections @13 :UInt32;
  # That carry gradients, open at the window's end.

  congestionWindowSegments @14 :Float64;
  # Of those: mean over RTT samples or, without eBPF, at the window's end.
}

struct SystemStatistics {
  # What the machine did to one process in one window.

  valid @0 :Bool;

  cpuTimeRatio @1 :Float64;
  # CPU time over wall time, all threads: 2 is two cores.

  runQueueWaitRatio @2 :Float64;
  # Time runnable but not running over wall time, summed over threads.

  memoryRatio @3 :Float64;
  # Resident set over physical memory, 0 to 1.

  source @4 :SignalSource;

  trainingValid @5 :Bool;
  # Whether the next three, of the training thread alone, were measured.

  trainingCpuRatio @6 :Float64;
  # Time on a CPU over wall time, 0 to 1.

  trainingWaitRatio @7 :Float64;
  # Time runnable but not running over wall time, 0 to 1.

  trainingStalledRatio @8 :Float64;
  # Time in uninterruptible sleep (disk) over wall time, 0 to 1; from eBPF only.

  involuntarySwitches @9 :UInt64;
  # Of all threads in the window, as are the next two.

  pageFaults @10 :UInt64;
  # Minor and major.

  majorPageFaults @11 :UInt64;

  cgroupMemoryBytes @12 :UInt64;
  # Charged to the process's memory cgroup; 0: unknown.

  throttledRatio @13 :Float64;
  # Time that the CPU quota of the cgroup held it back, over wall time.

  pressureValid @14 :Bool;
  # Whether the next three (PSI "some" of the whole machine) were measured.

  cpuPressureRatio @15 :Float64;
  # Time in which some task of the machine waited for it, over wall time, 0 to 1.

  memoryPressureRatio @16 :Float64;
  ioPressureRatio @17 :Float64;
}

struct GpuStatistics {
  # A machine's GPUs at the end of a window.

  valid @0 :Bool;
  # False without a GPU.

  utilisationRatio @1 :Float64;
  # Mean over the devices, 0 to 1.

  memoryRatio @2 :Float64;
  # Of the fullest device, 0 to 1.

  throttled @3 :Bool;
  # The clock of some device was held down by heat or power.
}

struct TrainingStatistics {
  # One worker in one window; means over its steps.

  steps @0 :UInt32;

  samples @1 :UInt64;
  # By this worker.

  accuracy @2 :Float64;
  # Mean batch accuracy, 0 to 1.

  loss @3 :Float64;
  # Mean batch loss, of any sign. 0: not known; a loss of 0 is sent as the smallest number.

  iterationSeconds @4 :Float64;
  # A step as a whole; the next three are its parts.

  computeSeconds @5 :Float64;
  # Forward, backward and the emulated slow-down.

  exchangeSeconds @6 :Float64;
  # Blocked on peers and on the network.

  dataSeconds @7 :Float64;
  # Fetching the batch.

  gradientValid @8 :Bool;
  # False while the next four warm up.

  sigmaNorm @9 :Float64;
  # Square root of sigma2Norm.

  sigma2Norm @10 :Float64;
  # The worker's relative gradient variance, (E|g_i|^2 - |G|^2) / |G|^2.

  gradientNorm @11 :Float64;
  # Of the global batch.

  noiseScale @12 :Float64;
  # tr(Sigma) / |G|^2, in samples.

  learningRate @13 :Float64;

  gain @14 :Float64;
  # Of the learning-rate rule, 1/S to S; 1 at the base batch.

  noiseError @15 :Float64;
  # Standard error of the noise scale's natural logarithm, by how the steps' shares of noise spread; 0: not known.

  untimedSteps @16 :UInt32;
  # Of `steps`, those whose times are not known, which the means of times are without.
}

struct BalanceStatistics @0xd2b15f16371e4f80 {
  # What workers have moved to or from one of them in a window, between decisions (policy/balance.hpp).

  moves @0 :UInt32;
  # Steps after which samples were moved between any of them.

  movedSamples @1 :Float64;
  # By this worker in all steps, above what the decisions in force gave it; negative: below.

  changes @2 :UInt32;
  # Changes of its own speed that it found.

  newestChange @3 :Float64;
  # Times as long as before that a step took after the newest of them; 0: none was found.

  paceChange @4 :Float64;
  # Times as long as at the end of the window before that a step of one batch size takes now; 0: not known.

  sharedCpus @5 :UInt32;
  # CPUs that this worker shares with others, so that its share follows decisions alone; 0: none, or it was not asked.

  sharedDemand @6 :Float64;
  # Of them, how many all who share them would keep busy together.
}

struct WindowReport {
  # One worker's account of one window, completed by its host's telemetry.

  host @0 :Text;
  rank @1 :UInt32;
  generation @2 :UInt64;

  window @3 :UInt64;
  # Counts from 1.

  firstStep @4 :UInt64;

  final @5 :Bool;
  # The worker trains no further: nothing is decided on it.

  batch @6 :UInt32;
  # In force during the window, in samples.

  decision @7 :DecisionKey;
  # That put the batch in force.

  globalBatch @8 :UInt64;

  epoch @9 :UInt64;

  epochSamples @10 :UInt64;
  # Of all workers in this epoch, up to the window's end.

  elapsedSeconds @11 :Float64;
  # Since training began.

  training @12 :TrainingStatistics;
  network @13 :NetworkStatistics;
  system @14 :SystemStatistics;

  telemetrySeconds @15 :Float64;
  # CPU time that measuring this window cost, in the kernel too.

  controlSeconds @16 :Float64;
  # Time that the training thread spent on windows and decisions.

  gpu @17 :GpuStatistics;

  programSeconds @18 :Float64;
  # Of telemetrySeconds: run time of the programs in the kernel.

  telemetryChoice @19 :Text;
  # For a person: what each signal is measured with and why; empty: as before.

  balance @20 :BalanceStatistics;

  exchangeChoice @21 :Text;
  # For a person, by one worker for all: who sums gradients and in which form, and why; empty: as before.

  baseBatch @22 :UInt64;
  # A client's: the global batch that its training began with, which its learning rate is meant for; 0: as the cluster file
  # says.

  highestBatch @23 :UInt32;
  # A client's: the largest batch that it takes; 0: as the cluster file says.

  rule @24 :RateRule;
  # A client's: how its learning rate follows the global batch; unspecified: as the cluster file says.

  warning @25 :Text;
  # For a person: what has gone wrong on this worker since its report before, and does not end training; empty: nothing.
}

struct EvaluationReport {
  # The whole model on the test set; sent by the generation's first member, or by a client.

  step @0 :UInt64;

  epoch @1 :UInt64;
  # Completed epochs.

  samples @2 :UInt64;
  elapsedSeconds @3 :Float64;

  trainLoss @4 :Float64;
  # As TrainingStatistics has its loss, and the next one.

  testLoss @5 :Float64;

  testAccuracy @6 :Float64;
  # 0 to 1.

  globalBatch @7 :UInt64;
  learningRate @8 :Float64;

  host @9 :Text;
  # Whose worker says so: written by the aggregator that it is connected to, whatever the sender says; empty: not known.
}

struct DecisionCounts {
  # A worker's decisions. received = applied + superseded + unapplied; the last two come on top.

  received @0 :UInt64;
  applied @1 :UInt64;

  late @2 :UInt64;
  # Of the applied ones: after the first boundary that it was meant for.

  superseded @3 :UInt64;
  # Replaced by a newer one before it applied.

  unapplied @4 :UInt64;
  # Still pending when training ended.

  staleRefused @5 :UInt64;
  # Older than the newest.

  duplicated @6 :UInt64;
  # The same key again, refused.
}

enum FarewellEnd {
  unspecified @0;
  # An older sender, whose reason begins with what is its end (messages/leave.hpp). Allowed here.

  completed @1;
  # Nothing is left to train.

  stopped @2;
  # Asked for, and all workers ended at one step: the run may be resumed.

  left @3;
  # Its host leaves while the others train on.

  cancelled @4;
  # Asked for while there was nothing to end in order: before training, or between two generations.

  failed @5;
}

struct Farewell {
  # A worker's last word.

  host @0 :Text;
  rank @1 :UInt32;
  succeeded @2 :Bool;

  reason @3 :Text;
  # Why it ended, for a person.

  steps @4 :UInt64;
  samples @5 :UInt64;
  epochs @6 :UInt64;
  wallSeconds @7 :Float64;

  finalAccuracy @8 :Float64;
  # 0 to 1.

  secondsToTarget @9 :Float64;
  # Negative: never reached.

  parameterChecksum @10 :UInt64;
  controlSeconds @11 :Float64;
  telemetrySeconds @12 :Float64;
  decisions @13 :DecisionCounts;

  incarnation @14 :UInt64;
  # Of the process whose last word this is, as in its hello. 0: an older sender, or no worker.

  end @15 :FarewellEnd;
  # How training ended.
}

struct ShardReport {
  # The window of a shard: the reports that came before the deadline. The policy sums s_global from them.

  window @0 :UInt64;
  generation @1 :UInt64;

  reports @2 :List(WindowReport);
  # By rising rank; of an older window where a worker was late.

  expected @3 :UInt32;
  # Workers of the shard.

  gatherSeconds @4 :Float64;
  # From the window's first report to its close.
}

struct Decision {
  # One worker's new batch size.

  key @0 :DecisionKey;
  generation @1 :UInt64;
  rank @2 :UInt32;

  batch @3 :UInt32;
  # In samples.

  firstStep @4 :UInt64;
  # The earliest step that it may hold for; all workers agree on the actual one.
}

struct Transition {
  # One step of one worker, as PPO sees it.

  state @0 :List(Float32);
  # Normalised, as the policy saw it; masked entries are 0.

  action @1 :UInt32;
  # Index into the actions of the cluster file.

  logProbability @2 :Float32;
  value @3 :Float32;
  reward @4 :Float32;
}

struct Trajectory {
  # Consecutive transitions of one worker under one policy version.

  rank @0 :UInt32;
  policyVersion @1 :UInt64;
  transitions @2 :List(Transition);

  bootstrapValue @3 :Float32;
  # Value of the state that follows the last transition.
}

struct PolicyVersion {
  # New parameters for the policy.

  version @0 :UInt64;

  parameters @1 :Data;
  # A tensor file (storage/tensor_file.hpp) with a checksum of its own.

  policyLoss @2 :Float64;
  # This and the rest describe the update that made it.

  valueLoss @3 :Float64;
  entropy @4 :Float64;
  approximateKl @5 :Float64;
  clipFraction @6 :Float64;
}

enum StoreVerb {
  unspecified @0;
  set @1;
  get @2;
  add @3;
  check @4;
  remove @5;
  count @6;
}

struct StoreOperation {
  # One operation on the store through which a process group meets.

  verb @0 :StoreVerb;

  keys @1 :List(Text);
  # One for set, get, add and remove; one or more for check; none for count.

  value @2 :Data;
  # Of set.

  amount @3 :Int64;
  # Of add.
}

enum StoreStatus {
  unspecified @0;
  ok @1;
  absent @2;
}

struct StoreResult {
  status @0 :StoreStatus;

  value @1 :Data;
  # Of get.

  number @2 :Int64;
  # Of add and count; 1 or 0 for check and remove.
}

struct ShardHello {
  # Shard to its parent in the tree of arbitrators, first message after a connect. The answer is a Welcome, of which
  # verdict, term, detail and protocol count. Protocols as in Hello.

  protocol @0 :UInt32;
  cluster @1 :Text;
  clusterDigest @2 :UInt64;
  host @3 :Text;

  node @4 :Text;
  # Its name in the plan.

  parent @5 :Text;
  # The node of the plan that it looks for; another may answer in its place.

  incarnation @6 :UInt64;
  # Unique a start of the shard, never 0.

  heartbeatIntervalMs @7 :UInt32;
  newestProtocol @8 :UInt32;
}

struct Absence {
  # A shard's worker is gone: its connection broke, or it fell silent.

  rank @0 :UInt32;
  incarnation @1 :UInt64;

  detail @2 :Text;
  # For a person.
}

struct BeatSummary {
  # Signs of life of a shard's workers since its last one, which stands for its own.

  node @0 :Text;

  beats @1 :List(Heartbeat);
  # By rising rank.
}

struct WorkerChoice {
  # What a shard decided for one worker.

  rank @0 :UInt32;

  key @1 :DecisionKey;
  # Window 0: nothing was decided.

  policyVersion @2 :UInt64;
  # That decided.

  assigned @3 :UInt32;
  # Batch before the decision, in samples, as the next two.

  batch @4 :UInt32;
  # After it.

  proposed @5 :UInt32;
  # By the policy; another than `batch` where the guard or shadow mode stepped in.

  vote @6 :Int32;
  # Action that the policy chose; -1: none.

  acted @7 :Bool;
  # On it: something can be learned from it.

  logProbability @8 :Float32;
  value @9 :Float32;

  state @10 :List(Float32);
  # Empty where the byte budget does not allow it, as the next two.

  probabilities @11 :List(Float32);
  reason @12 :Text;
}

struct ShardAccount {
  # By what a shard decided a window, beside its reports: so its decisions can be made again.

  arbitrator @0 :UInt64;
  # Drawn when it began to decide, with nothing measured; 0: an older sender.

  decided @1 :UInt64;
  # Windows that it has decided since then, this one included.

  guided @2 :UInt64;
  # Window of the guidance of this generation that it went by; 0: there was none yet.

  policyVersion @3 :UInt64;

  ranks @4 :List(UInt32);
  # Of the reports that it decided on.

  unguided @5 :List(UInt32);
  # Those of them that the guidance did not name.

  forgotten @6 :List(UInt32);
  # Workers that left it since the window before.
}

struct ShardWindow {
  # A window of one shard, decided there, up the tree; or those of several shards, joined by a node in between.

  window @0 :UInt64;
  generation @1 :UInt64;

  expected @2 :UInt32;
  # Workers of the shard.

  gatherSeconds @3 :Float64;
  # The longest of the shards'.

  decideSeconds @4 :Float64;
  # The same.

  untrained @5 :Text;
  # Why the policy was not trained for what it saw; empty: it was, or is not known.

  reports @6 :List(WindowReport);
  # By rising rank; may be of an older window.

  choices @7 :List(WorkerChoice);
  # One a report.

  accounts @8 :List(ShardAccount);
  # Of the shards that decided this window; none of one whose reports are not all here.
}

struct GlobalSums {
  # s_global: convergence indicators over workers, as sums over reports, so that they can be joined.

  reports @0 :Float64;
  # How many were summed.

  weight @1 :Float64;
  # Sum of samples.

  accuracy @2 :Float64;
  # Weighted by samples, as the next one.

  loss @3 :Float64;

  iterationSecondsMax @4 :Float64;
  # For older receivers, whose policies see it.

  noiseScale @5 :Float64;
  # Weighted by samples, over reports with valid gradients.

  noiseWeight @6 :Float64;
  # Sum of their samples.

  globalBatch @7 :Float64;
  # Of the batches in force, as the next two.

  batchLowest @8 :Float64;
  batchHighest @9 :Float64;

  computeSeconds @10 :Float64;
  # Of the computing times of a step, as the next one.

  computeSecondsMax @11 :Float64;

  speed @12 :Float64;
  # Samples per second of computing, over reports that computed.

  speedReports @13 :Float64;

  networkReports @14 :Float64;
  # Reports with a valid network, which the next two are sums over; 0: none, or an older sender.

  throughput @15 :Float64;
  # Bytes per second.

  rttSeconds @16 :Float64;
}

struct WorkerGuidance {
  # What the root rules for one worker.

  rank @0 :UInt32;

  planned @1 :UInt32;
  # Batch in the plan with the highest goodput; 0: no plan.

  ruled @2 :UInt32;
  # Batch to decide where the shard does not know better; 0: as it is.
}

struct Guidance {
  # Root to shards: what one window of all workers comes to, s_global, the plan and the ruling by which shards decide
  # until the next one.

  generation @0 :UInt64;
  # 0: there is none yet.

  window @1 :UInt64;
  sums @2 :GlobalSums;

  planned @3 :Bool;
  # Anything was measured; the next six compare the plan with the highest goodput with what is assigned.

  plannedTotal @4 :Float64;
  assignedTotal @5 :Float64;
  gain @6 :Float64;
  surpriseLargest @7 :Float64;
  exchangeOverStep @8 :Float64;
  noiseTrend @9 :Float64;

  targetSeconds @10 :Float64;
  # Of computing a step: every worker gets what it computes within that; 0: what is ruled for each worker.

  ruledTotal @11 :UInt64;

  intervention @12 :Text;
  # Why the guard stepped in; empty: it did not.

  reason @13 :Text;

  workers @14 :List(WorkerGuidance);
  # By rising rank; those of the receiver.
}

struct ShardOrder {
  # What a parent wants of a shard beside deciding.

  term @0 :UInt64;
  # Decide under at least this one.

  leaving @1 :List(UInt32);
  # Ranks, rising, that are to go to their own shard, which is back.

  finished @2 :Bool;
  # The run is over; the next two tell how.

  succeeded @3 :Bool;
  reason @4 :Text;

  stopped @5 :Bool;
  # Before training's end: in order or, not succeeded, while there was nothing to end so.
}

struct Recipients {
  # Whom a parent's placement, notice or decision is for.

  ranks @0 :List(UInt32);
  # Rising.
}

struct ClientHello {
  # A training process to the agent of its host, the first message after a connect, and again whenever its elastic group has
  # been formed anew, or other members of it have agents than before. Only the first is answered.

  protocol @0 :UInt32;
  # As in Hello.

  position @1 :UInt32;
  # Of the process among the members of its process group: torch's rank.

  members @2 :UInt32;
  # Of the process group, in later hellos those with agents; above `position`. No later hello says more than the first.

  incarnation @3 :UInt64;
  # Unique a process start, never 0.

  newestProtocol @4 :UInt32;
  # As in Hello.
}

enum ClientVerdict {
  unspecified @0;
  accepted @1;

  slotTaken @2;
  # Another process trains for this worker; `detail` names it.

  protocolMismatch @3;

  notServed @4;
  # The run is over, or the agent does not know yet which worker it is.
}

enum RateRule {
  # How the learning rate follows the global batch.

  unspecified @0;
  # The client chooses. Allowed here.

  constant @1;
  linear @2;
  squareRoot @3;
  adascale @4;
}

struct ClientWelcome {
  # The answer to a client's hello. The fields behind `detail` hold only when accepted.

  verdict @0 :ClientVerdict;

  detail @1 :Text;
  # For a person.

  host @2 :Text;
  # Name of the worker in the cluster file.

  rank @3 :UInt32;
  # Its position there.

  workers @4 :UInt32;
  # Of the cluster file.

  windowSteps @5 :UInt32;

  settleSteps @6 :UInt32;
  # Steps behind the end of a window after which its decision may come into force.

  lowestBatch @7 :UInt32;
  # Samples per step, as the next two.

  highestBatch @8 :UInt32;
  initialBatch @9 :UInt32;
  rule @10 :RateRule;
  seed @11 :UInt64;

  generation @12 :UInt64;
  # The newest that this worker was placed in; 0: none yet.

  protocol @13 :UInt32;
  # As in Welcome.

  cores @14 :List(UInt32);
  # The CPUs that the process is to keep to, rising; empty: any.

  gpu @15 :Int32 = -1;
  # The number, as the driver counts, of the GPU that the cluster file gives it; -1: none.

  balances @16 :Balancing;

  startDivisor @17 :UInt32;
  # A script whose learning rate is right below its initial batch size begins with so manyth of that; 0: with all of it.
}

enum Balancing {
  # Who moves samples from member to member in a step that no decision has come for.

  off @0;

  shares @1;
  # The members, by their paces; the global batch is what was decided last.

  all @2;
  # The members, who also choose the global batch.

  automatic @3;
  # As shares, but for members that share cores with others.
}

enum ClientRequest {
  unspecified @0;

  stop @1;
  # All members end training at the step on which they agree next.
}

struct ClientNotice {
  # What the agent wants of a training process beside its decisions.

  request @0 :ClientRequest;

  reason @1 :Text;
  # For a person.
}
