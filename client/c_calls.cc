// The calls of millrace/millrace.h.
#include <algorithm>
#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "millrace/log.h"
#include "millrace/millrace.h"
#include "millrace/parameter_manager.h"

using millrace::client::Code;
using millrace::client::Param;
using millrace::client::ParameterManager;
using millrace::client::Result;
using millrace::client::Status;
using millrace::client::Table;

struct MillraceManager {
  std::atomic<bool> stop = false;
  std::unique_ptr<ParameterManager> manager;
  // By number; null: it is one of the others.
  std::vector<Param*> params;
  std::vector<Table*> tables;
  std::vector<millrace::client::Member> members;  // of the last millrace_members
};

namespace {

std::string& LastError() {
  thread_local std::string error;
  return error;
}

int Return(const Status& status) {
  LastError() = status.message();
  return static_cast<int>(status.code());
}

Status Wrong(const std::string& what) { return {Code::kInvalidArgument, what}; }

template <typename T>
int ReturnValue(const Result<T>& result, T* value) {
  if (result.ok() && value != nullptr) *value = *result;
  return Return(result.status());
}

// The parameter, of which there are `count` values at `values`.
Result<Param*> Find(const MillraceManager* manager, int id, const float* values, size_t count) {
  if (manager == nullptr || values == nullptr) return Wrong("a null pointer");
  if (id < 0 || static_cast<size_t>(id) >= manager->params.size() ||
      manager->params[static_cast<size_t>(id)] == nullptr) {
    return Wrong("there is no parameter " + std::to_string(id));
  }
  Param* const param = manager->params[static_cast<size_t>(id)];
  if (count == param->data().size()) return param;
  return Wrong("the parameter " + param->spec().name + " has " +
               std::to_string(param->data().size()) + " values, not " + std::to_string(count));
}

Result<Table*> FindTable(const MillraceManager* manager, int id) {
  if (manager == nullptr) return Wrong("a null pointer");
  if (id < 0 || static_cast<size_t>(id) >= manager->tables.size() ||
      manager->tables[static_cast<size_t>(id)] == nullptr) {
    return Wrong("there is no table " + std::to_string(id));
  }
  return manager->tables[static_cast<size_t>(id)];
}

// Of so many rows of the table there are `count` values.
Status CheckCount(const Table& table, size_t rows, size_t count) {
  if (count % table.width() == 0 && count / table.width() == rows) return {};
  return Wrong("the table " + table.spec().name + ": " + std::to_string(rows) + " rows of width " +
               std::to_string(table.width()) + " have " + std::to_string(rows * table.width()) +
               " values, and " + std::to_string(count) + " are given");
}

// Reads the parameter by `call`.
int Read(MillraceManager* manager, int id, float* values, size_t count, uint64_t* version,
         Status (ParameterManager::*call)(Param*)) {
  const Result<Param*> param = Find(manager, id, values, count);
  if (!param.ok()) return Return(param.status());
  const Status read = (manager->manager.get()->*call)(*param);
  if (read.ok()) {
    std::ranges::copy((*param)->data(), values);
    if (version != nullptr) *version = (*param)->version();
  }
  return Return(read);
}

// Reads rows by `call`.
int ReadRows(MillraceManager* manager, int id, std::span<const uint64_t> ids,
             std::span<float> values, uint64_t* version,
             Status (ParameterManager::*call)(Table*, std::span<const uint64_t>)) {
  const Result<Table*> table = FindTable(manager, id);
  if (!table.ok()) return Return(table.status());
  if ((ids.data() == nullptr || values.data() == nullptr) && !ids.empty()) {
    return Return(Wrong("a null pointer"));
  }
  if (Status fits = CheckCount(**table, ids.size(), values.size()); !fits.ok()) return Return(fits);
  const Status read = (manager->manager.get()->*call)(*table, ids);
  if (read.ok()) {
    std::ranges::copy((*table)->rows(), values.begin());
    if (version != nullptr) *version = (*table)->version();
  }
  return Return(read);
}

}  // namespace

const char* millrace_error() { return LastError().c_str(); }

