// What Predictor costs: over HTTP beside a bare server of the same library that answers as many
// bytes, and of a file beside reading it and writing as much. Writes its files to the current
// folder.
#include <arpa/inet.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "benchmarks/turns.h"
#include "exports/model_shape.h"
#include "exports/model_writer.h"
#include "features/feature_encoder.h"
#include "formats/csv_file.h"
#include "predictor/http_server.h"
#include "predictor/model_folder.h"
#include "predictor/prediction_service.h"
#include "predictor/score_file.h"

namespace millrace {
namespace {

constexpr size_t kNumeric = 11;  // as many columns as the flights have
constexpr size_t kCategorical = 6;
constexpr size_t kBatchRows = 1000;
constexpr size_t kFileRows = 20000;
constexpr char kModel[] = "bench-model";
constexpr char kInput[] = "bench-rows.csv";

template <typename T>
T Must(StatusOr<T> value) {
  if (!value.ok()) {
    std::fprintf(stderr, "bench_predict: %s\n", std::string(value.status().message()).c_str());
    std::exit(1);
  }
  return *std::move(value);
}

void Must(const Status& status) { Must(status.ok() ? StatusOr<int>(0) : StatusOr<int>(status)); }

// A model of random weights. (What they are makes no difference to the time.)
void MakeModel() {
  ModelDescription description;
  FeatureSpec& spec = *description.mutable_features();
  spec.set_label("late");
  spec.add_classes("no");
  spec.add_classes("yes");
  for (size_t i = 0; i < kNumeric; ++i) spec.add_numeric("number_" + std::to_string(i));
  for (size_t i = 0; i < kCategorical; ++i) spec.add_categorical("category_" + std::to_string(i));
  const FeatureEncoder encoder = Must(FeatureEncoder::Create(spec));
  ModelShape& shape = *description.mutable_shape();
  shape.set_mixed(true);
  shape.set_numeric(static_cast<uint32_t>(encoder.numeric_count()));
  shape.set_features(static_cast<uint32_t>(encoder.feature_count()));
  shape.set_classes(2);
  shape.set_scaled(true);
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> weights(MakePredictor(description)->parameter_count());
  for (float& weight : weights) weight = 0.1f * normal(random);
  Moments moments(kNumeric);
  for (size_t i = 0; i < kNumeric; ++i) moments.count[i] = moments.m2[i] = 1000;
  Must(WriteModel(kModel, {.description = description, .weights = weights, .moments = moments}));
}

// Rows of random cells, as CSV and as JSON.
struct Rows {
  std::string csv{};
  std::vector<std::string> json{};
};

Rows MakeRows() {
  Rows rows;
  for (size_t i = 0; i < kNumeric; ++i) rows.csv += "number_" + std::to_string(i) + ",";
  for (size_t i = 0; i < kCategorical; ++i) {
    rows.csv += "category_" + std::to_string(i) + (i + 1 < kCategorical ? "," : "\n");
  }
  std::mt19937 random(2);
  for (size_t r = 0; r < kFileRows; ++r) {
    std::string json = "{";
    for (size_t i = 0; i < kNumeric; ++i) {
      const std::string number =
          std::to_string(random() % 100000 / 100) + "." + std::to_string(random() % 100);
      rows.csv += number + ",";
      json += "\"number_" + std::to_string(i) + "\":" + number + ",";
    }
    for (size_t i = 0; i < kCategorical; ++i) {
      const std::string word = "c" + std::to_string(random() % 100);
      const bool is_last = i + 1 == kCategorical;
      rows.csv += word + (is_last ? "\n" : ",");
      json += "\"category_" + std::to_string(i) + "\":\"" + word + (is_last ? "\"}" : "\",");
    }
    rows.json.push_back(json);
  }
  return rows;
}

// A client with one connection, which it keeps.
class Client {
 public:
  explicit Client(uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    MILLRACE_CHECK(connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    const int on = 1;
    setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  ~Client() { close(fd_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // The answer's body; it must be one with status 200.
  std::string Post(std::string_view body) {
    const std::string head =
        "POST /predict HTTP/1.1\r\nHost: bench\r\nContent-Length: " + std::to_string(body.size()) +
        "\r\n\r\n";
    Send(head + std::string(body));
    std::string answer;
    size_t end = std::string::npos;
    while ((end = answer.find("\r\n\r\n")) == std::string::npos) Receive(&answer);
    MILLRACE_CHECK(answer.starts_with("HTTP/1.1 200 "));
    constexpr std::string_view kLength = "Content-Length: ";
    const size_t length = answer.find(kLength);
    MILLRACE_CHECK(length < end);
    const size_t bytes = std::strtoul(answer.c_str() + length + kLength.size(), nullptr, 10);
    answer.erase(0, end + 4);
    while (answer.size() < bytes) Receive(&answer);
    return answer;
  }

 private:
  void Send(std::string_view text) const {
    while (!text.empty()) {
      const ssize_t sent = send(fd_, text.data(), text.size(), MSG_NOSIGNAL);
      MILLRACE_CHECK(sent > 0);
      text.remove_prefix(static_cast<size_t>(sent));
    }
  }
  void Receive(std::string* text) const {
    std::array<char, 65536> part{};
    const ssize_t got = recv(fd_, part.data(), part.size(), 0);
    MILLRACE_CHECK(got > 0);
    text->append(part.data(), static_cast<size_t>(got));
  }

  int fd_;
};

// Takes a request's body, and answers with `answer`.
class BareServer {
 public:
  explicit BareServer(std::string answer)
      : answer_(std::move(answer)),
        daemon_(MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD, 0, nullptr, nullptr, &Answer, this,
                                 MHD_OPTION_THREAD_POOL_SIZE, HttpServerOptions().threads,
                                 MHD_OPTION_END)) {
    MILLRACE_CHECK(daemon_ != nullptr);
  }
  ~BareServer() { MHD_stop_daemon(daemon_); }
  BareServer(const BareServer&) = delete;
  BareServer& operator=(const BareServer&) = delete;

  uint16_t port() const { return MHD_get_daemon_info(daemon_, MHD_DAEMON_INFO_BIND_PORT)->port; }

 private:
  static MHD_Result Answer(void* server, MHD_Connection* connection, const char* /*url*/,
                           const char* /*method*/, const char* /*version*/, const char* /*data*/,
                           size_t* size, void** state) {
    if (*state == nullptr || *size > 0) {
      *state = server;  // anything but null
      *size = 0;
      return MHD_YES;
    }
    std::string& answer = static_cast<BareServer*>(server)->answer_;
    MHD_Response* response =
        MHD_create_response_from_buffer(answer.size(), answer.data(), MHD_RESPMEM_PERSISTENT);
    const MHD_Result queued = MHD_queue_response(connection, 200, response);
    MHD_destroy_response(response);
    return queued;
  }

  std::string answer_;
  MHD_Daemon* daemon_;
};

class NoRejects final : public RejectSink {
 public:
  Status Add(const RejectedRow& row) override {
    return absl::InternalError("a row was rejected: " + std::string(row.reason));
  }
  Status Finish() override { return absl::OkStatus(); }
  const std::string& name() const override { return name_; }

 private:
  const std::string name_ = "nowhere";
};

double ScoreAll(const std::shared_ptr<const ModelScorer>& model) {
  NoRejects rejects;
  const FileScores scores = Must(ScoreFile(model, kInput, {}, "bench-scored.csv", rejects,
                                           [](const CsvFile&, const FileScores&) {}));
  MILLRACE_CHECK(scores.rows == kFileRows);
  return 1;
}

// Reads the records, and writes them with `tail` behind each.
double CopyAll(std::string_view tail) {
  const std::unique_ptr<CsvFile> file = Must(CsvFile::Open(kInput));
  std::FILE* output = std::fopen("bench-copied.csv", "wb");
  MILLRACE_CHECK(output != nullptr);
  CsvRecord record;
  while (Must(file->Next(&record))) {
    std::fwrite(record.raw.data(), 1, record.raw.size(), output);
    std::fwrite(tail.data(), 1, tail.size(), output);
  }
  std::fclose(output);
  return 1;
}

int Run(int argc, char** argv) {
  MakeModel();
  const Rows rows = MakeRows();
  std::ofstream(kInput) << rows.csv;
  const std::unique_ptr<ModelFolder> folder = Must(ModelFolder::Open(kModel));
  const PredictionService service(*folder, {});
  HttpServerOptions options;
  options.address = "127.0.0.1:0";
  const std::unique_ptr<HttpServer> server = Must(HttpServer::Start(
      options, [&](const HttpRequest& request) { return service.Answer(request); }));
  std::string batch = "[";
  for (size_t i = 0; i < kBatchRows; ++i) batch += (i > 0 ? "," : "") + rows.json[i];
  batch += "]";
  Client ours(server->port());
  const BareServer bare_one(ours.Post(rows.json[0]));
  const BareServer bare_batch(ours.Post(batch));
  Client one(bare_one.port());
  Client many(bare_batch.port());
  const auto ask = [](Client& client, std::string_view body) {
    return [&client, body] { return static_cast<double>(client.Post(body).size()); };
  };
  return RunComparisons(
      "Predictor against a bare server of the same library, and against copying a file", argc, argv,
      {
          {"HTTP, one row in a request", "rows/s and core", 1, ask(ours, rows.json[0]),
           ask(one, rows.json[0]), true},
          {"HTTP, 1,000 rows in a request", "rows/s and core", kBatchRows, ask(ours, batch),
           ask(many, batch), true},
          {"a file of 20,000 rows", "rows/s and core", kFileRows,
           [&] { return ScoreAll(folder->model()); },
           [] { return CopyAll(",no,0.12345678,0.87654321\n"); }},
      });
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) { return millrace::Run(argc, argv); }
