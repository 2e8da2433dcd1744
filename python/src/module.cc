// The module millrace._native: what millrace/*.py is written on. Errors become exceptions here.
#include <google/protobuf/util/json_util.h>
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "python/src/interpreter_lock.h"
#include "python/src/model_handle.h"
#include "python/src/online_session.h"
#include "python/src/row_reader.h"
#include "python/src/topic_sender.h"
#include "python/src/trainer.h"
#include "topics/figures_codec.h"
#include "topics/figures_verdict.h"

namespace nb = nanobind;

namespace millrace {
namespace {

constexpr size_t kRowsAtOnce = 4096;  // that are read before the interpreter's lock is given up

// What a status is in Python. `not_found`: what is looked for is a file, or something else.
[[noreturn]] void Raise(const Status& status, PyObject* not_found = PyExc_RuntimeError) {
  if (PyErr_Occurred() != nullptr) throw nb::python_error();  // Ctrl-C, say
  PyObject* type = PyExc_RuntimeError;
  if (absl::IsInvalidArgument(status) || absl::IsDataLoss(status)) type = PyExc_ValueError;
  if (IsAway(status)) type = PyExc_ConnectionError;
  if (absl::IsNotFound(status)) type = not_found;
  PyErr_SetString(type, std::string(status.message()).c_str());
  throw nb::python_error();
}

template <typename T>
T Take(StatusOr<T> value, PyObject* not_found = PyExc_RuntimeError) {
  if (!value.ok()) Raise(value.status(), not_found);
  return std::move(value).value();
}

void Check(const Status& status) {
  if (!status.ok()) Raise(status);
}

// What a status of the trainers' library is in Python.
[[noreturn]] void Raise(const client::Status& status) {
  using client::Code;
  if (PyErr_Occurred() != nullptr) throw nb::python_error();  // Ctrl-C, say
  PyObject* type = PyExc_RuntimeError;
  const Code code = status.code();
  if (code == Code::kInvalidArgument || code == Code::kDataLoss) type = PyExc_ValueError;
  if (code == Code::kUnavailable) type = PyExc_ConnectionError;
  if (code == Code::kDeadlineExceeded) type = PyExc_TimeoutError;
  if (code == Code::kPermissionDenied) type = PyExc_PermissionError;
  PyErr_SetString(type, status.message().c_str());
  throw nb::python_error();
}

void Check(const client::Status& status) {
  if (!status.ok()) Raise(status);
}

template <typename T>
T Take(client::Result<T> value) {
  Check(value.status());
  return std::move(*value);
}

// A float32 array of rows, which owns the floats.
nb::object ToArray(std::vector<float> floats, size_t width) {
  const size_t rows = floats.size() / width;
  floats.reserve(1);  // an array has an address, though it may have no rows
  auto* const owned = new std::vector<float>(std::move(floats));
  const nb::capsule owner(owned,
                          [](void* all) noexcept { delete static_cast<std::vector<float>*>(all); });
  return nb::cast(nb::ndarray<nb::numpy, float>(owned->data(), {rows, width}, owner));
}

// Something that scores rows: a ModelHandle or an OnlineSession.
template <typename Scorer>
struct Scored {
  explicit Scored(std::unique_ptr<Scorer> made)
      : scorer(std::move(made)), columns(scorer->columns()), reader(columns, kAbsent) {}

  static constexpr auto kAbsent =
      Scorer::kTakesRowsWithoutColumns ? RowReader::Absent::kEmpty : RowReader::Absent::kError;

  std::unique_ptr<Scorer> scorer;
  std::vector<std::string> columns;
  RowReader reader;
};
using NativeModel = Scored<ModelHandle>;
using NativeSession = Scored<OnlineSession>;

// Collects the cells of rows, and scores some of them at a time without the interpreter's lock.
template <typename Scorer>
class Scoring {
 public:
  // `first_row`: of these rows among those of the caller.
  explicit Scoring(Scored<Scorer>& scored, size_t first_row = 0)
      : scored_(scored), cells_(scored.columns.size()), first_(first_row) {}

