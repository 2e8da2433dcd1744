#include "launcher/kubernetes/pod_manifest.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/utf8.h"
#include "topics/process_name.h"

namespace millrace {
namespace {

using Manifest = nlohmann::json;

constexpr char kDataVolume[] = "millrace-data";
constexpr char kSettingsVolume[] = "millrace-settings";

Status BadTemplate(const ProcessOrder& order, const char* what) {
  return absl::InvalidArgumentError(absl::StrCat("--pod-template: that of the group ",
                                                 order.process().group(), " ", what,
                                                 "; give a pod as JSON"));
}

// The part of this key, which is made where there is none. Null: it is something else.
Manifest* Part(Manifest& object, const char* key, Manifest::value_t type) {
  const auto entry = object.find(key);
  if (entry == object.end() || entry->is_null()) return &(object[key] = Manifest(type));
  return entry->type() == type ? &*entry : nullptr;
}

std::string Text(const Manifest& manifest) {
  // What is not UTF-8 was refused before; this keeps dump() from throwing.
  return manifest.dump(-1, ' ', false, Manifest::error_handler_t::replace);
}

// "$(NAME)" in a container's command stands for a variable, and "$$" for "$".
std::string Escaped(const std::string& word) { return absl::StrReplaceAll(word, {{"$", "$$"}}); }

struct PodParts {
  Manifest pod;
  Manifest* metadata = nullptr;
  Manifest* spec = nullptr;
  Manifest* main = nullptr;  // the first container
};

StatusOr<std::unique_ptr<PodParts>> FromTemplate(const PodManifestOptions& options,
                                                 const ProcessOrder& order) {
  auto parts = std::make_unique<PodParts>();
  parts->pod = Manifest::object();
  const auto found = options.templates.find(order.process().group());
  if (found != options.templates.end()) {
    // Names of groups and numbers need no escapes.
    const std::string text =
        absl::StrReplaceAll(found->second, {{"{group}", order.process().group()},
                                            {"{rank}", absl::StrCat(order.process().rank())},
                                            {"{process}", ToText(order.process())}});
    parts->pod = Manifest::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!parts->pod.is_object()) return BadTemplate(order, "is no JSON object");
  }
  parts->pod["apiVersion"] = "v1";
  parts->pod["kind"] = "Pod";
  parts->pod.erase("status");
  parts->metadata = Part(parts->pod, "metadata", Manifest::value_t::object);
  parts->spec = Part(parts->pod, "spec", Manifest::value_t::object);
  if (parts->metadata == nullptr || parts->spec == nullptr) {
    return BadTemplate(order, "has no metadata or spec that is an object");
  }
  Manifest* const containers = Part(*parts->spec, "containers", Manifest::value_t::array);
  if (containers == nullptr) return BadTemplate(order, "has containers that are no list");
  if (containers->empty()) containers->push_back(Manifest::object());
  parts->main = &containers->front();
  if (!parts->main->is_object()) return BadTemplate(order, "has a container that is no object");
  return parts;
}

Status SetMetadata(const PodNames& names, const std::string& job, const ProcessOrder& order,
                   Manifest& metadata) {
  Manifest* const labels = Part(metadata, "labels", Manifest::value_t::object);
  Manifest* const notes = Part(metadata, "annotations", Manifest::value_t::object);
  Manifest* const finalizers = Part(metadata, "finalizers", Manifest::value_t::array);
  if (labels == nullptr || notes == nullptr || finalizers == nullptr) {
    return BadTemplate(order, "has labels, annotations or finalizers of another type");
  }
  metadata["name"] = names.PodOf(order.process(), order.incarnation());
  metadata.erase("generateName");
  (*labels)[kJobLabel] = names.job_id();
  (*labels)[kProcessLabel] = ToText(order.process());
  (*labels)["millrace/group"] = order.process().group();
  (*labels)[kIncarnationLabel] = absl::StrCat(order.incarnation());
  (*notes)["millrace/job-name"] = job;
  finalizers->push_back(kFinalizer);
  return absl::OkStatus();
}

// The file of settings that a word names; empty: it names none.
std::string SettingsFileOf(const std::string& word, const std::string& folder) {
  const std::string prefix = folder + "/config/";
  if (!word.starts_with(prefix)) return "";
  std::string file = word.substr(prefix.size());
  return PodNames::IsSettingsFile(file) ? file : "";
}

Status SetVolumes(const PodManifestOptions& options, const PodNames& names,
                  const ProcessOrder& order, PodParts& parts) {
  Manifest* const volumes = Part(*parts.spec, "volumes", Manifest::value_t::array);
  Manifest* const mounts = Part(*parts.main, "volumeMounts", Manifest::value_t::array);
  if (volumes == nullptr || mounts == nullptr) {
    return BadTemplate(order, "has volumes or volumeMounts that are no list");
  }
  const bool has_folder = std::ranges::any_of(*mounts, [&](const Manifest& mount) {
    return mount.is_object() && mount.contains("mountPath") && mount["mountPath"] == options.folder;
  });
  if (!has_folder) {
    volumes->push_back(Manifest::object({{"name", kDataVolume}, {"emptyDir", Manifest::object()}}));
    mounts->push_back(Manifest::object({{"name", kDataVolume}, {"mountPath", options.folder}}));
  }
  for (const std::string& word : order.command()) {
    const std::string file = SettingsFileOf(word, options.folder);
    if (file.empty()) continue;
    volumes->push_back(
        Manifest::object({{"name", kSettingsVolume},
                          {"secret", Manifest::object({{"secretName", names.SettingsOf(file)}})}}));
    mounts->push_back(Manifest::object({{"name", kSettingsVolume},
                                        {"mountPath", options.folder + "/config"},
                                        {"readOnly", true}}));
    break;
  }
  return absl::OkStatus();
}

Status SetMain(const PodManifestOptions& options, const ProcessOrder& order, Manifest& main) {
  if (!main.contains("name")) main["name"] = "main";
  if (!options.image.empty()) main["image"] = options.image;
  if (!main.contains("image")) {
    return absl::InvalidArgumentError(
        absl::StrCat("no image for the pods of the group ", order.process().group(),
                     ": give --image, or one in the first container of --pod-template"));
  }
  main.erase("args");
  main.erase("command");
  if (!order.command().empty()) {
    Manifest& command = main["command"] = Manifest::array();
    for (const std::string& word : order.command()) {
      if (!IsValidUtf8(word)) {
        return absl::InvalidArgumentError(absl::StrCat(
            "the command of ", ToText(order.process()),
            " has bytes that are no UTF-8, which no pod can be given: rename the file"));
      }
      command.push_back(Escaped(word));
    }
  }
  // The last lines of a program that fails are in the pod's status, and so in the master's log.
  if (!main.contains("terminationMessagePolicy")) {
    main["terminationMessagePolicy"] = "FallbackToLogsOnError";
  }
  return absl::OkStatus();
}

Manifest OfThisPod(const std::string& uid) { return {{"metadata", {{"uid", uid}}}}; }

Manifest NewObject(const PodNames& names, const char* kind, const std::string& name) {
  return {{"apiVersion", "v1"},
          {"kind", kind},
          {"metadata", {{"name", name}, {"labels", {{kJobLabel, names.job_id()}}}}}};
}

}  // namespace

