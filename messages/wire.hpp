#pragma once

/// Between structs and Cap'n Proto's readers and builders, field by field. Only for the codec. `read` checks no
/// meaning, but never takes more than one element beyond a limit, so that `validate` sees the excess and memory does
/// not.

#include "messages/tree.hpp"
#include "schema/dynamix.capnp.h"

namespace dynamix::messages::wire {

void write(const hello& value, schema::Envelope::Builder envelope);
void write(const welcome& value, schema::Envelope::Builder envelope);
void write(const window_report& value, schema::Envelope::Builder envelope);
void write(const evaluation_report& value, schema::Envelope::Builder envelope);
void write(const farewell& value, schema::Envelope::Builder envelope);
void write(const shard_report& value, schema::Envelope::Builder envelope);
void write(const decision& value, schema::Envelope::Builder envelope);
void write(const trajectory& value, schema::Envelope::Builder envelope);
void write(const policy_version& value, schema::Envelope::Builder envelope);
void write(const store_operation& value, schema::Envelope::Builder envelope);
void write(const store_result& value, schema::Envelope::Builder envelope);
void write(const placement& value, schema::Envelope::Builder envelope);
void write(const generation_notice& value, schema::Envelope::Builder envelope);
void write(const heartbeat& value, schema::Envelope::Builder envelope);
void write(const shard_hello& value, schema::Envelope::Builder envelope);
void write(const absence& value, schema::Envelope::Builder envelope);
void write(const beat_summary& value, schema::Envelope::Builder envelope);
void write(const shard_window& value, schema::Envelope::Builder envelope);
void write(const guidance& value, schema::Envelope::Builder envelope);
void write(const shard_order& value, schema::Envelope::Builder envelope);
void write(const recipients& value, schema::Envelope::Builder envelope);

hello read(schema::Hello::Reader reader);
welcome read(schema::Welcome::Reader reader);
window_report read(schema::WindowReport::Reader reader);
evaluation_report read(schema::EvaluationReport::Reader reader);
farewell read(schema::Farewell::Reader reader);
shard_report read(schema::ShardReport::Reader reader);
decision read(schema::Decision::Reader reader);
trajectory read(schema::Trajectory::Reader reader);
policy_version read(schema::PolicyVersion::Reader reader);
store_operation read(schema::StoreOperation::Reader reader);
store_result read(schema::StoreResult::Reader reader);
placement read(schema::Placement::Reader reader);
generation_notice read(schema::GenerationNotice::Reader reader);
heartbeat read(schema::Heartbeat::Reader reader);
shard_hello read(schema::ShardHello::Reader reader);
absence read(schema::Absence::Reader reader);
beat_summary read(schema::BeatSummary::Reader reader);
shard_window read(schema::ShardWindow::Reader reader);
guidance read(schema::Guidance::Reader reader);
shard_order read(schema::ShardOrder::Reader reader);
recipients read(schema::Recipients::Reader reader);

} // namespace dynamix::messages::wire