int millrace_connect(const char* brokers, const char* job, uint64_t epoch, uint32_t trainers,
                     uint32_t trainer, double timeout_s, const char* master,
                     const char* const* kafka, MillraceManager** manager) {
  const MillraceAnswersTls none = {};
  return millrace_connect_tls(brokers, job, epoch, trainers, trainer, timeout_s, master, kafka,
                              &none, manager);
}

int millrace_connect_tls(const char* brokers, const char* job, uint64_t epoch, uint32_t trainers,
                         uint32_t trainer, double timeout_s, const char* master,
                         const char* const* kafka, const MillraceAnswersTls* answers,
                         MillraceManager** manager) {
  if (brokers == nullptr || job == nullptr || answers == nullptr || manager == nullptr) {
    return Return(Wrong("a null pointer"));
  }
  const auto text = [](const char* given) { return given != nullptr ? given : ""; };
  auto made = std::make_unique<MillraceManager>();
  millrace::client::Settings settings{.brokers = brokers,
                                      .job = job,
                                      .epoch = epoch,
                                      .trainers = trainers,
                                      .trainer = trainer,
                                      .master = text(master),
                                      .answers_tls_cert = text(answers->cert),
                                      .answers_tls_key = text(answers->key),
                                      .answers_tls_ca = text(answers->ca),
                                      .answers_insecure = answers->insecure != 0,
                                      .timeout_s = timeout_s,
                                      .stop = &made->stop};
  for (; kafka != nullptr && kafka[0] != nullptr; kafka += 2) {
    if (kafka[1] == nullptr)
      return Return(Wrong(std::string(kafka[0]) + ": a key without a value"));
    settings.kafka.emplace_back(kafka[0], kafka[1]);
  }
  auto connected = ParameterManager::Connect(settings);
  if (!connected.ok()) return Return(connected.status());
  made->manager = std::move(*connected);
  *manager = made.release();
  return Return({});
}

void millrace_destroy(MillraceManager* manager) { delete manager; }

int millrace_register(MillraceManager* manager, const char* name, const int64_t* shape,
                      size_t dimensions, const char* handler, double learning_rate_multiplier,
                      double decay_multiplier, int* id) {
  if (manager == nullptr || name == nullptr || (shape == nullptr && dimensions > 0) ||
      id == nullptr) {
    return Return(Wrong("a null pointer"));
  }
  const Result<Param*> param =
      manager->manager->Register({.name = name,
                                  .shape = {shape, shape + dimensions},
                                  .handler = handler != nullptr ? handler : "",
                                  .learning_rate_multiplier = learning_rate_multiplier,
                                  .decay_multiplier = decay_multiplier});
  if (param.ok()) {
    manager->params.push_back(*param);
    manager->tables.push_back(nullptr);
    *id = (*param)->id();
  }
  return Return(param.status());
}

int millrace_register_table(MillraceManager* manager, const char* name, int64_t width,
                            const char* handler, double learning_rate_multiplier,
                            double decay_multiplier, double initial_scale, int* id) {
  if (manager == nullptr || name == nullptr || id == nullptr)
    return Return(Wrong("a null pointer"));
  const Result<Table*> table =
      manager->manager->RegisterTable({.name = name,
                                       .width = width,
                                       .handler = handler != nullptr ? handler : "",
                                       .learning_rate_multiplier = learning_rate_multiplier,
                                       .decay_multiplier = decay_multiplier,
                                       .initial_scale = initial_scale});
  if (table.ok()) {
    manager->params.push_back(nullptr);
    manager->tables.push_back(*table);
    *id = (*table)->id();
  }
  return Return(table.status());
}

int millrace_get_rows(MillraceManager* manager, int id, const uint64_t* ids, size_t ids_count,
                      float* values, size_t count, uint64_t* version) {
  return ReadRows(manager, id, {ids, ids_count}, {values, count}, version,
                  &ParameterManager::GetRows);
}

int millrace_collect_rows(MillraceManager* manager, int id, const uint64_t* ids, size_t ids_count,
                          float* values, size_t count, uint64_t* version) {
  return ReadRows(manager, id, {ids, ids_count}, {values, count}, version,
                  &ParameterManager::CollectRows);
}

int millrace_want_rows(MillraceManager* manager, int id, const uint64_t* ids, size_t ids_count) {
  const Result<Table*> table = FindTable(manager, id);
  if (!table.ok()) return Return(table.status());
  if (ids == nullptr && ids_count > 0) return Return(Wrong("a null pointer"));
  return Return(manager->manager->WantRows(**table, {ids, ids_count}));
}

