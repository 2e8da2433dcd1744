#include "master/task_server.h"

#include <grpc/support/log.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/printable.h"
#include "master/grpc_caller.h"
#include "master/node_service.h"
#include "master/task_checkpoint.h"
#include "messages/elasticai.grpc.pb.h"
#include "topics/task_codec.h"

namespace millrace {
namespace {

// A trainer that has vanished with its machine is noticed after so long.
constexpr int kTrainerKeepaliveMs = 10'000;
constexpr int kTrainerKeepaliveTimeoutMs = 5'000;
// At the end, answers that are on their way have so long before their calls are cancelled.
constexpr auto kLastAnswers = std::chrono::seconds(2);
// What the client means where it gives none.
constexpr char kDefaultSet[] = "_EDL_DEFAULT_TRAINING_DATA";
constexpr int64_t kDefaultBatchesPerTask = 100;
constexpr size_t kMostFailureText = 1'000;

using Context = grpc::CallbackServerContext;
using Reactor = grpc::ServerUnaryReactor;
using Nothing = google::protobuf::Empty;
using TaskFill = GrpcCaller<TaskAnswer>::Fill;

Reactor* Finished(Context* context, const grpc::Status& status = grpc::Status::OK) {
  Reactor* reactor = context->DefaultReactor();
  reactor->Finish(status);
  return reactor;
}

std::string SetNameOf(const std::string& name) { return name.empty() ? kDefaultSet : name; }

std::string WorkerNameOf(const std::string& type, int32_t id) {
  return absl::StrCat(type.empty() ? "worker" : absl::AsciiStrToLower(type), "-", id);
}

static_assert(kEvaluationTask == proto::EVALUATION && kEndTask == proto::TRAIN_END_CALLBACK);

// REQUIRES: the rest of it is there.
void AddWhatFollows(const TaskServerOptions& options, TaskSetSpec& spec) {
  const bool is_trained = spec.type() == proto::TRAINING || spec.type() == proto::NONE;
  // (Of a set that cannot be, CheckTaskSet says why.)
  const bool has_tasks = spec.records() > 0 && spec.records_per_task() > 0;
  if (!is_trained || !has_tasks) return;
  spec.set_end_task(options.end_task);
  if (options.evaluation_records == 0) return;
  TaskSetSpec::Evaluation& evaluation = *spec.mutable_evaluation();
  const auto or_else = [](int64_t given, int64_t otherwise) {
    return given > 0 ? given : otherwise;
  };
  evaluation.set_records(options.evaluation_records);
  evaluation.set_records_per_task(
      or_else(options.evaluation_task_records, spec.records_per_task()));
  evaluation.set_every(or_else(options.evaluation_every_tasks, TasksPerEpoch(spec)));
}

TaskSetSpec SpecOf(const proto::ReportDatasetShardParamsRequest& request,
                   const TaskServerOptions& options) {
  TaskSetSpec spec;
  spec.set_name(SetNameOf(request.dataset_name()));
  const int64_t batch = request.batch_size();
  spec.set_records(request.dataset_size());
  if (request.remainder() == "drop" && batch > 0) {
    spec.set_records(request.dataset_size() / batch * batch);
  }
  const int64_t batches = request.num_minibatches_per_shard();
  spec.set_records_per_task(batch * (batches > 0 ? batches : kDefaultBatchesPerTask));
  // A negative number is none: CheckTaskSet refuses it.
  spec.set_epochs(request.num_epochs() > 0 ? static_cast<uint32_t>(request.num_epochs()) : 0);
  if (request.shuffle() || request.shuffle_shards()) spec.set_shuffle(options.seed);
  spec.set_type(request.task_type());
  spec.set_timeout_ticks(options.timeout_ticks);
  spec.set_most_failures(options.most_failures);
  AddWhatFollows(options, spec);
  return spec;
}

void FillTask(const TaskAnswer& answer, proto::Task& task) {
  if (answer.kind == TaskAnswer::Kind::kNoTaskNow) task.set_type(proto::WAIT);
  if (answer.kind != TaskAnswer::Kind::kTask) return;  // the client leaves, or asks again
  task.set_task_id(static_cast<int32_t>(answer.lease));
  task.set_type(static_cast<proto::TaskType>(answer.type));
  if (answer.type == kEvaluationTask) task.set_model_version(static_cast<int32_t>(answer.epoch));
  task.mutable_shard()->set_name(answer.set);
  task.mutable_shard()->set_start(answer.range.begin);
  task.mutable_shard()->set_end(answer.range.end);
}

void FillRunning(const std::vector<MemberState>& members, proto::RunningNodes& response) {
  for (const MemberState& member : members) {
    if (member.phase() != MemberState::LIVE) continue;
    proto::NodeMeta& node = *response.add_nodes();
    node.set_type(member.role());
    node.set_addr(member.address());
  }
}

// Those methods that are not here, gRPC refuses as not implemented. Called by gRPC's threads.
class TaskService final : public proto::Master::CallbackService {
 public:
  TaskService(const TaskServerOptions& options, TaskDesk& desk, NodeDesk& nodes)
      : options_(options), desk_(desk), nodes_(nodes) {}

