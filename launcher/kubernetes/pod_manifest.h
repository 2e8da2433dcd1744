// What the API server is told: pods and the other objects of a job, as JSON. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/status.h"
#include "launcher/kubernetes/pod.h"
#include "messages/master.pb.h"

namespace millrace {

struct PodManifestOptions {
  std::string job;
  uint64_t epoch = 0;
  std::string image;  // of the first container; empty: that of the template
  // By group: a pod as JSON, which has what all pods of the group have: resources, volumes, probes,
  // an image. "{group}", "{rank}" and "{process}" ("worker-2") in it are replaced. None: nothing.
  std::map<std::string, std::string> templates;
  std::string folder;    // of data and settings in a container, a path without an end of '/'
  int64_t grace_s = 30;  // at least 1
};

// A pod for this order, with its gate and its finalizer; one without a command only takes the name.
// The command is that of the first container. A file of settings that stands in it,
// FOLDER/config/X, is taken from the Secret of that file; FOLDER is a volume that is empty and goes
// with the pod, unless the template mounts something else there. InvalidArgument: the template is
// no pod, there is no image, or the command is not UTF-8.
StatusOr<std::string> PodManifest(const PodManifestOptions& options, const PodNames& names,
                                  const ProcessOrder& order);
// A Secret, which does not change. REQUIRES PodNames::IsSettingsFile(file). The text is UTF-8.
std::string SettingsManifest(const PodNames& names, const std::string& file,
                             const std::string& text);
// A ConfigMap; `version` of an empty record: it is new.
std::string RecordManifest(const PodNames& names, const TextRecord& record);
// Bodies of DELETE and of a strategic merge patch: for this pod only, not for another of the name.
std::string DeleteBody(const std::string& uid, int64_t grace_s);
std::string OpenGatePatch(const std::string& uid);
std::string DropFinalizerPatch(const std::string& uid);

}  // namespace millrace