int millrace_update_rows(MillraceManager* manager, int id, const float* gradient, size_t count) {
  const Result<Table*> table = FindTable(manager, id);
  if (!table.ok()) return Return(table.status());
  if (gradient == nullptr && count > 0) return Return(Wrong("a null pointer"));
  const size_t rows = (*table)->ids().size();
  if (Status fits = CheckCount(**table, rows, count); !fits.ok()) return Return(fits);
  std::copy_n(gradient, count, (*table)->grad().begin());
  return Return(manager->manager->UpdateRows(**table));
}

int millrace_put(MillraceManager* manager, int id, const float* values, size_t count) {
  const Result<Param*> param = Find(manager, id, values, count);
  if (!param.ok()) return Return(param.status());
  std::copy_n(values, count, (*param)->data().begin());
  return Return(manager->manager->Put(**param));
}

int millrace_update(MillraceManager* manager, int id, const float* gradient, size_t count) {
  const Result<Param*> param = Find(manager, id, gradient, count);
  if (!param.ok()) return Return(param.status());
  std::copy_n(gradient, count, (*param)->grad().begin());
  return Return(manager->manager->Update(**param));
}

int millrace_get(MillraceManager* manager, int id, float* values, size_t count, uint64_t* version) {
  return Read(manager, id, values, count, version, &ParameterManager::Get);
}

int millrace_collect(MillraceManager* manager, int id, float* values, size_t count,
                     uint64_t* version) {
  return Read(manager, id, values, count, version, &ParameterManager::Collect);
}

int millrace_step(MillraceManager* manager, double weight, uint64_t* steps) {
  if (manager == nullptr) return Return(Wrong("a null pointer"));
  return ReturnValue(manager->manager->Step(weight), steps);
}

int millrace_steps(MillraceManager* manager, uint64_t* steps) {
  if (manager == nullptr || steps == nullptr) return Return(Wrong("a null pointer"));
  return ReturnValue(manager->manager->Steps(), steps);
}

int millrace_shard(MillraceManager* manager, int id, MillraceShardRange* ranges, size_t most,
                   size_t* count) {
  if (manager == nullptr || (ranges == nullptr && most > 0) || count == nullptr) {
    return Return(Wrong("a null pointer"));
  }
  const auto found = manager->manager->Shard(id);
  if (!found.ok()) return Return(found.status());
  *count = found->size();
  for (size_t i = 0; i < std::min(most, found->size()); ++i) {
    ranges[i] = {(*found)[i].shard, (*found)[i].begin, (*found)[i].end};
  }
  return Return({});
}

int millrace_leave(MillraceManager* manager) {
  if (manager == nullptr) return Return(Wrong("a null pointer"));
  return Return(manager->manager->Leave());
}

int millrace_barrier(MillraceManager* manager, const char* name, uint32_t trainers) {
  if (manager == nullptr || name == nullptr) return Return(Wrong("a null pointer"));
  return Return(manager->manager->Barrier(name, trainers));
}

int millrace_members(MillraceManager* manager, MillraceMember* members, size_t most,
                     size_t* count) {
  if (manager == nullptr || (members == nullptr && most > 0) || count == nullptr) {
    return Return(Wrong("a null pointer"));
  }
  auto found = manager->manager->Members();
  if (!found.ok()) return Return(found.status());
  manager->members = std::move(*found);
  *count = manager->members.size();
  for (size_t i = 0; i < std::min(most, *count); ++i) {
    const millrace::client::Member& member = manager->members[i];
    members[i] = {member.role.c_str(), member.rank, member.instance.c_str(), member.address.c_str(),
                  static_cast<int>(member.state)};
  }
  return Return({});
}

void millrace_stop(MillraceManager* manager, int stop) {
  if (manager != nullptr) manager->stop = stop != 0;
}

void millrace_set_log(void (*log)(const char* line, void* context), void* context) {
  if (log == nullptr) return millrace::client::SetLog(nullptr);
  millrace::client::SetLog(
      [log, context](std::string_view line) { log(std::string(line).c_str(), context); });
}
