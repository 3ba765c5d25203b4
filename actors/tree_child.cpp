#include "actors/tree_child.hpp"

namespace dynamix::actors {

messages::welcome judge_child(const messages::shard_hello& hello, const cluster::cluster_file& file,
                              const cluster::timeouts& timeouts) {
  messages::welcome answer;
  if (hello.protocol != messages::protocol_version || hello.cluster_digest != file.digest() ||
      hello.heartbeat_interval_ms != timeouts.heartbeat_interval_ms) {
    answer.verdict = messages::welcome_verdict::cluster_mismatch;
    answer.detail = "host " + hello.host + " read another version of the cluster file, or runs another release";
  }
  return answer;
}

} // namespace dynamix::actors