  // ---- tasks ----

  Reactor* report_dataset_shard_params(Context* context,
                                       const proto::ReportDatasetShardParamsRequest* request,
                                       Nothing*) override {
    TaskCall call;
    *call.command.mutable_begin() = SpecOf(*request, options_);
    return Ask(context, std::move(call));
  }

  Reactor* get_dataset_task(Context* context, const proto::GetDatasetTaskRequest* request,
                            proto::Task* task) override {
    return Get(
        context,
        GetOf(request->dataset_name(), WorkerNameOf(request->worker_type(), request->worker_id())),
        task);
  }
  Reactor* get_task(Context* context, const proto::GetTaskRequest* request,
                    proto::Task* task) override {
    TaskCall call = GetOf(request->dataset_name(), WorkerNameOf("", request->worker_id()));
    TaskCommand::Get& get = *call.command.mutable_get();
    if (request->task_type() == proto::NONE) {
      get.set_any(true);
    } else if (request->task_type() == proto::EVALUATION) {
      call.follows = get.set();
      call.waits = false;  // whoever asks for one between two batches goes on to train
      get.set_set(EvaluationSetOf(call.follows));
    } else if (request->task_type() == proto::TRAIN_END_CALLBACK) {
      call.follows = get.set();
      get.set_set(EndSetOf(call.follows));
    }
    return Get(context, std::move(call), task);
  }

  Reactor* report_dataset_task_result(Context* context,
                                      const proto::ReportDatasetTaskResultRequest* request,
                                      Nothing*) override {
    return Finish(context, *request);
  }
  Reactor* report_task_result(Context* context, const proto::ReportTaskResultRequest* request,
                              Nothing*) override {
    return Finish(context, *request);
  }

  Reactor* reset_dataset(Context* context, const proto::ResetDatasetRequest* request,
                         Nothing*) override {
    TaskCall call;
    call.command.set_reset(SetNameOf(request->dataset_name()));
    return Ask(context, std::move(call));
  }

  Reactor* get_dataset_epoch(Context* context, const proto::GetDatasetEpochRequest* request,
                             proto::GetDatasetEpochResponse* response) override {
    return Ask(context, {TaskCommand(), SetNameOf(request->dataset_name())},
               [response](const TaskAnswer& answer) {
                 if (!answer.position.has_spec()) return;
                 response->set_epoch(static_cast<int32_t>(
                     EpochAt(answer.position.spec(), answer.position.dealt())));
               });
  }

  Reactor* get_shard_checkpoint(Context* context, const proto::GetShardCheckpointRequest* request,
                                proto::ShardCheckpoint* response) override {
    return Ask(context, {TaskCommand(), SetNameOf(request->dataset_name())},
               [response](const TaskAnswer& answer) {
                 if (!answer.position.has_spec()) return;
                 response->set_content(TaskCheckpointText(answer.position));
               });
  }
  Reactor* report_shard_checkpoint(Context* context, const proto::ShardCheckpoint* request,
                                   proto::ReportShardCheckpointResponse* response) override {
    StatusOr<TaskSetPosition> position = ParseTaskCheckpoint(request->content());
    if (!position.ok()) {
      spdlog::warn("a trainer's checkpoint is not used: {}", TextOf(position.status()));
      return Finished(context);
    }
    TaskCall call;
    *call.command.mutable_position() = *std::move(position);
    return Ask(context, std::move(call),
               [response](const TaskAnswer&) { response->set_success(true); });
  }

  // ---- what the client says of itself, and nobody needs ----

  Reactor* report_training_loop_status(Context* context,
                                       const proto::ReportTrainingLoopStatusRequest*,
                                       Nothing*) override {
    return Finished(context);
  }
  Reactor* report_used_resource(Context* context, const proto::ReportUsedResourceRequest*,
                                Nothing*) override {
    return Finished(context);
  }
  Reactor* report_model_metric(Context* context, const proto::ModelMetric*, Nothing*) override {
    return Finished(context);
  }
  Reactor* report_global_step(Context* context, const proto::GlobalStepRecord*, Nothing*) override {
    return Finished(context);
  }
  Reactor* report_autotune_status(Context* context, const proto::AutoResourceConfig*,
                                  Nothing*) override {
    return Finished(context);
  }
  Reactor* report_prestop(Context* context, const proto::ReportPreStopRequest*, Nothing*) override {
    return Finished(context);
  }
  Reactor* update_critical_worker(Context* context, const proto::UpdateCriticalWorkerRequest*,
                                  Nothing*) override {
    return Finished(context);
  }
  Reactor* update_cluster_version(Context* context, const proto::UpdateClusterVersionRequest*,
                                  Nothing*) override {
    return Finished(context);
  }
  Reactor* ready_for_ps_relaunch(Context* context, const Nothing*, Nothing*) override {
    return Finished(context);
  }

