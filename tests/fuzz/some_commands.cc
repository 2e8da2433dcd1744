#include "tests/fuzz/some_commands.h"

#include <string>

namespace millrace::fuzz {

TaskCommand SomeTaskCommand(const TaskManager& tasks, ByteSource& bytes) {
  TaskCommand command;
  command.set_front(tasks.front());
  command.set_number(tasks.number() + 1);
  const std::string set = bytes.Chance(64) ? "others" : "rows";
  const uint32_t lease = 1 + static_cast<uint32_t>(bytes.Below(8));
  switch (bytes.Below(8)) {
    case 0: {
      TaskSetSpec& spec = *command.mutable_begin();
      spec.set_name(set);
      spec.set_records(1 + static_cast<int64_t>(bytes.Below(20)));
      spec.set_records_per_task(1 + static_cast<int64_t>(bytes.Below(3)));
      spec.set_epochs(2);
      spec.set_most_failures(2);
      spec.set_timeout_ticks(bytes.Below(3));
      break;
    }
    case 1:
      command.mutable_result()->set_set(set);
      command.mutable_result()->set_lease(lease);
      command.mutable_result()->set_failed(bytes.Chance(128));
      break;
    case 2:
      command.mutable_delivered()->add_lease(lease);
      break;
    case 3:
      command.mutable_undelivered()->add_lease(lease);
      break;
    case 4:
      if (bytes.Chance(64)) {
        command.set_reset(set);
      } else if (tasks.sets().contains(set)) {
        *command.mutable_position() = tasks.PositionOf(set);
      }
      break;
    default:
      command.mutable_get()->set_set(set);
      command.mutable_get()->set_worker(bytes.Chance(128) ? "worker-0" : "worker-1");
  }
  return command;
}

NodeCommand SomeNodeCommand(const JobNodes& nodes, ByteSource& bytes) {
  NodeCommand command;
  command.set_front(nodes.front());
  command.set_number(nodes.number() + 1);
  const std::string instance(1, static_cast<char>('a' + bytes.Below(6)));
  const std::string role = bytes.Chance(128) ? "worker" : "ps";
  switch (bytes.Below(5)) {
    case 0:
      command.mutable_join()->set_role(role);
      command.mutable_join()->set_instance(instance);
      command.mutable_join()->set_address("here:1");
      command.mutable_join()->set_timeout_ticks(1 + bytes.Below(3));
      break;
    case 1:
      command.set_sign(instance);
      break;
    case 2:
      command.set_leave(instance);
      break;
    default: {
      NodeCommand::Arrive& arrive = *command.mutable_arrive();
      arrive.set_instance(instance);
      arrive.set_barrier(bytes.Chance(128) ? "all" : "some");
      if (bytes.Chance(128)) arrive.set_role(role);
      arrive.set_passing(1 + bytes.Below(4));
      arrive.set_value(instance);
      if (!bytes.Chance(64)) break;
      arrive.add_least()->set_role(role);
      arrive.mutable_least(0)->set_nodes(2);
    }
  }
  return command;
}

LeaseCommand SomeLeaseCommand(const LeaseTable& leases, ByteSource& bytes) {
  LeaseCommand command;
  const auto number = static_cast<uint32_t>(bytes.Below(3));
  const auto input = leases.inputs().find(number);
  const auto worker = leases.workers().find(number);
  const uint64_t row = input == leases.inputs().end() ? 0 : input->second.cut_row();
  const int64_t offset = input == leases.inputs().end() ? 0 : input->second.cut_offset();
  switch (leases.has_begun() ? bytes.Below(8) : 0) {
    case 0:
      command.mutable_begin()->set_workers(2);
      command.mutable_begin()->set_partitions(1 + number);
      command.mutable_begin()->set_open_leases(3);
      break;
    case 1:
      command.mutable_end()->set_partition(number);
      command.mutable_end()->set_rows(row);
      break;
    case 2:
    case 3:
    case 4: {
      LeaseCommand::Counted::Worker& counted = *command.mutable_counted()->add_worker();
      counted.set_worker(number);
      if (worker == leases.workers().end()) break;
      counted.set_rows(worker->second.counted_rows() + bytes.Below(8));
      counted.set_clock(worker->second.clock() + 1);
      break;
    }
    default:
      command.mutable_cut()->set_partition(number);
      command.mutable_cut()->set_begin(row);
      command.mutable_cut()->set_end(row + 1 + bytes.Below(4));
      command.mutable_cut()->set_next_offset(offset + 1);
  }
  return command;
}

}  // namespace millrace::fuzz