  CellTable& cells() { return cells_; }
  // To be called after each row that was added.
  void Added(const Status& status) {
    if (!status.ok()) Raise(InRow(first_ + cells_.rows(), status));
    if (cells_.rows() == kRowsAtOnce) Flush();
  }
  nb::object Finish() {
    Flush();
    return ToArray(std::move(scores_), scored_.scorer->score_count());
  }

 private:
  void Flush() {
    Status status;
    {
      const WithoutInterpreter without_lock;
      status = scored_.scorer->Score(cells_, first_, scores_);
    }
    Check(status);
    if (PyErr_CheckSignals() != 0) throw nb::python_error();  // Ctrl-C
    first_ += cells_.rows();
    cells_.Clear();
  }

  Scored<Scorer>& scored_;
  CellTable cells_;
  size_t first_;  // of the rows in cells_
  std::vector<float> scores_;
};

template <typename Scorer>
nb::object ScoreDicts(Scored<Scorer>& scored, const nb::iterable& rows) {
  Scoring<Scorer> scoring(scored);
  for (const nb::handle row : rows) {
    scoring.Added(scored.reader.Append(row.ptr(), scoring.cells()));
  }
  return scoring.Finish();
}

void CheckLists(const nb::list& lists, size_t columns, size_t rows) {
  bool fit = lists.size() == columns;
  for (const nb::handle list : lists) {
    fit = fit && PyList_Check(list.ptr()) && nb::len(list) == rows;
  }
  if (!fit) throw nb::value_error("the columns are not lists of the same length");
}

template <typename Scorer>
nb::object ScoreLists(Scored<Scorer>& scored, const nb::list& lists, size_t rows,
                      size_t first_row) {
  CheckLists(lists, scored.columns.size(), rows);
  Scoring<Scorer> scoring(scored, first_row);
  for (size_t i = 0; i < rows; ++i) {
    scoring.Added(scored.reader.AppendFromLists(nullptr, lists.ptr(), i, scoring.cells()));
  }
  return scoring.Finish();
}

NativeModel* LoadModel(const std::string& folder) {
  std::optional<StatusOr<std::unique_ptr<ModelHandle>>> loaded;
  {
    const WithoutInterpreter without_lock;
    loaded = ModelHandle::Load(folder);
  }
  return new NativeModel(Take(*std::move(loaded), PyExc_FileNotFoundError));
}

template <typename Message>
Message FromJson(const std::string& json) {
  Message message;
  const auto parsed = google::protobuf::util::JsonStringToMessage(json, &message);
  if (!parsed.ok()) throw nb::value_error(std::string(parsed.message()).c_str());
  return message;
}

NativeSession* MakeSession(const std::string& spec, const std::string& training,
                           std::vector<float> class_weights, bool balanced) {
  return new NativeSession(Take(OnlineSession::Create({.spec = FromJson<FeatureSpec>(spec),
                                                       .training = FromJson<Training>(training),
                                                       .class_weights = std::move(class_weights),
                                                       .balanced = balanced})));
}

void Learn(NativeSession& session, const CellTable& cells) {
  Status status;
  {
    const WithoutInterpreter without_lock;
    status = session.scorer->Learn(cells, 0);
  }
  Check(status);
}

void LearnDict(NativeSession& session, nb::handle row, nb::handle label) {
  CellTable cells(session.columns.size() + 1);
  Status status = AppendCell(label.ptr(), cells.text());
  if (!status.ok()) throw nb::value_error(("the label " + std::string(status.message())).c_str());
  cells.EndCell();
  Check(InRow(0, session.reader.Append(row.ptr(), cells)));
  Learn(session, cells);
}

void LearnLists(NativeSession& session, const nb::list& labels, const nb::list& lists) {
  CheckLists(lists, session.columns.size(), labels.size());
  CellTable cells(session.columns.size() + 1);
  for (size_t i = 0; i < labels.size(); ++i) {
    Check(InRow(i, session.reader.AppendFromLists(labels.ptr(), lists.ptr(), i, cells)));
  }
  Learn(session, cells);
}

// What a session says waits for what another thread learns or scores, which may need the
// interpreter's lock before it goes on.
EvaluationFigures TakeFigures(NativeSession& session) {
  const WithoutInterpreter without_lock;
  return session.scorer->figures();
}

uint64_t RowsOf(NativeSession& session) {
  const WithoutInterpreter without_lock;
  return session.scorer->rows();
}

void Save(NativeSession& session, const std::string& folder, const std::string& name) {
  Status status;
  {
    const WithoutInterpreter without_lock;
    status = session.scorer->Save(folder, name);
  }
  Check(status);
}

nb::bytes StateOf(NativeSession& session) {
  std::optional<StatusOr<std::string>> bytes;
  {
    const WithoutInterpreter without_lock;
    bytes = session.scorer->ToBytes();
  }
  const std::string state = Take(*std::move(bytes));
  return nb::bytes(state.data(), state.size());
}

// Of an object that pickle has made without its constructor.
void SetState(NativeSession& session, const nb::bytes& state) {
  std::optional<StatusOr<std::unique_ptr<OnlineSession>>> made;
  {
    const WithoutInterpreter without_lock;
    made = OnlineSession::FromBytes({state.c_str(), state.size()});
  }
  new (&session) NativeSession(Take(*std::move(made)));
}

nb::object WorseThanPrior(const EvaluationFigures& figures) {
  Figures told;
  ToProto(figures, told);
  const std::optional<std::string> warning = WorseThanPriorText(told, FiguresOf::kLearner);
  return warning ? nb::object(nb::str(warning->c_str())) : nb::none();
}

nb::dict FiguresDict(NativeSession& session) {
  const EvaluationFigures figures = TakeFigures(session);
  const auto number = [](const std::optional<double>& value) {
    return value ? nb::object(nb::float_(*value)) : nb::none();
  };
  nb::dict all;
  all["rows"] = figures.rows;
  all["worse_than_prior"] = WorseThanPrior(figures);
  if (figures.rmse) {
    all["rmse"] = *figures.rmse;
    all["prior_rmse"] = figures.prior_rmse;
    all["mae"] = number(figures.mae);
    all["r2"] = number(figures.r2);
    return all;
  }
  all["log_loss"] = figures.log_loss;
  all["prior_log_loss"] = figures.prior_log_loss;
  all["accuracy"] = figures.accuracy;
  all["prior_accuracy"] = figures.prior_accuracy;
  all["f1_macro"] = figures.f1_macro;
  all["f1_weighted"] = figures.f1_weighted;
  all["auc"] = number(figures.auc);
  all["pr_auc"] = number(figures.pr_auc);
  return all;
}

TopicSender* OpenWriter(const std::string& brokers, const std::string& topic,
                        std::vector<std::pair<std::string, std::string>> settings,
                        int32_t partitions, double timeout_s) {
  TopicSender::Options options;
  options.kafka = {brokers, std::move(settings), timeout_s};
  options.topic = topic;
  options.partitions = partitions;
  options.stopped = [] {
    const WithInterpreter with_lock;
    return PyErr_CheckSignals() != 0;
  };
  std::optional<StatusOr<std::unique_ptr<TopicSender>>> opened;
  {
    const WithoutInterpreter without_lock;
    opened = TopicSender::Open(std::move(options));
  }
  return Take(*std::move(opened)).release();
}

void SendRow(TopicSender& writer, const nb::bytes& value) {
  const std::string_view bytes(value.c_str(), value.size());
  Status status;
  {
    const WithoutInterpreter without_lock;
    status = writer.Send(bytes);
  }
  Check(status);
}

void FinishSending(TopicSender& writer) {
  Status status;
  {
    const WithoutInterpreter without_lock;
    status = writer.Finish();
  }
  Check(status);
}

// Hands the library's lines to Python's logging. REQUIRES the interpreter's lock. Throws what that
// raises.
void LogLines() {
  for (const std::string& line : TakeLines()) {
    nb::module_::import_("logging").attr("getLogger")("millrace").attr("info")("%s", line);
  }
}

bool IsInterrupted() {
  const WithInterpreter with_lock;
  if (PyErr_Occurred() != nullptr) return true;  // by a call before
  try {
    LogLines();
  } catch (nb::python_error& error) {  // Ctrl-C, say
    error.restore();
    return true;
  }
  return PyErr_CheckSignals() != 0;
}

Trainer* OpenTrainer(const std::string& brokers, const std::string& job, uint64_t epoch,
                     uint32_t trainers, uint32_t trainer, const std::string& master,
                     std::vector<std::pair<std::string, std::string>> settings, double timeout_s,
                     const std::tuple<std::string, std::string, std::string, bool>& answers) {
  std::optional<client::Result<std::unique_ptr<Trainer>>> opened;
  {
    const WithoutInterpreter without_lock;
    opened = Trainer::Open({.brokers = brokers,
                            .job = job,
                            .epoch = epoch,
                            .trainers = trainers,
                            .trainer = trainer,
                            .master = master,
                            .kafka = std::move(settings),
                            .answers_tls_cert = std::get<0>(answers),
                            .answers_tls_key = std::get<1>(answers),
                            .answers_tls_ca = std::get<2>(answers),
                            .answers_insecure = std::get<3>(answers),
                            .timeout_s = timeout_s},
                           IsInterrupted);
  }
  if (PyErr_Occurred() != nullptr) throw nb::python_error();  // Ctrl-C, say
  LogLines();
  return Take(*std::move(opened)).release();
}

// What `call` returns, made without the interpreter's lock.
template <typename Call>
auto WithoutLock(Trainer& trainer, const Call& call) {
  auto result = [&] {
    const WithoutInterpreter without_lock;
    return trainer.Do(call);
  }();
  if (PyErr_Occurred() != nullptr) throw nb::python_error();  // Ctrl-C, say
  LogLines();
  return result;
}

// The parameter, and the arrays of its data and gradient, which are the library's own memory. Each
// of them keeps the trainer, as tables do.
nb::tuple RegisterParam(nb::handle_t<Trainer> self, const std::string& name,
                        const std::vector<int64_t>& shape, const std::string& handler,
                        double learning_rate_multiplier, double decay_multiplier) {
  auto& trainer = nb::cast<Trainer&>(self);
  client::Param* const param = Take(WithoutLock(trainer, [&](client::ParameterManager& manager) {
    return manager.Register({.name = name,
                             .shape = shape,
                             .handler = handler,
                             .learning_rate_multiplier = learning_rate_multiplier,
                             .decay_multiplier = decay_multiplier});
  }));
  const std::vector<size_t> extents(shape.begin(), shape.end());
  const auto array = [&](std::span<float> floats) {
    return nb::cast(
        nb::ndarray<nb::numpy, float>(floats.data(), extents.size(), extents.data(), self));
  };
  return nb::make_tuple(param->id(), nb::cast(param, nb::rv_policy::reference_internal, self),
                        array(param->data()), array(param->grad()));
}

void PutParam(Trainer& trainer, const client::Param& param) {
  Check(WithoutLock(trainer, [&](auto& manager) { return manager.Put(param); }));
}

void UpdateParam(Trainer& trainer, const client::Param& param) {
  Check(WithoutLock(trainer, [&](auto& manager) { return manager.Update(param); }));
}

using ReadsParam = client::Status (client::ParameterManager::*)(client::Param*);

// The version.
template <ReadsParam kCall>
uint64_t ReadParam(Trainer& trainer, client::Param& param) {
  return Take(WithoutLock(trainer, [&](auto& manager) -> client::Result<uint64_t> {
    if (client::Status read = (manager.*kCall)(&param); !read.ok()) return read;
    return param.version();
  }));
}

nb::tuple RegisterTable(nb::handle_t<Trainer> self, const std::string& name, int64_t width,
                        const std::string& handler, double learning_rate_multiplier,
                        double decay_multiplier, double initial_scale) {
  auto& trainer = nb::cast<Trainer&>(self);
  client::Table* const table = Take(WithoutLock(trainer, [&](client::ParameterManager& manager) {
    return manager.RegisterTable({.name = name,
                                  .width = width,
                                  .handler = handler,
                                  .learning_rate_multiplier = learning_rate_multiplier,
                                  .decay_multiplier = decay_multiplier,
                                  .initial_scale = initial_scale});
  }));
  return nb::make_tuple(table->id(), nb::cast(table, nb::rv_policy::reference_internal, self));
}

using RowIds = nb::ndarray<const uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

using ReadsRows = client::Status (client::ParameterManager::*)(client::Table*,
                                                               std::span<const uint64_t>);

// What a call has read, which the next one, of another thread, may replace.
struct RowsRead {
  uint64_t version;
  std::shared_ptr<const void> memory;  // of the floats
  std::span<float> rows;
  std::span<float> grad;
};

// The version, and the arrays of the rows and their gradients, which are the library's own memory.
template <ReadsRows kCall>
nb::tuple ReadRows(Trainer& trainer, client::Table& table, const RowIds& ids) {
  const std::span<const uint64_t> wanted(ids.data(), ids.size());
  const RowsRead read = Take(WithoutLock(trainer, [&](auto& manager) -> client::Result<RowsRead> {
    if (client::Status status = (manager.*kCall)(&table, wanted); !status.ok()) return status;
    return RowsRead{table.version(), table.memory(), table.rows(), table.grad()};
  }));
  const nb::capsule memory(new std::shared_ptr<const void>(read.memory), [](void* kept) noexcept {
    delete static_cast<std::shared_ptr<const void>*>(kept);
  });
  const std::array<size_t, 2> shape = {wanted.size(), table.width()};
  const auto array = [&](std::span<float> floats) {
    return nb::cast(nb::ndarray<nb::numpy, float>(floats.data(), 2, shape.data(), memory));
  };
  return nb::make_tuple(read.version, array(read.rows), array(read.grad));
}

void WantRows(Trainer& trainer, const client::Table& table, const RowIds& ids) {
  const std::span<const uint64_t> wanted(ids.data(), ids.size());
  Check(WithoutLock(trainer, [&](auto& manager) { return manager.WantRows(table, wanted); }));
}

void UpdateRows(Trainer& trainer, const client::Table& table) {
  Check(WithoutLock(trainer, [&](auto& manager) { return manager.UpdateRows(table); }));
}

uint64_t MakeStep(Trainer& trainer, double weight) {
  return Take(WithoutLock(trainer, [&](auto& manager) { return manager.Step(weight); }));
}

uint64_t CountSteps(Trainer& trainer) {
  return Take(WithoutLock(trainer, [](auto& manager) { return manager.Steps(); }));
}

nb::list ShardsOf(Trainer& trainer, int param) {
  nb::list ranges;
  const std::vector<client::ShardRange> found =
      Take(WithoutLock(trainer, [&](auto& manager) { return manager.Shard(param); }));
  for (const client::ShardRange& range : found) {
    ranges.append(nb::make_tuple(range.shard, range.begin, range.end));
  }
  return ranges;
}

void PassBarrier(Trainer& trainer, const std::string& name, uint32_t trainers) {
  Check(WithoutLock(trainer, [&](auto& manager) { return manager.Barrier(name, trainers); }));
}

nb::list MembersOf(Trainer& trainer) {
  constexpr std::array kStates = {"live", "dead", "left"};
  nb::list members;
  const std::vector<client::Member> found =
      Take(WithoutLock(trainer, [](auto& manager) { return manager.Members(); }));
  for (const client::Member& member : found) {
    members.append(nb::make_tuple(member.role, member.rank, member.instance, member.address,
                                  kStates.at(static_cast<size_t>(member.state))));
  }
  return members;
}

void LeaveJob(Trainer& trainer) {
  Check(WithoutLock(trainer, [](auto& manager) { return manager.Leave(); }));
}

// The cell that a value is, None for the empty one: by which labels are told apart.
std::string CellText(nb::handle value) {
  std::string text;
  const Status status = AppendCell(value.ptr(), text);
  if (!status.ok()) throw nb::value_error(("a label " + std::string(status.message())).c_str());
  return text;
}

}  // namespace
}  // namespace millrace