  // ---- who there is ----

  Reactor* query_running_nodes(Context* context, const Nothing*,
                               proto::RunningNodes* response) override {
    Reactor* reactor = context->DefaultReactor();
    nodes_.Ask(NodeCommand(), std::make_unique<GrpcCaller<NodeAnswer>>(
                                  context, reactor, [response](const NodeAnswer& answer) {
                                    FillRunning(answer.members, *response);
                                  }));
    return reactor;
  }

  // ---- there are none of these: the answer is empty ----

  Reactor* query_relaunch_ps_pod(Context* context, const Nothing*,
                                 proto::QueryRelaunchPSPodResponse*) override {
    return Finished(context);
  }
  Reactor* query_ps_nodes(Context* context, const Nothing*, proto::QueryPsNodesResponse*) override {
    return Finished(context);
  }
  Reactor* query_training_status(Context* context, const Nothing*,
                                 proto::QueryTrainingStatusResponse*) override {
    return Finished(context);
  }
  Reactor* get_cluster_version(Context* context, const proto::GetClusterVersionRequest*,
                               proto::GetClusterVersionResponse*) override {
    return Finished(context);
  }

 private:
  Reactor* Ask(Context* context, TaskCall call, TaskFill fill = nullptr) {
    Reactor* reactor = context->DefaultReactor();
    desk_.Ask(std::move(call),
              std::make_unique<GrpcCaller<TaskAnswer>>(context, reactor, std::move(fill)));
    return reactor;
  }

  static TaskCall GetOf(const std::string& dataset, std::string worker) {
    TaskCall call;
    call.command.mutable_get()->set_set(SetNameOf(dataset));
    call.command.mutable_get()->set_worker(std::move(worker));
    return call;
  }

  Reactor* Get(Context* context, TaskCall call, proto::Task* task) {
    return Ask(context, std::move(call),
               [task](const TaskAnswer& answer) { FillTask(answer, *task); });
  }

  template <typename Request>
  Reactor* Finish(Context* context, const Request& request) {
    TaskCall call;
    TaskCommand::Result& result = *call.command.mutable_result();
    result.set_set(SetNameOf(request.dataset_name()));
    result.set_lease(static_cast<uint32_t>(request.task_id()));
    result.set_failed(!request.err_message().empty());
    if (result.failed()) result.set_detail(Printable(request.err_message(), kMostFailureText));
    return Ask(context, std::move(call));
  }

  const TaskServerOptions options_;
  TaskDesk& desk_;
  NodeDesk& nodes_;
};

class GrpcTaskServer final : public TaskServer {
 public:
  GrpcTaskServer(const TaskServerOptions& options, TaskDesk& desk, NodeDesk& nodes)
      : address_(options.address),
        desk_(desk),
        nodes_(nodes),
        service_(options, desk, nodes),
        node_service_(MakeNodeService(options.node_timeout_ticks, nodes)) {}

  ~GrpcTaskServer() override {
    desk_.Close();
    nodes_.Close();
    if (server_) server_->Shutdown(std::chrono::system_clock::now() + kLastAnswers);
  }

  Status Listen() {
    gpr_set_log_function([](gpr_log_func_args* said) { spdlog::debug("gRPC: {}", said->message); });
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address_, grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(&service_);
    builder.RegisterService(node_service_.get());
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kTrainerKeepaliveMs);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kTrainerKeepaliveTimeoutMs);
    server_ = builder.BuildAndStart();
    if (server_ && port_ > 0) return absl::OkStatus();
    return absl::UnavailableError(absl::StrCat(
        "tasks cannot be served at ", address_,
        " (--master-address): the address is in use or is not one of this machine. Give "
        "another one, or end the program that uses it"));
  }

  int port() const override { return port_; }

 private:
  const std::string address_;
  TaskDesk& desk_;
  NodeDesk& nodes_;
  TaskService service_;
  std::unique_ptr<grpc::Service> node_service_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace

StatusOr<std::unique_ptr<TaskServer>> TaskServer::Start(const TaskServerOptions& options,
                                                        TaskDesk& desk, NodeDesk& nodes) {
  auto server = std::make_unique<GrpcTaskServer>(options, desk, nodes);
  if (Status listens = server->Listen(); !listens.ok()) return listens;
  return std::unique_ptr<TaskServer>(std::move(server));
}

}  // namespace millrace
