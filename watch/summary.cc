#include "watch/summary.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/utc_time.h"
#include "topics/figures_verdict.h"
#include "watch/classes_table.h"
#include "watch/figures_json.h"
#include "watch/figures_table.h"
#include "watch/phrases.h"
#include "watch/run_json.h"
#include "watch/terminal_text.h"
#include "watch/warning_lines.h"

namespace millrace {
namespace {

using Json = nlohmann::ordered_json;

Json DriftJson(const Drift& drift, const std::string& text) {
  return {{"count", drift.count()},
          {"row", drift.row()},
          {"found_at", drift.found_at()},
          {"clock", drift.clock()},
          {"loss_before", Short(drift.before())},
          {"loss_after", Short(drift.after())},
          {"text", text}};
}

Json RecoveriesJson(const JobProgress& job) {
  Json all = Json::array();
  for (const auto& [shard, recovery] : job.recoveries()) {
    Json one = {{"shard", uint32_t{shard}},
                {"seconds", Short(recovery.total_s())},
                {"source", recovery.source()},
                {"restored_bytes", recovery.restored_bytes()},
                {"restore_seconds", Short(recovery.restore_s())},
                {"parameters_records", recovery.parameters_records()},
                {"parameters_bytes", recovery.parameters_bytes()},
                {"parameters_seconds", Short(recovery.parameters_s())},
                {"gradients_records", recovery.gradients_records()},
                {"gradients_seconds", Short(recovery.gradients_s())}};
    if (recovery.down_ms() > 0) {
      one["down_seconds"] = Short(static_cast<double>(recovery.down_ms()) / 1e3);
    }
    all.push_back(std::move(one));
  }
  return all;
}

Json WorkersJson(const JobProgress& job) {
  Json all = Json::array();
  if (!job.server()) return all;
  for (const WorkerProgress& worker : job.server()->workers()) {
    all.push_back({{"worker", worker.worker()},
                   {"clock", worker.clock()},
                   {"buffer_rows", worker.buffer_rows()},
                   {"left", worker.left()}});
  }
  return all;
}

// Null: the primary exchanges with nobody.
Json GroupsJson(const std::vector<GroupProgress>& groups) {
  Json all = Json::array();
  for (const GroupProgress& group : groups) {
    const bool is_primary = group.group == 0;
    all.push_back({{"group", group.group},
                   {"rounds", group.rounds},
                   {"exchanges", is_primary ? Json() : Json(group.exchanges)},
                   {"unshared_updates", is_primary ? Json() : Json(group.unshared_updates)},
                   {"deltas_taken", group.deltas_taken}});
  }
  return all;
}

std::string GroupText(const GroupProgress& group) {
  const std::string text =
      absl::StrCat("group ", group.group, ": ", GroupedNumber(group.rounds), " rounds, ");
  if (group.group == 0) {
    return absl::StrCat(text, GroupedNumber(group.deltas_taken), " deltas of others taken");
  }
  return absl::StrCat(text, GroupedNumber(group.exchanges), " exchanges, ",
                      GroupedNumber(group.unshared_updates), " updates since");
}

Json WarningsJson(const JobProgress& job) {
  Json all = Json::array();
  for (const JobWarning& warning : WarningsOf(job)) {
    all.push_back({{"kind", warning.kind}, {"text", warning.text}, {"remedy", warning.remedy}});
  }
  return all;
}

Json Summary(const JobProgress& job, const std::string& name) {
  const JobProgress::ProducerPoint producer = job.producer().value_or(JobProgress::ProducerPoint());
  const JobProgress::ServerPoint server = job.server().value_or(JobProgress::ServerPoint());
  Json json = {
      {"job", name},
      {"ended", job.ended()},
      {"rows_read", job.producer() ? job.rows_read() : 0},
      {"rows_rejected", producer.rows_rejected()},
      {"rows_sent", producer.rows_sent()},
      {"epochs", std::max<uint32_t>(producer.epochs_of_stream(), 1)},
      {"rows_trained", server.rows_trained()},
      {"rounds", server.rounds()},
      {"updates", server.updates()},
      {"rounds_per_second", Short(job.rounds_per_second())},
      {"duration_seconds", Short(job.duration_seconds().value_or(0))},
      {"rows_per_second", Short(job.rows_per_second())},
      {"consistency", ConsistencyName(server.training())},
      {"schedule", ScheduleName(server.training())},
      {"learner", LearnerName(server.training())},
      {"workers", server.workers_size()},
      {"staleness_max", job.staleness_max()},
      {"duplicates_ignored", server.duplicates_ignored()},
      {"non_finite_updates", server.non_finite_updates()},
      {"refused", server.refused()},
      {"aborted_checkpoints", server.aborted_checkpoints()},
      {"time_jumps", server.time_jumps()},
      {"undecodable_rows", server.undecodable_rows()},
      {"train_loss", Short(server.train_loss())},
  };
  json.update(RunJson(job));
  if (const auto replaced = job.rows_replaced()) json["rows_replaced"] = *replaced;
  json["warnings"] = WarningsJson(job);
  if (!job.server()) {
    for (const char* unknown : {"consistency", "schedule", "learner"}) json[unknown] = nullptr;
  }
  Json recoveries = RecoveriesJson(job);
  if (!recoveries.empty()) json["recoveries"] = std::move(recoveries);
  const std::vector<GroupProgress> groups = job.groups();
  if (!groups.empty()) json["server_groups"] = GroupsJson(groups);
  const std::optional<std::string> warning =
      WorseThanPriorText(server.progressive(), server.window());
  json["worse_than_prior"] = warning ? Json(*warning) : Json();
  const auto figures_json = [&](const Figures& figures) {
    return FiguresJson(figures, server.class_name());
  };
  if (job.holdout()) json["holdout"] = figures_json(*job.holdout());
  if (server.progressive().rows() > 0) json["progressive"] = figures_json(server.progressive());
  if (server.window().rows() > 0) {
    json["window"] = figures_json(server.window());
    json["window"]["rows_end"] = server.window_end();
  }
  if (server.tail().rows() > 0) json["tail"] = figures_json(server.tail());
  if (const auto drift = DriftNotice(job)) json["drift"] = DriftJson(server.drift(), *drift);
  if (job.last_timestamp_ms() == 0) {
    for (auto field = json.begin(); field != json.end(); ++field) {
      if (field.key() != "job" && field.key() != "ended") field.value() = nullptr;
    }
  }
  return json;
}

std::vector<std::string> Fitted(std::vector<std::string> lines, const SummaryOptions& options) {
  if (!options.cut) return lines;
  for (std::string& text : lines) text = Clipped(text, std::min(options.width, kMaxColumns));
  return lines;
}

std::string Dumped(const Json& json, bool indented) {
  return json.dump(indented ? 2 : -1, ' ', false, Json::error_handler_t::replace) + "\n";
}

// REQUIRES: it is known when the job began.
std::string RunText(const JobProgress& job) {
  const std::optional<int64_t> ended_ms = job.ended_ms();
  return absl::StrCat("began ", UtcTime(*job.started_ms()),
                      ended_ms ? ", ended " + UtcTime(*ended_ms) : "");
}

// Those of all programs that were heard from; as a rule one.
std::string VersionsText(const JobProgress& job) {
  std::set<std::string> all;
  for (const auto& [program, versions] : job.versions()) {
    all.insert(versions.begin(), versions.end());
  }
  return absl::StrJoin(all, ", ");
}

// How good the model is; a part of it begins with an empty line.
std::vector<std::string> Quality(const JobProgress& job, const Style& style, size_t width) {
  std::vector<std::string> lines;
  const auto add = [&lines](const std::vector<std::string>& part) {
    if (!part.empty()) lines.emplace_back();
    lines.insert(lines.end(), part.begin(), part.end());
  };
  add(QualityWarning(job, style, width));
  const std::vector<std::string> table = FiguresTable(job, style, width);
  add(table);
  if (!table.empty() && job.producer() && job.producer()->epochs_of_stream() > 1) {
    lines.push_back(Inked(style, Ink::kDim, "progressive: of the first pass"));
  }
  add(ClassesTable(job, style, width));
  return lines;
}

}  // namespace

std::string SummaryJson(const JobProgress& job, const std::string& name,
                        const std::string& brokers) {
  Json json = Summary(job, name);
  if (job.last_timestamp_ms() == 0) json["reason"] = NothingReceivedText(brokers);
  return Dumped(json, true);
}

std::string StatusJson(const JobProgress& job, const std::string& name, const JobState& state,
                       bool indented) {
  Json json = Summary(job, name);
  const bool running = state.kind == JobState::Kind::kRunning;
  json["state"] = std::string(NameOf(state.kind));
  json["reason"] = state.reason;
  json["rows_per_second_now"] = running ? Short(job.recent_rows_per_second()) : Json(0);
  json["seconds_left"] = nullptr;
  if (const auto left = job.seconds_left(); left && running) json["seconds_left"] = Short(*left);
  json["programs"] = Json::array();
  for (const ProgramAge& program : state.programs) {
    const char* const age = program.name.starts_with("worker ") ? "last_update_s_ago" : "seconds";
    json["programs"].push_back(
        {{"name", program.name}, {age, Short(program.seconds)}, {"ended", program.ended}});
  }
  json["logical_workers"] = WorkersJson(job);
  return Dumped(json, indented);
}

std::vector<std::string> SummaryTable(const JobProgress& job, const SummaryOptions& options) {
  const Style& style = options.style;
  const size_t width = std::min(options.width, kMaxColumns);
  const JobProgress::ServerPoint server = job.server().value_or(JobProgress::ServerPoint());
  std::vector<std::string> lines;
  const auto line = [&](const std::string& title, const std::string& text) {
    constexpr size_t kTitle = 15;
    lines.push_back(
        absl::StrCat("  ", Inked(style, Ink::kDim, PaddedRight(title, kTitle)), "  ", text));
  };

  const bool received = job.last_timestamp_ms() > 0;
  lines.push_back(absl::StrCat(Inked(style, Ink::kBold, "Millrace"), "  ", options.job, ": ",
                               !received          ? NothingReceivedText(options.brokers)
                               : job.ended()      ? "the job has ended"
                               : job.stopped_ms() ? "the job has stopped before its end"
                                                  : "the job has not ended"));
  if (!received) return Fitted(std::move(lines), options);
  lines.emplace_back();
  line("rows", absl::StrCat(job.producer() ? GroupedNumber(job.rows_read()) : "-", " read, ",
                            job.producer() ? GroupedNumber(job.producer()->rows_rejected()) : "-",
                            " rejected, ", GroupedNumber(server.rows_trained()), " trained on"));
  if (const std::string replaced = ReplacedText(job); !replaced.empty()) {
    lines.push_back("  " + replaced);  // too long beside a title
  }
  if (const std::string labels = LateLabelsText(job); !labels.empty()) line("labels", labels);
  line("rounds",
       job.server()
           ? absl::StrCat(GroupedNumber(server.rounds()), " of ", server.workers_size(),
                          server.workers_size() == 1 ? " worker, " : " workers, ",
                          ScheduleName(server.training()), ", ", ConsistencyName(server.training()),
                          ", ", LearnerName(server.training()))
           : "none: no ServerApp has been heard from");
  if (job.started_ms()) line("run", RunText(job));
  const std::string versions = VersionsText(job);
  if (!versions.empty()) line("version", versions);
  const auto duration = job.duration_seconds();
  line("time",
       duration ? absl::StrFormat("%.1f s between the first and the last report", *duration) : "-");
  line("speed", absl::StrCat(RateText(job.rows_per_second()), " rows/s, ",
                             RateText(job.rounds_per_second()), " rounds/s in this time"));
  line("staleness", absl::StrCat("at most ", job.staleness_max(), " rounds"));
  for (const auto& group : job.groups()) line(group.group ? "" : "groups", GroupText(group));
  constexpr size_t kBesideTitle = 19;
  const auto warnings =
      WarningLines(WarningsOf(job), width > kBesideTitle ? width - kBesideTitle : 0);
  if (warnings.empty()) line("warnings", "none");
  for (size_t i = 0; i < warnings.size(); ++i) {
    line(i == 0 ? "warnings" : "", Inked(style, Ink::kWarn, warnings[i]));
  }

  for (const auto& [shard, recovery] : job.recoveries()) {
    const std::string down =
        recovery.down_ms() > 0
            ? absl::StrFormat(" after %.1f s", static_cast<double>(recovery.down_ms()) / 1e3)
            : "";
    line("recovery", absl::StrFormat("shard %d in %.2f s%s: %s", shard, recovery.total_s(), down,
                                     recovery.source()));
    line("", absl::StrFormat("copy %.2f s, %s records %.2f s, %s gradients %.2f s",
                             recovery.restore_s(), GroupedNumber(recovery.parameters_records()),
                             recovery.parameters_s(), GroupedNumber(recovery.gradients_records()),
                             recovery.gradients_s()));
  }

  const size_t indent = 2;
  for (const std::string& row : Quality(job, style, width > indent ? width - indent : 0)) {
    lines.push_back(row.empty() ? row : "  " + row);
  }
  return Fitted(std::move(lines), options);
}

}  // namespace millrace