StatusOr<std::string> PodManifest(const PodManifestOptions& options, const PodNames& names,
                                  const ProcessOrder& order) {
  MILLRACE_ASSIGN_OR_RETURN(const std::unique_ptr<PodParts> parts, FromTemplate(options, order));
  MILLRACE_RETURN_IF_ERROR(SetMetadata(names, options.job, order, *parts->metadata));
  MILLRACE_RETURN_IF_ERROR(SetMain(options, order, *parts->main));
  MILLRACE_RETURN_IF_ERROR(SetVolumes(options, names, order, *parts));
  Manifest& spec = *parts->spec;
  Manifest* const gates = Part(spec, "schedulingGates", Manifest::value_t::array);
  if (gates == nullptr) return BadTemplate(order, "has schedulingGates that are no list");
  gates->push_back(Manifest::object({{"name", kGate}}));
  spec["restartPolicy"] = "Never";
  spec["terminationGracePeriodSeconds"] = options.grace_s;
  // A process of a job has nothing to ask the API server for.
  if (!spec.contains("automountServiceAccountToken")) {
    spec["automountServiceAccountToken"] = false;
  }
  return Text(parts->pod);
}

std::string SettingsManifest(const PodNames& names, const std::string& file,
                             const std::string& text) {
  Manifest secret = NewObject(names, "Secret", names.SettingsOf(file));
  secret["immutable"] = true;
  secret["stringData"] = Manifest::object({{file, text}});
  return Text(secret);
}

std::string RecordManifest(const PodNames& names, const TextRecord& record) {
  Manifest map = NewObject(names, "ConfigMap", names.Record());
  if (!record.version.empty()) map["metadata"]["resourceVersion"] = record.version;
  Manifest& data = map["data"] = Manifest::object();
  for (const auto& [key, value] : record.data) data[key] = value;
  return Text(map);
}

std::string DeleteBody(const std::string& uid, int64_t grace_s) {
  return Text({{"apiVersion", "v1"},
               {"kind", "DeleteOptions"},
               {"gracePeriodSeconds", grace_s},
               {"preconditions", {{"uid", uid}}}});
}

std::string OpenGatePatch(const std::string& uid) {
  Manifest patch = OfThisPod(uid);
  Manifest gate = {{"name", kGate}, {"$patch", "delete"}};
  patch["spec"]["schedulingGates"] = Manifest::array({std::move(gate)});
  return Text(patch);
}

std::string DropFinalizerPatch(const std::string& uid) {
  Manifest patch = OfThisPod(uid);
  patch["metadata"]["$deleteFromPrimitiveList/finalizers"] = Manifest::array({kFinalizer});
  return Text(patch);
}

}  // namespace millrace