NB_MODULE(_native, module) {
  // (What a daemon thread still uses as Python ends is no leak that a user should read of.)
  nb::set_leak_warnings(false);
  using millrace::NativeModel;
  using millrace::NativeSession;

  module.attr("version") = MILLRACE_VERSION;
  module.def("cell_text", &millrace::CellText, nb::arg().none());
  nb::class_<NativeModel>(module, "Model")
      .def_static("load", &millrace::LoadModel)
      .def_ro("columns", &NativeModel::columns)
      .def_prop_ro("classes", [](const NativeModel& model) { return model.scorer->classes(); })
      .def_prop_ro("description",
                   [](const NativeModel& model) { return model.scorer->description(); })
      .def("score_dicts", &millrace::ScoreDicts<millrace::ModelHandle>)
      .def("score_lists", &millrace::ScoreLists<millrace::ModelHandle>);
  nb::class_<NativeSession>(module, "Session")
      .def_static("make", &millrace::MakeSession)
      .def_ro("columns", &NativeSession::columns)
      .def_prop_ro("rows", &millrace::RowsOf)
      .def("learn_dict", &millrace::LearnDict, nb::arg().none(), nb::arg().none())
      .def("learn_lists", &millrace::LearnLists)
      .def("score_dicts", &millrace::ScoreDicts<millrace::OnlineSession>)
      .def("score_lists", &millrace::ScoreLists<millrace::OnlineSession>)
      .def("figures", &millrace::FiguresDict)
      .def("__getstate__", &millrace::StateOf)
      .def("__setstate__", &millrace::SetState)
      .def("save", &millrace::Save);
  // Without members: Python only hands them back.
  [[maybe_unused]] const nb::class_<millrace::client::Param> param(module, "Param");
  [[maybe_unused]] const nb::class_<millrace::client::Table> table(module, "Table");
  nb::class_<millrace::Trainer>(module, "Trainer")
      .def_static("open", &millrace::OpenTrainer)
      .def("register", &millrace::RegisterParam)
      .def("put", &millrace::PutParam)
      .def("get", &millrace::ReadParam<&millrace::client::ParameterManager::Get>)
      .def("update", &millrace::UpdateParam)
      .def("register_table", &millrace::RegisterTable)
      .def("get_rows", &millrace::ReadRows<&millrace::client::ParameterManager::GetRows>)
      .def("collect_rows", &millrace::ReadRows<&millrace::client::ParameterManager::CollectRows>)
      .def("want_rows", &millrace::WantRows)
      .def("update_rows", &millrace::UpdateRows)
      .def("step", &millrace::MakeStep)
      .def("collect", &millrace::ReadParam<&millrace::client::ParameterManager::Collect>)
      .def("steps", &millrace::CountSteps)
      .def("shard", &millrace::ShardsOf)
      .def("barrier", &millrace::PassBarrier)
      .def("members", &millrace::MembersOf)
      .def("leave", &millrace::LeaveJob);
  nb::class_<millrace::TopicSender>(module, "TopicSender")
      .def_static("open", &millrace::OpenWriter)
      .def("send", &millrace::SendRow)
      .def("finish", &millrace::FinishSending);
}
